"""How often the designs are wrong: sessions on a simulated machine, judged by the code that judges real ones.

    PYTHONPATH=. .venv/bin/python tests/simulate.py [--sessions 1000] [--seed 1]

prints the tables of docs/validation.md. In the solo part a variant's log value is the machine's noise (2 to 4 %, half
of it common to all metrics), a random walk that has wandered by 5 to 10 % (one standard deviation) after 20 of them,
and in 3 % of the cases a disturbance that makes everything 20 % worse. A duel cancels what both sides share, so its log
ratio scatters only between blocks and by the standard error within one. The same seed prints the same tables.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tsduel.core.metrics import METRICS, Family
from tsduel.stats import aa
from tsduel.stats.estimate import Floats, mann_whitney_p, signed_rank_p
from tsduel.stats.findings import Pair, Sample
from tsduel.stats.power import ALPHA
from tsduel.stats.rows import row
from tsduel.stats.verdict import Judged, judge
from tsduel.workloads.measured import PairedRatio

SOLO = {"primary": 2, "secondary": 7}
DUEL = {"primary": 2, "secondary": 10}
THRESHOLDS = {"solo": 3.0, "duel": 2.0}
DRIFT_RUNS = 20
BLOCKS = (6, 8, 12)
SETTINGS = (1, 3, 5)
_HABIT = math.log(1.05)
_MOST_BLOCKS = 20


@dataclass(frozen=True)
class Machine:
    """A machine's noise and drift, as shares. `noise` is drawn for each metric; all metrics share its part `common`.

    `between` and `within` are the standard deviations of a duel's log ratio, drawn for each metric. `order` is what a
    side takes longer in a duel for coming second; `jumps` is the share of blocks whose duel is 5 % off, to either side.
    """

    noise: tuple[float, float] = (0.02, 0.04)
    common: float = 0.5
    drift: tuple[float, float] = (0.05, 0.10)
    outliers: float = 0.03
    outlier: float = 0.20
    between: tuple[float, float] = (0.003, 0.008)
    within: tuple[float, float] = (0.001, 0.005)
    order: float = 0.0
    jumps: float = 0.0

    def runs(self, rng: np.random.Generator, runs: int, metrics: int) -> Floats:
        """Return log values of solo parts, lower is better: one row each in the order of time, one column a metric."""
        sizes = rng.uniform(*self.noise, size=metrics)
        shared, own = rng.normal(size=(runs, 1)), rng.normal(size=(runs, metrics))
        noise = sizes * (math.sqrt(self.common) * shared + math.sqrt(1 - self.common) * own)
        step = rng.uniform(*self.drift) / math.sqrt(DRIFT_RUNS)
        wandered = np.cumsum(rng.normal(size=(runs, 1)), axis=0) * step
        disturbed = rng.random((runs, 1)) < self.outliers
        values: Floats = noise + wandered + disturbed * math.log1p(self.outlier)
        return values

    def duels(self, rng: np.random.Generator, blocks: int, metrics: int) -> tuple[Floats, Floats]:
        """Return log ratios of duels, one row a block, and the standard error within a block of each metric."""
        between, errors = rng.uniform(*self.between, size=metrics), rng.uniform(*self.within, size=metrics)
        shared, own = rng.normal(size=(blocks, 1)), rng.normal(size=(blocks, metrics))
        among = between * (math.sqrt(self.common) * shared + math.sqrt(1 - self.common) * own)
        jumped = 0.05 * rng.choice([-1, 1], size=(blocks, metrics)) * (rng.random((blocks, metrics)) < self.jumps)
        return among + jumped + errors * rng.normal(size=(blocks, metrics)), errors


def seconds(rng: np.random.Generator, blocks: int) -> list[bool]:
    """Draw for each block whether the candidate runs second: AB BA or BA AB, as the plan does."""
    drawn: list[bool] = []
    while len(drawn) < blocks:
        first = bool(rng.integers(2))
        drawn += [first, not first]
    return drawn[:blocks]


def interleave(values: Floats, second: Sequence[bool]) -> tuple[Floats, Floats]:
    """Return the values of the baseline and of the candidate, one row a block, from those in the order of time."""
    late = np.asarray(second, dtype=int)
    blocks = np.arange(len(late))
    return values[2 * blocks + 1 - late], values[2 * blocks + late]


def session(
    rng: np.random.Generator, machine: Machine, blocks: int, solo: float = 0.0, duel: float = 0.0, *, settings: int = 1
) -> list[Judged]:
    """Run and judge a session. In the first setting, the first primary metric of each part changes by so much."""
    samples = []
    for at in range(settings):
        changes = (0.0, 0.0) if at else (solo, duel)
        found = _setting(rng, machine, blocks, changes, range(at * blocks, (at + 1) * blocks))
        # Families are independent, and the tables of sweeps need the primary one alone.
        samples += found if settings == 1 else [sample for sample in found if sample.family == "primary"]
    return judge(samples, seed=int(rng.integers(2**31)))


def _setting(
    rng: np.random.Generator, machine: Machine, blocks: int, changes: tuple[float, float], numbers: Sequence[int]
) -> list[Sample]:
    second = seconds(rng, blocks)
    baseline, candidate = interleave(machine.runs(rng, 2 * blocks, sum(SOLO.values())), second)
    candidate[:, 0] += math.log1p(changes[0])
    ratios, errors = machine.duels(rng, blocks, sum(DUEL.values()))
    ratios[:, 0] += math.log1p(changes[1])
    ratios += machine.order * np.where(second, 1, -1)[:, None]
    mirrors = [at ^ 1 for at in range(blocks)] if blocks % 2 == 0 else []

    def sample(j: int, part: str, pairs: Sequence[Pair], ratios: Sequence[PairedRatio] = ()) -> Sample:
        sizes = SOLO if part == "solo" else DUEL
        family: Family = "primary" if j < sizes["primary"] else "secondary"
        of = (METRICS["load_cpu_seconds"], pairs, {"order": second}, family, THRESHOLDS[part])
        return Sample(*of, query_type=str(j), blocks=numbers, ratios=ratios, mirrors=mirrors)

    samples = []
    for j in range(sum(SOLO.values())):
        pairs = [(math.exp(b), math.exp(c)) for b, c in zip(baseline[:, j], candidate[:, j], strict=True)]
        samples.append(sample(j, "solo", pairs))
    for j, (given, error) in enumerate(zip(ratios.T.tolist(), errors.tolist(), strict=True)):
        own = [PairedRatio("candidate", "duel", "exchange", "", "", d, error, 1) for d in given]
        samples.append(sample(j, "duel", [(1.0, math.exp(d)) for d in given], own))
    return samples


def flagged(judged: Sequence[Judged], family: str) -> bool:
    """Say whether anything in a family has an adjusted p of 5 % or less."""
    return any(one.p_adj is not None and one.p_adj <= ALPHA for one in judged if one.sample.family == family)


def false_alarms(machine: Machine, blocks: int, sessions: int, seed: int, *, settings: int = 1) -> dict[str, float]:
    """Return the share of A/A sessions with any flag in a family, with any verdict of a change, and that pass."""
    rng = np.random.default_rng([seed, blocks, 0])
    found = [session(rng, machine, blocks, settings=settings) for _ in range(sessions)]
    alarms = [any(one.verdict in {"regression", "improvement"} for one in judged) for judged in found]
    shares = {family: float(np.mean([flagged(j, family) for j in found])) for family in ("primary", "secondary")}
    passed = [aa.verdict(_document(judged))["passed"] for judged in found]
    return {**shares, "verdict": float(np.mean(alarms)), "passes": float(np.mean(passed))}


def detection(
    machine: Machine, blocks: int, changed: tuple[str, float], sessions: int, seed: int, *, settings: int = 1
) -> dict[str, float]:
    """Return how often a change of one primary metric of a part is flagged, and is called a regression."""
    part, change = changed
    rng = np.random.default_rng([seed, blocks, round(change * 1000)])
    judged = (session(rng, machine, blocks, **{part: change}, settings=settings) for _ in range(sessions))
    # The first of its part is the one that changes.
    found = [next(one for one in of if one.sample.threshold == THRESHOLDS[part]) for of in judged]
    return {
        "flagged": float(np.mean([one.p_adj is not None and one.p_adj <= ALPHA for one in found])),
        "regression": float(np.mean([one.verdict == "regression" for one in found])),
    }


def _document(judged: Sequence[Judged]) -> dict[str, Any]:
    rows = [row(one) for one in judged]
    valid = {"candidate": {"valid": range(len(judged[0].sample.pairs))}}
    return {"rows": rows, "blocks": valid, "checks": {"failed": 0}}


def one_each(rng: np.random.Generator, machine: Machine, change: float) -> bool:
    """Return whether one run each differs by more than 5 % in any of three metrics."""
    values = machine.runs(rng, 2, 3)
    return bool((np.abs(values[1] + math.log1p(change) - values[0]) > _HABIT).any())


def one_after_the_other(rng: np.random.Generator, machine: Machine, change: float, runs: int = 8) -> bool:
    """Run the baseline, then the candidate, and make a Mann-Whitney test."""
    values = machine.runs(rng, 2 * runs, 1)[:, 0]
    p = mann_whitney_p(values[:runs].tolist(), (values[runs:] + math.log1p(change)).tolist())
    return p is not None and p <= ALPHA


def blocked(rng: np.random.Generator, machine: Machine, change: float, blocks: int = 8) -> bool:
    """Interleave solo parts, and make the signed-rank test of one metric."""
    baseline, candidate = interleave(machine.runs(rng, 2 * blocks, 1), seconds(rng, blocks))
    return signed_rank_p((candidate - baseline + math.log1p(change))[:, 0].tolist()) <= ALPHA


def until_it_pleases(rng: np.random.Generator, machine: Machine, change: float) -> bool:
    """Interleave too, but test after each block from the sixth on, and stop at the first p of 5 %."""
    baseline, candidate = interleave(machine.runs(rng, 2 * _MOST_BLOCKS, 1), seconds(rng, _MOST_BLOCKS))
    d = (candidate - baseline + math.log1p(change))[:, 0].tolist()
    return any(signed_rank_p(d[:n]) <= ALPHA for n in range(6, _MOST_BLOCKS + 1))


def duelled(rng: np.random.Generator, machine: Machine, change: float, blocks: int = 8) -> bool:
    """Exchange in every block, and make the signed-rank test of one metric."""
    return signed_rank_p((machine.duels(rng, blocks, 1)[0][:, 0] + math.log1p(change)).tolist()) <= ALPHA


Design = Callable[[np.random.Generator, Machine, float], bool]
DESIGNS: tuple[tuple[str, Design], ...] = (
    ("one run each, any of three metrics differs by more than 5 %", one_each),
    ("8 runs of the baseline, then 8 of the candidate, Mann-Whitney", one_after_the_other),
    ("interleaved blocks, stopping at the first p of 5 %", until_it_pleases),
    ("**8 interleaved blocks, solo**, signed-rank", blocked),
    ("**8 blocks with a duel**, signed-rank", duelled),
)
QUIET = Machine(noise=(0.005, 0.01), drift=(0.01, 0.02), outliers=0.0)
MACHINES = (("shared", Machine()), ("of its own", QUIET))
HARD = (
    ("nothing else", QUIET),
    ("who comes second is 0.6 % slower", replace(QUIET, order=0.006)),
    ("in a block of seven a metric jumps by 5 %", replace(QUIET, jumps=0.15)),
)
CHANGES = (0.0, 0.02, 0.05)
DETECTED = {"duel": (0.01, 0.02, 0.035), "solo": (0.03, 0.05, 0.10)}


def designs(sessions: int, seed: int) -> list[list[str]]:
    """Return the rows of the table of designs: how often each sees a change of 0, 2 and 5 %, in percent."""
    rows = []
    for at, (name, design) in enumerate(DESIGNS):
        rngs = [np.random.default_rng([seed, at, round(change * 1000)]) for change in CHANGES]
        seen = [
            np.mean([design(rng, Machine(), change) for _ in range(sessions)])
            for rng, change in zip(rngs, CHANGES, strict=True)
        ]
        rows.append([name, *(f"{100 * share:.0f}" for share in seen)])
    return rows


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)) + "\n"


def main() -> None:
    """Print the five tables of docs/validation.md."""
    parser = argparse.ArgumentParser(prog="tests/simulate.py", description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000, help="a cell; a quarter of it for detection rates")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(_table(["design", "false alarms %", "sees 2 %", "sees 5 %"], designs(given.sessions, given.seed)))
    rows = []
    for name, machine in MACHINES:
        for blocks in BLOCKS:
            found = false_alarms(machine, blocks, given.sessions, given.seed)
            rows.append([name, str(blocks), *(f"{100 * share:.1f}" for share in found.values())])
    header = ["any primary flag %", "any secondary flag %", "any regression or improvement %", "A/A passes %"]
    print(_table(["machine", "blocks", *header], rows))
    rows = []
    for part, changes in DETECTED.items():
        for blocks in BLOCKS:
            seen = [detection(Machine(), blocks, (part, c), given.sessions // 4, given.seed) for c in changes]
            cells = [
                f"{c:.1%}: {100 * one['flagged']:.0f} ({100 * one['regression']:.0f})"
                for c, one in zip(changes, seen, strict=True)
            ]
            rows.append([f"{part}, {blocks} blocks", *cells])
    print(_table(["a primary metric of", *("change: flagged (regression) %",) * 3], rows))
    print(
        _table(
            ["duel of 32 blocks", "any primary flag %", "sees 0.4 %", "half-width %", "interval holds the truth %"],
            hard(given.sessions, given.seed),
        )
    )
    header = ["sweep", "any primary flag %", "sees 2 % in one setting's duel %"]
    print(_table(header, sweeps(given.sessions // 4, given.seed)))


def hard(sessions: int, seed: int) -> list[list[str]]:
    """Return how often 32 blocks are wrong, and see 0.4 %, where order matters or some blocks jump."""
    rows = []
    for name, machine in HARD:
        alarms = false_alarms(machine, 32, sessions, seed)["primary"]
        rng = np.random.default_rng([seed, 32])
        judged = [session(rng, machine, 32, duel=0.004)[sum(SOLO.values())] for _ in range(sessions)]
        seen = np.mean([one.p_adj is not None and one.p_adj <= ALPHA for one in judged])
        intervals = [one.findings.ci95 for one in judged if one.findings.ci95]
        width = float(np.median([(ci.high - ci.low) / 2 for ci in intervals]))
        holds = float(np.mean([ci.low <= math.log1p(0.004) <= ci.high for ci in intervals]))
        rows.append([name, f"{100 * alarms:.1f}", f"{100 * seen:.0f}", f"{100 * width:.2f}", f"{100 * holds:.1f}"])
    return rows


def sweeps(sessions: int, seed: int) -> list[list[str]]:
    """Return the rows of the table of sweeps: false alarms over all, and how often one setting's change is seen."""
    rows = []
    for settings in SETTINGS:
        for blocks in BLOCKS:
            alarms = false_alarms(QUIET, blocks, sessions, seed, settings=settings)["primary"]
            seen = detection(QUIET, blocks, ("duel", 0.02), sessions, seed, settings=settings)["flagged"]
            rows.append([f"{settings} settings, {blocks} blocks each", f"{100 * alarms:.0f}", f"{100 * seen:.0f}"])
    return rows


if __name__ == "__main__":
    main()
