"""queries.dashboard: the expressions of a Grafana dashboard or panel in JSON, over its range and in its steps."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tsduel.core.bounded import bounded
from tsduel.core.errors import UserError
from tsduel.core.wording import lasting, number_of
from tsduel.workloads.own.query import Asked, Query, Template, as_json, documents, read_text, span, strings, unique
from tsduel.workloads.own.requests import HOSTS, MOST, Data

SCRAPE_S = 15.0
"""Grafana's own for a data source: the shortest step, and a quarter of the shortest $__rate_interval."""
_POINTS, _MOST_POINTS = 1000, 1_000_000
_DEEP = 100
# What is below the first number is rounded to the second one, as Grafana rounds.
_ROUNDED_S = (
    *((1.5, 1), (3.5, 2), (7.5, 5), (12.5, 10), (17.5, 15), (25, 20), (45, 30), (90, 60), (210, 120), (450, 300)),
    *((750, 600), (1050, 900), (1500, 1200), (2700, 1800), (5400, 3600), (9000, 7200), (16200, 10800), (32400, 21600)),
    *((86400, 43200), (604800, 86400)),
)
_UNIT_S = {unit: span(f"1{unit}") for unit in "smhdwy"} | {"M": span("30d"), "Q": span("91d")}
_NOW = re.compile(r"now(?:-(\d+)([smhdwMQy]))?(?:/([smhdwMQy]))?")
_BUILT_IN = re.compile(r"\$(?:\{(__\w+)(?::[^}]*)?\}|(__\w+))|\[\[(__\w+)\]\]")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?:[.:][^}]*)?\}|\$([A-Za-z_]\w*)|\[\[([A-Za-z_]\w*)(?::\w+)?\]\]")
_EXPR = re.compile(r'"expr\\?"\s*:|^[\s-]*expr\s*:', re.MULTILINE)
_LABEL = re.compile(r"\blabel_values\(\s*(?:.*,)?\s*([A-Za-z_]\w*)\s*\)", re.DOTALL)
_OF_A_QUERY = (
    *("title", "refId", "hide", "hidden", "interval", "intervalFactor", "maxDataPoints", "timeFrom"),
    *("instant", "range", "datasource", "group", "kind"),
)
_NOT_ASKED = ("templating", "variables", "annotations")


def filled(text: str, step_s: float, range_s: float, least_s: float = SCRAPE_S) -> str:
    """Return a query with Grafana's own variables as Grafana fills them for a step and a range.

    ``least_s``: the shortest step that the target itself names, else the interval of scrapes.
    """
    rate_s = max(step_s + least_s, 4 * least_s)
    values = {"__interval": step_s, "__rate_interval": rate_s, "__range": range_s}
    texts = {name: _duration(seconds) for name, seconds in values.items()}
    texts |= {
        "__interval_ms": f"{step_s * 1000:.0f}",
        "__rate_interval_ms": f"{rate_s * 1000:.0f}",
        "__range_s": f"{range_s:.0f}",
        "__range_ms": f"{range_s * 1000:.0f}",
    }
    return _BUILT_IN.sub(lambda match: texts.get(match[match.lastindex or 0], match[0]), text)


def _duration(seconds: float) -> str:
    """Return a duration as parsers read it, who know no exponent."""
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds * 1000:.0f}ms"


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
        raise UserError(
            f"{path}: no dashboard or panel of Grafana: it needs `targets` with an `expr` each, in JSON{_unread(text)}"
        )
    lines = [text.count("\n", 0, match.start()) + 1 for match in _EXPR.finditer(text)]
    queries, left_out, values = list[Query](), list[str](), dict[str, tuple[str, ...]]()
    for found in dashboards:
        asked = list(_targets(found, {}))
        declared = _variables(found)
        half_s = (data.end - data.start) / 2
        if (shown_s := _range(found)) < 0:
            left_out.append(f"{path}: the times that it shows are not understood, and it is asked over an hour")
        range_s = min(shown_s if shown_s > 0 else 3600.0, half_s)
        if range_s < shown_s:
            note = f"it shows {lasting(shown_s)}, and is asked over {lasting(range_s)}, half of the data's window"
            left_out.append(f"{path}: {note}")
        exported_inputs = found.get("__inputs") if isinstance(found, dict) else None
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
            template, own = _filled_in(target, declared, exported_inputs, data, (range_s, half_s))
            template = _renamed(template, own, values)
            queries.append(Query(name, where, (template,), quiet=True))
    if not queries:
        some = f": {'; '.join(left_out[:3])}" if left_out else ""
        raise UserError(f"{path}: no panel of it asks Prometheus anything{some}")
    return Asked(unique(queries), values=values, left_out=tuple(left_out))


def _renamed(template: Template, own: Mapping[str, tuple[str, ...]], values: dict[str, tuple[str, ...]]) -> Template:
    """Add the values of a target's placeholders to those of all, with a number where others have that name.

    Another dashboard has other values of a variable, and a panel with another step another interval.
    """
    for placeholder, known in own.items():
        names = (placeholder, *(f"{placeholder}_{number}" for number in range(2, MOST)))
        name = next(name for name in names if values.get(name, known) == known)
        values[name] = known
        template = replace(template, text=template.text.replace(f"{{{{{placeholder}}}}}", f"{{{{{name}}}}}"))
    return template


def _filled_in(
    target: dict[str, Any], declared: dict[str, dict[str, Any]], inputs: Any, data: Data, ranges_s: tuple[float, float]
) -> tuple[Template, dict[str, tuple[str, ...]]]:
    """Return a target with placeholders in the place of its variables, and those of their values that are known here.

    ``ranges_s``: what the dashboard shows, and the most that a panel may show in its place.
    """
    for variable in variables(str(target.get("interval"))).values():
        target["interval"] = _chosen(declared.get(variable, {}), inputs)
    template = _template(target, *ranges_s)
    become = {
        shown: _placeholder(name, declared.get(name, {}), data, template.step_s, inputs)
        for shown, name in variables(template.text).items()
    }
    texts = {shown: f"{{{{{placeholder}}}}}" for shown, (placeholder, _) in become.items()}
    values = {placeholder: own for placeholder, own in become.values() if own}
    return replace(template, text=_filled(template.text, texts)), values


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
    for document in (*found, *map(as_json, texts)):
        if _levels(document) < _DEEP and any(target for target in _targets(document, {})):
            yield document


def _levels(found: Any) -> int:
    levels, here = 0, [found]
    while here and levels < _DEEP:
        inner = (part.values() if isinstance(part, dict) else part if isinstance(part, list) else () for part in here)
        levels, here = levels + 1, [one for parts in inner for one in parts]
    return levels


def _targets(found: Any, above: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
    """Yield each target with what stands above it, in the order of the file; None for what no panel asks."""
    if isinstance(found, list):
        for part in found:
            yield from _targets(part, above)
    if not isinstance(found, dict):
        return
    options = found.get("queryOptions")  # of schema v2, beside the queries
    for level in (options, found) if isinstance(options, dict) else (found,):
        above = above | {key: level[key] for key in _OF_A_QUERY if level.get(key) is not None}
    here = above
    for key, part in found.items():
        if key == "expr":
            is_target = isinstance(part, str) and "alert" not in found and "record" not in found
            yield here | {"expr": part, "own_interval": found.get("interval")} if is_target else None
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


def _template(target: dict[str, Any], range_s: float, most_s: float) -> Template:
    own_s = _seconds(target.get("timeFrom"))
    range_s = min(own_s, most_s) if own_s else range_s
    points = target.get("maxDataPoints")
    least_s = _seconds(target.get("interval")) or SCRAPE_S
    most = points if isinstance(points, int) and 1 < points <= _MOST_POINTS else _POINTS
    step_s = max(least_s, next((rounded for below, rounded in _ROUNDED_S if range_s / most < below), 604800))
    factor = target.get("intervalFactor")
    step_s *= factor if isinstance(factor, int) and 1 <= factor <= 100 else 1  # noqa: PLR2004 - in Grafana 10
    step_s = min(step_s, range_s)
    of_rate_s = least_s if target.get("own_interval") else SCRAPE_S
    length_s = 0.0 if target.get("instant") is True and target.get("range") is not True else range_s
    return Template(filled(target["expr"].strip(), step_s, range_s, of_rate_s), length_s, float(step_s))


def _seconds(text: Any) -> float:
    found = span(str(text).lstrip("> "))
    return found if found > 0 else 0.0  # also of nan


def _range(found: Any) -> float:
    """Return the seconds that a dashboard shows; 0 where it does not say, and -1 where that is not understood."""
    if not isinstance(found, dict):
        return 0.0
    time = found.get("time") or found.get("timeSettings")
    if not isinstance(time, dict) or not isinstance(time.get("from"), str | int):
        return next((seconds for part in found.values() if (seconds := _range(part))), 0.0)
    first, last = str(time["from"]), str(time.get("to") or "now")
    if (begin := _NOW.fullmatch(first)) and (end := _NOW.fullmatch(last)):
        ago_s = [int((at[1] or "0")[:9]) * _UNIT_S.get(at[2], 0) for at in (begin, end)]
        # From the begin of a day, say, to its end, or so far.
        return float(max(ago_s[0] - ago_s[1], _UNIT_S.get(begin[3], 0))) or -1.0
    try:
        if first.isdecimal():
            return max(0.0, (int(last) - int(first)) / 1000) or -1.0
        edges = [datetime.fromisoformat(edge) for edge in (first, last)]
        return max(0.0, (edges[1] - edges[0]).total_seconds()) or -1.0
    except (ValueError, TypeError, OverflowError):
        return -1.0


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


def _placeholder(
    name: str, declared: dict[str, Any], data: Data, step_s: float, inputs: Any
) -> tuple[str, tuple[str, ...]]:
    """Return the placeholder that a variable becomes, and its values where the dashboard has them."""
    if name in data.values:
        return name, ()
    if own := _own_values(declared, step_s, inputs):
        return name, own
    asked = " ".join(str(declared.get(key) or "") for key in ("definition", "query"))
    match, pattern = _LABEL.search(asked), str(declared.get("regex") or "")
    for label in filter(None, (match and match[1], name)):
        if label in data.labels:
            return _parts(name, label, pattern, data.labels[label])
        if data.hosts and label in HOSTS:
            return _parts(name, "host", pattern, [f"host_{number}" for number in range(min(data.hosts, MOST))])
    return name, ()


def _own_values(declared: dict[str, Any], step_s: float, inputs: Any) -> tuple[str, ...]:
    """Return the values of a variable that the dashboard itself has, or that stands at All; of others none."""
    kind = str(declared.get("type")).lower()
    if kind.startswith("interval"):
        return (_chosen(declared, inputs) or _duration(step_s),)
    if kind.startswith(("constant", "text")):
        return (_chosen(declared, inputs),)
    if kind.startswith("custom"):
        words = [word.rpartition(" : ")[2].strip() for word in str(declared.get("query") or "").split(",")]
        return tuple(word for word in words if word and not word.startswith("$"))
    return (str(declared.get("allValue") or ".*"),) if _is_all(declared) else ()


def _chosen(declared: dict[str, Any], inputs: Any) -> str:
    """Return the value that a variable of one value has; "" where Grafana computes it, or it is empty."""
    current = declared.get("current")
    value = current.get("value") if isinstance(current, dict) else None
    query = declared.get("query")
    if not isinstance(value, str):
        is_list = str(declared.get("type")).lower().startswith("interval")
        value = (query.split(",")[0].strip() if is_list else query) if isinstance(query, str) else ""
    for given in inputs if isinstance(inputs, list) else ():  # of a dashboard that was exported for sharing
        if isinstance(given, dict) and value == f"${{{given.get('name')}}}":
            return str(given.get("value") or "")
    return "" if value.startswith("$") or value == "auto" else value


def _is_all(declared: dict[str, Any]) -> bool:
    current = declared.get("current")
    value = current.get("value") if isinstance(current, dict) else None
    return "$__all" in (value if isinstance(value, list) else [value])


def _parts(name: str, label: str, pattern: str, values: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the placeholder of a label, or that of a variable with the part of each value that its regex takes."""
    if not pattern:
        return label, ()
    written = re.fullmatch(r"/(.*)/[a-z]*", pattern, re.DOTALL)
    try:
        regex = re.compile(
            (written[1] if written else pattern)
            .replace("(?<", "(?P<")
            .replace("(?P<=", "(?<=")
            .replace("(?P<!", "(?<!")
        )
    except (re.error, OverflowError, RecursionError):
        return label, ()
    with bounded(f"the regex of the variable {name}"):
        found = [match for value in values if (match := regex.search(value))]
    parts = (match["value"] if "value" in regex.groupindex else match[min(1, regex.groups)] for match in found)
    return name, tuple(dict.fromkeys(filter(None, parts)))


def _unread(text: str) -> str:
    """Return the end of a sentence: why a file is no JSON, if it looks like it."""
    if text.lstrip().startswith("{{"):
        return "; this is a template: render it first (helm template)"
    try:
        json.loads(text)
    except RecursionError:
        return ""
    except ValueError as error:
        return f" ({error})" if text.lstrip()[:1] in {"{", "["} else ""
    return ""


def is_dashboard(path: str, text: str) -> bool:
    """Return whether a file has expressions of panels."""
    return any(True for _ in found_in(path, text))
