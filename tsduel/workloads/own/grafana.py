"""queries.dashboard: the expressions of a Grafana dashboard or panel in JSON, over its range and in its steps."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.wording import lasting, number_of
from tsduel.workloads.own.query import Asked, Query, Template, documents, read_text, span, strings, unique
from tsduel.workloads.own.requests import HOSTS, Data

SCRAPE_S = 15.0
"""Grafana's own for a data source: the shortest step, and a quarter of the shortest $__rate_interval."""
_POINTS = 1000
_DEEP = 100
_NICE_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_BUILT_IN = re.compile(r"\$(?:\{(__\w+)(?::[^}]*)?\}|(__\w+))|\[\[(__\w+)\]\]")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?:[.:][^}]*)?\}|\$([A-Za-z_]\w*)|\[\[([A-Za-z_]\w*)(?::\w+)?\]\]")
_EXPR = re.compile(r'"expr\\?"\s*:|^[\s-]*expr\s*:', re.MULTILINE)
_LABEL = re.compile(r"\blabel_values\(\s*(?:.*,)?\s*([A-Za-z_]\w*)\s*\)", re.DOTALL)
_OF_A_QUERY = (
    *("title", "refId", "hide", "hidden", "interval", "intervalFactor", "maxDataPoints", "timeFrom", "step"),
    *("instant", "range", "datasource", "group", "kind"),
)
_NOT_ASKED = ("templating", "variables", "annotations")


def filled(text: str, step_s: float, range_s: float) -> str:
    """Return a query with Grafana's own variables as Grafana fills them for a step and a range."""
    rate_s = max(step_s + SCRAPE_S, 4 * SCRAPE_S)
    values = {"__interval": step_s, "__rate_interval": rate_s, "__range": range_s}
    texts = {
        name: f"{seconds:g}s" if seconds == int(seconds) else f"{seconds * 1000:.0f}ms"
        for name, seconds in values.items()
    }
    texts |= {
        "__interval_ms": f"{step_s * 1000:.0f}",
        "__rate_interval_ms": f"{rate_s * 1000:.0f}",
        "__range_s": f"{range_s:.0f}",
        "__range_ms": f"{range_s * 1000:.0f}",
    }
    return _BUILT_IN.sub(lambda match: texts.get(match[match.lastindex or 0], match[0]), text)


def variables(text: str) -> dict[str, str]:
    """Return other variables of Grafana in a query, as it has them, with their names; no groups of a regex."""
    found = {match[0]: match[match.lastindex or 0] for match in _VARIABLE.finditer(text)}
    return {shown: name for shown, name in found.items() if f"<{name}>" not in text}


def read(path: str, data: Data) -> Asked:
    """Return the queries of a dashboard, each of its targets one; what Grafana does not ask Prometheus is left out.

    The range is that of the dashboard, and at most half of the data's window, so that it can lie anywhere in it.
    """
    text = read_text(path, "queries.dashboard")
    dashboards = list(found_in(path, text))
    if not dashboards:
        raise UserError(f"{path}: no dashboard or panel of Grafana: it needs `targets` with an `expr` each, in JSON")
    lines = [text.count("\n", 0, match.start()) + 1 for match in _EXPR.finditer(text)]
    queries, left_out, values = list[Query](), list[str](), dict[str, tuple[str, ...]]()
    for found in dashboards:
        asked = list(_targets(found, {}))
        declared = _variables(found)
        shown_s = _range(found) or 3600.0
        range_s = min(shown_s, (data.end - data.start) / 2)
        if range_s < shown_s:
            note = f"it shows {lasting(shown_s)}, and is asked over {lasting(range_s)}, half of the data's window"
            left_out.append(f"{path}: {note}")
        exported = str(found.get("__elements")) if isinstance(found, dict) else ""
        empty = [
            panel
            for panel in _panels(found)
            if not any(True for _ in _targets(panel, {})) and (_library(panel) or "\0") not in exported
        ]
        if empty:
            titles = ", ".join(str(panel.get("title") or panel.get("type") or "panel") for panel in empty)
            note = "; export it with its library panels, for sharing externally" if any(map(_library, empty)) else ""
            left_out.append(f"{path}: {number_of(len(empty), 'panel')} without an expression: {titles}{note}")
        for target in asked:
            where = f"{path}:{lines.pop(0) if lines else 1}"
            if target is None:
                continue
            name = f"{target.get('title') or 'panel'}-{target.get('refId') or 'A'}"
            if why := _not_asked(target):
                left_out.append(f"{where}: {name} {why}; it is left out")
                continue
            template = _template(target, range_s)
            named = variables(template.text)
            become = {
                shown: _placeholder(name, declared.get(name, {}), data, template.step_s)
                for shown, name in named.items()
            }
            values |= {placeholder: own for placeholder, own in become.values() if own}
            texts = {shown: f"{{{{{placeholder}}}}}" for shown, (placeholder, _) in become.items()}
            template = replace(template, text=_filled(template.text, texts))
            queries.append(Query(name, where, (template,), quiet=True))
    if not queries:
        some = f": {'; '.join(left_out[:3])}" if left_out else ""
        raise UserError(f"{path}: no panel of it asks Prometheus anything{some}")
    return Asked(unique(queries), values=values, left_out=tuple(left_out))


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with values in the place of its variables; a variable without a value stays."""
    return _VARIABLE.sub(lambda found: values.get(found[0], found[0]), text)


def found_in(path: str, text: str) -> Iterator[Any]:
    """Yield what a file has of dashboards and panels: in JSON, or JSON in YAML, as ConfigMaps have it."""
    try:
        found = [json.loads(text)]
    except (ValueError, RecursionError):
        try:
            found = documents(path, text)
        except UserError:
            return
    texts = (
        inner for document in found for inner in strings(document) if '"expr"' in inner and inner.lstrip()[:1] == "{"
    )
    for document in (*found, *map(_json, texts)):
        if _levels(document) < _DEEP and any(target for target in _targets(document, {})):
            yield document


def _levels(found: Any) -> int:
    levels, here = 0, [found]
    while here and levels < _DEEP:
        inner = (part.values() if isinstance(part, dict) else part if isinstance(part, list) else () for part in here)
        levels, here = levels + 1, [one for parts in inner for one in parts]
    return levels


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _targets(found: Any, above: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
    """Yield each target with what stands above it, in the order of the file; None for what no panel asks."""
    if isinstance(found, list):
        for part in found:
            yield from _targets(part, above)
    if not isinstance(found, dict):
        return
    here = above | {key: found[key] for key in _OF_A_QUERY if found.get(key) is not None}
    for key, part in found.items():
        if key == "expr":
            is_target = isinstance(part, str) and "alert" not in found and "record" not in found
            yield here | {"expr": part} if is_target else None
        elif key in _NOT_ASKED:
            yield from (None for _ in _targets(part, here))
        else:
            yield from _targets(part, here)


def _panels(found: Any) -> Iterator[dict[str, Any]]:
    """Yield all panels but rows, which only hold others."""
    if isinstance(found, dict):
        if str(found.get("kind")) in {"Panel", "LibraryPanel"} and isinstance(found.get("spec"), dict):
            yield found["spec"]
            return
        if found.get("type") != "row" and ("gridPos" in found or "targets" in found or "libraryPanel" in found):
            yield found
            return
    for part in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from _panels(part)


def _library(panel: dict[str, Any]) -> str:
    """Return which panel of Grafana's library it is, "" if it is none."""
    of = panel.get("libraryPanel")
    return str(of.get("uid") or of.get("name") or "") if isinstance(of, dict) else ""


def _not_asked(target: dict[str, Any]) -> str:
    source = target.get("datasource")
    named = source.get("type") if isinstance(source, dict) else source
    kind = next((one for one in (target.get("group"), named, target.get("kind")) if isinstance(one, str)), "")
    if target.get("hide") is True or target.get("hidden") is True:
        return "is hidden"
    if not target["expr"].strip():
        return "is empty"
    if re.search("loki|logs|tempo|pyroscope|influx|graphite|sql", kind.lower()) and "prom" not in kind.lower():
        return f"is asked of {kind}"
    return ""


def _template(target: dict[str, Any], range_s: float) -> Template:
    own_s = _seconds(target.get("timeFrom"))
    range_s = min(own_s, range_s) if own_s else range_s
    points = target.get("maxDataPoints")
    least_s = _seconds(target.get("interval")) or SCRAPE_S
    most = points if isinstance(points, int) and points > 1 else _POINTS
    step_s = max(least_s, next((nice for nice in _NICE_S if nice * most >= range_s), float(_NICE_S[-1])))
    factor, fixed = target.get("intervalFactor"), target.get("step")
    step_s *= factor if isinstance(factor, int) and 1 <= factor <= 100 else 1  # noqa: PLR2004 - in Grafana 10
    step_s = fixed if isinstance(fixed, int | float) and 1 <= fixed <= range_s else min(step_s, range_s)
    length_s = 0.0 if target.get("instant") is True and target.get("range") is not True else range_s
    return Template(filled(target["expr"].strip(), step_s, range_s), length_s, float(step_s))


def _seconds(text: Any) -> float:
    found = span(str(text).lstrip("> "))
    return found if found > 0 else 0.0  # also of nan


def _range(found: Any) -> float:
    """Return the seconds that a dashboard shows; 0 where it does not say."""
    if isinstance(found, dict):
        time = found.get("time") or found.get("timeSettings")
        if isinstance(time, dict) and isinstance(time.get("from"), str):
            if time["from"].startswith("now-"):
                return _seconds(time["from"].removeprefix("now-").partition("/")[0])
            try:
                edges = [datetime.fromisoformat(str(time[edge])) for edge in ("from", "to")]
                return max(0.0, (edges[1] - edges[0]).total_seconds())
            except (ValueError, TypeError, KeyError):
                return 0.0
        return next((seconds for part in found.values() if (seconds := _range(part))), 0.0)
    return 0.0


def _variables(found: Any) -> dict[str, dict[str, Any]]:
    """Return what a dashboard says of its variables, by name."""
    declared = dict[str, dict[str, Any]]()
    for part in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        declared |= _variables(part)
    if isinstance(found, dict):
        listed = found.get("variables") or found.get("list")
        for entry in listed if isinstance(listed, list) else ():
            inner = entry.get("spec", entry) if isinstance(entry, dict) else {}
            if isinstance(inner, dict) and isinstance(inner.get("name"), str):
                declared[inner["name"]] = {"type": entry.get("kind"), **inner}
    return declared


def _placeholder(name: str, declared: dict[str, Any], data: Data, step_s: float) -> tuple[str, tuple[str, ...]]:
    """Return the placeholder that a variable becomes, and its values where the dashboard has them."""
    if name in data.values:
        return name, ()
    asked = " ".join(str(declared.get(key) or "") for key in ("definition", "query"))
    match = _LABEL.search(asked)
    for label in filter(None, (match and match[1], name)):
        if label in data.labels:
            return label, ()
        if data.hosts and label in HOSTS:
            return "host", ()
    if match or not declared:
        return name, ()
    own = declared.get("query") if isinstance(declared.get("query"), str) else declared.get("auto_min")
    words = [word.rpartition(" : ")[2].strip() for word in str(own or "").split(",")]
    values = tuple(word for word in words if word and not word.startswith("$") and word != "auto")
    if declared.get("auto") or (not values and "interval" in str(declared.get("type")).lower()):
        values = (*values, f"{step_s:g}s")
    is_static = re.match("custom|constant|text|interval", str(declared.get("type")).lower())
    return name, values if is_static else ()


def is_dashboard(path: str, text: str) -> bool:
    """Return whether a file has expressions of panels."""
    return any(True for _ in found_in(path, text))
