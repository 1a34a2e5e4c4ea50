"""Sections that an experiment and its plan share: fields, defaults, and allowed values.

They are strict and frozen and refuse unknown keys. tsduel.workloads checks what only TSBS or Go knows.
"""

import itertools
import re
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from tsduel.core import defaults, yamls

INTERVAL = re.compile(r"^([1-9][0-9]*)(s|m|h)$")
SECONDS = {"s": 1, "m": 60, "h": 3600}
MOST_BLOCKS = 99
MOST_OPERATIONS = 10_000_000  # of a phase at a fixed rate
LEAST_WINDOWS = 12

Percent = Annotated[float, Field(gt=0, le=1000)]
Seconds = Annotated[int, Field(ge=1, le=366 * 86_400)]
Source = Literal["module", "git", "path", "binary", "url"]
GoVersion = Annotated[str, Field(pattern=r"^(local|go1\.[0-9]+(\.[0-9]+)?)$")]
OFF = BeforeValidator(lambda value: "off" if value is False else value)  # YAML reads `off` as false
# So that `GOGC: 50` is taken; what YAML may have changed (010, 1.10, off) has to be quoted.
Word = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
ProfileKind = Literal["cpu", "heap", "block"]
"""Profiles of a server's pprof endpoint."""


def first_error(error: ValidationError) -> str:
    """Return the field and the message of the first error."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def listed(value: object) -> object:
    """Read `cpu,heap` as a list, and make a list a tuple of different values, as strict mode needs."""
    values = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    return tuple(dict.fromkeys(values)) if isinstance(values, list) else values


class Part(BaseModel):
    """A section: strict and frozen, without unknown keys."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ComponentAsked(Part):
    """Where a program comes from and how it is started, with `files` (name -> text); with `url` it runs already."""

    role: str = "server"
    source: Source = "module"
    ref: str = ""
    repo: str = ""
    path: str = ""
    url: str = ""
    go: GoVersion = "local"
    flags: tuple[str, ...] = ()
    env: dict[str, Word] = {}
    files: dict[str, str] = {}


class Churn(Part):
    """Series that come and go: `pct` of the hosts get another name every `every_s` seconds of data.

    Only in the data that `mixed` writes, since queries name the hosts of the loaded data.
    """

    pct: Annotated[float, Field(gt=0, le=100)]
    every_s: Seconds


class Shape(Part):
    """Data of the kind that agents send, made from workload.seed: each of `scale` targets is scraped every `interval`.

    A target has so many gauges, counters, and histograms of 14 series. `labels` of each series are beside job, instance
    and pod. `escaped_pct` of their values have characters that need escaping; with `churn` targets get another pod.
    """

    format: Literal["exposition", "influx"] = "exposition"
    gauges: Annotated[int, Field(ge=0, le=10_000)] = 20
    counters: Annotated[int, Field(ge=0, le=10_000)] = 20
    histograms: Annotated[int, Field(ge=0, le=1000)] = 2
    labels: Annotated[int, Field(ge=0, le=100)] = 3
    value_length: Annotated[int, Field(ge=1, le=1000)] = 12
    escaped_pct: Annotated[float, Field(ge=0, le=100)] = 0
    churn: Churn | None = None

    @model_validator(mode="after")
    def _has_series(self) -> Self:
        if self.gauges + self.counters + self.histograms == 0:
            raise ValueError("a target has no series: gauges, counters or histograms of at least 1")
        return self


class WorkloadAsked(Part):
    """The data: TSBS use case, simulated hosts, fixed window [start, end), interval, seed, loader.

    A batch has `batch_size` lines. host/workload/kinds.go changes TSBS's lines into `data_kind`. `file`: data of the
    user in place of TSBS's; then use_case, scale, start, end, interval and seed say nothing. `shape`: data of the same
    window, interval and seed that look as agents send them.
    """

    file: str = ""
    shape: Shape | None = None
    use_case: str = "cpu-only"
    scale: Annotated[int, Field(ge=1, le=10_000_000)] = 4000
    start: str = "2025-06-10T00:00:00Z"
    end: str = "2025-06-11T00:00:00Z"
    interval: str = "80s"
    data_kind: Literal["regular", "irregular", "high-variance"] = "regular"
    seed: Annotated[int, Field(ge=1, lt=2**63)] = 8428  # 0 would mean "the current time" to TSBS
    workers: Annotated[int, Field(ge=1, le=1024)] = 4
    batch_size: Annotated[int, Field(ge=1)] = 10_000
    # Of a cluster: batches and queries go to so many tenants in turn.
    tenants: Annotated[int, Field(ge=1, le=16)] = 1
    churn: Churn | None = None
    # Hosts of a large load of each variant alone in the warm-up block; for design.load: in_turn, which has no other.
    solo_scale: Annotated[int, Field(ge=1, le=10_000_000)] | None = None

    @field_validator("start", "end")
    @classmethod
    def _utc_time(cls, value: str) -> str:
        """Change RFC 3339 in whole seconds to UTC."""
        try:
            when = datetime.fromisoformat(value)
            in_utc = when.astimezone(UTC)
        except (ValueError, OverflowError):
            raise ValueError("not a time; write it like 2025-06-10T00:00:00Z") from None
        if when.tzinfo is None or when.microsecond:
            raise ValueError("write the time in whole seconds with its zone, like 2025-06-10T00:00:00Z")
        return in_utc.strftime("%Y-%m-%dT%H:%M:%SZ")

    @field_validator("interval")
    @classmethod
    def _interval(cls, value: str) -> str:
        if not INTERVAL.fullmatch(value):
            raise ValueError("write it like 80s, 1m or 1h")
        return value

    @property
    def step_s(self) -> int:
        """Seconds between two samples of a series."""
        number, unit = INTERVAL.fullmatch(self.interval).groups()  # type: ignore[union-attr]  # validated
        return int(number) * SECONDS[unit]

    @property
    def window_s(self) -> int:
        """Length of the data's window in seconds."""
        return int((datetime.fromisoformat(self.end) - datetime.fromisoformat(self.start)).total_seconds())

    @model_validator(mode="after")
    def _window(self) -> Self:
        if self.window_s < self.step_s:
            raise ValueError(f"the window {self.start} to {self.end} is shorter than one interval of {self.interval}")
        return self


OWN_QUERIES = ("file", "log", "rules", "dashboard", "values")
# `SET="queries.file="` takes the experiment's away.
Unset = Annotated[str, BeforeValidator(lambda path: "" if path is None else path)]


class QuerySettings(Part):
    """Queries of all parts and of the solo closed loop: clients, queries a type, state of the caches.

    Without `count` the warm-up block finds it. `file`, `log`, `rules` and `dashboard` are paths of files with the
    user's own queries, which are then asked in place of TSBS's, with `values` of their placeholders
    (docs/own-queries.md).
    """

    file: Unset = ""
    log: Unset = ""
    rules: Unset = ""
    dashboard: Unset = ""
    values: Annotated[dict[str, Annotated[tuple[str, ...], Field(min_length=1)]], BeforeValidator(yamls.texts)] = {}
    solo: bool = False
    workers: Annotated[int, Field(ge=1, le=1024)] = 4
    count: Annotated[int, Field(ge=1)] | None = None
    seconds: Annotated[float, Field(gt=0, le=3600)] = 15.0
    max_count: Annotated[int, Field(ge=20)] = 30_000
    cache: Annotated[Literal["as-loaded", "cold", "warm", "off"], OFF] = "as-loaded"
    seed: Annotated[int, Field(ge=1, lt=2**63)] = 8428


class Duel(Part):
    """All variants resident, one operation to each in turn (docs/blocks.md); seconds are of one query type.

    `hold`: all processes of a variant stand still while another one is asked. A type has `min_exchanges`, or as many as
    fit into `max_seconds`, but at least `floor_exchanges`. `sittings`: of a block, each with a part of the seconds;
    `load_sittings`: the same for batches. `batches`: before the queries, exchange batches of data for `load_s` seconds
    (None: all data), into directories that are removed afterwards. `counters`: read the database's counters for each
    query type, or once a sitting (`duel`), since some databases repeat an answer for a second and each reading has to
    wait. `work`: the query types whose counters are read at their own edges in a block's first sitting (docs/work.md).
    None: `duel` where that is enough, a `third` where each type gets six blocks; a plan never has None.
    """

    enabled: bool = True
    seconds: Annotated[float, Field(gt=0, le=3600)] = 2.0
    min_exchanges: Annotated[int, Field(ge=1)] = 64
    sittings: Annotated[int, Field(ge=1, le=64)] = 4
    max_seconds: Annotated[float, Field(gt=0, le=3600)] = 10.0
    floor_exchanges: Annotated[int, Field(ge=4)] = 16
    in_flight: Annotated[int, Field(ge=1, le=1024)] = 1
    hold: bool = True
    batches: bool = False
    load_s: Annotated[float, Field(gt=0, le=3600)] | None = 5.0
    load_sittings: Annotated[int, Field(ge=1, le=16)] = 2
    idle_s: Annotated[float, Field(ge=0, le=600)] = 1.0
    counters: Literal["type", "duel"] | None = None
    work: Annotated[Literal["off", "third", "all"] | None, OFF] = None
    most_differences: Annotated[int, Field(ge=1)] = 100


class Rates(Part):
    """An open loop: the starts of operations are fixed beforehand; `seconds` is one phase.

    Queries of `types` (default: all) come in turn. Each kind of operation has `connections`. A phase is void
    if the client itself starts more than `late_pct` of the operations over `late_ms` too late.
    """

    seconds: Annotated[float, Field(ge=1, le=3600)]
    types: tuple[str, ...] = ()
    arrivals: Literal["poisson", "constant"] = "poisson"
    connections: Annotated[int, Field(ge=1, le=1024)] = 64
    late_ms: Annotated[float, Field(gt=0, le=1000)] = 1.0
    late_pct: Annotated[float, Field(gt=0, le=100)] = 1.0

    @field_validator("types")
    @classmethod
    def _once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a query type is named twice")
        return value


class MixedAsked(Rates):
    """Lines and queries at once: `ingest` samples/s in batches of `batch_size` lines, `queries` queries/s.

    `queries` is 0 for the rate of the groups of queries.rules, in an experiment; a plan never has 0. With `window_s`
    it is a soak: memory, CPU, disk, open files and p99 are told after each such window.
    """

    seconds: Annotated[float, Field(ge=1, le=14 * 86_400)] = 20.0
    ingest: Annotated[float, Field(gt=0, le=1e9)]
    queries: Annotated[float, Field(ge=0, le=1e6)] = 0
    batch_size: Annotated[int, Field(ge=1)] = 100
    window_s: Annotated[float, Field(ge=0.1, le=3600)] | None = None

    @model_validator(mode="after")
    def _countable(self) -> Self:
        if self.window_s and self.seconds < LEAST_WINDOWS * self.window_s:
            raise ValueError(f"window_s: a slope is of {LEAST_WINDOWS} windows at least: fewer seconds each")
        few_operations(self.queries * self.seconds)
        return self


class CapacityAsked(Rates):
    """A ladder of `rates` in queries/s; the capacity has `percentile` of response times `within_ms`."""

    seconds: Annotated[float, Field(ge=1, le=3600)] = 3.0
    rates: Annotated[tuple[Annotated[float, Field(gt=0, le=1e6)], ...], Field(min_length=2, max_length=50)]
    percentile: Literal["p50", "p90", "p99", "p999"] = "p99"
    within_ms: Annotated[float, Field(gt=0, le=60_000)]

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if any(b <= a for a, b in itertools.pairwise(self.rates)):
            raise ValueError("rates: each has to be higher than the one before it")
        few_operations(max(self.rates) * self.seconds)
        return self


def few_operations(count: float) -> None:
    """Refuse a phase with more operations than can be sent or stored."""
    if count > MOST_OPERATIONS:
        raise ValueError(
            f"{count:,.0f} queries in one phase; {MOST_OPERATIONS:,} at most: a lower rate or fewer seconds"
        )


class Settle(Part):
    """When a loaded database is quiet: for `polls` polls in a row, `poll_s` seconds apart.

    `merged` makes it merge its data then: the number of parts is chance, and one part or two made a difference of 20 %
    for queries that read much. `drain: false` merges at once and does not measure how long the database takes to get
    quiet by itself (at least 5 s for VictoriaMetrics, which keeps parts in memory for that time).
    """

    mode: Literal["natural", "merged"] = "merged"
    drain: bool = True
    timeout_s: Seconds = 600
    polls: Seconds = 3
    poll_s: Seconds = 1


class Design(Part):
    """Number and order of the blocks, fixed in the plan. At most a quarter more are spare blocks, the default.

    `load: in_turn`: all data are loaded in turn, and queries are over them. `start_from: baseline`: the baseline
    loads, and every variant starts on a copy of its data; `loaded_by: baseline` is the same without an upgrade, with
    `reload: once`. `judged: duel`: the solo part only prepares the duel; its figures are shown without a verdict.
    `work`: so are time and CPU, and counted work is judged alone.
    """

    blocks: Annotated[int, Field(ge=1, le=MOST_BLOCKS)] = 8
    warmup_blocks: Annotated[int, Field(ge=0, le=1)] = 1
    spare_blocks: int = Field(ge=0, default_factory=lambda checked: checked.get("blocks", 0) // 4)
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    max_failed_blocks: Annotated[int, Field(ge=0)] = 2
    load: Literal["solo", "in_turn"] = "solo"
    reload: Literal["every", "once"] = "every"
    loaded_by: Literal["each", "baseline"] = "each"
    start_from: Literal["empty", "baseline"] = "empty"
    judged: Literal["all", "duel", "work"] = "all"
    thresholds: dict[str, Annotated[float, Field(gt=0, lt=100)]] = {}

    @model_validator(mode="after")
    def _few_spares(self) -> Self:
        if self.spare_blocks > self.blocks // 4:
            raise ValueError(f"spare_blocks: a quarter of the blocks at most, {self.blocks // 4} here")
        return self

    @property
    def planned(self) -> int:
        """The number of all blocks that may run."""
        return self.warmup_blocks + self.blocks + self.spare_blocks


class Watchdog(Part):
    """Seconds after which a phase without progress ends, a wait for idleness, and any block (null: none does)."""

    health_s: Seconds = 60
    load_stall_s: Annotated[Seconds, Field(ge=2)] = 20
    query_stall_s: Annotated[Seconds, Field(ge=2)] = 60
    stop_s: Seconds = 120
    idle_timeout_s: Seconds = 30
    block_s: Annotated[Seconds, Field(ge=5)] | None = None


class Noise(Part):
    """Limits of noise, null for none. A value at a limit spoils the block; limits with `flag` only report it.

    Percent of the whole machine (steal, foreign CPU), of the phase (pressure), or of the run's median (canary).
    """

    steal_pct: Percent | None = defaults.STEAL_PCT
    foreign_cpu_pct: Percent | None = defaults.FOREIGN_CPU_PCT
    canary_pct: Percent | None = 10
    clock_step_s: Annotated[float, Field(gt=0)] | None = defaults.CLOCK_STEP_S
    # Of the time, by a limit of CPU time, as containers have.
    throttled_pct: Percent | None = 1
    steal_flag_pct: Percent | None = defaults.STEAL_FLAG_PCT
    foreign_cpu_flag_pct: Percent | None = defaults.FOREIGN_CPU_FLAG_PCT
    canary_flag_pct: Percent | None = 5
    canary_fsync_flag_pct: Percent | None = 50
    # A closed loop with as many workers as CPUs makes its own CPU pressure.
    pressure_cpu_flag_pct: Percent | None = None
    pressure_io_flag_pct: Percent | None = 20
    pressure_memory_flag_pct: Percent | None = 1
    swap_flag_pages: Annotated[int, Field(ge=1)] | None = 1
    gc_flag_pct: Percent | None = 10
    pool_s: Annotated[float, Field(ge=0, le=3600)] = 5


class Pins(Part):
    """CPUs of the servers and of the client; no CPU is in both."""

    # Not strict: in a union, pydantic does not accept a list of JSON as a tuple.
    server: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, strict=False)]
    client: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, strict=False)]

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if both := set(self.server) & set(self.client):
            raise ValueError(f"CPU {min(both)} is given to the servers and to the client")
        return self


class Machine(Part):
    """The measured machine: its name in reports, and the largest size of the cache in GB; None: no limit."""

    machine: str = "local"
    cache_limit_gb: Annotated[float, Field(gt=0, le=1_000_000)] | None = 20


class Host(Machine):
    """The measured machine of databases."""

    port: Annotated[int, Field(ge=1024, le=65535)] = defaults.PORT
    drop_caches: bool = False
    pin: Annotated[Literal["auto", "off"], OFF] | Pins = "auto"


class Report(Part):
    """What the report shows. `shift`: the shift in service time; None: if builds are equal, without AA=1."""

    shift: bool | None = None
