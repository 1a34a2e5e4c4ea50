"""An experiment of databases under TSBS's load: what its file may say."""

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tsduel.core.defaults import LENT_PORT
from tsduel.core.metrics import METRICS
from tsduel.core.sections import (
    CapacityAsked,
    DesignAsked,
    Duel,
    Host,
    MixedAsked,
    ProfileKind,
    QuerySettings,
    Report,
    Settle,
    Watchdog,
    WorkloadAsked,
    listed,
)
from tsduel.targets import Database, databases
from tsduel.workloads import experiment
from tsduel.workloads.tsbs import queries as tsbs_queries

CLIENT, SERVER = "client", "server"
MOST_PORT = 65535


def _listed(value: object) -> object:
    """Take a role in place of a list of one."""
    # A list is none in strict mode, here.
    if not isinstance(value, list):
        return value
    return tuple((of,) if isinstance(of, str) else tuple(of) if isinstance(of, list) else of for of in value)


class TsbsVariant(experiment.Variant):
    """One side: which revision of which database, built how, started with what; or a list of such components."""

    target: str = "victoriametrics"
    package: Literal[""] = ""
    bench: Literal[""] = ""
    components: tuple[experiment.Component, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is in the short form."""
        return not self.components

    @property
    def parts(self) -> tuple[experiment.Component, ...]:
        """Its components, what clients ask first before what that asks."""
        database = databases()[self.target]
        if self.components:
            roles = list(database.programs)
            return tuple(sorted(self.components, key=lambda part: roles.index(part.role)))
        return tuple(self.model_copy(update={"role": role}) for role in database.required)

    @field_validator("target")
    @classmethod
    def _known_target(cls, value: str) -> str:
        if value not in databases():
            raise ValueError(f"unknown database; allowed: {', '.join(sorted(databases()))}")
        return value

    @model_validator(mode="after")
    def _of_its_database(self) -> Self:
        if self.components and (other := self.model_fields_set - {"target", "components"}):
            raise ValueError(f"either `components:` or `{min(other)}:`, which is of the short form")
        database = databases()[self.target]
        roles, of_one = list(database.programs), {"role", "flags", "env", "files"} & self.model_fields_set
        if of_one and not (self.components or database.main):
            raise ValueError(f"{min(of_one)}: {self.target} has several components; say in `components:` whose it is")
        short = (self,) if "role" in self.model_fields_set else ()
        given = [part.role for part in self.components or short or self.parts]
        for role in given:
            if role not in roles:
                raise ValueError(f"{self.target} has no component {role!r}; allowed: {', '.join(roles)}")
            if given.count(role) > 1:
                raise ValueError(f"component {role!r} is there twice")
        for role in database.required:
            if role not in given:
                raise ValueError(f"components: {role!r} is missing, and without it there is no {self.target}")
        return self

    @model_validator(mode="after")
    def _flags_that_are_not_ours(self) -> Self:
        refused = {flag.lstrip("-") for flag in databases()[self.target].target.refused_flags}
        for part in self.parts:
            for flag in part.flags:
                if flag.lstrip("-").partition("=")[0] in refused:
                    raise ValueError(
                        f"flags: {flag.partition('=')[0]} is ours: every component is given its directory, an address "
                        "that nobody else can reach (host.port: the first port), and those of the others"
                    )
        return self


class Queries(QuerySettings):
    """The query types; with `shared_seed` all types ask for the same hosts, so that earlier ones warm later ones."""

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


class Workload(WorkloadAsked):
    """The data, of a use case whose samples can be counted beforehand."""

    @field_validator("use_case")
    @classmethod
    def _known_use_case(cls, value: str) -> str:
        if value not in tsbs_queries.SAMPLES_PER_LINE:
            raise ValueError(f"unknown use case; allowed: {', '.join(tsbs_queries.SAMPLES_PER_LINE)}")
        return value


class Design(DesignAsked):
    """Thresholds are by metric."""

    @field_validator("thresholds")
    @classmethod
    def _known_metrics(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            if name not in METRICS:
                raise ValueError(f"{name!r} is no metric; allowed: {', '.join(sorted(METRICS))}")
        return value


class TsbsExperiment(experiment.Experiment):
    """The whole written question."""

    kind: Literal["tsbs"] = "tsbs"
    variants: dict[str, TsbsVariant] = {
        "baseline": TsbsVariant(ref="v1.132.0"),
        "candidate": TsbsVariant(ref="v1.133.0"),
    }
    workload: Workload = Workload()
    queries: Queries = Queries()
    duel: Duel = Duel()
    settle: Settle = Settle()
    mixed: MixedAsked | None = None
    capacity: CapacityAsked | None = None
    design: Design = Design()
    watchdog: Watchdog = Watchdog()
    host: Host = Host()
    report: Report = Report()
    # One after the other as SSH_HOST names them: what each does.
    hosts: Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_listed)] = ()
    # Behind the measured blocks, in one more.
    profile: tuple[ProfileKind, ...] = ()
    # Keys with lists; what they make is validated a cell at a time, without it (tsduel.question.matrix).
    matrix: Mapping[str, Any] = {}

    _listed = field_validator("profile", mode="before")(listed)

    @model_validator(mode="after")
    def _profiled(self) -> Self:
        for target in {variant.target for variant in self.variants.values()} if self.profile else ():
            if not databases()[target].target.pprof:
                raise ValueError(
                    f"profile: {target} has no pprof endpoint, and nothing else says here where its time goes: "
                    "leave it out"
                )
        if self.profile and self.upgrades:
            raise ValueError(
                "profile: is of loads and queries from an empty disk, and not of an upgrade: leave it out, or "
                "design.start_from: baseline"
            )
        if self.profile and self.design.reload == "once" and not self.duel.enabled:
            raise ValueError("profile: with design.reload: once and without a duel nothing is left to read")
        return self

    @model_validator(mode="after")
    def _changed_lines(self) -> Self:
        formats = {databases()[variant.target].target.data_format for variant in self.variants.values()}
        if self.workload.data_kind != "regular" and not formats <= set(tsbs_queries.LINE_FORMATS):
            raise ValueError(
                f"workload.data_kind: {self.workload.data_kind} changes lines of the Influx protocol, which not all "
                "of these databases are loaded by; allowed: regular"
            )
        return self

    @property
    def topology(self) -> dict[str, tuple[str, ...]]:
        """What each host does, by its name in the plan; empty where one host does it all."""
        named = {role for roles in self.hosts for role in roles} - {SERVER}
        rest = tuple(role for role in self._roles if role not in named)
        found = (tuple(r for r in roles if r != SERVER) + rest if SERVER in roles else roles for roles in self.hosts)
        return {f"host{number}": roles for number, roles in enumerate(found, 1)}

    @property
    def _roles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.role for variant in self.variants.values() for part in variant.parts))

    @model_validator(mode="after")
    def _hosts_apart(self) -> Self:
        if not self.hosts:
            return self
        parts = self.hosts[len(clients := list(itertools.takewhile((CLIENT,).__eq__, self.hosts))) :]
        if not clients or not parts or any(CLIENT in roles for roles in parts):
            raise ValueError(
                "hosts: the client's comes first and does nothing else, or several of them; then those of components"
            )
        if self.workload.scale % len(clients):
            raise ValueError(
                f"workload.scale: {len(clients)} clients load a part of the simulated hosts each, and "
                f"{self.workload.scale} cannot be shared evenly; allowed: multiples of {len(clients)}"
            )
        known, seen = (SERVER, *self._roles), set[str]()
        for role in (role for roles in parts for role in roles):
            if role not in known:
                raise ValueError(
                    f"hosts: no variant has a component {role!r}; allowed: {', '.join(dict.fromkeys(known))}"
                )
            if role in seen:
                raise ValueError(f"hosts: {role} is there twice, and each runs on one host")
            seen.add(role)
        if SERVER not in seen and (homeless := [role for role in self._roles if role not in seen]):
            raise ValueError(
                f"hosts: no host runs {homeless[0]}; name it, or name `{SERVER}`, the host of all that are not named"
            )
        return self

    @model_validator(mode="after")
    def _what_hosts_apart_allow(self) -> Self:
        if not self.hosts:
            return self
        if self.upgrades:
            raise ValueError("hosts: design.start_from: baseline copies directories, and needs all on one host")
        if self.host.pin != "auto":
            raise ValueError("host.pin: nothing is pinned where the client has a host of its own (hosts)")
        if self.host.port + LENT_PORT > MOST_PORT:
            raise ValueError(f"host.port: {MOST_PORT - LENT_PORT} at most with `hosts:`")
        return self

    @property
    def upgrades(self) -> bool:
        """Whether variants start on what the baseline has left."""
        return self.design.start_from == "baseline"

    @model_validator(mode="after")
    def _upgrades(self) -> Self:
        other = self.queries.solo or self.duel.load or self.mixed or self.capacity or self.matrix
        targets = {variant.target for variant in self.variants.values()}
        if self.upgrades and (other or not self.duel.enabled or len(targets) > 1):
            raise ValueError(
                "design.start_from: baseline compares versions of one database by duels: duel.enabled, and none of "
                "queries.solo, duel.load, mixed, capacity, matrix"
            )
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        asked = [databases()[name] for name in dict.fromkeys(variant.target for variant in self.variants.values())]
        answered = [name for name in asked[0].query_types if all(name in one.query_types for one in asked)]
        for name in self.queries.types:
            if name not in answered:
                who = next(one.target.name for one in asked if name not in one.query_types) if asked[1:] else "it"
                allowed = f"{'all can be asked' if asked[1:] else 'allowed'}: {', '.join(answered) or 'none'}"
                raise ValueError(f"queries.types: {who} cannot be asked {name}; {allowed}")
            hours = tsbs_queries.window_hours(name)
            if hours * 3600 >= self.workload.window_s:
                raise ValueError(
                    f"queries.types: {name} reads {hours} h, which must be strictly shorter than the data's "
                    f"window of {self.workload.window_s / 3600:g} h (workload.start, workload.end)",
                )
        for database in asked:
            self._in_time(database)
        if self.queries.solo and self.queries.count is None and self.design.warmup_blocks == 0:
            raise ValueError(
                "queries.count: needed when design.warmup_blocks is 0, since the warm-up block is where "
                "the count that fills queries.seconds is found",
            )
        later = self.duel.enabled or self.mixed or self.capacity
        if self.design.reload == "once" and (self.queries.solo or not later):
            raise ValueError("design.reload: once leaves the duel alone to later blocks: duel.enabled, no queries.solo")
        for one in asked:
            if self.duel.load and not one.target.write_path:
                raise ValueError(
                    "duel.load: this database does not take lines over HTTP, so batches cannot be exchanged: "
                    f"{one.target.name}"
                )
        return self

    @model_validator(mode="after")
    def _duel_says_it(self) -> Self:
        if self.duel.counters == "duel" and self.queries.cache != "as-loaded":
            raise ValueError(
                "duel.counters: duel counts all that was asked since the start, so queries.cache has to be as-loaded; "
                "allowed: type"
            )
        if self.design.judged == "duel" and not self.duel.enabled:
            raise ValueError("design.judged: duel leaves nothing to judge without duel.enabled; allowed: all")
        return self

    @model_validator(mode="after")
    def _rates_fit(self) -> Self:
        for section, rates in (("mixed", self.mixed), ("capacity", self.capacity)):
            for name in rates.types if rates else ():
                if name not in self.queries.types:
                    raise ValueError(
                        f"{section}.types: {name} is none of queries.types, which have files: "
                        f"{', '.join(self.queries.types)}"
                    )
        if self.mixed is None:
            if self.workload.churn:
                raise ValueError("workload.churn: has no effect without `mixed:`, in whose lines series come and go")
            return self
        for target in dict.fromkeys(variant.target for variant in self.variants.values()):
            if not databases()[target].target.write_path:
                raise ValueError(
                    f"mixed: {target} does not take lines over HTTP, so they cannot be sent to it at a rate"
                )
        _, window_s = behind(self.workload, self.mixed)
        if self.workload.churn and self.workload.churn.every_s >= window_s:
            raise ValueError(
                f"workload.churn.every_s: {self.workload.churn.every_s} s are longer than all that mixed writes, "
                f"{window_s} s by the clock of the data"
            )
        return self

    def _in_time(self, database: Database) -> None:
        """Refuse a load whose workers can be so far apart that samples come too late for a database.

        TSBS's loader has at most 3 batches a worker under way (load/scan_with_flow_control.go), and one that it fills.
        All of them may wait for one worker, and each holds that worker's share of the hosts alone.
        """
        load = self.workload
        if database.late_s is not None and self.hosts.count((CLIENT,)) > 1 and load.window_s > database.late_s:
            raise ValueError(
                f"hosts: {database.target.name} takes no sample that is {database.late_s:,} s older than its newest, "
                "and nothing keeps several clients that close together: one client, or a window (workload.start, "
                "workload.end) no longer than that"
            )
        if database.late_s is None or load.workers == 1:
            return
        lines_s = (3 * load.workers + 1) * load.workers * load.step_s / load.scale
        if lines_s * load.batch_size > database.late_s:
            raise ValueError(
                f"workload.batch_size: {load.workers} workers can be {lines_s * load.batch_size:,.0f} s of the data "
                f"apart, and {database.target.name} takes no sample that is {database.late_s:,} s older than its "
                f"newest: at most {int(database.late_s / lines_s):,} lines with {load.workers} workers, or "
                "workload.workers: 1"
            )


def behind(workload: WorkloadAsked, mixed: MixedAsked) -> tuple[int, int]:
    """Return lines and seconds of the window behind the loaded one: whole intervals that hold what mixed sends."""
    lines = math.ceil(mixed.ingest * mixed.seconds / tsbs_queries.SAMPLES_PER_LINE[workload.use_case])
    steps = math.ceil(lines / workload.scale)
    return steps * workload.scale, steps * workload.step_s
