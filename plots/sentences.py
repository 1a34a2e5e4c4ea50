"""Verdicts in plain words: the answer in a sentence, and a line with figures for each subject."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from plots import markup, numbers
from plots.comparison import NOT_CONFIRMED, Comparison, Row, decision
from tsduel.core.metrics import ALL, GEOMEAN, METRICS, MIX, Metric
from tsduel.core.wording import number_of
from tsduel.stats.power import MOST_NEEDED
from tsduel.stats.rows import SHORT_PHASE_S
from tsduel.stats.verdict import WIDE

ONE_EACH = "one run each"
MOST_BROKEN = 4
# Verdicts in the order of a sentence: their words, and whether the size of the change follows.
HEADLINES = {
    "failed": ("**✗ a check failed**", False),
    "regression": ("**✗ worse**", True),
    "improvement": ("**✓ better**", True),
    "worse": ("**✗ worse**", True),
    "better": ("**✓ better**", True),
    "negligible": ("≈ negligible", True),
    "equivalent": ("= equivalent", False),
    NOT_CONFIRMED: ("? not confirmed", True),
    "inconclusive": ("? inconclusive", False),
    "inconclusive: environment": ("? inconclusive, too noisy", False),
    "inconclusive (n < 6)": ("? a first look, no verdict", True),
    ONE_EACH: ("? one run each, no verdict", True),
    "not comparable": ("not comparable", False),
    "shown": ("shown", False),
}


CALM = {"negligible", "equivalent"}
"""Verdicts of a change below its threshold: where others differ, a sentence has only how many these are."""


def subjects(comparison: Comparison) -> list[Row]:
    """Return the rows of the answer, in the registry's order, without those that another metric answers better.

    Of components it has the CPU of each, for an ingested sample or, if ingestion is not exchanged, for a query. A row
    that a mean leaves out, as it was zero, and that changed stands for itself.
    """
    rows, components, replaced = list[Row](), False, comparison.answered_better
    for metric in comparison.metrics.values():
        if metric.headline and metric.name not in replaced and not (metric.per_role and components):
            judged = [row for row in comparison.of(metric.name) if row["verdict"] != "shown"]
            whole = [row for row in judged if row["query_type"] in {"", GEOMEAN, ALL} or _is_left_out(row)]
            both = [row for row in judged if metric.per_role and row["change_pct"] is not None]
            rows, components = [*rows, *(both or whole)], components or bool(both)
    return rows


def _is_left_out(row: Row) -> bool:
    return row["change_pct"] is None and row["verdict"] in {"regression", "improvement"}


def before(comparison: Comparison) -> str:
    """Return what stands before every answer: both sides are one program, benchmarks broke; empty without either."""
    named = markup.most([markup.text(each) for each in comparison.broken], MOST_BROKEN)
    broken = f"{HEADLINES['failed'][0]}: {'; '.join(named)}" if named else ""
    return ". ".join(filter(None, [comparison.same, broken]))


def keys(comparisons: Iterable[Comparison]) -> dict[tuple[str, str], Row]:
    """Return metrics and query types of the answers of all comparisons, in the registry's order, with a row of each."""
    found = {(row["metric"], row["query_type"]): row for side in comparisons for row in subjects(side)}
    names = list(METRICS)
    return dict(sorted(found.items(), key=lambda item: names.index(item[0][0]) if item[0][0] in METRICS else 0))


def short_rows(comparison: Comparison, query_types: Sequence[str]) -> list[Row]:
    """Return the rows of a short table: those of the answer, then the query types of the first mean."""
    rows = subjects(comparison)
    mean = next((row for row in rows if row["query_type"] == GEOMEAN), None)
    of_type = comparison.by_type(mean["metric"], query_types) if mean else {}
    return rows + [row for name, row in of_type.items() if name in query_types]


def headline(comparison: Comparison) -> str:
    """Return the answer in one line, by verdict: "**✗ worse**: Ingestion rate (6.5 % slower). The other 3: ..."."""
    by_verdict: dict[str, list[str]] = {}
    rows = subjects(comparison)
    # FAIL_ON=regression sees the rows of a mean, too.
    calm = [
        row for row in rows
        if _verdict(row) in CALM and not _is_wide(row) and not _moved(comparison, row, ("regression",))
    ]  # fmt: skip
    calm = calm if len(calm) < len(rows) else []
    for row in rows:
        if row in calm:
            continue
        verdict = _verdict(row)
        sized = HEADLINES[verdict][1] and row["change_pct"] is not None
        p = f"adjusted p {numbers.probability(row['p_adj'])}" if verdict == NOT_CONFIRMED else ""
        metric = comparison.metrics[row["metric"]]
        much = size(row, metric) if sized else from_to(row) if _is_left_out(row) else ""
        inside = "" if row["verdict"] == "regression" else _moved(comparison, row, ("regression",))
        beside = "; ".join(filter(None, [much, p, inside, comparison.note(row)]))
        name = markup.text(metric.named(comparison.all_or(row["query_type"])))
        by_verdict.setdefault(verdict, []).append(f"{name}{markup.aside(beside)}")
    if by_verdict:
        parts = [f"{words}: {'; '.join(by_verdict[v])}" for v, (words, _) in HEADLINES.items() if v in by_verdict]
        parts += _below(comparison, rows)
        if calm:
            who = (
                f"The other {len(calm)} are below their" if len(calm) > 1 else f"{comparison.named(calm[0])}: below its"
            )
            parts.append(f"{who} threshold{'s' if len(calm) > 1 else ''}")
        return ". ".join(filter(None, [before(comparison), *parts]))
    # Without a block that counts, give the reason.
    why = (f"block {block}: {reason}" for block, reason in comparison.dropped.items() if not comparison.valid)
    return ". ".join(
        filter(None, [before(comparison), f"? nothing was measured{markup.aside(markup.text(next(why, '')))}"])
    )


def inside(comparison: Comparison) -> list[str]:
    """Return what got worse of which the answer's own rows say nothing: types of a mean, and other metrics."""
    rows = subjects(comparison)
    told = {id(row): _moved(comparison, row, ("regression",)) for row in rows if row["verdict"] != "regression"}
    return [f"{comparison.named(row)}: {told[id(row)]}" for row in rows if told.get(id(row))] + _below(comparison, rows)


def _below(comparison: Comparison, rows: Sequence[Row]) -> list[str]:
    """Return what got worse of metrics that the answer does not have, which FAIL_ON=regression sees, too.

    Nothing where the answer has something worse itself. A metric is named once, by its mean if that is worse.
    """
    if any(row["verdict"] == "regression" for row in rows):
        return []
    told, first = {row["metric"] for row in rows}, dict[str, Row]()
    for row in sorted(comparison.rows, key=lambda row: row["query_type"] not in {"", GEOMEAN, ALL}):
        if row["verdict"] == "regression" and row["metric"] not in told:
            first.setdefault(row["metric"], row)
    named = [
        f"{comparison.named(row)} ({from_to(row) if row['change_pct'] is None else numbers.effect(row)})"
        for row in first.values()
    ]
    return [f"Also **✗ worse**: {'; '.join(markup.most(named, MOST_BROKEN))}"] if named else []


def _is_wide(row: Row) -> bool:
    """Whether the interval reaches beyond the threshold though the estimate does not."""
    return row["verdict"] == "negligible" and WIDE in row["warnings"]


def folded(comparison: Comparison, title: str, query_types: Sequence[str]) -> str:
    """Return the answer and the short table of a comparison, folded."""
    table = comparison.table(short_rows(comparison, query_types), aliases=False)
    return markup.folded(title, markup.items(answer(comparison)), table)


def answer(comparison: Comparison) -> list[str]:
    """Return the verdict lines: mark, subject, both values, the meaning, and the query types that moved most.

    What else got worse comes last, where none of them did.
    """
    lines = [said] if (said := before(comparison)) else []
    rows = subjects(comparison)
    for row in rows:
        metric, (unit, sides) = comparison.metrics[row["metric"]], numbers.sides(row)
        moved = _moved(comparison, row)
        meaning = sentence(row, metric) + (f". {moved}" if moved else "")
        name = (
            f"**{markup.text(metric.named(comparison.all_or(row['query_type'])))}**{markup.aside(comparison.note(row))}"
        )
        lines.append(f"{comparison.symbol(row)} {name}: {' → '.join(sides)} {unit}; {meaning}")
    return lines + _below(comparison, rows)


def from_to(row: Row) -> str:
    """Return both values and their unit: 0 → 1 allocs/op."""
    unit, sides = numbers.sides(row)
    return f"{' → '.join(sides)} {unit}"


def sentence(row: Row, metric: Metric) -> str:
    """Return the meaning of a row of comparison.json; "not significant" is never worded as "no change"."""
    verdict, matters = row["verdict"], f"{row['threshold_pct']:g} %"
    if verdict == "failed":
        return "**failed**, see Checks"
    if verdict == "not comparable" or row["change_pct"] is None:
        return f"{verdict}, {_reason(row)}".removesuffix(", ")
    # Each value is estimated for its side alone.
    sized = f"{size(row, metric)}{' block by block, which decides' if numbers.opposed(row) else ''}"
    if verdict == "equivalent" and "identical in every block" in row["warnings"]:
        return "identical in every block (equivalent)"
    blocks = number_of(row["blocks"], "block")
    sentences = {
        "equivalent": f"{sized}{_interval(row)}: no difference larger than {matters} (equivalent)",
        NOT_CONFIRMED: f"{sized}, not confirmed ({_evidence(row, metric)}){_unconfirmed(row)}",
        "inconclusive": f"inconclusive, {_possible(row)}",
        "inconclusive: environment": f"{verdict}, {_reason(row)}",
        "inconclusive (n < 6)": f"{sized} in {blocks}: a first look, no verdict",
        ONE_EACH: f"{sized}, one run each: no verdict",
    }
    if text := sentences.get(_verdict(row)):
        return text
    sized = f"{sized} ({_evidence(row, metric)})"
    if numbers.by_ratio(row) and verdict in {"worse", "better"}:
        return sized
    real = f"real, but below the {matters} that matter (negligible)"
    if _is_wide(row):
        most = max(abs(row["lo_pct"]), abs(row["hi_pct"]))
        real = f"real; its estimate is below the {matters} that matter, and up to {numbers.size(most)} % is possible "
        real += "(negligible)"
    return f"{sized}: {real if verdict == 'negligible' else ('clear ' if row['clear'] else '') + verdict}"


def _verdict(row: Row) -> str:
    return ONE_EACH if row["verdict"] == "inconclusive (n < 6)" and row["blocks"] == 1 else decision(row)


def _moved(comparison: Comparison, of: Row, verdicts: Sequence[str] = ("regression", "improvement")) -> str:
    """Return how many rows of a mean moved, and the one that moved most; one that was zero moved more than any."""
    rows = [row for row in comparison.of(of["metric"]) if row["query_type"] not in {"", GEOMEAN, ALL, MIX}]
    if len(rows) < 2 or of["query_type"] not in {GEOMEAN, ALL}:  # noqa: PLR2004 - one type
        return ""
    parts = []
    for verdict in verdicts:
        word = {"regression": "worse", "improvement": "better"}[verdict]
        moved = [row for row in rows if row["verdict"] in {verdict, word}]
        if moved:
            most = max(moved, key=lambda row: math.inf if row["change_pct"] is None else abs(row["change_pct"]))
            much = from_to(most) if most["change_pct"] is None else numbers.effect(most)
            parts.append(f"{len(moved)} of {len(rows)} {word}, largest {markup.text(most['query_type'])} ({much})")
    return "; ".join(parts)


_TIMES = {"faster": "fast", "slower": "slow"}


def size(row: Row, metric: Metric) -> str:
    """Return the size of a change: 6.5 % slower; of different databases 3.1 times as fast, 0.41 times as much."""
    if numbers.by_ratio(row):
        ratio = numbers.ratio(row, inverse=_inverse(row, metric))[0]
        return f"{ratio} times as {_TIMES.get(_way(row, metric), 'much')}"
    text = numbers.size(row["change_pct"], numbers.places(row))
    return f"{text} % {_way(row, metric)}" if float(text.replace(",", "")) else "estimate 0.0 %"


def _way(row: Row, metric: Metric) -> str:
    return metric.words[0] if row["change_pct"] > 0 else metric.words[1]


def _inverse(row: Row, metric: Metric) -> bool:
    """Whether a ratio is inverted: a third of the time is 3 times as fast."""
    return row["change_pct"] < 0 and _way(row, metric) in _TIMES


def _interval(row: Row) -> str:
    low, high, level = numbers.deciding(row)
    return "" if low is None or high is None else f" ({level} % CI {numbers.reach(low, high, numbers.places(row))} %)"


def _evidence(row: Row, metric: Metric) -> str:
    if row["lo_pct"] is None:
        return f"the same in each of {number_of(row['blocks'], 'block')}"
    p, blocks = numbers.probability(row["p_adj"]), number_of(row["blocks"], "block")
    # The interval of a fleet is over hosts.
    blocks += f" on {row['hosts']} hosts" if row.get("over_hosts") else ""
    if numbers.by_ratio(row):
        return f"95 % CI {numbers.ratio(row, inverse=_inverse(row, metric))[1]}, p {p}, {blocks}"
    low, high = row["lo_pct"], row["hi_pct"]
    inner, outer = sorted((abs(low), abs(high)))
    low, high = (inner, outer) if low > 0 or high < 0 else (low, high)  # the words say which way
    reach = numbers.reach(low, high, numbers.places(row))
    reach = reach.replace("+", "") if low > 0 else reach
    return f"95 % CI {reach} %, adjusted p {p}, {blocks}"


def _possible(row: Row) -> str:
    """Return the changes that an inconclusive row leaves possible, and the number of blocks that would settle it."""
    if row["lo_pct"] is None or row["p_adj"] is None:
        return _reason(row)
    if numbers.by_ratio(row):
        return f"could be {numbers.interval(row)} times the baseline's"
    return f"could be {numbers.interval(row).replace(' to', ' % to')} %{_more(row)}"


def _more(row: Row) -> str:
    """Return how many blocks or hosts would settle a row, or what its blocks can see."""
    threshold, needed = f"{row['threshold_pct']:g} %", row["blocks_needed"]
    if numbers.by_ratio(row):
        return ""
    if needed is None and row.get("hosts_needed"):
        return f"; {row['hosts_needed']} hosts would settle {threshold}, more blocks would not"
    if needed is None:
        return f"; {numbers.count(MOST_NEEDED)} blocks would not settle {threshold}"
    if needed > row["blocks"]:
        return f"; {numbers.count(needed)} blocks would settle {threshold}"
    return f"; {number_of(row['blocks'], 'block')} see changes of {numbers.size(row['mde_pct'])} % and more"


def _unconfirmed(row: Row) -> str:
    return "" if numbers.by_ratio(row) else "; p is adjusted for all metrics of its family: more blocks decide"


def _reason(row: Row) -> str:
    return str(row["warnings"]).removeprefix("not comparable: ")


def short_phases(seconds: Mapping[str, float]) -> Iterator[str]:
    """Yield a warning about short phases (name -> seconds), if there are any."""
    if seconds:
        listed = ", ".join(f"{name} ({numbers.number(value, 3)} s)" for name, value in seconds.items())
        yield f"Phases under {SHORT_PHASE_S:.0f} s, with figures that scatter: {listed}."
