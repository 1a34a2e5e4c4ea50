"""raw/BBB/block.json, as far as it is read here: what was done in a block, when (epoch seconds), and what was checked.

The host writes more into it (host/record/block.go, results/README.md).
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tsduel.core.errors import UserError
from tsduel.core.files import read_json

SOLO, DUEL, BENCH = "solo", "duel", "bench"
MIXED, CAPACITY, UPGRADE = "mixed", "capacity", "upgrade"


def _known(value: Any) -> Any:
    """Leave out null, which Go writes for a list or a map that nothing was put into; in maps of maps, too."""
    return {k: _known(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


class _Record(BaseModel):
    """A record in which the host says more than is read here."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _absent(cls, value: Any) -> Any:
        return _known(value)


class Failure(_Record):
    """Why a block failed; variant "" is not one variant's doing."""

    variant: str = ""
    message: str


class Phase(_Record):
    """One phase of a part; variant "" where all variants are in it, as in the duel."""

    variant: str = ""
    part: str
    phase: str
    query_type: str = ""
    begin: float
    end: float
    client_user_s: float | None = None
    client_system_s: float | None = None

    @property
    def seconds(self) -> float:
        """Wall seconds."""
        return self.end - self.begin

    @property
    def client_cpu_s(self) -> float | None:
        """CPU seconds of the client, where they were counted."""
        if self.client_user_s is None or self.client_system_s is None:
            return None
        return self.client_user_s + self.client_system_s


class Check(_Record):
    """One check; `message` says what is wrong where it is not ok."""

    check: str
    variant: str = ""
    phase: str = ""
    query_type: str = ""
    expected: float | int | str | None = None
    actual: float | int | str | None = None
    ok: bool
    message: str = ""


class Client(_Record):
    """One of several clients of a phase: when it began after the agreed instant, and its share of its host's CPUs."""

    host: str
    share: float
    began_ms: float = 0.0
    cpus: int = 1


class Solo(_Record):
    """What one variant did alone; `cpu_ns`: the server's CPU clock at an edge, `sizes`: bytes; by what, then role.

    `clients` are those of several that loaded together, and `skew_ms` by how much one began before another.
    """

    sizes: dict[str, float] = {}
    sizes_by_role: dict[str, dict[str, int]] = {}
    arrive_s: float | None = None
    drain_s: float | None = None
    start_s: float | None = None
    stop_s: float | None = None
    cpu_ns: dict[str, int] = {}
    written_bytes: int = 0
    cpu_ns_by_role: dict[str, dict[str, int]] = {}
    clients: tuple[Client, ...] = ()
    skew_ms: float = 0.0


class DuelIdle(_Record):
    """CPU of each server while nobody asks, before or after the exchanges."""

    seconds: float
    cpu_ns: dict[str, int]


class DuelType(_Record):
    """The exchanges of one query type."""

    query_type: str
    exchanges: int
    seconds: float
    cpu_ns: dict[str, int] = {}
    cpu_ns_by_role: dict[str, dict[str, int]] = {}
    client_cpu_ns: int | None = None
    instructions: dict[str, int] | None = None
    counters: dict[str, dict[str, float]] = {}


class DuelLoad(_Record):
    """Exchanged ingestion."""

    exchanges: int
    samples: int
    cpu_ns: dict[str, int] = {}
    cpu_ns_by_role: dict[str, dict[str, int]] = {}


class Duel(_Record):
    """What the variants did beside each other."""

    idle: tuple[DuelIdle, ...] = ()
    types: tuple[DuelType, ...] = ()
    load: DuelLoad | None = None
    counters: dict[str, dict[str, float]] = {}
    rss_bytes: dict[str, int] = {}
    rss_by_role: dict[str, dict[str, int]] = {}


class UpgradeStart(_Record):
    """A first start on the baseline's data; CPU and bytes are until it was quiet. `refused`: why it did not start."""

    refused: str = ""
    start_s: float = 0.0
    first_answer_s: float = 0.0
    quiet_s: float = 0.0
    cpu_ns: int = 0
    written_bytes: int = 0


class DowngradeAnswers(_Record):
    """Answers of the downgraded baseline over one window: old, half or new; `what` is the first that differs."""

    window: str
    asked: int
    same: int
    what: str = ""


class Downgrade(_Record):
    """The baseline on what a candidate has left; `said` are its words where it did not start, or a complaint."""

    starts: bool = False
    said: str = ""
    answers: tuple[DowngradeAnswers, ...] = ()


class Upgrade(_Record):
    """What the variants did on copies of what the baseline had left, by variant."""

    start: dict[str, UpgradeStart] = {}
    before: Duel | None = None
    ingest: dict[str, Solo] = {}
    after: Duel | None = None
    sizes: dict[str, dict[str, float]] = {}
    downgrade: dict[str, Downgrade] = {}


class RateStream(_Record):
    """Operations of one kind, query or batch; times in ns by p50, p90, p99, p999 and max."""

    operation: str
    rate: float
    planned: int
    started: int
    answered: int
    unstarted: int = 0
    queued: int = 0
    late: int = 0
    response_ns: dict[str, int] = {}
    service_ns: dict[str, int] = {}
    lateness_ns: dict[str, int] = {}


class RatePhase(_Record):
    """Operations whose starts were fixed beforehand; `void` says why they tell nothing of the server."""

    rate: float = 0.0
    seconds: float
    streams: tuple[RateStream, ...]
    cpu_ns: int
    client_share: float
    rss_bytes: int = 0
    counters: dict[str, float] = {}
    samples: int = 0
    void: str = ""
    held: bool = False
    clients: tuple[Client, ...] = ()
    skew_ms: float = 0.0


class RatesPart(_Record):
    """What one variant did at fixed rates: one phase, or one a rung."""

    phases: tuple[RatePhase, ...] = ()


class Block(_Record):
    """One published block, ok or failed; `path` is its directory."""

    path: Any = None
    block: int
    cell: str = ""
    host: str = "host1"
    kind: str
    order: tuple[str, ...]
    status: str
    failures: tuple[Failure, ...] = ()
    void: str = ""
    started: float
    ended: float
    phases: tuple[Phase, ...] = ()
    solo: dict[str, Solo] = {}
    duel: Duel | None = None
    upgrade: Upgrade | None = None
    mixed: dict[str, RatesPart] = {}
    capacity: dict[str, RatesPart] = {}
    checks: tuple[Check, ...] = ()

    @property
    def name(self) -> str:
        """Its directory's name."""
        return str(self.path.name)

    @property
    def ok(self) -> bool:
        """Whether nothing in it failed."""
        return self.status == "ok"

    @property
    def seconds(self) -> float:
        """Wall seconds of all of it."""
        return self.ended - self.started

    def phase(self, variant: str, part: str, name: str, query_type: str = "") -> Phase | None:
        """Return a phase, its last attempt when it was started again."""
        key = (variant, part, name, query_type)
        return next((p for p in reversed(self.phases) if (p.variant, p.part, p.phase, p.query_type) == key), None)


def read_block(path: Path) -> Block:
    """Read a block.json."""
    try:
        return Block.model_validate(read_json(path) | {"path": path.parent})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {where}: {first['msg']}: this block's record is damaged") from None
