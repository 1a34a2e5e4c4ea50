"""The plan of a run, plan/experiment.json: everything that is fixed before the first block.

The host reads the same file. `python -m tests.contract` makes its types (host/record/plan_generated.go) from
these. Times are in seconds and sizes in bytes, unless a name has another unit.
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError

from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.gobench import GoBench, GoWatchdog
from tsduel.core.limits import ServerLimits
from tsduel.core.place import LocalPlace, Place
from tsduel.core.sections import (
    CapacityAsked,
    ComponentAsked,
    Design,
    Duel,
    Host,
    Noise,
    Part,
    ProfileKind,
    Report,
    Settle,
    Watchdog,
    first_error,
)
from tsduel.core.target import Target
from tsduel.core.tsbs import Mixed, Queries, Workload

VERSION = 10


class Own(Part):
    """Which tsduel made the plan."""

    version: str
    commit: str


class Asked(Part):
    """What the user gave: the file ("" for none), its content, and the knobs, which replace values."""

    experiment: str
    written: dict[str, Any] = {}
    knobs: dict[str, str] = {}


class Component(ComponentAsked):
    """One process of a variant, from one exact revision: a full git hash, a module's checksum, or sha256:...

    `version`: what the program prints, as v1.132.0. `sum`: checksum of a module (h1:...). `dirty`: sha256 over local
    changes of a checkout, "" without any. `label`: short, for tables.
    """

    program: str
    label: str
    revision: str = ""
    version: str = ""
    sum: str = ""
    dirty: str = ""
    build_key: str = ""


class Variant(Part):
    """One side of the comparison. Only Go benchmarks have `package` and `bench`.

    Clients talk to the first component. It is started last.
    """

    name: str
    label: str
    target: str
    components: Annotated[tuple[Component, ...], Field(min_length=1)]
    package: str = ""
    bench: str = ""

    @property
    def server(self) -> Component:
        """The component that clients talk to."""
        return self.components[0]


class Tsbs(Part):
    """The version of TSBS."""

    version: str


class Estimate(Part):
    """Bytes in the cache and in results/. Each is an upper estimate."""

    data_bytes: int = 0
    query_bytes: int = 0
    database_bytes: int = 0
    results_bytes: int = 0

    @property
    def total(self) -> int:
        """The sum."""
        return self.data_bytes + self.query_bytes + self.database_bytes + self.results_bytes


class Duration(Part):
    """Rough times in whole seconds, for deadlines and prices: to prepare, to make data, a block, all."""

    prepare_s: int
    workload_s: int
    block_s: int
    total_s: int


class Plan(Part):
    """plan/experiment.json. A section that a kind of run does not have is None.

    The first of `variants` is the baseline.
    """

    plan_version: Literal[10] = 10
    run: str
    name: str
    question: str
    kind: Literal["tsbs", "gobench"]
    smoke: bool
    screen: bool
    aa: bool
    created: str
    own: Own
    asked: Asked
    place: Place = LocalPlace()
    hosts: tuple[str, ...] = ("host1",)
    spare_hosts: tuple[str, ...] = ()
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
    limits: ServerLimits | None = None
    mixed: Mixed | None = None
    capacity: CapacityAsked | None = None
    gobench: GoBench | None = None
    profile: tuple[ProfileKind, ...] = ()
    tsbs: Tsbs | None = None
    estimate: Estimate = Estimate()
    duration: Duration | None = None
    report: Report = Report()

    FILE: ClassVar[str] = "plan/experiment.json"

    @property
    def query_types(self) -> tuple[str, ...]:
        """Names of the query types, in the order of the experiment; () for Go benchmarks."""
        return tuple(entry.name for entry in self.queries.types) if self.queries else ()

    @property
    def every_host(self) -> tuple[str, ...]:
        """Names of all hosts, spare hosts last."""
        return self.hosts + self.spare_hosts

    def named(self, host: str) -> str:
        """Return the name of a host for texts: "" for the only host."""
        return host if len(self.every_host) > 1 else ""

    def machine_of(self, host: str) -> str:
        """Return the name of a host's machine: its type if it is rented, else host.machine."""
        return self.place.of(host, "named") or self.host.machine

    @property
    def deployed(self) -> bool:
        """Whether the servers run already: nothing of them is built, started or stopped."""
        return bool(self.variants[0].server.url)

    @property
    def loads(self) -> bool:
        """Whether anything is loaded: into servers that run already only if the experiment says so."""
        return self.design.load == "in_turn" or not self.deployed

    @property
    def crosses(self) -> bool:
        """Whether different databases are compared."""
        return len({variant.target for variant in self.variants}) > 1

    def crosses_to(self, candidate: str) -> bool:
        """Whether a candidate is another database than the baseline."""
        return self.crosses and self.variant(candidate).target != self.variants[0].target

    @property
    def duels(self) -> bool:
        """Whether blocks have a duel."""
        return self.duel is not None and self.duel.enabled

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of all components if a variant has several components, else ()."""
        if all(len(variant.components) == 1 for variant in self.variants):
            return ()
        return tuple(dict.fromkeys(part.role for variant in self.variants for part in variant.components))

    @property
    def exchanges_load(self) -> bool:
        """Whether the duel exchanges batches of data in every block, too."""
        once = self.loads_in_turn and self.design.reload == "once"
        return self.duel is not None and self.duel.enabled and self.duel.batches and not once

    @property
    def loads_in_turn(self) -> bool:
        """Whether all data is loaded in turn, so that no variant loads alone."""
        return self.design.load == "in_turn" and not self.deployed

    @property
    def mixed_s(self) -> float:
        """Seconds of a block that no machine can shorten: writes and queries at once, of each variant alone."""
        return len(self.variants) * self.mixed.seconds if self.mixed else 0

    def measures(self, part: str) -> bool:
        """Whether a part gives figures in every block; a load for all blocks (`reload: once`) does not."""
        upgrades = self.design.start_from == "baseline"
        planned = {
            "solo": self.design.reload != "once" and not upgrades and not self.loads_in_turn,
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
        """Return the target of a variant."""
        return self.targets[self.variant(variant).target]

    def write(self, run_dir: Path) -> None:
        """Write RUN/plan/experiment.json. The file exists only if the plan is whole."""
        files.write(run_dir / self.FILE, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def load(cls, run_dir: Path) -> Self:
        """Read RUN/plan/experiment.json; a UserError if it is missing, damaged, or of another version."""
        path = run_dir / cls.FILE
        if not path.exists():
            raise UserError(f"{run_dir} is not a run directory: it has no {cls.FILE}. `ls results` shows the runs")
        version = files.read_json(path).get("plan_version", 1)
        if version != VERSION:
            age = "an older" if isinstance(version, int) and version < VERSION else "another"
            raise UserError(
                f"{run_dir} was made by {age} tsduel (its plan has version {version}, this one reads {VERSION}): "
                "read its report as it is, and make a new run for anything else"
            )
        try:
            return cls.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise UserError(f"{path}: {first_error(error)}; a plan is never edited: make a new run") from None
