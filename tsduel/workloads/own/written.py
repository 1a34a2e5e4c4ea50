"""queries.file: a user's queries in YAML, or one a line."""

from typing import Any

from tsduel.core.errors import UserError
from tsduel.workloads.own.query import Asked, Query, Template, listed, mapping, named, read_text, read_yaml, seconds

_ALL, _EACH = ("queries", "values", "window", "step"), ("name", "query", "weight", "window", "step", "empty")
_DEFAULT = {"window": "any 1h", "step": "1m"}


def read(path: str) -> Asked:
    """Return the queries of a file; .yml and .yaml are YAML, anything else has one query a line."""
    text = read_text(path, "queries.file")
    if not path.endswith((".yml", ".yaml")):
        lines = [(at, line.strip()) for at, line in enumerate(text.splitlines(), 1)]
        asked = [(at, line) for at, line in lines if line and not line.startswith("#")]
        if not asked:
            raise UserError(f"{path}: it has comments only; write one query a line")
        return Asked(
            tuple(_query({"name": f"line-{at}", "query": line, None: at}, _DEFAULT, path) for at, line in asked)
        )
    found = mapping(read_yaml(path, text), path, _ALL, "the file")
    entries = [mapping(entry, path, _EACH, "a query") for entry in listed(found.get("queries"), path, "queries:")]
    queries = tuple(_query(entry, found, path) for entry in entries)
    names = [query.name for query in queries]
    for query in queries:
        if names.count(query.name) > 1:
            raise UserError(f"{query.where}: the name {query.name} is there twice; give each query its own")
    values = found.get("values", {})
    return Asked(queries, _values(values, path) if values else {})


def _values(found: Any, path: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(found, dict):
        raise UserError(f"{path}: values: is a mapping from a placeholder's name to a list")
    made = {}
    for name, values in found.items():
        if name is None:
            continue
        if not isinstance(values, list) or not values:
            raise UserError(f"{path}:{found[None]}: values: {name} has no values: give it a list, like [a, b]")
        made[str(name)] = tuple(str(value) for value in values)
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
    template = Template(text.strip(), step_s=step_s)
    if window:
        place, _, length = str(window).partition(" ")
        if place not in {"any", "last"} or not length:
            raise UserError(
                f"{where}: window {window!r}: write `any 1h` for anywhere in the data, `last 1h` for its end"
            )
        length_s = seconds(length.strip().removesuffix("of the data").strip(), where)
        template = Template(text.strip(), length_s, step_s, 0.0 if place == "last" else None)
    return Query(name, where, (template,), float(weight), quiet=bool(entry.get("empty", False)))
