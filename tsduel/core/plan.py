"""The plan of a run, plan/experiment.json: everything that is fixed before the first block. Typed, frozen, versioned.

The host reads the same file (host/record). Times are in seconds, sizes in bytes, unless a name says otherwise.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.sections import (
    CapacityAsked,
    DesignAsked,
    Duel,
    GoBench,
    GoWatchdog,
    Host,
    MixedAsked,
    Noise,
    Part,
    ProfileKind,
    QuerySettings,
    Report,
    Settle,
    Source,
    Watchdog,
    WorkloadAsked,
)

VERSION = 2
GCP_SWEPT = ("gcp.machine", "gcp.threads_per_core")
"""What a sweep can have another machine for."""
PLAN = "plan/experiment.json"


class Own(Part):
    """Which tsduel made the plan."""

    version: str
    commit: str


class Asked(Part):
    """What the user gave: the file ("" for none), what stands in it, and the knobs laid over it."""

    experiment: str
    written: dict[str, Any] = {}
    knobs: dict[str, str] = {}


class LocalPlace(Part):
    """Here."""

    kind: Literal["local"] = "local"


class SshHost(Part):
    """Another machine; None is what ssh's own configuration says. All that is ours lies in `directory`.

    `private`: its address for the other hosts of a topology, where the user says it.
    """

    user: str | None
    address: str
    port: int | None
    directory: str
    spare: bool = False
    private: str | None = None


class SshPlace(Part):
    """Other machines, by their names in the plan."""

    kind: Literal["ssh"] = "ssh"
    config_file: str | None
    hosts: dict[str, SshHost]

    @model_validator(mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        """Read plans of before there were fleets."""
        if isinstance(value, dict) and "address" in value:
            parts = {name: value[name] for name in ("user", "address", "port", "directory")}
            return {"kind": "ssh", "config_file": value["config_file"], "hosts": {"host1": parts}}
        return value


class Price(Part):
    """USD: an hour of each part and of all; for the estimated time, and for the whole lifetime."""

    machine_h: float
    disk_h: float
    network_h: float
    hour: float
    expected: float
    worst: float
    as_of: str


# Not strict: behind a validator of its own pydantic forgets that it reads JSON, in which a list is as good as a tuple.
_Texts = Annotated[tuple[str, ...], Field(strict=False)]


class GcpHost(Part):
    """What is rented for a host. A spare one runs no block unless another host of its kind is lost."""

    machine: str
    threads_per_core: int = 2
    disk_type: str
    spare: bool = False

    @property
    def named(self) -> str:
        """What its figures are recorded and compared as."""
        return self.machine + (" (one thread a core)" if self.threads_per_core == 1 else "")

    def runs(self, settings: Mapping[str, Any]) -> bool:
        """Whether it is what a cell of a sweep over machines asks for; `settings` is what that sets."""
        return all(getattr(self, key.removeprefix("gcp.")) == settings[key] for key in GCP_SWEPT if key in settings)


class GcpPlace(Part):
    """Rented machines, by their names in the plan; all of them in one network, with one deadline.

    `ports_between`: those that hosts which make a block together open to each other, like 8428-8528, and then all are
    in one zone; "" where each host is complete in itself.
    """

    kind: Literal["gcp"] = "gcp"
    hosts: dict[str, GcpHost]
    project: str
    ssh_via: Literal["public", "iap"]
    ssh_source_ranges: _Texts
    user: str
    directory: str
    name: str
    zones: _Texts
    ports_between: str = ""
    spot: bool
    image: str
    os_login: bool = False
    disk_gb: int
    estimate_s: int
    lifetime_s: int
    price: Price

    @model_validator(mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        """Read plans of before there were fleets."""
        if isinstance(value, dict) and "machine" in value:
            of = {name: value[name] for name in ("machine", "threads_per_core", "disk_type") if name in value}
            return {"hosts": {"host1": of}, **{name: part for name, part in value.items() if name not in of}}
        return value

    @property
    def machine(self) -> str:
        """The machine types, for people."""
        return ", ".join(dict.fromkeys(host.machine for host in self.hosts.values()))

    def instance(self, host: str) -> str:
        """Return what a host is called at Google's."""
        return f"{self.name}-{host}"

    @property
    def kinds(self) -> dict[GcpHost, list[str]]:
        """What is rented, each with the names of its hosts, spare ones among them."""
        found: dict[GcpHost, list[str]] = {}
        for name, host in self.hosts.items():
            found.setdefault(host.model_copy(update={"spare": False}), []).append(name)
        return found


Place = Annotated[LocalPlace | SshPlace | GcpPlace, Field(discriminator="kind")]


class Component(Part):
    """One process of a variant, from one exact revision; it starts in a directory that holds `files` (name -> text)."""

    role: str = "server"
    program: str
    source: Source
    ref: str = ""
    repo: str = ""
    path: str = ""
    go: str = ""
    flags: tuple[str, ...] = ()
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    label: str
    revision: str = ""
    version: str = ""
    sum: str = ""
    dirty: str = ""
    build_key: str = ""


class Variant(Part):
    """One side of the comparison. `package` and `bench` are of Go benchmarks only.

    The component that clients ask first stands first, and is started last.
    """

    name: str
    label: str
    target: str
    components: Annotated[tuple[Component, ...], Field(min_length=1)]
    package: str = ""
    bench: str = ""

    @property
    def server(self) -> Component:
        """The component that clients ask first, or the only one."""
        return self.components[0]


class Counter(Part):
    """A sum over all samples called `name` whose labels match every regular expression of `labels` in full.

    `name` may be several, with | between them. With a `role` only those of that component, else of all.
    """

    name: str
    labels: dict[str, str] = {}
    role: str = ""

    @property
    def names(self) -> list[str]:
        """The names."""
        return self.name.split("|")


class Target(Part):
    """What the host has to know of a database beside its adapter; regular expressions are RE2.

    `query_form`: into what TSBS's queries of `query_format` are translated (host/workload), "" for nothing. `volatile`:
    what may differ between equal answers. `trouble`: a line of the log that fails the block. Settled is when all
    `quiet` counters are 0 and the `still` ones do not change; a merge can be asked for when the `before_merge` ones are
    0, and not at all where none is named. `ticks`: names that a tick keeps. `write_path` takes lines of data by POST,
    for exchanged ingestion; empty where that is not how data gets in. `query_arguments`: what TSBS's client adds to
    each query's address. Beside another database: `protocol`: by which data gets in; `name_prefix`: what stands before
    a field's name in its answers; `windows`: which end of a window its point is called by. `queues`: roles that
    acknowledge samples before those are stored: a load is over when all have arrived. `ports`: more ports of a role
    beside its first, by name. `immutable`: paths below a component's directory of files that are never changed once
    they are written; copies of a directory share them by hard links. `pprof`: the path below which every component
    answers with profiles, as Go's net/http/pprof does; "" where none does.
    """

    name: str
    data_format: str
    query_format: str
    query_form: str = ""
    answers: str
    volatile: str = ""
    trouble: str = ""
    refused_flags: tuple[str, ...] = ()
    counters: dict[str, Counter] = {}
    quiet: tuple[str, ...] = ()
    before_merge: tuple[str, ...] = ()
    still: tuple[str, ...] = ()
    ticks: str = ""
    samples_per_row: int = 1
    write_path: str = ""
    immutable: str = ""
    protocol: str = ""
    name_prefix: str = ""
    windows: Literal["end", "start"] = "end"
    query_arguments: str = ""
    queues: tuple[str, ...] = ()
    ports: dict[str, tuple[str, ...]] = {}
    pprof: str = ""


class Design(DesignAsked):
    """The design with its spare blocks counted."""

    spare_blocks: int


class DataFile(Part):
    """One file of data: its TSBS format, and the key it is cached by."""

    format: str
    key: str


class Continued(Part):
    """Data that follow the first window on the same series, for what is ingested on top of it."""

    start: str
    end: str
    lines: int
    samples: int
    data: tuple[DataFile, ...]


class Workload(WorkloadAsked):
    """The data, counted."""

    interval_s: int
    lines: int
    samples: int
    estimated_bytes: int
    data: tuple[DataFile, ...]
    continued: Continued | None = None


class Compared(Part):
    """How far answers of different databases are compared, and why no further.

    `values`: the same series, and in each the same values at the same times; `points`: as many of them; `series`: the
    same series; `data`: there is data in both.
    """

    level: Literal["values", "points", "series", "data"]
    why: str = ""


class Mixed(MixedAsked):
    """With the data that it writes, which are of the window [start, end) right behind the one that is loaded."""

    start: str
    end: str
    lines: int
    samples: int
    data: tuple[DataFile, ...]


class QueryType(Part):
    """One query type; `keys`: TSBS format, or FORMAT:FORM where it is translated -> the key its file is cached by.

    Without `start` and `end` it asks over the window of the first data; with them it is called TYPE@WINDOW.
    `window_s`: the seconds that a point of an answer stands for, 0 where that is not so. `compared`: how answers of
    other databases are compared with the baseline's, by target.
    `may_be_empty`: some of its answers may have no data, as long as not all of them do.
    """

    name: str
    seed: int
    keys: dict[str, str]
    start: str | None = None
    end: str | None = None
    may_be_empty: bool = False
    window_s: int = 0
    compared: dict[str, Compared] = {}


class Queries(QuerySettings):
    """The queries of a run; `windowed`: the same types over other windows.

    `alike`: hosts and windows are drawn by us and put into TSBS's queries, since TSBS draws them in another order for
    each database. Windows begin at whole minutes then.
    """

    types: tuple[QueryType, ...]
    windowed: tuple[QueryType, ...] = ()
    alike: bool = False


class Cell(Part):
    """One setting of a sweep; without a sweep there is one, without a name.

    `set` is what the matrix gives it. What that changes of the run's sections is here, whole; None is as in the run,
    and so are the components of variants that are not in `components`.
    """

    name: str = ""
    set: dict[str, Any] = {}
    workload: Workload | None = None
    queries: Queries | None = None
    duel: Duel | None = None
    settle: Settle | None = None
    mixed: Mixed | None = None
    capacity: CapacityAsked | None = None
    components: dict[str, tuple[Component, ...]] = {}

    SECTIONS: ClassVar[tuple[str, ...]] = ("workload", "queries", "duel", "settle", "mixed", "capacity")


class Tsbs(Part):
    """The version of TSBS."""

    version: str


class Estimate(Part):
    """Bytes of what lies in the cache and in results/, each above what was measured."""

    data_bytes: int = 0
    query_bytes: int = 0
    database_bytes: int = 0
    results_bytes: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.data_bytes + self.query_bytes + self.database_bytes + self.results_bytes


class Duration(Part):
    """Whole seconds, roughly, for deadlines and prices: to prepare, to make the data, of one block, of everything."""

    prepare_s: int
    workload_s: int
    block_s: int
    total_s: int


class LogFile(Part):
    """An imported log as it was."""

    path: str
    sha256: str
    bytes: int


class Imported(Part):
    """What two logs say of the load and the queries; text is "unknown" where they do not. `samples_from`: see notes."""

    logs: dict[str, LogFile]
    samples_from: Literal["flags", "baseline"]
    notes: tuple[str, ...]
    use_case: str
    start: str
    end: str
    interval: str
    seed: str
    scale: str
    samples: int
    load_workers: int | None
    query_workers: str
    query_types: tuple[str, ...]


class Plan(Part):
    """plan/experiment.json. A section that a kind of run does not have is None."""

    plan_version: Literal[2] = 2
    run: str
    name: str
    question: str
    kind: Literal["tsbs", "gobench", "logs"]
    smoke: bool
    screen: bool
    aa: bool
    created: str
    own: Own
    asked: Asked
    place: Place = LocalPlace()
    hosts: tuple[str, ...] = ("host1",)
    spare_hosts: tuple[str, ...] = ()
    topology: dict[str, tuple[str, ...]] = {}
    cells: tuple[Cell, ...] = (Cell(),)
    variants: Annotated[tuple[Variant, ...], Field(min_length=1)]
    targets: dict[str, Target] = {}
    design: Design
    noise: Noise | None = None
    watchdog: Watchdog | GoWatchdog | None = None
    host: Host
    workload: Workload | None = None
    queries: Queries | None = None
    duel: Duel | None = None
    settle: Settle | None = None
    mixed: Mixed | None = None
    capacity: CapacityAsked | None = None
    gobench: GoBench | None = None
    profile: tuple[ProfileKind, ...] = ()
    tsbs: Tsbs | None = None
    estimate: Estimate = Estimate()
    duration: Duration | None = None
    report: Report = Report()
    imported: Imported | None = None

    FILE: ClassVar[str] = PLAN

    @property
    def query_types(self) -> tuple[str, ...]:
        """Names of the query types of all cells, in the order of the experiment; none of Go benchmarks."""
        if self.imported:
            return self.imported.query_types
        found = [self.queries, *(cell.queries for cell in self.cells)]
        return tuple(dict.fromkeys(entry.name for queries in found if queries for entry in queries.types))

    @property
    def sweeps(self) -> bool:
        """Whether there is more than one setting."""
        return len(self.cells) > 1

    def at(self, cell: str) -> Self:
        """Return the plan as a cell has it, as if there were no other; of one that it does not know, itself."""
        of = next((one for one in self.cells if one.name == cell), None)
        if of is None:
            return self
        own = {name: part for name in Cell.SECTIONS if (part := getattr(of, name)) is not None}
        variants = tuple(
            one.model_copy(update={"components": of.components.get(one.name, one.components)}) for one in self.variants
        )
        return self.model_copy(update={**own, "variants": variants, "cells": (Cell(name=cell, set=of.set),)})

    @property
    def every_host(self) -> tuple[str, ...]:
        """Names of all hosts; a spare one runs no block unless another host is lost."""
        return self.hosts + self.spare_hosts

    @property
    def host_roles(self) -> tuple[str, ...]:
        """What the hosts of a topology do; none where one host does it all."""
        return tuple(dict.fromkeys(role for roles in self.topology.values() for role in roles))

    @property
    def clients(self) -> int:
        """How many hosts load together."""
        return sum("client" in roles for roles in self.topology.values()) or 1

    @property
    def lent_hosts(self) -> tuple[str, ...]:
        """Names of the hosts that run components for a driver on another, the client's; none where one does it all."""
        return tuple(name for name in self.topology if name not in self.hosts)

    @property
    def is_fleet(self) -> bool:
        """Whether there are several hosts: each is complete in itself, and its files are apart at home."""
        return len(self.every_host) > 1

    def hosts_of(self, cell: str, *, spare: bool = False) -> tuple[str, ...]:
        """Names of the hosts that share a cell's blocks, or that stand by for one of them."""
        names, place = self.spare_hosts if spare else self.hosts, self.place
        settings = next((one.set for one in self.cells if one.name == cell), {})
        return names if place.kind != "gcp" else tuple(name for name in names if place.hosts[name].runs(settings))

    def standing_by(self, host: str) -> list[str]:
        """Names of the spare hosts that can run what a host has not."""
        mine = [cell.name for cell in self.cells if host in self.hosts_of(cell.name)]
        return [name for name in self.spare_hosts if all(name in self.hosts_of(of, spare=True) for of in mine)]

    def machine_of(self, host: str) -> str:
        """Return what a host is called as a machine: its type where it is rented, else what the experiment says."""
        return self.place.hosts[host].named if self.place.kind == "gcp" else self.host.machine

    @property
    def is_local(self) -> bool:
        """Whether the blocks run on this machine."""
        return self.place.kind == "local"

    @property
    def crosses(self) -> bool:
        """Whether different databases are compared."""
        return len({variant.target for variant in self.variants}) > 1

    def apart(self, candidate: str) -> bool:
        """Whether a candidate is another database than the baseline."""
        return self.crosses and self.variant(candidate).target != self.variants[0].target

    @property
    def duels(self) -> bool:
        """Whether the variants stand beside each other."""
        return self.duel is not None and self.duel.enabled

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of all components, where a variant has several; else none."""
        several = any(len(variant.components) > 1 for variant in self.variants)
        every = dict.fromkeys(part.role for variant in self.variants for part in variant.components)
        return tuple(every) if several else ()

    @property
    def exchanges_load(self) -> bool:
        """Whether batches of data are exchanged as well."""
        return self.duel is not None and self.duel.enabled and self.duel.load

    def measures(self, part: str) -> bool:
        """Whether a part of a block gives figures in each of them: data that is loaded once has one load."""
        upgrades = self.design.start_from == "baseline"
        planned = {
            "solo": self.design.reload != "once" and not upgrades,
            "duel": self.duels and not upgrades,
            "upgrade": upgrades,
            "mixed": self.mixed is not None,
            "capacity": self.capacity is not None,
        }
        return planned.get(part, part == "bench")

    def variant(self, name: str) -> Variant:
        """Return a variant by its name."""
        return next(variant for variant in self.variants if variant.name == name)

    def target_of(self, variant: str) -> Target:
        """Return what is known of the database that a variant is a version of."""
        return self.targets[self.variant(variant).target]

    def write(self, run_dir: Path) -> None:
        """Write RUN/plan/experiment.json. A plan that exists is a plan that is whole."""
        files.write(run_dir / PLAN, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def load(cls, run_dir: Path) -> Self:
        """Read RUN/plan/experiment.json; a UserError says if it is missing, damaged, or another version's."""
        path = run_dir / PLAN
        if not path.exists():
            raise UserError(f"{run_dir} is not a run directory: it has no {PLAN}. `ls results` shows the runs")
        version = read_json(path).get("plan_version", 1)
        if version != VERSION:
            age = "an older" if isinstance(version, int) and version < VERSION else "another"
            raise UserError(
                f"{run_dir} was made by {age} tsduel (its plan has version {version}, this one reads {VERSION}): "
                "read its report as it is, and make a new run for anything else"
            )
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise UserError(f"{path}: {where}: {first['msg']}; a plan is never edited: make a new run") from None
