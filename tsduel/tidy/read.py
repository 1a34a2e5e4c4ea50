"""Read the tables of tidy/; a UserError says what is wrong with them."""

from pathlib import Path

import numpy as np
import pandas as pd

from tsduel.core import tables
from tsduel.core.errors import UserError
from tsduel.core.metrics import Metric
from tsduel.core.rundir import Run
from tsduel.core.wording import number_of
from tsduel.tidy.blocks import MISSING
from tsduel.workloads.reading import reader


def read_table(run_dir: Path, name: str) -> pd.DataFrame:
    """Read a table of tidy/ by its name. Empty strings stay empty strings."""
    path, columns = run_dir / f"tidy/{name}.csv", getattr(tables, name.upper())
    if not path.exists():
        raise UserError(f"{path} is missing: run `make tidy` first")
    text = {column: str for column in columns if column not in tables.NUMBERS}
    try:
        table = pd.read_csv(path, keep_default_na=False, dtype=text)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: no such table: {reason}; `make tidy` writes this file again") from None
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise UserError(f"{path}:1: column {', '.join(missing)} is missing; `make tidy` writes this file again")
    for column in tables.NUMBERS & set(columns):
        numbers = pd.to_numeric(table[column], errors="coerce")
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            line = int(wrong.to_numpy().argmax())
            raise UserError(f"{path}:{line + 2}: {column} is {table[column].iloc[line]!r}, not a number")
        table[column] = numbers
    return table


def read_metrics(run: Run, measurements: pd.DataFrame) -> list[Metric]:
    """Return the metrics that a run has, in the order of a report."""
    units = read_table(run.path, "units")
    better = dict(zip(units["metric"].tolist(), units["better"].tolist(), strict=True))
    return reader(run.plan.kind).metrics(measurements["metric"].tolist(), better)


def refuse_duplicates(run_dir: Path, measurements: pd.DataFrame) -> None:
    """Raise where a block has two values of one metric."""
    again = measurements.duplicated(subset=["block", "variant", "part", "metric", "query_type"])
    if again.any():
        line = int(again.to_numpy().argmax())
        row = measurements.iloc[line]
        what = f"{row['metric']} {row['query_type']}".rstrip()
        path = run_dir / "tidy/measurements.csv"
        raise UserError(f"{path}:{line + 2}: block {row['block']:.0f}, {row['variant']} has a second value of {what}")


def refuse_older(run: Run, decided: pd.DataFrame) -> None:
    """Raise if blocks have come since tidy/ was made: a fetch brings more of a run that goes on."""
    known = set(decided["block"][decided["cause"] != MISSING].astype(int))
    if later := [block.block for block in run.blocks if block.block not in known]:
        raise UserError(
            f"{run.path}: {number_of(len(later), 'block')} came after tidy/ was made; first: make tidy compare report "
            f"RUN={run.path.name}"
        )
