"""Verdicts in words that a person would use: one sentence a metric, for the report's short answer and the terminal."""

from dataclasses import dataclass
from typing import Any

from plots import numbers
from plots.tables import Comparison
from tsduel.metrics import GEOMEAN


@dataclass(frozen=True)
class Subject:
    """Something people ask about: the row that answers, its name, and what a larger and a smaller value are called."""

    metric: str
    query_type: str
    name: str
    up: str
    down: str


SUBJECTS = (
    Subject("load_rate", "", "Ingestion", "faster", "slower"),
    Subject("query_mean_ms", GEOMEAN, "Queries (geometric mean of service times over the types)", "slower", "faster"),
    Subject("cpu_seconds", "", "CPU of the whole round", "more", "less"),
    Subject("rss_peak_bytes", "", "Peak memory", "more", "less"),
    Subject("disk_bytes", "", "Disk", "more", "less"),
)


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
        "inconclusive (n < 6)": f"{size} in {_blocks(row)}, a screen: {verdict}",
        "negligible": f"{size} ({_evidence(row)}): real, but below the {matters} that matter (negligible)",
    }
    if verdict == "equivalent" and "identical in every block" in row["warnings"]:
        return "identical in every block (equivalent)"
    return said.get(verdict) or f"{size} ({_evidence(row)}): {'clear ' if row['clear'] else ''}{verdict}"


def _size(change: float, up: str, down: str) -> str:
    text = numbers.change(abs(change)).lstrip("+")
    return f"{text} % {up if change > 0 else down}" if float(text) else "no difference in the estimate"


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
        return f"{could}; {needed} blocks would settle {row['threshold_pct']:g} %"
    return f"{could}; {_blocks(row)} see changes of {numbers.change(row['mde_pct']).lstrip('+')} % and more"


def _reason(row: dict[str, Any]) -> str:
    return str(row["warnings"]).removeprefix("not comparable: ")
