"""Series of runs of quick.yml, or of gate.yml: each is made unless it exists, and its judged metrics are read.

SET may say where a run is, with fields of `host` alone (SET="host.port=9560"): nothing else, which would be another
measurement.
"""

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bench.figures import PROJECT, Figure, at_most
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.plan import Plan
from tsduel.core.rundir import open_run
from tsduel.question.knobs import NAMES
from tsduel.question.read import read_file
from tsduel.stats.aa import GATED
from tsduel.stats.verdict import IMPROVEMENT, REGRESSION

EXPERIMENT = "experiments/quick.yml"
RESULTS = PROJECT / "results"
TIME, CPU = ("duel_typical_ms", GEOMEAN), ("duel_cpu_us", ALL)
LOAD_CPU = ("duel_load_cpu_us", "")
CALLED = {REGRESSION, IMPROVEMENT}
PLACE = "host."
Rows = Mapping[tuple[str, str], Mapping[str, Any]]
"""Rows of a comparison, by metric and query type."""
WIDTHS = {
    "local": {
        "typical, all types": (TIME, 0.3),
        "CPU of the duel": (CPU, 0.3),
        "total, all types": (("duel_total_ms", GEOMEAN), 0.6),
        "ingestion of a batch, typical": (("duel_load_typical_ms", ""), 1.0),
        "CPU of an ingested sample": (LOAD_CPU, 1.0),
    },
    "quick": {"typical, all types": (TIME, 0.6), "CPU of the duel": (CPU, 0.6)},
}


def judged(
    name: str,
    knobs: Mapping[str, str],
    history: Callable[[Path], None] | None = None,
    experiment: str = EXPERIMENT,
    needs: Iterable[tuple[str, str]] = (TIME, CPU),
    *,
    fails: bool = False,
) -> Rows:
    """Return the judged rows of a run with these knobs; ``history`` changes its builds before the first block.

    ``fails``: a block that fails may end it; then there is no row.
    """
    run_dir = RESULTS / name
    if not is_finished(run_dir, knobs, experiment):
        asked = {"RUN": name, "EXPERIMENT": experiment, **knobs, "SET": f"{knobs.get('SET', '')} {place()}".strip()}
        words = [f"{knob}={value}" for knob, value in asked.items() if value]
        if history:
            make("plan", "provision", "build", *words)
            history(run_dir)
        # An A/A run that has not passed is a result as well.
        output = make("tsbs", *words, "VIEW=plain", may_fail=True)
        if not is_finished(run_dir, knobs, experiment):
            if fails and any(block.failures for block in open_run(run_dir).blocks):
                make("tidy", f"RUN={name}")
                return {}
            raise UserError(f"{name} did not come to its end:\n{output[-2000:]}")
    found = rows(run_dir)
    if any(found.get(metric, {}).get("change_pct") is None for metric in needs):
        raise UserError(
            f"{run_dir} says nothing of what it is for: see its report.md; move it away, and it is made again"
        )
    sys.stderr.write(f"{name}: {', '.join(map(_sentence, primary(found)))}\n")
    return found


def rows(run_dir: Path, *, judged: bool = True) -> Rows:
    """Return the rows of a run, or those alone that are judged."""
    every = read_json(run_dir / "stats/comparison.json")["rows"]
    return {(r["metric"], r["query_type"]): r for r in every if not judged or r["family"] in GATED}


def beside(*run_dirs: Path) -> str:
    """Return how much of the machine's CPU other programs took while runs were measured: percent, of a median phase."""
    shares = list[float]()
    for run_dir in run_dirs:
        table = pd.read_csv(run_dir / "tidy/noise.csv", keep_default_na=False)
        shares += map(float, table[table["signal"] == "foreign_cpu_pct"]["value"])
    return f"{statistics.median(shares):.1f}" if shares else ""


def is_finished(run_dir: Path, knobs: Mapping[str, str], experiment: str = EXPERIMENT) -> bool:
    """Return whether a run has finished; raise where its experiment or its knobs are not those of the series."""
    if not (run_dir / Plan.FILE).exists():
        return False
    question = Plan.load(run_dir).asked
    written = json.loads(json.dumps(read_file(PROJECT / experiment), default=str))
    if (question.experiment, question.written, _placeless(question.knobs)) != (experiment, written, _placeless(knobs)):
        raise UserError(
            f"{run_dir} asked something else: another experiment than {experiment} as it stands, or other knobs; "
            "move it away, or the whole series, and this one is made"
        )
    return (run_dir / "stats/comparison.json").exists()


def place() -> str:
    """Return SET of the environment, whose fields are of `host` alone."""
    words = os.environ.get("SET", "").split()
    if others := [word for word in words if not word.startswith(PLACE)]:
        raise UserError(f"SET: {others[0]} would be another measurement; fields of {PLACE} alone may be set here")
    return " ".join(words)


def _placeless(knobs: Mapping[str, str]) -> dict[str, str]:
    settings = " ".join(word for word in knobs.get("SET", "").split() if not word.startswith(PLACE))
    return {name: value for name, value in {**knobs, "SET": settings}.items() if value}


def make(*words: str, may_fail: bool = False) -> str:
    """Type a make command with these knobs alone; return its output."""
    others = {*NAMES, "EXPERIMENT", "KIND", "RUN", "FAIL_ON"}
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k not in others}
    done = subprocess.run(
        ["make", *words], cwd=PROJECT, env=clean, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode and not may_fail:
        raise UserError(f"make {' '.join(words)[:200]} failed:\n{done.stdout[-2000:]}")
    return done.stdout


def primary(rows: Rows) -> list[Mapping[str, Any]]:
    """Return the rows of the primary metrics."""
    return [row for row in rows.values() if row["family"] == "primary"]


def half_width(row: Mapping[str, Any]) -> float:
    """Return half of the 95 % interval, in percent."""
    return float(row["hi_pct"] - row["lo_pct"]) / 2


def widths(results: Path) -> Iterator[Figure]:
    """Yield the half-widths of the newest runs of local.yml and quick.yml; these take long, so none is made here."""
    for name, wanted in WIDTHS.items():
        finished = sorted(path.parents[1] for path in results.glob(f"*-{name}/stats/comparison.json"))
        if not finished:
            sys.stdout.write(f"       no run of {name}.yml is finished in {results}: its half-widths are not known\n")
            continue
        judged_rows = rows(finished[-1], judged=False)
        rows_with = {metric: row for metric, row in judged_rows.items() if row["hi_pct"] is not None}
        half_widths = [
            (title, half_width(rows_with[metric]) if metric in rows_with else math.inf, target)
            for title, (metric, target) in wanted.items()
        ]
        types = {t: half_width(row) for (metric, t), row in rows_with.items() if metric == TIME[0] and t != GEOMEAN}
        for kinds, target in ((types.keys() - {"double-groupby-1"}, 0.8), (types.keys() & {"double-groupby-1"}, 1.0)):
            if name == "local" and kinds:
                widest = max(kinds, key=types.__getitem__)
                half_widths.append((f"typical, {widest}", types[widest], target))
        for title, value, target in half_widths:
            yield at_most(f"half-width of {name}.yml, {title}", value, target, "%", finished[-1].name)


def _sentence(row: Mapping[str, Any]) -> str:
    if row["change_pct"] is None or row["lo_pct"] is None:
        return f"{row['metric']} {row['verdict']}"
    interval = f"{row['lo_pct']:+.2f} to {row['hi_pct']:+.2f}"
    return f"{row['metric']} {row['change_pct']:+.2f} % ({interval}), {row['verdict']}"
