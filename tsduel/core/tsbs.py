"""Sections of a plan that only runs of databases have: the data and the queries."""

from typing import Literal

from tsduel.core.sections import MixedAsked, Part, QuerySettings, WorkloadAsked
from tsduel.core.target import Compared


class DataFile(Part):
    """One file of data: its TSBS format, and the key it is cached by."""

    format: str
    key: str


class Continued(Part):
    """Data of the same series after the first window, which an upgrade ingests on top of it."""

    start: str
    end: str
    lines: int
    samples: int
    data: tuple[DataFile, ...]


class Alone(Part):
    """Data of the same window and of more hosts, which each variant loads alone in the warm-up block."""

    scale: int
    lines: int
    samples: int
    estimated_bytes: int
    data: tuple[DataFile, ...]


class OwnData(Part):
    """The user's own data: the file as it was typed, and what it holds, in words."""

    path: str
    holds: str

    def __str__(self) -> str:
        """Return both as a sentence."""
        return f"{self.path}: {self.holds}"


class Workload(WorkloadAsked):
    """The data, counted: of TSBS, or of the user (`own_data`).

    `loader`: TSBS's, or our own, for lines that TSBS's cannot send (host/formats).
    """

    own_data: OwnData | None = None
    loader: Literal["tsbs", "own"] = "tsbs"
    interval_s: int
    lines: int
    samples: int
    estimated_bytes: int
    data: tuple[DataFile, ...]
    continued: Continued | None = None
    alone: Alone | None = None


class Mixed(MixedAsked):
    """The mixed part with the data that it writes: the window [start, end) right after the loaded window."""

    start: str
    end: str
    lines: int
    samples: int
    data: tuple[DataFile, ...]


class QueryType(Part):
    """One query type. `keys`: TSBS format, or FORMAT:FORM for a translation -> key of the file in the cache.

    Without `start` and `end` its queries are over the window of the first data; with them its name is
    TYPE@WINDOW. `window_s`: the seconds that a point of an answer stands for, or 0. `compared`: by target,
    how answers of another database are compared with the baseline's. `may_be_empty`: some answers may have no
    data, but not all, unless `quiet`. `own`: FILE:LINE of a query of the user, whose requests are in
    plan/requests.txt.gz under its key.
    """

    name: str
    seed: int
    keys: dict[str, str]
    start: str | None = None
    end: str | None = None
    may_be_empty: bool = False
    quiet: bool = False
    own: str = ""
    window_s: int = 0
    compared: dict[str, Compared] = {}


class Queries(QuerySettings):
    """The queries of a run; `windowed`: the same types over other windows.

    `alike`: we draw hosts and windows and put them into TSBS's queries, since TSBS draws them in another
    order for each database. Windows begin at whole minutes then. `left_out`: which of the user's queries
    cannot be asked, and why.
    """

    types: tuple[QueryType, ...]
    windowed: tuple[QueryType, ...] = ()
    alike: bool = False
    left_out: tuple[str, ...] = ()
