"""An experiment of databases under TSBS's load: the fields of its file, and which values are refused."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from tsduel.core import sections
from tsduel.core.limits import ServerLimits
from tsduel.core.metrics import METRICS
from tsduel.core.wording import allowed
from tsduel.targets import Database, databases
from tsduel.workloads import deployments, experiment
from tsduel.workloads.own import asked as own
from tsduel.workloads.own import dump
from tsduel.workloads.tsbs import queries as tsbs_queries
from tsduel.workloads.tsbs.variant import TsbsVariant, checked


class Queries(sections.QuerySettings):
    """The query types. With `shared_seed` all types ask for the same hosts, so that earlier types warm later ones."""

    types: Annotated[tuple[str, ...], Field(min_length=1)] = tsbs_queries.PARTITION_INDEX_TYPES
    shared_seed: bool = False

    @field_validator("types")
    @classmethod
    def _known_types(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            tsbs_queries.window_hours(name)
        if len(set(value)) != len(value):
            raise ValueError("a query type is named twice")
        return value

    @model_validator(mode="after")
    def _own_or_not(self) -> Self:
        # Those that are the default are none that somebody asks for: `make queries-check` sets them back.
        if own.is_own(self) and self.types != tsbs_queries.PARTITION_INDEX_TYPES:
            raise ValueError("either `types:`, of TSBS, or queries of your own (file, log, rules)")
        return self


class Workload(sections.WorkloadAsked):
    """The data, of a use case with a known number of samples a line."""

    _known_case = field_validator("use_case")(
        lambda name: checked(name, (*tsbs_queries.SAMPLES_PER_LINE, *dump.CASES), "use case")
    )


class Design(sections.Design):
    """Thresholds are by metric."""

    @field_validator("thresholds")
    @classmethod
    def _known_metrics(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            if name not in METRICS:
                raise ValueError(f"{name!r} is no metric; {allowed(name, sorted(METRICS))}")
        return value


class TsbsExperiment(experiment.Experiment):
    """The whole experiment. Each `_refuse_...` yields a sentence for every combination of fields that is refused."""

    kind: Literal["tsbs"] = "tsbs"
    variants: dict[str, TsbsVariant] = {
        name: TsbsVariant(ref=ref) for name, ref in (("baseline", "v1.132.0"), ("candidate", "v1.133.0"))
    }
    workload: Workload = Workload()
    queries: Queries = Queries()
    duel: sections.Duel = sections.Duel()
    settle: sections.Settle = sections.Settle()
    limits: ServerLimits | None = None
    mixed: sections.MixedAsked | None = None
    capacity: sections.CapacityAsked | None = None
    design: Design = Design()
    watchdog: sections.Watchdog = sections.Watchdog()
    host: sections.Host = sections.Host()
    report: sections.Report = sections.Report()
    # In one more block after the measured ones.
    profile: tuple[sections.ProfileKind, ...] = ()
    # Values that flags, files and env of variants name, as {{ rules }} (tsduel.question.parameters).
    parameters: Mapping[str, bool | float | str] = {}

    _listed = field_validator("profile", mode="before")(sections.listed)
    _parameter_names = field_validator("parameters")(
        experiment.names(r"[A-Za-z_][A-Za-z0-9_]*", " is no name of a parameter: letters, digits and _, no digit first")
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        # The checks are about the window and the query types that there really are.
        found = self._with_dump()._with_own()  # noqa: SLF001
        for check in (name for name in vars(TsbsExperiment) if name.startswith("_refuse_")):
            for sentence in getattr(found, check)():
                raise ValueError(sentence)
        return found.model_copy(update=deployments.settled(found)) if found.deployed else found

    def _with_dump(self) -> Self:
        """Take the window of the user's data."""
        data = dump.of(self.workload)
        if not data or data.key_name != "workload.file":
            return self
        window = data.window
        return self.model_copy(update={"workload": self.workload.model_copy(update=window)})

    def _refuse_dump(self) -> Iterator[str]:
        against = {
            "two databases": len(self._databases) > 1,
            "workload.data_kind": self.workload.data_kind != "regular",
            "workload.churn": self.workload.churn is not None,
            "workload.solo_scale": self.workload.solo_scale is not None,
        }
        if data := dump.of(self.workload):
            flags = [flag for variant in self.variants.values() for part in variant.parts for flag in part.flags]
            more_s = behind(self.workload, self.mixed)[1] if self.mixed else self.upgrades * self.workload.window_s
            yield from data.refused(
                self._databases[0].target, flags, [key for key, is_so in against.items() if is_so],
                own_queries=own.is_own(self.queries), more_s=more_s,
            )  # fmt: skip

    def _with_own(self) -> Self:
        """Name the user's queries as the types, once they were checked against the data."""
        if not own.is_own(self.queries):
            return self
        if len(self._databases) > 1:
            raise ValueError("queries: your own are in one database's language: compare versions of one database")
        data = own.data_of(self.workload, self._databases[0].target, loads=self.loads)
        asked = own.settled(self.queries, data)
        changed: dict[str, Any] = {"queries": self.queries.model_copy(update={"types": own.names(asked)})}
        if self.mixed and not self.mixed.queries and self.queries.rules:
            if self.queries.file or self.queries.log or self.queries.dashboard:
                raise ValueError(
                    "mixed.queries: rules have a rate, and the other queries beside them have none: say how many a "
                    "second, or take the other file away (queries.file=)"
                )
            try:
                changed["mixed"] = type(self.mixed)(**(self.mixed.model_dump() | {"queries": own.rate(asked)}))
            except ValidationError as error:
                raise ValueError(f"mixed, with the rate of queries.rules: {sections.first_error(error)}") from None
        return self.model_copy(update=changed)

    @property
    def deployed(self) -> bool:
        """Whether the servers run already."""
        return any(part.url for variant in self.variants.values() for part in variant.parts)

    @property
    def loads(self) -> bool:
        """Whether anything is loaded: into servers that run already only if the experiment says so."""
        return self.loads_in_turn or not self.deployed

    @property
    def upgrades(self) -> bool:
        """Whether variants start on the data that the baseline has left."""
        return self.design.start_from == "baseline"

    @property
    def loads_in_turn(self) -> bool:
        """Whether all of the data goes to the variants in turn."""
        return self.design.load == "in_turn"

    @property
    def _databases(self) -> list[Database]:
        return [databases()[name] for name in dict.fromkeys(variant.target for variant in self.variants.values())]

    def _refuse_profile(self) -> Iterator[str]:
        for database in self._databases if self.profile else ():
            if not database.target.pprof:
                yield (
                    f"profile: {database.target.name} has no pprof endpoint, and nothing else says here where its "
                    "time goes: leave it out"
                )
        if self.profile and self.upgrades:
            yield (
                "profile: is of loads and queries from an empty disk, and not of an upgrade: leave it out, or "
                "design.start_from: baseline"
            )
        if self.profile and self.design.reload == "once" and not self.duel.enabled:
            yield "profile: with design.reload: once and without a duel nothing is left to read"

    def _refuse_data_kind(self) -> Iterator[str]:
        formats = {database.target.data_format for database in self._databases}
        if self.workload.data_kind != "regular" and not formats <= set(tsbs_queries.LINE_FORMATS):
            yield (
                f"workload.data_kind: {self.workload.data_kind} changes lines of the Influx protocol, which not all "
                "of these databases are loaded by; allowed: regular"
            )

    def _refuse_deployments(self) -> Iterator[str]:
        against = {
            "queries.solo: true": self.queries.solo,
            "queries.cache": self.queries.cache not in {"as-loaded", "warm"},
            "duel.enabled: false": not self.duel.enabled,
            "duel.batches": self.duel.batches,
            "workload.solo_scale": self.workload.solo_scale is not None,
            "design.start_from: baseline": self.upgrades,
            "mixed": self.mixed is not None,
            "capacity": self.capacity is not None,
            "profile": bool(self.profile),
            "host.pin": not isinstance(self.host.pin, str),
            "limits": self.limits is not None,
        }
        urls = [part.url for variant in self.variants.values() for part in variant.parts]
        yield from deployments.refused(urls, against)

    def _refuse_upgrade(self) -> Iterator[str]:
        other = self.queries.solo or self.duel.batches or self.mixed or self.capacity or self.matrix
        if self.upgrades and (other or not self.duel.enabled or len(self._databases) > 1):
            yield (
                "design.start_from: baseline compares versions of one database by duels: duel.enabled, and none of "
                "queries.solo, duel.batches, mixed, capacity, matrix"
            )

    def _refuse_types(self) -> Iterator[str]:
        if own.is_own(self.queries):
            return
        first, *others = self._databases
        common = [name for name in first.query_types if all(name in other.query_types for other in others)]
        for name in self.queries.types:
            if name not in common:
                who = next(d.target.name for d in self._databases if name not in d.query_types) if others else "it"
                allowed = f"{'all can be asked' if others else 'allowed'}: {', '.join(common) or 'none'}"
                yield f"queries.types: {who} cannot be asked {name}; {allowed}"
            hours = tsbs_queries.window_hours(name)
            if hours * 3600 >= self.workload.window_s:
                yield (
                    f"queries.types: {name} reads {hours} h, which must be strictly shorter than the data's "
                    f"window of {self.workload.window_s / 3600:g} h (workload.start, workload.end)"
                )

    def _refuse_blocks(self) -> Iterator[str]:
        for database in self._databases if self.loads else ():
            yield from self._late_samples(database)
        if self.queries.solo and self.queries.count is None and self.design.warmup_blocks == 0:
            yield (
                "queries.count: needed when design.warmup_blocks is 0, since the warm-up block is where "
                "the count that fills queries.seconds is found"
            )
        later = self.duel.enabled or self.mixed or self.capacity
        if self.design.reload == "once" and (self.queries.solo or not later):
            yield "design.reload: once leaves the duel alone to later blocks: duel.enabled, no queries.solo"
        if self.design.loaded_by == "baseline" and (self.design.reload != "once" or len(self._databases) > 1):
            yield "design.loaded_by: baseline needs design.reload: once, and versions of one database"
        for database in self._databases if self.duel.batches or self.loads_in_turn else ():
            if not database.target.write_path:
                key = "design.load: in_turn" if self.loads_in_turn else "duel.batches"
                yield (
                    f"{key}: this database does not take lines over HTTP, so batches cannot be exchanged: "
                    f"{database.target.name}"
                )

    def _refuse_in_turn(self) -> Iterator[str]:
        against = {
            "duel.enabled: false": not self.duel.enabled,
            "design.start_from: baseline": self.upgrades,
            "design.loaded_by: baseline": self.design.loaded_by == "baseline",
            "queries.solo: true": self.queries.solo,
            "duel.load_s": "load_s" in self.duel.model_fields_set and self.duel.load_s is not None,
        }
        for key, is_so in against.items():
            if is_so and self.loads_in_turn:
                yield (
                    "design.load: in_turn has all of the data go to each variant in turn, and nobody loads "
                    f"alone: leave out {key}, or take design.load: solo"
                )
        if self.workload.solo_scale is not None and not (self.loads_in_turn and self.design.warmup_blocks):
            yield (
                "workload.solo_scale: is of one load alone in the warm-up block, where measured blocks have none: it "
                "needs design.load: in_turn and design.warmup_blocks: 1, or leave it out (null)"
            )
        if self.duel.counters == "duel" and self.queries.cache != "as-loaded":
            yield (
                "duel.counters: duel counts all that was asked since the start, so queries.cache has to be as-loaded; "
                "allowed: type"
            )
        if self.design.judged == "work" and self.duel.work not in {None, "all"}:
            yield "duel.work: design.judged: work judges what all exchanges count; allowed: all"
        if self.design.judged == "duel" and not self.duel.enabled:
            yield "design.judged: duel leaves nothing to judge without duel.enabled; allowed: all"

    def _refuse_tenants(self) -> Iterator[str]:
        """Refuse tenants whose data or answers would differ between the sides, or be empty, by chance."""
        load = self.workload
        if load.tenants == 1:
            return
        for name in (database.target.name for database in self._databases if not database.has_tenants):
            yield f"workload.tenants: {name} has no tenants; allowed: 1"
        if self.design.load != "in_turn" or self.duel.in_flight > 1 or self.mixed or self.capacity:
            yield (
                "workload.tenants: only batches and queries that go out one by one (design.load: in_turn, "
                "duel.in_flight: 1, no mixed: or capacity:) reach the same tenant on all sides; allowed: 1"
            )
        if load.batch_size < load.scale:
            yield (
                f"workload.batch_size: each batch goes to one tenant and needs lines of all {load.scale:,} hosts, so "
                f"that every tenant can answer; allowed: {load.scale:,} and more"
            )

    def _refuse_rates(self) -> Iterator[str]:
        for section, rates in (("mixed", self.mixed), ("capacity", self.capacity)):
            for name in rates.types if rates else ():
                if name not in self.queries.types:
                    files = ", ".join(self.queries.types)
                    yield f"{section}.types: {name} is none of queries.types, which have files: {files}"
        churn = self.workload.churn
        if self.mixed and not self.mixed.queries:
            yield "mixed.queries: how many queries a second; only queries.rules have a rate of their own"
        if self.mixed is None:
            if churn:
                yield "workload.churn: has no effect without `mixed:`, in whose lines series come and go"
            return
        for database in self._databases:
            if not database.target.write_path:
                name = database.target.name
                yield f"mixed: {name} does not take lines over HTTP, so they cannot be sent to it at a rate"
        _, window_s = behind(self.workload, self.mixed)
        if churn and churn.every_s >= window_s:
            yield (
                f"workload.churn.every_s: {churn.every_s} s are not shorter than all that mixed writes, "
                f"{window_s} s by the clock of the data"
            )

    def _late_samples(self, database: Database) -> Iterator[str]:
        """Refuse a load whose workers may be so far apart that the database gets samples too late.

        TSBS's loader has at most 3 batches a worker under way (load/scan_with_flow_control.go), and fills one more. All
        of them may wait for one worker, and each batch may have only the lines of that worker's share of the hosts.
        """
        load, late_s, target = self.workload, database.late_s, database.target.name
        if late_s is None:
            return
        lines_s = (3 * load.workers + 1) * load.workers * load.step_s / load.scale
        if load.workers > 1 and lines_s * load.batch_size > late_s:
            yield (
                f"workload.batch_size: {load.workers} workers can be {lines_s * load.batch_size:,.0f} s of the data "
                f"apart, and {target} takes no sample that is {late_s:,} s older than its newest: "
                f"at most {int(late_s / lines_s):,} lines with {load.workers} workers, or workload.workers: 1"
            )


def behind(workload: sections.WorkloadAsked, mixed: sections.MixedAsked) -> tuple[int, int]:
    """Return lines and seconds of the window after the loaded one: the whole intervals that mixed sends.

    The user's lines are sent again, later by whole windows.
    """
    if found := dump.of(workload):
        lines = math.ceil(mixed.ingest * mixed.seconds * found.lines / found.samples)
        return lines, math.ceil(lines / found.lines) * workload.window_s
    lines = math.ceil(mixed.ingest * mixed.seconds / tsbs_queries.SAMPLES_PER_LINE[workload.use_case])
    steps = math.ceil(lines / workload.scale)
    return steps * workload.scale, steps * workload.step_s
