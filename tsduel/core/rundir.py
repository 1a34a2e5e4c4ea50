"""A run directory: the plan, the order of blocks, and the finished blocks. See results/README.md."""

import csv
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tsduel.core import tables
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.plan import Plan
from tsduel.core.record import Block, read_block, read_facts

BLOCK_NAME = re.compile(r"\d{3,}")


@dataclass(frozen=True)
class BlockRow:
    """A line of plan/blocks.tsv; `kind` is warmup, measured or spare.

    Coins, which say which variant comes first: `order` in loads alone, `start` in places and starts, `read`
    in readings, `ask` in operations. A spare block has () for each; it takes those of the block that it
    replaces.
    """

    block: int
    host: str
    kind: str
    order: tuple[str, ...]
    start: tuple[str, ...]
    read: tuple[str, ...]
    ask: tuple[str, ...]
    query_types: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the block's directory in raw/HOST/."""
        return f"{self.block:03d}"


@dataclass(frozen=True)
class Run:
    """A run directory with its plan."""

    path: Path
    plan: Plan

    @cached_property
    def warmups(self) -> set[int]:
        """Numbers of the warm-up blocks."""
        return {row.block for row in self.planned if row.kind == "warmup"}

    @cached_property
    def variants(self) -> list[str]:
        """Names of the variants, or the columns of a pivoted run; the baseline first."""
        columns = self.of_any_host("calibration.json").get("columns")
        return [str(column) for column in columns] if columns else [variant.name for variant in self.plan.variants]

    @cached_property
    def blocks(self) -> list[Block]:
        """Every finished block, ok or failed, in order of execution."""
        # An unfinished block is in a directory with the suffix .partial.
        paths = [path for path in self.path.glob("raw/*/*/block.json") if BLOCK_NAME.fullmatch(path.parent.name)]
        return sorted(map(read_block, paths), key=lambda block: (block.started, block.block))

    @cached_property
    def planned(self) -> list[BlockRow]:
        """The lines of plan/blocks.tsv."""
        path = self.path / "plan/blocks.tsv"
        try:
            with path.open(encoding="utf-8", newline="") as stream:
                return [
                    BlockRow(
                        int(row["block"]),
                        row["host"],
                        row["kind"],
                        *(tuple(filter(None, row[name].split(","))) for name in (*tables.COINS, "query_types")),
                    )
                    for row in csv.DictReader(stream, delimiter="\t")
                ]
        except FileNotFoundError:
            raise UserError(f"{path} is missing: the plan is not whole; make a new run") from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError(f"{path}: no table of blocks; a plan is never edited: make a new run") from None

    @cached_property
    def due(self) -> list[BlockRow]:
        """The planned blocks that run if no block is spoilt and no host is lost."""
        return [row for row in self.planned if row.kind != "spare" and row.host in self.plan.hosts]

    def json(self, name: str) -> dict[str, Any]:
        """Read a JSON file below the run directory; {} if there is none."""
        path = self.path / name
        return read_json(path) if path.exists() else {}

    @cached_property
    def host(self) -> dict[str, Any]:
        """The description of the first host that has one, raw/HOST.json; {} before the first block."""
        return next(iter(self.machines.values()), {})

    @cached_property
    def machines(self) -> dict[str, dict[str, Any]]:
        """The descriptions of the hosts, raw/HOST.json, by host; a host without one is left out."""
        paths = {name: self.path / f"raw/{name}.json" for name in self.plan.every_host}
        return {name: facts for name, path in paths.items() if path.exists() and (facts := read_facts(path))}

    def node_of(self, host: str) -> str:
        """Return the node of a host that was a pod, the last one if there were several; "" elsewhere."""
        return str(self.machines.get(host, {}).get("hostname", "")) if self.plan.place.in_pods else ""

    def of_host(self, host: str, name: str) -> dict[str, Any]:
        """Read a JSON file that a host has written; {} if there is none."""
        return self.json(f"raw/{host}/{name}")

    def of_any_host(self, name: str) -> dict[str, Any]:
        """Read that file of the first host that has it, if its content is the same for all hosts."""
        return next((content for host in self.plan.every_host if (content := self.of_host(host, name))), {})


def open_run(path: Path) -> Run:
    """Open a run directory; a UserError if it has no plan."""
    return Run(path, Plan.load(path))
