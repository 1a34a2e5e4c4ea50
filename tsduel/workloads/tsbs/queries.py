"""What is known of TSBS's use cases and query types before TSBS is asked.

TSBS prints `error: ...` and exits 0 for a name it does not know, and panics on a query window that is not
shorter than the data's, so both are checked when the experiment is read. Windows are in whole hours, read
from TSBS's cmd/tsbs_generate_queries/uses/devops at the pinned version.
"""

from __future__ import annotations

import re

# Only use cases whose samples can be counted beforehand: cpu-only writes 10 samples a line.
USE_CASES = ("cpu-only",)
SAMPLES_PER_LINE = {"cpu-only": 10}
LINE_BYTES = 347

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

# Of the types that TSBS knows, the victoriametrics format has these; lastpoint, high-cpu-* and
# groupby-orderby-limit panic.
QUERY_TYPES = (
    *PARTITION_INDEX_TYPES[:8],
    "cpu-max-all-32-24",
    "double-groupby-1",
    "double-groupby-5",
    "double-groupby-all",
)


def window_hours(query_type: str) -> int:
    """Return the hours of data that one query of this type reads; ValueError for an unknown type."""
    if query_type not in QUERY_TYPES:
        raise ValueError(f"unknown query type {query_type!r}; allowed: {', '.join(QUERY_TYPES)}")
    if query_type == "cpu-max-all-32-24":
        return 24
    if query_type.startswith("cpu-max-all"):
        return 8
    if query_type.startswith("double-groupby"):
        return 12
    match = re.fullmatch(r"single-groupby-\d+-\d+-(\d+)", query_type)
    assert match is not None  # noqa: S101 - QUERY_TYPES holds nothing else
    return int(match[1])
