"""How often the designs are wrong: sessions on an imagined machine, judged by the code that judges real ones.

    python -m tsduel.stats.simulate [--sessions 2000] [--seed 1]

prints the tables of docs/method.md. A round's log value is the machine's noise (2 to 4 % a round, half of its variance
common to all metrics of the round), a random walk that has wandered by 5 to 10 % (one standard deviation) after 20
rounds, and in 3 % of the rounds a disturbance that makes everything 20 % worse. The same seed prints the same tables.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsduel.core.metrics import METRICS
from tsduel.stats import aa
from tsduel.stats.benchfmt import Compared
from tsduel.stats.findings import Pair, Sample
from tsduel.stats.power import ALPHA
from tsduel.stats.rows import details, row
from tsduel.stats.signedrank import Floats, mann_whitney_p, signed_rank_p
from tsduel.stats.verdict import Judged, judge

PRIMARY, SECONDARY = 3, 17
DRIFT_ROUNDS = 20
BLOCKS = (6, 8, 10, 12)
CHANGES = (0.03, 0.05, 0.10)
_THRESHOLD = 5.0
_HABIT = math.log(1.05)
_MOST_BLOCKS = 20


@dataclass(frozen=True)
class Machine:
    """What a machine does to a round, as shares; `noise` is drawn for each metric, `common` is the part all share."""

    noise: tuple[float, float] = (0.02, 0.04)
    common: float = 0.5
    drift: tuple[float, float] = (0.05, 0.10)
    outliers: float = 0.03
    outlier: float = 0.20

    def rounds(self, rng: np.random.Generator, rounds: int, metrics: int) -> Floats:
        """Return log values, lower is better: one row a round in the order of time, one column a metric."""
        sizes = rng.uniform(*self.noise, size=metrics)
        shared, own = rng.normal(size=(rounds, 1)), rng.normal(size=(rounds, metrics))
        noise = sizes * (math.sqrt(self.common) * shared + math.sqrt(1 - self.common) * own)
        step = rng.uniform(*self.drift) / math.sqrt(DRIFT_ROUNDS)
        wandered = np.cumsum(rng.normal(size=(rounds, 1)), axis=0) * step
        disturbed = rng.random((rounds, 1)) < self.outliers
        values: Floats = noise + wandered + disturbed * math.log1p(self.outlier)
        return values


def seconds(rng: np.random.Generator, blocks: int) -> list[bool]:
    """Draw for each block whether the candidate runs second: AB BA or BA AB, as the plan does."""
    drawn: list[bool] = []
    while len(drawn) < blocks:
        first = bool(rng.integers(2))
        drawn += [first, not first]
    return drawn[:blocks]


def interleave(values: Floats, second: Sequence[bool]) -> tuple[Floats, Floats]:
    """Return the rounds of the baseline and of the candidate, one row a block, from rounds in the order of time."""
    late = np.asarray(second, dtype=int)
    blocks = np.arange(len(late))
    return values[2 * blocks + 1 - late], values[2 * blocks + late]


def session(rng: np.random.Generator, machine: Machine, blocks: int, change: float = 0.0) -> list[Judged]:
    """Run and judge a session of 20 metrics, of which the first primary one changes by `change`."""
    second = seconds(rng, blocks)
    baseline, candidate = interleave(machine.rounds(rng, 2 * blocks, PRIMARY + SECONDARY), second)
    candidate[:, 0] += math.log1p(change)
    samples = []
    for j in range(PRIMARY + SECONDARY):
        pairs: list[Pair] = [(math.exp(b), math.exp(c)) for b, c in zip(baseline[:, j], candidate[:, j], strict=True)]
        samples.append(Sample(pairs, second, "lower", "primary" if j < PRIMARY else "secondary", _THRESHOLD))
    return judge(samples, seed=int(rng.integers(2**31)))


def flagged(judged: Sequence[Judged], family: str) -> bool:
    """Say whether anything in a family has an adjusted p of 5 % or less."""
    return any(one.p_adj is not None and one.p_adj <= ALPHA for one in judged if one.sample.family == family)


def false_alarms(machine: Machine, blocks: int, sessions: int, seed: int) -> dict[str, float]:
    """Return the share of A/A sessions with any flag in a family, and of those with any regression or improvement."""
    rng = np.random.default_rng([seed, blocks, 0])
    found = [session(rng, machine, blocks) for _ in range(sessions)]
    alarms = [any(one.verdict in {"regression", "improvement"} for one in judged) for judged in found]
    shares = {family: float(np.mean([flagged(j, family) for j in found])) for family in ("primary", "secondary")}
    return {**shares, "verdict": float(np.mean(alarms))}


def detection(machine: Machine, blocks: int, change: float, sessions: int, seed: int) -> dict[str, float]:
    """Return how often a change of one primary metric is flagged, is called a regression, or an equivalence."""
    rng = np.random.default_rng([seed, blocks, round(change * 1000)])
    first = [session(rng, machine, blocks, change)[0] for _ in range(sessions)]
    return {
        "flagged": float(np.mean([one.p_adj is not None and one.p_adj <= ALPHA for one in first])),
        "regression": float(np.mean([one.verdict == "regression" for one in first])),
        "equivalent": float(np.mean([one.verdict == "equivalent" for one in first])),
    }


def passes_aa(machine: Machine, blocks: int, sessions: int, seed: int) -> float:
    """Return the share of A/A sessions that pass on a machine where nothing but its noise is in the way."""
    rng = np.random.default_rng([seed, blocks, 1])
    return float(np.mean([aa.verdict(_document(session(rng, machine, blocks)))["passed"] for _ in range(sessions)]))


def _document(judged: Sequence[Judged]) -> dict[str, Any]:
    named = [Compared(METRICS["load_seconds"], str(at), "candidate", (), ()) for at in range(len(judged))]
    rows = [vars(row("baseline", what, one)) | details(one) for what, one in zip(named, judged, strict=True)]
    valid = {"candidate": {"valid": range(len(judged[0].sample.pairs))}}
    return {"rows": rows, "blocks": valid, "checks": {"failed": 0}}


def one_each(rng: np.random.Generator, machine: Machine, change: float, metrics: int = 1) -> bool:
    """One run each; "it differs by more than 5 %" in any of the metrics."""
    values = machine.rounds(rng, 2, metrics)
    return bool((np.abs(values[1] + math.log1p(change) - values[0]) > _HABIT).any())


def one_after_the_other(rng: np.random.Generator, machine: Machine, change: float, rounds: int) -> bool:
    """All rounds of the baseline, then all of the candidate, and a Mann-Whitney test."""
    values = machine.rounds(rng, 2 * rounds, 1)[:, 0]
    p = mann_whitney_p(values[:rounds].tolist(), (values[rounds:] + math.log1p(change)).tolist())
    return p is not None and p <= ALPHA


def blocked(rng: np.random.Generator, machine: Machine, change: float, blocks: int = 10) -> bool:
    """Interleaved blocks and the signed-rank test of one metric."""
    baseline, candidate = interleave(machine.rounds(rng, 2 * blocks, 1), seconds(rng, blocks))
    return signed_rank_p((candidate - baseline + math.log1p(change))[:, 0].tolist()) <= ALPHA


def until_it_pleases(rng: np.random.Generator, machine: Machine, change: float) -> bool:
    """Interleaved blocks too, but look after each from the sixth on, and stop at the first p of 5 %."""
    baseline, candidate = interleave(machine.rounds(rng, 2 * _MOST_BLOCKS, 1), seconds(rng, _MOST_BLOCKS))
    d = (candidate - baseline + math.log1p(change))[:, 0].tolist()
    return any(signed_rank_p(d[:n]) <= ALPHA for n in range(6, _MOST_BLOCKS + 1))


QUIET = Machine(noise=(0.015, 0.015), outliers=0.0)
STILL = Machine(noise=(0.007, 0.007), outliers=0.0)
NOISES = (("2 to 4 %", Machine()), ("1.5 %, quiet", QUIET), ("0.7 %, a machine of its own", STILL))
Design = Callable[[np.random.Generator, Machine, float], bool]
DESIGNS: tuple[tuple[str, str, Design, Machine], ...] = (
    ("one run each, one metric, differs by more than 5 %", "2", one_each, Machine()),
    ("one run each, any of three metrics", "2", lambda r, m, c: one_each(r, m, c, 3), Machine()),
    ("5 baseline, then 5 candidate, Mann-Whitney", "10", lambda r, m, c: one_after_the_other(r, m, c, 5), Machine()),
    ("10, then 10, Mann-Whitney", "20", lambda r, m, c: one_after_the_other(r, m, c, 10), Machine()),
    ("interleaved, stopping at the first p of 5 %", "12 to 40", until_it_pleases, Machine()),
    ("**10 interleaved blocks, signed-rank**", "20", blocked, Machine()),
    ("the same on a quiet machine (1.5 % noise, no disturbance)", "20", blocked, QUIET),
)


def designs(sessions: int, seed: int) -> list[list[str]]:
    """Return the rows of the table of designs: how often each sees a change of 0, 3 and 5 %, in percent."""
    rows = []
    for at, (name, rounds, design, machine) in enumerate(DESIGNS):
        cells = []
        for change in (0.0, 0.03, 0.05):
            rng = np.random.default_rng([seed, at, round(change * 1000)])
            cells.append(f"{100 * np.mean([design(rng, machine, change) for _ in range(sessions)]):.0f}")
        rows.append([name, rounds, *cells])
    return rows


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)) + "\n"


def _percents(*shares: float) -> list[str]:
    return [f"{100 * share:.1f}" for share in shares]


def main() -> None:
    """Print the three tables of docs/method.md."""
    parser = argparse.ArgumentParser(prog="python -m tsduel.stats.simulate", description=__doc__)
    parser.add_argument("--sessions", type=int, default=2000, help="a cell; a quarter of it for detection rates")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(_table(["design", "rounds", "false alarms %", "sees 3 %", "sees 5 %"], designs(given.sessions, given.seed)))
    rows = []
    for blocks in BLOCKS:
        found = false_alarms(Machine(), blocks, given.sessions, given.seed)
        rows.append([str(blocks), *_percents(found["primary"], found["secondary"], found["verdict"])])
    print(_table(["blocks", "any primary flag %", "any secondary flag %", "any regression or improvement %"], rows))
    header = ["blocks", "noise", *(f"{change:.0%} flagged (regression)" for change in CHANGES)]
    rows = []
    for name, machine in NOISES[:2]:
        for blocks in BLOCKS:
            seen = [detection(machine, blocks, change, given.sessions // 4, given.seed) for change in CHANGES]
            cells = [f"{100 * one['flagged']:.0f} ({100 * one['regression']:.0f})" for one in seen]
            rows.append([str(blocks), name, *cells])
    print(_table(header, rows))
    rows = []
    for name, machine in NOISES:
        passed = [passes_aa(machine, blocks, given.sessions // 4, given.seed) for blocks in BLOCKS]
        rows.append([name, *(f"{100 * share:.0f}" for share in passed)])
    print(_table(["noise", *(f"A/A passes %, {blocks} blocks" for blocks in BLOCKS)], rows))


if __name__ == "__main__":
    main()
