"""From tidy/*.csv to pairs: which blocks count, and the values of both variants in each of them."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from tsduel.core.errors import UserError
from tsduel.core.metrics import GEOMEAN, Metric
from tsduel.core.rundir import Run
from tsduel.question.noise import COLUMNS as NOISE
from tsduel.question.noise import INVALID
from tsduel.stats.findings import Pair

MOST_CAUSES = 2
_NUMBERS = {"block", "position", "value", "elapsed_s", "begin", "end"}
_KEY = ["block", "variant", "metric", "query_type"]


@dataclass(frozen=True)
class Blocks:
    """Which blocks count, and why the others do not; `short`: more were spoilt from outside than spares replaced."""

    valid: list[int]
    dropped: dict[int, str] = field(default_factory=dict)
    short: bool = False


def read_table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Read a table of tidy/, or say what is wrong with it. Empty strings stay empty strings."""
    if not path.exists():
        raise UserError(f"{path} is missing: run `make tidy` first")
    text = {name: str for name in columns if name not in _NUMBERS}
    try:
        table = pd.read_csv(path, keep_default_na=False, dtype=text)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise UserError(f"{path}: no such table: {said}; `make tidy` writes this file again") from None
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise UserError(f"{path}:1: column {', '.join(missing)} is missing; `make tidy` writes this file again")
    for name in _NUMBERS & set(columns):
        numbers = pd.to_numeric(table[name], errors="coerce")
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            line = int(wrong.to_numpy().argmax())
            raise UserError(f"{path}:{line + 2}: {name} is {table[name].iloc[line]!r}, not a number")
        table[name] = numbers
    return table


def refuse_duplicates(path: Path, measurements: pd.DataFrame) -> None:
    """Raise where a round has two values of one metric: nobody can say which of them is right."""
    again = measurements.duplicated(subset=_KEY)
    if again.any():
        line = int(again.to_numpy().argmax())
        row = measurements.iloc[line]
        what = f"{row['metric']} {row['query_type']}".rstrip()
        raise UserError(f"{path}:{line + 2}: block {row['block']:.0f}, {row['variant']} has a second value of {what}")


def read_noise(path: Path) -> pd.DataFrame:
    """Read tidy/noise.csv; a run that was tidied before there was such a table recorded nothing that could be in it."""
    return read_table(path, NOISE) if path.exists() else pd.DataFrame(columns=list(NOISE))


def valid_blocks(
    run: Run, measurements: pd.DataFrame, checks: pd.DataFrame, noise: pd.DataFrame, candidate: str
) -> Blocks:
    """Find the planned blocks in which the baseline and this candidate have finished and nothing from outside spoilt.

    A spare block counts in place of one that was spoilt, and a block with a failed round is not replaced.
    """
    pair, dropped, valid = [run.variants[0], candidate], dict[int, str](), list[int]()
    unfinished = checks[(checks["check"] == "round_finished") & (checks["ok"] != "true")]
    keys = zip(unfinished["block"].tolist(), unfinished["variant"].tolist(), strict=True)
    failed = dict(zip(keys, unfinished["message"].tolist(), strict=True))
    measured = set(zip(measurements["block"], measurements["variant"], strict=True))
    planned = {int(line["block"]): line.get("kind", "measured") for line in run.planned if line.get("kind") != "warmup"}
    spoilt, open_places = _spoilt(noise), 0
    # What was looked at before it was decided to run more tests nothing.
    unplanned = "it is not in plan/rounds.tsv, which was drawn before the run"
    for block in sorted(set(planned) | {int(b) for b in measurements["block"].tolist() if b > 0}):
        spare = planned.get(block) == "spare"
        if spare and not any((block, variant) in failed or (block, variant) in measured for variant in pair):
            continue
        why = [
            f"{variant} failed: {failed[block, variant]}" if (block, variant) in failed else f"{variant} was not run"
            for variant in pair
            if (block, variant) in failed or (block, variant) not in measured
        ]
        if block not in planned:
            dropped[block] = unplanned
        elif why:
            dropped[block] = "; ".join(why)
        elif block in spoilt:
            dropped[block] = f"spoilt from outside: {spoilt[block]}"
            open_places += not spare
        elif spare and open_places == 0:
            dropped[block] = "a spare block, and no block was left for it to replace"
        else:
            valid.append(block)
            open_places -= spare
    return Blocks(valid, dropped, short=open_places > 0)


def _spoilt(noise: pd.DataFrame) -> dict[int, str]:
    """Map each block that an outside cause has spoilt to its causes in words."""
    if noise.empty:
        return {}
    causes = noise[noise["effect"] == INVALID]
    said: dict[int, list[str]] = {}
    for block, message in zip(causes["block"].tolist(), causes["message"].tolist(), strict=True):
        said.setdefault(int(block), []).append(message)
    return {block: _first(messages) for block, messages in said.items()}


def _first(messages: list[str]) -> str:
    more = f"; and {len(messages) - MOST_CAUSES} more in tidy/noise.csv" if len(messages) > MOST_CAUSES else ""
    return "; ".join(messages[:MOST_CAUSES]) + more


def values(measurements: pd.DataFrame, valid: list[int], pair: list[str]) -> dict[tuple[str, str], list[Pair]]:
    """Map each metric and query type that any round has to its pairs, one a valid block."""
    known = {
        (metric, query_type, int(block), variant): float(value)
        for metric, query_type, block, variant, value in zip(
            *(measurements[name].tolist() for name in ("metric", "query_type", "block", "variant", "value")),
            strict=True,
        )
    }
    return {
        name: [(known.get((*name, block, pair[0])), known.get((*name, block, pair[1]))) for block in valid]
        for name in dict.fromkeys((metric, query_type) for metric, query_type, _, _ in known)
    }


def geomean(per_type: dict[str, list[Pair]]) -> tuple[list[Pair], list[str]]:
    """Return the geometric mean by block over the types that have it in all blocks of both variants, and the others.

    Its log ratio is the mean of the types' log ratios, which is how MEASUREMENT.md 5.6 defines it.
    """
    whole = {t: pairs for t, pairs in per_type.items() if all(b and c and b > 0 and c > 0 for b, c in pairs)}
    columns = list(whole.values())
    blocks = range(len(next(iter(per_type.values()))))
    means: list[Pair] = [
        (_geometric([pairs[i][0] for pairs in columns]), _geometric([pairs[i][1] for pairs in columns]))
        if columns
        else (None, None)
        for i in blocks
    ]
    return means, [t for t in per_type if t not in whole]


def _geometric(values: list[float | None]) -> float:
    return math.exp(sum(math.log(value) for value in values if value) / len(values))


def candidate_second(measurements: pd.DataFrame, valid: list[int], pair: list[str]) -> list[bool]:
    """Say for each valid block whether the candidate's round came after the baseline's."""
    columns = (measurements[name].tolist() for name in ("block", "variant", "position"))
    position = {(int(block), variant): at for block, variant, at in zip(*columns, strict=True)}
    return [position[block, pair[1]] > position[block, pair[0]] for block in valid]


def touched(failures: pd.DataFrame, metric: Metric, query_type: str) -> str:
    """Say which failed checks touch a metric, or return an empty string.

    Lost samples or a server that died make every figure of the run doubtful; wrong or missing answers only those of
    their query type and what sums over types. A failed round is not here: it has dropped its block.
    """
    of_type = failures["query_type"]
    if metric.per_type and query_type != GEOMEAN:
        touching = failures[(of_type == "") | (of_type == query_type)]
    elif metric.per_type or metric.name == "cpu_seconds":
        touching = failures
    else:
        touching = failures[of_type == ""]
    if touching.empty:
        return ""
    return f"failed checks ({len(touching)}): {', '.join(sorted(set(touching['check'])))}"
