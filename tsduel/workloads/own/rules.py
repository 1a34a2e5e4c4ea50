"""queries.rules: recording and alerting rules, each an instant query at the rate of its group."""

from typing import Any

from tsduel.core.errors import UserError
from tsduel.workloads.own.query import Asked, Query, Template, listed, mapping, read_text, read_yaml, seconds, unique

EVERY = "1m"
"""Prometheus' own evaluation_interval."""
KEYS = (
    *("alert", "record", "expr", "for", "keep_firing_for"),
    *("labels", "annotations", "debug", "update_entries_limit"),
)


def read(path: str) -> Asked:
    """Return the rules of a file of Prometheus or vmalert. A rule weighs its evaluations a second."""
    found = read_yaml(path, read_text(path, "queries.rules"))
    if not isinstance(found, dict):
        raise UserError(f"{path}: a file of rules is a mapping that begins with `groups:`")
    queries: list[Query] = []
    for group in listed(found.get("groups"), path, "groups:"):
        if not isinstance(group, dict):
            raise UserError(f"{path}: a group is a mapping with name, interval and rules")
        where = f"{path}:{group[None]}"
        interval_s = seconds(group.get("interval", EVERY), where)
        group_rules = listed(group.get("rules"), where, f"rules: of group {group.get('name')}")
        queries += [_rule(rule, path, interval_s) for rule in group_rules]
    return Asked(unique(queries))


def _rule(rule: Any, path: str, interval_s: float) -> Query:
    rule = mapping(rule, path, KEYS, "a rule")
    where, text, name = f"{path}:{rule[None]}", rule.get("expr"), rule.get("alert") or rule.get("record")
    if not name or ("alert" in rule) == ("record" in rule):
        raise UserError(f"{where}: a rule has either `alert:` or `record:`, with its name")
    if not isinstance(text, str | int | float) or not str(text).strip():
        raise UserError(f"{where}: rule {name} has no `expr:`; write its query there")
    return Query(str(name), where, (Template(str(text).strip()),), 1 / interval_s, quiet="alert" in rule)
