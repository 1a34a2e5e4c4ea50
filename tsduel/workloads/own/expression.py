"""What can be known of a query's text without the database: that it cannot parse, what it reads, how far back.

PromQL and MetricsQL differ, and the host parses with MetricsQL's own parser before a server starts. Here only what is
wrong in both is refused.
"""

import itertools
import re
from dataclasses import dataclass

from tsduel.workloads.own.query import span

_TOKENS = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+|(?:ms|[smhdwyi])(?:\d+(?:ms|[smhdwyi]))*|[KMGT]i?B?)?)
    |(?P<name>[A-Za-z_][\w:.]*)
    |(?P<open>[(\[{])|(?P<close>[)\]}])
    |(?P<sign>[-+*/%^=!<>~,@:$])""",
    re.VERBOSE,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = {
    *("and", "or", "unless", "default", "if", "ifnot", "bool", "offset", "keep_metric_names", "limit", "atan2"),
    *("inf", "nan", "prefix"),
}
_UNSTABLE = {"rand", "rand_normal", "rand_exponential", "now"}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdwy]))+")
_INFLUXQL = re.compile(r"\s*(SELECT|SHOW)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Known:
    """What is known of an expression: `wrong` says in a phrase why it is refused, "" if it is not.

    `metrics`: the names that it selects by, as far as they are written out. `back_s`: how far before its time it reads,
    at most and at least.
    """

    wrong: str = ""
    metrics: tuple[str, ...] = ()
    back_s: tuple[float, float] = (0.0, 0.0)


def examine(text: str, language: str) -> Known:
    """Examine a query whose placeholders are filled; `language`: prometheus or influxql."""
    is_influxql = bool(_INFLUXQL.match(text))
    if is_influxql != (language == "influxql"):
        own, other = ("InfluxQL", "PromQL") if language == "influxql" else ("PromQL or MetricsQL", "InfluxQL")
        return Known(f"looks like {other}, and this database is asked {own}")
    tokens, wrong = _tokens(text, strict=not is_influxql)
    wrong = wrong or _brackets(tokens) or _unstable(tokens) or ("" if is_influxql else _unfinished(tokens))
    # A template of WITH may stand for anything.
    if wrong or is_influxql or any(kind == "name" and word.lower() == "with" for kind, word in tokens):
        return Known(wrong)
    return Known(metrics=_metrics(tokens), back_s=_back(tokens))


def _tokens(text: str, *, strict: bool) -> tuple[list[tuple[str, str]], str]:
    """Return kinds and words, and what is wrong."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None and text[at] in "\"'`":
            return tokens, f"does not parse: the string that begins at character {at + 1} has no end"
        if match is None and strict:
            return tokens, f"does not parse: unexpected {text[at]!r} at character {at + 1}"
        if match is not None and match.lastgroup != "space":
            tokens.append((match.lastgroup or "", match.group()))
        at = match.end() if match else at + 1
    return tokens, ""


def _unfinished(tokens: list[tuple[str, str]]) -> str:
    if not tokens:
        return "is empty"
    kind, word = tokens[-1]
    ends = kind != "sign" and word not in _WORDS - {"inf", "nan", "keep_metric_names", "prefix"}
    return "" if ends else f"does not parse: something is missing after {word!r}"


def _brackets(tokens: list[tuple[str, str]]) -> str:
    waiting = []
    for kind, word in tokens:
        if kind == "open":
            waiting.append(word)
        elif kind == "close" and (not waiting or _PAIRS[waiting.pop()] != word):
            return f"does not parse: {word!r} closes nothing"
    return f"does not parse: {waiting[-1]!r} is not closed" if waiting else ""


def _unstable(tokens: list[tuple[str, str]]) -> str:
    for (kind, word), (_, following) in itertools.pairwise(tokens):
        if kind == "name" and following == "(" and word.lower() in _UNSTABLE:
            return f"returns another thing each time, by {word}(): no two answers could be compared; leave it out"
    return ""


def _metrics(tokens: list[tuple[str, str]]) -> tuple[str, ...]:
    found, braces, labels, depth = dict[str, None](), 0, 0, 0
    for at, (kind, word) in enumerate(tokens):
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        braces += {"{": 1, "}": -1}.get(word, 0) if kind in {"open", "close"} else 0
        depth += {"open": 1, "close": -1}.get(kind, 0)
        if labels and kind == "close" and depth < labels:
            labels = 0
        if kind != "name":
            continue
        if word.lower() in _GROUPING:
            labels = depth + 1 if following == "(" else 0
        elif braces:
            value = tokens[at + 2] if at + 2 < len(tokens) else ("", "")
            if word == "__name__" and following == "=" and value[0] == "string":
                found[value[1][1:-1]] = None
        elif not labels and following.lower() not in {"(", "by", "without"} and word.lower() not in _WORDS:
            found[word] = None
    return tuple(found)


def _back(tokens: list[tuple[str, str]]) -> tuple[float, float]:
    """Return the sum and the longest of what stands in [...] and after `offset`."""
    spans = [0.0]
    for (_, before), (_, word) in itertools.pairwise(tokens):
        if before.lower() in {"[", "offset"} and _DURATION.fullmatch(word):
            spans.append(span(word))
    return sum(spans), max(spans)
