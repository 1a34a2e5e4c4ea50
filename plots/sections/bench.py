"""Go benchmarks: a row a benchmark, a column a unit; benchstat's own table; where time and memory went."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from plots import markup
from plots.charts.forest import READ, Change, forest_of, shared_path
from plots.pictures import Pictures
from plots.sections import duel
from plots.source import Source
from tsduel.core.defaults import GO_MINIMUM
from tsduel.core.metrics import GEOMEAN
from tsduel.core.project import PROJECT
from tsduel.core.wording import last_line

_BENCHSTAT_S, _PPROF_S, _NODES = 600, 300, 20
_PROFILES = {"cpu": ("CPU", []), "mem": ("memory allocated", ["-sample_index=alloc_space"])}


def benchmarks(source: Source, pictures: Pictures) -> str:
    """Return the table of all benchmarks in all units, and the picture of memory and their own metrics."""
    units = {name: _titled(metric.title, name) for name, metric in source.metrics.items()}
    rows = source.query_types
    changes = [
        Change.of(row, row["metric"], f"{one.metrics[row['metric']].title}, {row['query_type'][shared_path(rows) :]}")
        for one in source.comparisons for row in one.rows
        if row["family"] == "secondary" and row["metric"] != "sec/op" and row["query_type"] != GEOMEAN
        and row["change_pct"] is not None
    ]  # fmt: skip
    names = markup.text(" and ".join(source.labels.values()))
    return markup.paragraphs(
        *(
            markup.paragraphs(duel.overview(one, units, rows, "Benchmark"), duel.details(one, units, rows))
            for one in source.comparisons
        ),
        "A cell is the baseline's median → the candidate's (change) and its mark.",
        pictures.show(
            "change-in-memory", "change in memory and allocations",
            f"Change of bytes, allocations and own metrics of each benchmark with its 95 % interval: {names}",
            f"Worse is always to the right; the figures have the metric's own sign. {READ}",
            forest_of(changes, source.labels, "Change in memory, allocations and own metrics, % (left is better)"),
        ),
    )  # fmt: skip


def _titled(title: str, unit: str) -> str:
    return f"{title} ({unit})" if title != unit else unit


def benchstat(source: Source, _: Pictures) -> str:
    """Return benchstat's own table, or a sentence that says why there is none."""
    words = [str(PROJECT / "scripts/benchstat"), str(source.run.path)]
    if source.plan.gobench and source.plan.gobench.pivot:
        keys = [f"/{key}" for row in source.query_types[:1] for key in re.findall(r"/([^/=]+)=", row)]
        words += ["-row", " ".join([".name", *keys]), "-col", f"/{source.plan.gobench.pivot.column}"]
    said = _said(words, _BENCHSTAT_S, "benchstat")
    return markup.paragraphs(
        "Medians and Mann-Whitney of the same values, unpaired: a second opinion. The verdicts above decide.",
        markup.block(said, "text"),
    )


def profiles(source: Source, _: Pictures) -> str:
    """Return `go tool pprof -top` of each candidate's difference to the baseline; nothing without profiles."""
    if source.plan.gobench is None or source.pivoted:
        return ""
    found = []
    baseline, *candidates = source.run.variants
    for kind in source.plan.gobench.profile:
        title, flags = _PROFILES[kind]
        base = source.run.path / f"raw/profiles/{baseline}.{kind}.pprof"
        for candidate in candidates:
            mine = source.run.path / f"raw/profiles/{candidate}.{kind}.pprof"
            if base.exists() and mine.exists():
                found.append(
                    f"{title}, {candidate} minus {baseline}:\n\n{markup.block(_top(base, mine, flags), 'text')}"
                )
    intro = (
        "From one more block after the timed ones, of the benchmarks that all variants have, with as many operations "
        "on each side; the files are in `raw/profiles/`. What is negative is less in the candidate."
    )
    return markup.paragraphs(intro, *found) if found else ""


def _top(base: Path, mine: Path, flags: Sequence[str]) -> str:
    go = [str(PROJECT / "scripts/with-go"), GO_MINIMUM, "local", "go", "tool", "pprof"]
    return _said(
        [*go, "-top", f"-nodecount={_NODES}", *flags, f"-diff_base={base}", str(mine)], _PPROF_S, "go tool pprof"
    )


def _said(words: Sequence[str], timeout_s: int, name: str) -> str:
    """Return what a program printed, or a sentence that says why it printed nothing of use."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"{name} did not end within {timeout_s} s; `make report` tries again."
    return f"{name} has no table: {last_line(done.stderr)}" if done.returncode else done.stdout.rstrip()
