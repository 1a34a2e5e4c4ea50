"""The columns of every table between two stages, and how tables are written."""

import csv
from collections.abc import Iterable
from typing import Any, TextIO

# which variant comes first in a block: in loads alone, in places and starts, in readings, in operations
COINS = ("order", "start", "read", "ask")
# plan/blocks.tsv; coins and query_types are lists with commas; a spare block has no coins
BLOCKS_TSV = ("block", "host", "kind", *COINS, "query_types")

# tidy/*.csv
MEASUREMENTS = ("block", "variant", "part", "phase", "query_type", "metric", "value", "unit")
PAIRS = (
    *("block", "candidate", "part", "phase", "query_type", "metric", "log_ratio", "se", "n"),
    *("sittings", "sitting_sd", "second_effect"),
)
TIMESERIES = ("block", "variant", "part", "phase", "query_type", "elapsed_s", "metric", "value")
DISTRIBUTIONS = ("variant", "query_type", "quantile", "value_ms", "n")
# quantiles of all operations at fixed rates, over the blocks that count; `rate`: operations a second,
# `operation`: query or batch, `time`: response, service or lateness
RESPONSES = ("variant", "part", "rate", "operation", "time", "quantile", "value_ms", "n")
CHECKS = ("block", "variant", "phase", "query_type", "check", "expected", "actual", "ok", "message")
NOISE = (
    *("block", "variant", "phase", "query_type"),
    *("signal", "value", "unit", "limit", "effect", "message"),
)
# which blocks count for which candidate, and on which `host` they ran; a coin says whether the candidate came
# after the baseline, and is empty if the block has no such coin
BLOCKS = ("block", "candidate", "host", "kind", "counts", "cause", *COINS, "reason")
# a soak, window after window: each `life` (epoch seconds) is one start of the servers, also of a block that a kill
# has cut off; `limit`: the most that the machine, or `limits:`, lets it have; empty if there is none
WINDOWS = ("block", "variant", "life", "elapsed_s", "metric", "value", "limit")
PHASES = ("block", "variant", "part", "phase", "query_type", "begin", "end")
UNITS = ("metric", "better")
# costs of functions in profiles, of all `operations` of `hosts` together; `sample`: cpu, alloc_space,
# inuse_space or delay; `own`: the function and Go's own library below it; `total`: with all functions that it
# calls. A row without a function is the whole profile; a profile that failed has only a message
PROFILES = (
    *("variant", "work", "role", "kind", "sample", "unit", "period", "operations", "hosts"),
    *("function", "own", "total", "message"),
)

# stats/comparison.csv
COMPARISON = (
    *("candidate", "metric", "query_type", "unit", "better", "baseline_median", "candidate_median"),
    *("baseline_pseudomedian", "candidate_pseudomedian"),
    *("change_pct", "lo_pct", "hi_pct", "p", "p_adj", "blocks", "mde_pct", "blocks_needed"),
    *("within_pct", "sitting_pct", "between_pct", "second_effect_pct", "hosts", "hosts_pct", "hosts_p"),
    *("verdict", "warnings"),
)

# Columns of numbers; all others are text, also `se` and `sitting_sd`, which may be empty.
NUMBERS = {
    *("block", "value", "elapsed_s", "begin", "end", "log_ratio", "n", "quantile", "value_ms", "rate", "sittings"),
    *("period", "operations", "hosts", "own", "total", "life"),
}

_EXECUTED = ("=", "+", "-", "@")
"""With these a formula begins, also behind blanks; a spreadsheet executes it when it opens a table."""


def cell(value: Any) -> Any:
    """Return a value as a table has it: what a spreadsheet would execute begins with an apostrophe, so that it is text.

    Names of ours never begin so: they are refused when they are read in. What measured programs say may.
    """
    if not isinstance(value, str):
        return value
    value = value.replace("\r", " ")  # it would begin a row, and Python's csv does not quote it
    if not value.lstrip().startswith(_EXECUTED):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


class Writer:
    """Writes rows of a CSV file."""

    def __init__(self, stream: TextIO, delimiter: str = ",") -> None:
        self._table = csv.writer(stream, delimiter=delimiter, lineterminator="\n")

    def writerow(self, row: Iterable[Any]) -> None:
        """Write one."""
        self._table.writerow(map(cell, row))

    def writerows(self, rows: Iterable[Iterable[Any]]) -> None:
        """Write several."""
        self._table.writerows(map(cell, row) for row in rows)


def csv_of(frame: Any) -> str:
    """Return the text of a CSV file of a pandas table."""
    text: str = frame.map(cell).to_csv(index=False, float_format="%.10g", lineterminator="\n")
    return text
