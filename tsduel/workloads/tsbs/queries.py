"""What is known of TSBS's use cases and query types before TSBS is asked.

TSBS prints `error: ...` and exits 0 for a name it does not know, and panics on a query window that is not
shorter than the data's, so both are checked when the experiment is read. Windows are in whole hours, read
from TSBS's cmd/tsbs_generate_queries/uses/devops at the pinned version.
"""

import re

# Only use cases whose samples can be counted beforehand: cpu-only writes 10 samples a line, of 10 series a host.
SAMPLES_PER_LINE = {"cpu-only": 10}
SERIES_A_HOST = 10
# Formats of data whose lines can be changed before they are stored (workload.data_kind).
LINE_FORMATS = ("victoriametrics", "influx")

PARTITION_INDEX_TYPES = (
    "single-groupby-1-1-1",
    "single-groupby-1-1-12",
    "single-groupby-1-8-1",
    "single-groupby-5-1-1",
    "single-groupby-5-1-12",
    "single-groupby-5-8-1",
    "cpu-max-all-1",
    "cpu-max-all-8",
    "double-groupby-1",
)
WINDOW_HOURS = {
    **dict.fromkeys(("cpu-max-all-1", "cpu-max-all-8"), 8),
    "cpu-max-all-32-24": 24,
    **dict.fromkeys(("double-groupby-1", "double-groupby-5", "double-groupby-all"), 12),
    **dict.fromkeys(("high-cpu-1", "high-cpu-all"), 12),
    **dict.fromkeys(("lastpoint", "groupby-orderby-limit"), 0),
}

# What they ask for may not be there: a host whose CPU was never so high.
MAY_BE_EMPTY = ("high-cpu-1", "high-cpu-all")


WINDOW_S = {"single-groupby": 60, "cpu-max-all": 3600, "double-groupby": 3600}
"""Seconds that a point of an answer stands for, by how the names of the query types begin."""


def point_s(query_type: str) -> int:
    """Return the seconds that a point of an answer stands for, 0 where that is not so."""
    return next((seconds for begins, seconds in WINDOW_S.items() if query_type.startswith(begins)), 0)


def window_hours(query_type: str) -> int:
    """Return the hours of data that one query of this type reads; ValueError for an unknown type."""
    if match := re.fullmatch(r"single-groupby-[15]-[18]-(1|12)", query_type):
        return int(match[1])
    if query_type not in WINDOW_HOURS:
        known = (*PARTITION_INDEX_TYPES[:6], *WINDOW_HOURS)
        raise ValueError(f"unknown query type {query_type!r}; allowed: {', '.join(known)}")
    return WINDOW_HOURS[query_type]
