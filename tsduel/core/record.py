"""raw/HOST/BBB/block.json: what Python reads of a block's record. The host writes it, and makes tables of the rest.

host/record says what each field means.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.sections import first_error

SOLO, DUEL, BENCH = "solo", "duel", "bench"
MIXED, CAPACITY, UPGRADE = "mixed", "capacity", "upgrade"
SCHEMA = 1


def _known(value: Any) -> Any:
    """Leave out null, which Go writes for an empty list or map; in maps of maps, too."""
    return {k: _known(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


class _Record(BaseModel):
    """A record. Unknown fields are ignored; a missing field is zero or empty, as in Go."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _absent(cls, value: Any) -> Any:
        return _known(value)


class Pin(_Record):
    """The CPUs of servers and client."""

    server: list[int] = []
    client: list[int] = []


class Facts(_Record):
    """What a host is: raw/HOST.json. These fields are what they seem to be; others are kept as they are."""

    model_config = ConfigDict(extra="allow", strict=True)

    hostname: str = ""
    os: str = ""
    kernel: str = ""
    architecture: str = ""
    cpu_model: str = ""
    virtualization: str = ""
    filesystem: str = ""
    cpus: int = 0
    memory_bytes: int = 0
    cpu_limit: float | None = None
    sysctls: dict[str, str] = {}
    pin: Pin = Pin()


class Failure(_Record):
    """Why a variant, or all of them (""), has no result."""

    variant: str = ""
    message: str = ""


class DuelPlace(_Record):
    """Where a component is in memory."""

    frames: int = 0


class DuelType(_Record):
    """The exchanges of one query type in one sitting."""

    query_type: str = ""
    exchanges: int = 0
    differences: int = 0
    errors: int = 0
    series: int = 0
    points: int = 0


class Duel(_Record):
    """How all variants were asked."""

    held_by: str = ""
    unheld: str = ""
    places: tuple[DuelPlace, ...] = ()
    types: tuple[DuelType, ...] = ()


class UpgradeStart(_Record):
    """A first start on the baseline's data."""

    refused: str = ""


class DowngradeAnswers(_Record):
    """Answers of the downgraded baseline."""

    window: str = ""
    asked: int = 0
    same: int = 0
    what: str = ""


class Downgrade(_Record):
    """The baseline started on a candidate's directory."""

    starts: bool = False
    said: str = ""
    answers: tuple[DowngradeAnswers, ...] = ()


class Upgrade(_Record):
    """What variants did on copies of the baseline's data."""

    start: dict[str, UpgradeStart] = {}
    before: Duel | None = None
    after: Duel | None = None
    downgrade: dict[str, Downgrade] = {}


class RateStream(_Record):
    """The operations of one kind in a phase."""

    operation: str = ""
    rate: float = 0.0
    planned: int = 0
    started: int = 0
    unstarted: int = 0
    queued: int = 0
    late: int = 0
    lateness_ns: dict[str, int] = {}


class RatePhase(_Record):
    """An open loop."""

    rate: float = 0.0
    streams: tuple[RateStream, ...] = ()
    client_share: float = 0.0
    void: str = ""
    held: bool = False


class RatesPart(_Record):
    """A variant alone at fixed rates."""

    phases: tuple[RatePhase, ...] = ()


class Block(_Record):
    """One published block, ok or failed. `path` is its directory."""

    path: Any = None
    block: int = 0
    host: str = ""
    kind: str = ""
    order: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    status: str = ""
    failures: tuple[Failure, ...] = ()
    void: str = ""
    started: float = 0.0
    ended: float = 0.0
    duel: Duel | None = None
    upgrade: Upgrade | None = None
    mixed: dict[str, RatesPart] = {}
    capacity: dict[str, RatesPart] = {}

    @property
    def name(self) -> str:
        """The name of its directory."""
        return str(self.path.name)

    @property
    def ok(self) -> bool:
        """Whether nothing in it failed."""
        return self.status == "ok"

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of the whole block."""
        return self.ended - self.started

    @property
    def duels(self) -> list[Duel]:
        """Its duels: an upgrade has two."""
        upgrade = self.upgrade or Upgrade()
        return [duel for duel in (self.duel, upgrade.before, upgrade.after) if duel]

    @property
    def left_out(self) -> list[str]:
        """Why it is in no figure, or a phase of it: what failed, and what is void."""
        phases = [phase for part in (*self.mixed.values(), *self.capacity.values()) for phase in part.phases]
        void = (self.void, *(phase.void for phase in phases))
        return [failure.message for failure in self.failures] + [why for why in void if why]

    def counts(self, variant: str) -> bool:
        """Whether what it has of a variant may be compared."""
        return not self.void and not {"", variant} & {failure.variant for failure in self.failures}


def table(block: Block, name: str) -> list[dict[str, str]]:
    """Return the rows of a table that the host has made of a block."""
    path = block.path / f"{name}.csv"
    if not path.exists():
        run = block.path.parents[2]
        raise UserError(
            f"{path} is missing: `tsduel-host tidy {run}` makes it from the other files of the block, where they "
            "are (build/agent.json says which program that is)"
        )
    with files.reading(path, "table"):
        return list(csv.DictReader(io.StringIO(files.content(path).decode(), newline="")))


def after(baseline: str, candidate: str, order: Sequence[str]) -> bool | None:
    """Whether a candidate came after the baseline; None if they are not in the order, as in a pivoted run."""
    return order.index(candidate) > order.index(baseline) if {baseline, candidate} <= set(order) else None


def read_facts(path: Path) -> dict[str, Any]:
    """Read a host's description as it is written; a UserError if a field that is read is of another type."""
    facts = read_json(path)
    try:
        Facts.model_validate(facts)
    except ValidationError as error:
        raise UserError(f"{path}: {first_error(error)}: this description of a host is damaged") from None
    return facts


def read_block(path: Path) -> Block:
    """Read a block.json."""
    record = read_json(path)
    if "status" not in record:
        raise UserError(f"{path}: it has no status: this block's record is damaged")
    if (schema := record.get("schema")) != SCHEMA:
        raise UserError(
            f"{path} has schema {schema} of a block's record, and this tsduel reads schema {SCHEMA}: "
            "use the tsduel that wrote it"
        )
    try:
        block = Block.model_validate(record | {"path": path.parent})
    except ValidationError as error:
        raise UserError(f"{path}: {first_error(error)}: this block's record is damaged") from None
    # Both make paths and keys, and a host writes about its own blocks only.
    if (f"{block.block:03d}", block.host) != (path.parent.name, path.parent.parent.name):
        raise UserError(f"{path}: it is of block {block.block} on {block.host!r}: this block's record is damaged")
    return block
