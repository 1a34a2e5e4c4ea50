"""The names that each target database gives to what we want to know: one table a database, and the only one.

A new database is one more entry in `TARGETS`. `tsduel_*` names are ours, read
from the kernel by scripts/scrape-metrics, and the same for every database.
"""

import re
from dataclasses import dataclass, field

from tsduel.core.errors import UserError


@dataclass(frozen=True, eq=False)  # compared by identity: they are looked up a million times a run
class Counter:
    """A sum over all samples called `name` whose labels match every regular expression of `labels` in full."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)

    def matches(self, name: str, labels: dict[str, str]) -> bool:
        """Say whether a sample belongs to this sum."""
        return name == self.name and all(
            re.fullmatch(pattern, labels.get(label, "")) for label, pattern in self.labels.items()
        )


@dataclass(frozen=True)
class Target:
    """What one database calls its counters; None where it has none of that kind.

    `inserted` counts samples the protocol handler accepted, `stored` samples the storage took, `ignored` and `invalid`
    what was thrown away on the way. `rows_read` and `rows_read_queries` prove that queries touched data.
    `answer_marks` are (a mark every good answer has once, a mark of an answer without data, a regular expression of
    what may differ between two equal answers), as bytes of a pretty-printed body.
    """

    inserted: Counter
    stored: Counter
    ignored: Counter
    invalid: Counter
    rows_read: Counter
    rows_read_queries: Counter
    slow_inserts: Counter
    merges: Counter
    rows_merged: Counter
    rows_kept: Counter
    bytes_kept: Counter
    cache_requests: Counter
    cache_misses: Counter
    gc_cpu: Counter
    parts: Counter
    pending_rows: Counter
    active_merges: Counter
    requests: Counter
    answer_marks: tuple[bytes, bytes, bytes]
    panic: str


TARGETS: dict[str, Target] = {
    "victoriametrics": Target(
        inserted=Counter("vm_rows_inserted_total", {"type": "influx"}),
        stored=Counter("vm_rows_added_to_storage_total"),
        ignored=Counter("vm_rows_ignored_total"),
        invalid=Counter("vm_rows_invalid_total"),
        rows_read=Counter("vm_rows_read_per_query_sum"),
        rows_read_queries=Counter("vm_rows_read_per_query_count"),
        slow_inserts=Counter("vm_slow_row_inserts_total"),
        merges=Counter("vm_merges_total"),
        rows_merged=Counter("vm_rows_merged_total", {"type": "storage/.*"}),
        rows_kept=Counter("vm_rows", {"type": "storage/.*"}),
        bytes_kept=Counter("vm_data_size_bytes"),
        cache_requests=Counter("vm_cache_requests_total", {"type": "(storage|indexdb)/.*"}),
        cache_misses=Counter("vm_cache_misses_total", {"type": "(storage|indexdb)/.*"}),
        gc_cpu=Counter("go_gc_cpu_seconds_total"),
        parts=Counter("vm_parts", {"type": "storage/.*"}),
        pending_rows=Counter("vm_pending_rows"),
        active_merges=Counter("vm_active_merges"),
        requests=Counter("vm_http_requests_total", {"path": "/api/v1/query_range"}),
        # VictoriaMetrics answers {"status": "success", ... "result": [] ... "stats": {"executionTimeMsec": 5}}
        answer_marks=(b'"status": "success"', b'"result": []', rb'"executionTimeMsec": \d+'),
        panic=r"\bpanic\b|\tfatal\t|fatal error:",
    ),
}

CPU_USER = Counter("tsduel_process_cpu_seconds_total", {"mode": "user"})
CPU_SYSTEM = Counter("tsduel_process_cpu_seconds_total", {"mode": "system"})
RSS = Counter("tsduel_process_resident_memory_bytes")
RSS_PEAK = Counter("tsduel_process_resident_memory_peak_bytes")
MAJOR_FAULTS = Counter("tsduel_process_major_faults_total")
IO_READ = Counter("tsduel_process_io_read_bytes_total")
IO_WRITTEN = Counter("tsduel_process_io_written_bytes_total")
STORAGE_READ = Counter("tsduel_process_io_storage_read_bytes_total")
STORAGE_WRITTEN = Counter("tsduel_process_io_storage_written_bytes_total")
OURS = (CPU_USER, CPU_SYSTEM, RSS, RSS_PEAK, MAJOR_FAULTS, IO_READ, IO_WRITTEN, STORAGE_READ, STORAGE_WRITTEN)


def target(name: str) -> Target:
    """Return the table of a database, or say which ones there are."""
    try:
        return TARGETS[name]
    except KeyError:
        known = ", ".join(sorted(TARGETS))
        raise UserError(
            f"tsduel/targets/counters.py knows no database {name!r}, only {known}: add an entry to TARGETS"
        ) from None


def counters_of(database: Target) -> tuple[Counter, ...]:
    """Every counter that tidy looks at for a database: ours and its own."""
    own = tuple(value for value in vars(database).values() if isinstance(value, Counter))
    return OURS + own
