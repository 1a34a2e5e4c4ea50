"""A sweep in the plan: the sections that each cell changes, and the estimate of all cells."""

import math
from collections.abc import Sequence
from typing import Any

from tsduel.core import gobuild
from tsduel.core.errors import UserError
from tsduel.core.plan import Cell, Component, Duration, Estimate, Plan, Variant
from tsduel.core.wording import amount, lasting, number_of
from tsduel.question.matrix import AskedCell
from tsduel.workloads import workload_of
from tsduel.workloads.protocol import Planned

_STARTED_WITH = {"flags", "env", "files"}
"""Fields of a component that can differ between cells. The others belong to its build."""


def settle(
    workload: Planned, asked: Sequence[AskedCell], variants: int
) -> tuple[dict[str, Any], Duration, tuple[Cell, ...]]:
    """Return the plan's sections, its times, and the cells, still without components.

    The sections are those of the first cell with the estimate of all cells. Data and queries that cells share
    count once. Disk counts for the largest database alone, since only one block has its databases at a time.
    """
    sections = [workload.sections(cell.asked, variants) for cell in asked]
    times = [workload.duration(own, cell.asked, variants) for own, cell in zip(sections, asked, strict=True)]
    first = sections[0]
    if len(asked) == 1:
        return first, times[0], (Cell(set=asked[0].set),)
    if any(own.get("targets") != first.get("targets") for own in sections):
        raise UserError("matrix: the cells have data of several formats of lines: sweep over data of one format")
    estimates: list[Estimate] = [own["estimate"] for own in sections]
    keys = [tuple(file.key for file in own["workload"].data) for own in sections]
    files = dict(zip(keys, zip(estimates, times, strict=True), strict=True))
    total = Estimate(
        data_bytes=sum(estimate.data_bytes for estimate, _ in files.values()),
        query_bytes=sum(estimate.query_bytes for estimate, _ in files.values()),
        database_bytes=max(estimate.database_bytes for estimate in estimates),
        results_bytes=sum(estimate.results_bytes for estimate in estimates),
    )
    workload_s = sum(duration.workload_s for _, duration in files.values())
    blocks_s = sum(duration.total_s - duration.prepare_s - duration.workload_s for duration in times)
    duration = Duration(
        prepare_s=times[0].prepare_s,
        workload_s=workload_s,
        block_s=math.ceil(sum(each.block_s for each in times) / len(times)),
        total_s=times[0].prepare_s + workload_s + blocks_s,
    )
    changed = [{name: own[name] for name in Cell.SECTIONS if own[name] != first[name]} for own in sections]
    cells = tuple(Cell(name=cell.name, set=cell.set, **own) for cell, own in zip(asked, changed, strict=True))
    return {**first, "estimate": total}, duration, cells


def shared(times: Duration, share: float) -> Duration:
    """Return the times of a fleet whose busiest host has this share of the blocks."""
    before = times.prepare_s + times.workload_s
    return times.model_copy(update={"total_s": before + math.ceil((times.total_s - before) * share)})


def started(cell: Cell, asked: AskedCell, variants: Sequence[Variant], first: AskedCell) -> Cell:
    """Return the cell with components whose flags or env differ from the run's; no build may differ."""
    changed = dict[str, tuple[Component, ...]]()
    for variant in variants:
        own, base = asked.asked.variants[variant.name], first.asked.variants[variant.name]
        if own == base:
            continue
        for part, base_part in zip(own.parts, base.parts, strict=False):
            names = [name for name in type(part).model_fields if name not in {*_STARTED_WITH, "components"}]
            differ = next((name for name in names if getattr(part, name) != getattr(base_part, name)), "")
            if gobuild.of_build(part.env) != gobuild.of_build(base_part.env):
                differ = "env (settings of the build)"
            if differ or len(own.parts) != len(base.parts):
                raise UserError(
                    f"matrix: variants.{variant.name}.{differ or 'components'}: a cell has no builds of its "
                    "own, only flags, env and files: give what is built otherwise as another variant"
                )
        changed[variant.name] = tuple(
            component.model_copy(update={name: getattr(part, name) for name in _STARTED_WITH})
            for component, part in zip(variant.components, own.parts, strict=True)
        )
    return cell.model_copy(update={"components": changed})


def memory(plan: Plan) -> int | None:
    """Return the rough memory of one server in the largest cell in bytes; None if unknown, or nothing is started."""
    if plan.deployed:
        return None
    sizes = [(variant.target, len(variant.components)) for variant in plan.variants]
    each = [workload_of(plan).memory(plan.at(cell.name).workload, sizes) for cell in plan.cells]
    return max((bytes_ for bytes_ in each if bytes_ is not None), default=None)


def described(plan: Plan, blocks: int) -> str:
    """Return the first line of a sweep's plan: cells, blocks, hours, disk, and price."""
    keys = ", ".join(dict.fromkeys(key for cell in plan.cells for key in cell.set))
    parts = [f"{len(plan.cells)} cells ({keys})", number_of(blocks, "block")]
    if plan.duration:
        seconds = plan.duration.total_s - (0 if plan.place.kind == "gcp" else plan.duration.prepare_s)
        parts.append(f"about {lasting(seconds)}, roughly")
    parts.append(f"up to {amount(plan.estimate.total)} of disk")
    if plan.place.kind == "gcp":
        parts.append(f"about {plan.place.price.expected:.2f} USD")
    return f"sweep     {', '.join(parts)}"
