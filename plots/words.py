"""Verdicts in words that a person would use: one sentence a metric, for the report's short answer and the terminal."""

from dataclasses import dataclass
from typing import Any

from plots import numbers
from plots.tables import Comparison
from tsduel.core.metrics import GEOMEAN


@dataclass(frozen=True)
class Subject:
    """Something people ask about: the row that answers, its names, and what a larger and a smaller value are called."""

    metric: str
    query_type: str
    name: str
    short: str
    up: str
    down: str


SUBJECTS = (
    Subject("load_rate", "", "Ingestion", "ingestion", "faster", "slower"),
    Subject(
        "query_mean_ms",
        GEOMEAN,
        "Queries (geometric mean of service times over the types)",
        "queries",
        "slower",
        "faster",
    ),
    Subject("cpu_seconds", "", "CPU of the whole round", "CPU", "more", "less"),
    Subject("rss_peak_bytes", "", "Peak memory", "memory", "more", "less"),
    Subject("disk_bytes", "", "Disk", "disk", "more", "less"),
)


# In the order in which a reader wants to know; what follows a verdict is the size of the change, where it has one.
ONE_ROUND = "one round each"
_HEADLINES = {
    "failed": ("**✗ a check failed**", False),
    "regression": ("**✗ worse**", True),
    "improvement": ("**✓ better**", True),
    "negligible": ("≈ negligible", True),
    "equivalent": ("= equivalent", False),
    "inconclusive": ("? inconclusive", False),
    "inconclusive: environment": ("? inconclusive, too noisy", False),
    "inconclusive (n < 6)": ("? a screen, no verdict", True),
    ONE_ROUND: ("? one round each, no verdict", True),
    "not comparable": ("not comparable", False),
}


def headline(comparison: Comparison) -> str:
    """Return the answer in one line, by verdict: "**✗ worse**: ingestion (6.5 % slower); = equivalent: disk"."""
    said: dict[str, list[str]] = {}
    for subject in SUBJECTS:
        row = comparison.row(subject.metric, subject.query_type)
        if row is None or (row["baseline_median"] is None and row["candidate_median"] is None):
            said.setdefault("not measured", []).append(subject.short)
            continue
        alone = row["verdict"] == "inconclusive (n < 6)" and row["blocks"] == 1
        verdict = ONE_ROUND if alone else row["verdict"]
        _, sized = _HEADLINES.get(verdict, ("", False))
        sized = sized and row["change_pct"] is not None
        size = f" ({_size(row['change_pct'], subject.up, subject.down)})" if sized else ""
        said.setdefault(verdict, []).append(f"{subject.short}{size}")
    order = [*_HEADLINES, *(verdict for verdict in said if verdict not in _HEADLINES)]
    heads = {verdict: head for verdict, (head, _) in _HEADLINES.items()}
    return "; ".join(f"{heads.get(v, v)}: {', '.join(said[v])}" for v in order if v in said)


def answer(comparison: Comparison) -> list[str]:
    """Return the short answer: a sentence for each of the five things that people ask about."""
    return [
        f"{subject.name}: {sentence(comparison.row(subject.metric, subject.query_type), subject.up, subject.down)}"
        for subject in SUBJECTS
    ]


def sentence(row: dict[str, Any] | None, up: str, down: str) -> str:
    """Say what a row of comparison.json means. "Not significant" is never worded as "no change"."""
    if row is None or (row["baseline_median"] is None and row["candidate_median"] is None):
        return "not measured"
    verdict, matters = row["verdict"], f"{row['threshold_pct']:g} %"
    if verdict == "failed":
        return "**failed**, see Checks"
    if verdict == "not comparable" or row["change_pct"] is None:
        return f"{verdict}, {_reason(row)}".removesuffix(", ")
    size = _size(row["change_pct"], up, down)
    said = {
        "equivalent": f"no difference larger than {matters} (equivalent)",
        "inconclusive": f"inconclusive, {_possible(row)}",
        "inconclusive: environment": f"{verdict}, {_reason(row)}",
        "inconclusive (n < 6)": f"{size} in {_blocks(row)}, a screen: {verdict}"
        if row["blocks"] > 1
        else f"{size}, one round each: no verdict",
        "negligible": f"{size} ({_evidence(row)}): real, but below the {matters} that matter (negligible)",
    }
    if verdict == "equivalent" and "identical in every block" in row["warnings"]:
        return "identical in every block (equivalent)"
    return said.get(verdict) or f"{size} ({_evidence(row)}): {'clear ' if row['clear'] else ''}{verdict}"


def _size(change: float, up: str, down: str) -> str:
    text = numbers.change(abs(change)).lstrip("+")
    return f"{text} % {up if change > 0 else down}" if text != "0.0" else "no difference in the estimate"


def _blocks(row: dict[str, Any]) -> str:
    return f"{row['blocks']} block{'' if row['blocks'] == 1 else 's'}"


def _evidence(row: dict[str, Any]) -> str:
    if row["lo_pct"] is None:
        return f"the same in each of {_blocks(row)}"
    low, high = row["lo_pct"], row["hi_pct"]
    if low > 0 or high < 0:
        inner, outer = sorted((abs(low), abs(high)))
        reach = f"{numbers.change(inner).lstrip('+')} to {numbers.change(outer).lstrip('+')} %"
    else:
        reach = f"{numbers.change(low)} to {numbers.change(high)} %"
    return f"95 % CI {reach}, p {numbers.probability(row['p_adj'])}, {_blocks(row)}"


def _possible(row: dict[str, Any]) -> str:
    """Say what an inconclusive session leaves open, and what would settle it."""
    if row["lo_pct"] is None or row["p_adj"] is None:
        return _reason(row)
    could = f"could be {numbers.change(row['lo_pct'])} % to {numbers.change(row['hi_pct'])} %"
    needed = row["blocks_needed"]
    if needed is None:
        return f"{could}; no number of blocks would settle {row['threshold_pct']:g} %"
    if needed > row["blocks"]:
        return f"{could}; {numbers.count(needed)} blocks would settle {row['threshold_pct']:g} %"
    return f"{could}; {_blocks(row)} see changes of {numbers.change(row['mde_pct']).lstrip('+')} % and more"


def _reason(row: dict[str, Any]) -> str:
    return str(row["warnings"]).removeprefix("not comparable: ")
