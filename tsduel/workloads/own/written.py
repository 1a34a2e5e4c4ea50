"""queries.file: a user's queries in YAML, or one a line."""

from typing import Any

from tsduel.core import yamls
from tsduel.core.errors import UserError
from tsduel.workloads.own import grafana
from tsduel.workloads.own.query import Asked, Query, Template, documents, listed, mapping, named, read_text, seconds
from tsduel.workloads.own.requests import Data

_ALL, _EACH = ("queries", "values", "window", "step"), ("name", "query", "weight", "window", "step", "empty")
_DEFAULT = {"window": "any 1h", "step": "1m"}
_DEFAULT_S = 3600.0


def read(path: str, _data: Data) -> Asked:
    """Return the queries of a file; .yml and .yaml are YAML, anything else has one query a line.

    All of its faults are in `faults`.
    """
    text = read_text(path, "queries.file")
    if path.endswith((".yml", ".yaml", ".json")):
        first, *more = documents(path, text) or [None]
        if more:
            raise UserError(f"{path}: it has {1 + len(more)} documents, parted by ---: write all queries in one")
        found = mapping(first, path, _ALL, "the file")
        entries = listed(found.get("queries"), path, "queries:")
        values = found.get("values") or {}
    else:
        lines = [(at, line.strip()) for at, line in enumerate(text.split("\n"), 1)]
        entries = [{"name": f"line-{at}", "query": line, None: at} for at, line in lines if line and line[0] != "#"]
        found, values = _DEFAULT, {}
        if not entries:
            raise UserError(f"{path}: it has comments only; write one query a line")
    queries, faults = dict[str, Query](), list[str]()
    for entry in entries:
        try:
            query = _query(mapping(entry, path, _EACH, "a query"), found, path)
        except UserError as error:
            faults.append(str(error))
            continue
        if query.name in queries:
            faults.append(f"{query.where}: the name {query.name} is there twice; give each query its own")
        queries[query.name] = query
    return Asked(tuple(queries.values()), _values(values, path) if values else {}, faults=tuple(faults))


def _values(found: Any, path: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(found, dict):
        raise UserError(f"{path}: values: is a mapping from a placeholder's name to a list")
    made = dict[str, tuple[str, ...]]()
    for name, values in found.items():
        if name is None:
            continue
        if not isinstance(values, list) or not values:
            raise UserError(f"{path}:{found[None]}: values: {name} has no values: give it a list, like [a, b]")
        try:
            made |= yamls.texts({str(name): values})
        except ValueError as error:
            raise UserError(f"{path}:{found[None]}: values: {error}") from None
    return made


def _query(entry: dict[Any, Any], common: dict[str, Any], path: str) -> Query:
    where = f"{path}:{entry[None]}"
    name, text = named(entry.get("name"), where), entry.get("query")
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"{where}: {name} has no query: write it as text under `query:`")
    weight = entry.get("weight", 1)
    if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0 < weight < float("inf"):
        raise UserError(f"{where}: weight {weight!r} of {name} is no number above 0")
    step_s = seconds(entry.get("step", common.get("step", _DEFAULT["step"])), where)
    window = entry.get("window", common.get("window", ""))
    template = Template(grafana.filled(text.strip(), step_s, _DEFAULT_S), step_s=step_s)
    if window:
        place, _, length = str(window).partition(" ")
        if place not in {"any", "last"} or not length:
            raise UserError(
                f"{where}: window {window!r}: write `any 1h` for anywhere in the data, `last 1h` for its end"
            )
        length_s = seconds(length.strip().removesuffix("of the data").strip(), where)
        text = grafana.filled(text.strip(), step_s, length_s)
        template = Template(text, length_s, step_s, 0.0 if place == "last" else None)
    if variables := grafana.variables(template.text):
        (shown, variable), *_ = variables.items()
        raise UserError(
            f"{where}: {name} has {shown}, a variable of Grafana: write {{{{{variable}}}}}, and `values: {{{variable}: "
            "[a, b]}` in this file where the data have no such label"
        )
    may_be_empty = bool(entry.get("empty", False))
    return Query(name, where, (template,), float(weight), quiet=may_be_empty, silent=may_be_empty)
