"""A sweep in the plan: the sections that each cell changes, and what all of them take together."""

import math
from collections.abc import Sequence
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.plan import Cell, Component, Duration, Estimate, Plan, Variant
from tsduel.core.wording import amount, lasting, number_of
from tsduel.question.matrix import AskedCell
from tsduel.workloads import workload_of
from tsduel.workloads.protocol import Planned

_STARTED_WITH = {"flags", "env"}
"""Of a component, what can be another one in each cell: the rest is built, and that is done once for the run."""


def settle(
    workload: Planned, asked: Sequence[AskedCell], variants: int
) -> tuple[dict[str, Any], Duration, tuple[Cell, ...]]:
    """Return the plan's sections, which are those of the first cell with the estimate of all, its times, and the cells.

    Data and queries that cells share are counted once, and so is the disk of the largest database, since only one
    block's are there at a time. Components are not in the cells yet.
    """
    of_cell = [workload.sections(cell.asked, variants) for cell in asked]
    lasts = [workload.duration(own, cell.asked, variants) for own, cell in zip(of_cell, asked, strict=True)]
    first = of_cell[0]
    if len(asked) == 1:
        return first, lasts[0], (Cell(set=asked[0].set),)
    made = {_files(own): (own["estimate"], lasting.workload_s) for own, lasting in zip(of_cell, lasts, strict=True)}
    estimates: list[Estimate] = [own["estimate"] for own in of_cell]
    total = Estimate(
        data_bytes=sum(one.data_bytes for one, _ in made.values()),
        query_bytes=sum(one.query_bytes for one, _ in made.values()),
        database_bytes=max(one.database_bytes for one in estimates),
        results_bytes=sum(one.results_bytes for one in estimates),
    )
    workload_s = sum(seconds for _, seconds in made.values())
    blocks_s = sum(one.total_s - one.prepare_s - one.workload_s for one in lasts)
    duration = Duration(
        prepare_s=lasts[0].prepare_s,
        workload_s=workload_s,
        block_s=math.ceil(sum(one.block_s for one in lasts) / len(lasts)),
        total_s=lasts[0].prepare_s + workload_s + blocks_s,
    )
    changed = [{name: own[name] for name in Cell.SECTIONS if own[name] != first[name]} for own in of_cell]
    cells = tuple(Cell(name=cell.name, set=cell.set, **own) for cell, own in zip(asked, changed, strict=True))
    return {**first, "estimate": total}, duration, cells


def shared(lasts: Duration, share: float) -> Duration:
    """Return the times of a run of which each host has at most this share of the blocks."""
    before = lasts.prepare_s + lasts.workload_s
    return lasts.model_copy(update={"total_s": before + math.ceil((lasts.total_s - before) * share)})


def _files(sections: dict[str, Any]) -> tuple[str, ...]:
    return tuple(file.key for file in sections["workload"].data)


def started(cell: Cell, asked: AskedCell, variants: Sequence[Variant], first: AskedCell) -> Cell:
    """Return the cell with the components that it starts otherwise than the run; what is built is the same for all."""
    changed = dict[str, tuple[Component, ...]]()
    for variant in variants:
        # Of an A/A run both are the baseline.
        written = variant.name if variant.name in asked.asked.variants else "baseline"
        own, base = (one.asked.variants[written] for one in (asked, first))
        if own == base:
            continue
        for mine, theirs in zip(own.parts, base.parts, strict=False):
            differ = [
                name for name in type(mine).model_fields
                if name not in _STARTED_WITH and name != "components" and getattr(mine, name) != getattr(theirs, name)
            ]  # fmt: skip
            if differ or len(own.parts) != len(base.parts):
                raise UserError(
                    f"matrix: variants.{written}.{differ[0] if differ else 'components'}: a cell has no builds of its "
                    "own, only flags and env: give what is built otherwise as another variant"
                )
        changed[variant.name] = tuple(
            component.model_copy(update={name: getattr(part, name) for name in _STARTED_WITH})
            for component, part in zip(variant.components, own.parts, strict=True)
        )
    return cell.model_copy(update={"components": changed})


def memory(plan: Plan) -> int | None:
    """Return the bytes that one server will roughly need in the largest cell; None where nobody knows."""
    sizes = [(variant.target, len(variant.components)) for variant in plan.variants]
    each = [workload_of(plan).memory(plan.at(cell.name).workload, sizes) for cell in plan.cells]
    return max((one for one in each if one is not None), default=None)


def described(plan: Plan, blocks: int) -> str:
    """Return the first line of a sweep's plan: cells, blocks, hours, disk, and money where the machine is rented."""
    keys = ", ".join(dict.fromkeys(key for cell in plan.cells for key in cell.set))
    rough = plan.duration
    parts = [f"{len(plan.cells)} cells ({keys})", number_of(blocks, "block")]
    if rough:
        seconds = rough.total_s - (0 if plan.place.kind == "gcp" else rough.prepare_s)
        parts.append(f"about {lasting(seconds)}, roughly")
    parts.append(f"up to {amount(plan.estimate.total)} of disk")
    if plan.place.kind == "gcp":
        parts.append(f"about {plan.place.price.expected:.2f} USD")
    return f"sweep     {', '.join(parts)}"
