"""Facts about TSBS's use cases and query types.

For an unknown name TSBS prints `error: ...` and exits with 0; it panics if the window of a query is not shorter than
the data's. So both are checked when the experiment is read.
"""

from tsduel.core.wording import allowed

SAMPLES_PER_LINE = {"cpu-only": 10}
"""Use cases with a known number of samples a line; cpu-only writes 10 samples a line, of 10 series a host."""
SERIES_A_HOST = 10
LINE_FORMATS = ("victoriametrics", "influx")
"""Formats of data whose lines can be changed before they are stored (workload.data_kind)."""

PARTITION_INDEX_TYPES = (
    *("single-groupby-1-1-1", "single-groupby-1-1-12", "single-groupby-1-8-1"),
    *("single-groupby-5-1-1", "single-groupby-5-1-12", "single-groupby-5-8-1"),
    *("cpu-max-all-1", "cpu-max-all-8", "double-groupby-1"),
)
WINDOW_HOURS = {
    "single-groupby-1-1-1": 1, "single-groupby-1-1-12": 12, "single-groupby-1-8-1": 1,
    "single-groupby-5-1-1": 1, "single-groupby-5-1-12": 12, "single-groupby-5-8-1": 1,
    "cpu-max-all-1": 8, "cpu-max-all-8": 8, "cpu-max-all-32-24": 24,
    "double-groupby-1": 12, "double-groupby-5": 12, "double-groupby-all": 12,
    "high-cpu-1": 12, "high-cpu-all": 12, "lastpoint": 0, "groupby-orderby-limit": 0,
}  # fmt: skip
"""Whole hours of data that one query reads, from cmd/tsbs_generate_queries/uses/devops of the pinned TSBS."""
MAY_BE_EMPTY = ("high-cpu-1", "high-cpu-all")
"""Types whose answer may have no data: no CPU of the host was ever so high."""
WINDOW_S = {"single-groupby": 60, "cpu-max-all": 3600, "double-groupby": 3600}
"""Seconds that a point of an answer stands for, by the beginning of the query type's name."""


def point_s(query_type: str) -> int:
    """Return the seconds that a point of an answer stands for, 0 for a type without windows."""
    return next((seconds for begin, seconds in WINDOW_S.items() if query_type.startswith(begin)), 0)


def window_hours(query_type: str) -> int:
    """Return the hours of data that one query of this type reads; ValueError for an unknown type."""
    if query_type not in WINDOW_HOURS:
        raise ValueError(f"unknown query type {query_type!r}; {allowed(query_type, WINDOW_HOURS)}")
    return WINDOW_HOURS[query_type]
