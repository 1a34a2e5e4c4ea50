"""What is in a run directory: the plan, the order of blocks and the finished ones. See results/README.md."""

import csv
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.plan import Plan
from tsduel.core.record import Block, read_block

BLOCK_NAME = re.compile(r"\d{3,}")


@dataclass(frozen=True)
class BlockRow:
    """A line of plan/blocks.tsv; kind is warmup, measured or spare."""

    block: int
    cell: str
    host: str
    kind: str
    order: tuple[str, ...]
    query_types: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the block's directory below raw/."""
        return f"{self.block:03d}"


@dataclass(frozen=True)
class Run:
    """A run directory and its plan."""

    path: Path
    plan: Plan

    def at(self, cell: str) -> "Run":
        """Return the run with the plan as a cell has it."""
        return Run(self.path, self.plan.at(cell)) if self.plan.sweeps else self

    @cached_property
    def warmups(self) -> set[int]:
        """Numbers of the warm-up blocks, one for each cell."""
        return {row.block for row in self.planned if row.kind == "warmup"}

    @cached_property
    def variants(self) -> list[str]:
        """What is compared, baseline first: the variants, or the columns of a pivoted run."""
        columns = self.of_any_host("calibration.json").get("columns")
        return [str(column) for column in columns] if columns else [variant.name for variant in self.plan.variants]

    @cached_property
    def blocks(self) -> list[Block]:
        """Every finished block, ok or failed, in order of execution; a .partial one is none yet."""
        found = [
            read_block(path) for path in self.path.glob("raw/*/block.json") if BLOCK_NAME.fullmatch(path.parent.name)
        ]
        return sorted(found, key=lambda block: (block.started, block.block))

    @cached_property
    def planned(self) -> list[BlockRow]:
        """The lines of plan/blocks.tsv."""
        path = self.path / "plan/blocks.tsv"
        try:
            with path.open(encoding="utf-8", newline="") as stream:
                return [
                    BlockRow(
                        int(row["block"]),
                        row["cell"],
                        row["host"],
                        row["kind"],
                        tuple(row["order"].split(",")),
                        tuple(filter(None, row["query_types"].split(","))),
                    )
                    for row in csv.DictReader(stream, delimiter="\t")
                ]
        except FileNotFoundError:
            raise UserError(f"{path} is missing: the plan is not whole; make a new run") from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError(f"{path}: no table of blocks; a plan is never edited: make a new run") from None

    @cached_property
    def due(self) -> list[BlockRow]:
        """The planned blocks that are run if nothing is spoilt and no host is lost."""
        return [row for row in self.planned if row.kind != "spare" and row.host in self.plan.hosts]

    def json(self, name: str) -> dict[str, Any]:
        """Read a JSON file below the run directory; an empty dictionary where there is none."""
        path = self.path / name
        return read_json(path) if path.exists() else {}

    @cached_property
    def host(self) -> dict[str, Any]:
        """What the measured host says of itself, raw/host1.json, of a fleet the first that has; empty before."""
        return next(iter(self.machines.values()), {})

    @cached_property
    def machines(self) -> dict[str, dict[str, Any]]:
        """What each host that has run says of itself, raw/HOST.json, by its name in the plan."""
        return {name: found for name in self.plan.every_host if (found := self.json(f"raw/{name}.json"))}

    def place_of(self, host: str, name: str) -> str:
        """Return where that is which a host has written of all its blocks: raw/NAME, of a fleet raw/HOST/NAME."""
        return f"raw/{host}/{name}" if self.plan.is_fleet else f"raw/{name}"

    def of_host(self, host: str, name: str) -> dict[str, Any]:
        """Read it; an empty dictionary where there is none."""
        return self.json(self.place_of(host, name))

    def of_any_host(self, name: str) -> dict[str, Any]:
        """Read the same of the first host that has it, where it says the same of all."""
        return next((found for host in self.plan.every_host if (found := self.of_host(host, name))), {})


def open_run(path: Path) -> Run:
    """Open a run directory; the plan must be there."""
    return Run(path, Plan.load(path))


def refuse_imported(run_dir: Path, plan: Plan) -> None:
    """Raise where a run was made of logs: its blocks are over, and nobody knows on which machine."""
    if plan.imported:
        raise UserError(f"{run_dir} was imported from logs: there is nothing to build or to run in it")
