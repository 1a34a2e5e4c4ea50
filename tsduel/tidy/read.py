"""Read the tables of tidy/, or say what is wrong with them."""

from pathlib import Path

import numpy as np
import pandas as pd

from tsduel.core.errors import UserError
from tsduel.core.tables import NUMBERS

_KEY = ["cell", "block", "variant", "part", "metric", "query_type"]


def read_table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Read a table of tidy/. Empty strings stay empty strings."""
    if not path.exists():
        raise UserError(f"{path} is missing: run `make tidy` first")
    text = {name: str for name in columns if name not in NUMBERS}
    try:
        table = pd.read_csv(path, keep_default_na=False, dtype=text)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise UserError(f"{path}: no such table: {said}; `make tidy` writes this file again") from None
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise UserError(f"{path}:1: column {', '.join(missing)} is missing; `make tidy` writes this file again")
    for name in NUMBERS & set(columns):
        numbers = pd.to_numeric(table[name], errors="coerce")
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            line = int(wrong.to_numpy().argmax())
            raise UserError(f"{path}:{line + 2}: {name} is {table[name].iloc[line]!r}, not a number")
        table[name] = numbers
    return table


def refuse_duplicates(path: Path, measurements: pd.DataFrame) -> None:
    """Raise where a block has two values of one metric: nobody can say which of them is right."""
    again = measurements.duplicated(subset=_KEY)
    if again.any():
        line = int(again.to_numpy().argmax())
        row = measurements.iloc[line]
        what = f"{row['metric']} {row['query_type']}".rstrip()
        raise UserError(f"{path}:{line + 2}: block {row['block']:.0f}, {row['variant']} has a second value of {what}")
