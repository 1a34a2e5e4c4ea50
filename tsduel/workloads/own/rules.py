"""queries.rules: recording and alerting rules, each an instant query at the rate of its group."""

from collections.abc import Iterable
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.wording import number_of
from tsduel.workloads.own.query import Asked, Query, Template, documents, place, read_text, seconds, span, unique
from tsduel.workloads.own.requests import Data

EVERY = "1m"
"""Prometheus' own evaluation_interval."""


def read(path: str, _data: Data) -> Asked:
    """Return the rules of a file of Prometheus or vmalert. A rule weighs its evaluations a second.

    What is no rule is left out, and said.
    """
    groups = groups_of(documents(path, read_text(path, "queries.rules")), path)
    if groups is None:
        raise UserError(f"{path}: no file of rules: it needs `groups:`, alone or under `spec:` of a PrometheusRule")
    queries, left_out, lost = list[Query](), list[str](), 0.0
    for group in groups:
        try:
            interval_s, rules = _group(group, path)
        except UserError as error:
            left_out.append(f"{error}; its group is left out")
            continue
        for rule in rules:
            try:
                queries.append(_rule(rule, path, interval_s))
            except UserError as error:
                left_out.append(f"{error}; it is left out")
                lost += 1 / interval_s
    if not queries:
        some = f": {'; '.join(left_out[:3])}" if left_out else ""
        raise UserError(f"{path}: it has {number_of(len(groups), 'group')} and no rule that can be asked{some}")
    return Asked(unique(queries), left_out=tuple(left_out), lost=lost)


def groups_of(found: Iterable[Any], path: str) -> list[Any] | None:
    """Return all groups of documents; None if none of them has rules.

    They are Prometheus' own files and what /api/v1/rules answers, PrometheusRule and VMRule of Kubernetes, lists of
    these, ConfigMaps with such files, and Mimir's lists by namespace.
    """
    parts = list[list[Any] | None]()
    for document in found:
        if not isinstance(document, dict):
            continue
        data, kind = document.get("data"), document.get("kind")
        if "groups" in document:
            groups = document["groups"] if document["groups"] is not None else []
            if not isinstance(groups, list):
                raise UserError(f"{path}:{document[None]}: groups: is a list")
            parts.append(groups)
        elif isinstance(document.get("items"), list):
            parts.append(groups_of(document["items"], path))
        elif kind == "ConfigMap" and isinstance(data, dict):
            texts = {name: text for name, text in data.items() if isinstance(text, str) and "groups" in text}
            named = {f"{path}:{data[None]} ({name})": text for name, text in texts.items()}
            parts += [groups_of(documents(where, text), where) for where, text in named.items()]
        else:
            parts.append(groups_of([document.get("spec"), data], path))
            # What Mimir's API answers and its tools write: lists of groups by namespace.
            lists = [part for name, part in document.items() if isinstance(part, list) and name not in {"items", None}]
            parts += [part for part in lists if part and all(isinstance(one, dict) and "rules" in one for one in part)]
    parsed = [part for part in parts if part is not None]
    return [group for part in parsed for group in part] if parsed else None


def _group(group: Any, path: str) -> tuple[float, list[Any]]:
    """Return the seconds between two evaluations of a group, and its rules."""
    if not isinstance(group, dict):
        wanted = "a group is a mapping with name, interval and rules"
        raise UserError(f"{place(path, group)}: {wanted}, and here is {str(group)[:60]!r}")
    where, every, rules = f"{path}:{group[None]}", group.get("interval"), group.get("rules")
    if (language := group.get("type") or "prometheus") != "prometheus":
        raise UserError(f"{where}: group {group.get('name')} is asked in {language}")
    if not every or span(str(every)) == 0:
        every = EVERY  # as Prometheus takes 0s
    interval_s = every if isinstance(every, int | float) and every > 0 else seconds(every, where)
    if not isinstance(rules, list | None):
        raise UserError(f"{where}: rules: of group {group.get('name')} is a list")
    return float(interval_s), rules or []


def _rule(rule: Any, path: str, interval_s: float) -> Query:
    if not isinstance(rule, dict):
        raise UserError(f"{place(path, rule)}: a rule is a mapping with `expr:`, and here is {str(rule)[:60]!r}")
    if rule.get("type") in {"alerting", "recording"}:  # as the API says it
        rule |= {"alert" if rule["type"] == "alerting" else "record": rule.get("name"), "expr": rule.get("query")}
    where, text, name = f"{path}:{rule[None]}", rule.get("expr"), rule.get("alert") or rule.get("record")
    if not name or ("alert" in rule) == ("record" in rule):
        raise UserError(f"{where}: a rule has either `alert:` or `record:`, with its name")
    if isinstance(text, bool) or not isinstance(text, str | int | float) or not str(text).strip():
        raise UserError(f"{where}: rule {name} has no `expr:`; write its query there")
    template, is_alert = Template(str(text).strip()), "alert" in rule
    return Query(str(name), where, (template,), 1 / interval_s, quiet=True, silent=is_alert)
