"""The first stage: the plan, with all values of an experiment and the order of all blocks."""

import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tsduel
from tsduel.core import caches, defaults, files, repository, runlock, secret_store, tables
from tsduel.core.errors import UserError
from tsduel.core.place import GCP_SWEPT, GcpPlace, K8sPlace, LocalPlace, SshPlace
from tsduel.core.plan import Asked, Component, Own, Plan, Variant
from tsduel.core.project import IS_INSTALLED, PROJECT
from tsduel.core.results import point_latest
from tsduel.core.rundir import Run
from tsduel.core.wording import number_of
from tsduel.places import directories, lock, place
from tsduel.places.gcp import rent, terraform
from tsduel.places.k8s import offer
from tsduel.places.ssh import pack
from tsduel.plan import cells as swept
from tsduel.plan import order, sources
from tsduel.question import knobs
from tsduel.question import read as question
from tsduel.question.experiments import find
from tsduel.question.matrix import AskedCell
from tsduel.targets.database import Program
from tsduel.workloads import WORKLOADS, experiment, workload_of

NOWHERE = Asked(experiment="")


def main(run_dir: Path, environment: Mapping[str, str]) -> None:
    """Write RUN/plan/, or keep an existing plan and refuse knobs that would change it."""
    given = knobs.given(environment)
    cache = caches.directory(environment)
    if (run_dir / Plan.FILE).exists():
        with runlock.holding(run_dir, "plan"):
            plan = _keep(run_dir, environment, given)
    else:
        where = place.asked(given)
        # `make KIND` runs all stages: do not begin a run that could not go on.
        if environment.get("KIND") and where["kind"] == "local":
            lock.refuse_if_taken(run_dir, environment["KIND"])
        read = question.read(environment)
        caches.own(cache, environment)
        plan = resolve(
            read.asked,
            cells=read.cells,
            run=run_dir.name,
            aa=given.get("AA") == "1",
            where=where,
            environment=environment,
            asked_for=read.source,
        )
        with runlock.claimed(run_dir, "plan", Plan.FILE):
            write(run_dir, plan, cache=cache)
        if not (run_dir.parent / "latest").exists():
            point_latest(run_dir)
    _print(run_dir, plan, cache)


def _keep(run_dir: Path, environment: Mapping[str, str], given: Mapping[str, str]) -> Plan:
    plan = Plan.load(run_dir)
    changed = [name for name, value in given.items() if plan.asked.knobs.get(name) != value]
    experiment = environment.get("EXPERIMENT", "")
    if experiment and find(experiment) != Path(plan.asked.experiment):
        changed.insert(0, "EXPERIMENT")
    if changed:
        raise UserError(
            f"{run_dir}: its plan was fixed before its first block, and {', '.join(changed)} would change it; "
            "start a new run (the same command without RUN=), since a run that gains blocks until the answer "
            "pleases finds differences that are not there"
        )
    # Before any stage that gives a rented machine back when it fails.
    pack.refuse_other_adapters(run_dir)
    if isinstance(plan.place, GcpPlace):
        rent.offer_again(run_dir, plan.place, environment)
    return plan


def resolve(
    asked: experiment.Experiment,
    *,
    run: str,
    cells: Sequence[AskedCell] = (),
    aa: bool = False,
    where: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    asked_for: Asked = NOWHERE,
) -> Plan:
    """Return the plan of a validated experiment. ``cells``: settings of a sweep; ``asked``: the first one.

    ``where``: see place.asked. For rented machines it asks the user about the price.

    A UserError names a revision that does not exist, or a price without consent.
    """
    cells = cells or (AskedCell("", {}, asked),)
    if aa:
        if len(asked.variants) == 1:
            raise UserError("AA=1: with gobench.pivot there is one variant, whose columns are not the same benchmark")
        cells = [replace(cell, asked=_twice(cell.asked)) for cell in cells]
        asked = cells[0].asked
    planned = tuple(_variant(name, variant, asked) for name, variant in asked.variants.items())
    sections, times, settings = swept.settle(WORKLOADS[asked.kind], cells, len(planned))
    host = asked.host.model_dump()
    fleet, sharing = _fleet(where, cells)
    spare_hosts = tuple(name for name, host in fleet.items() if dict(host).get("spare"))
    hosts = tuple(name for name in fleet if name not in spare_hosts)
    if (most := max(map(len, sharing.values()))) > asked.design.blocks:
        raise UserError(
            f"{most} hosts share {number_of(asked.design.blocks, 'block')}: name fewer hosts, or more BLOCKS="
        )
    if len(fleet) > 1 and any(variant.server.url for variant in planned):
        raise UserError(
            "url: servers that run already are asked in turn, and several hosts would ask them at once: take one"
        )
    times = swept.shared(times, order.share_of_busiest(asked.design, sharing))
    settled: Any = where or LocalPlace()
    if where and where["kind"] == "gcp":
        settings_of_machines, estimated = [cell.asked.gcp for cell in cells], sections["estimate"]
        settled = rent.offer(
            where, settings_of_machines, environment or {}, run=run, estimate=estimated, seconds=times.total_s
        )
        host["machine"] = ", ".join(dict.fromkeys(rented.named for rented in settled.hosts.values()))
    elif where and where["kind"] == "k8s":
        pods = [cell.asked.k8s for cell in cells]
        settled = offer.complete(
            {**where, "lets_out": any(v.server.url for v in planned)},
            pods,
            run=run,
            estimate=sections["estimate"],
            seconds=times.total_s,
        )
    same = ("name", "question", "kind", "smoke", "noise", "watchdog")
    return Plan.model_validate(
        {
            **{name: getattr(asked, name) for name in same},
            "run": run,
            "screen": asked.design.blocks < defaults.FEWEST_BLOCKS,
            "aa": aa,
            "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "own": Own(version=tsduel.__version__, commit=own_commit()),
            "asked": asked_for,
            "place": settled,
            "hosts": hosts,
            "spare_hosts": spare_hosts,
            "cells": tuple(
                swept.started(cell, own, planned, cells[0]) for cell, own in zip(settings, cells, strict=True)
            ),
            "variants": tuple(side.model_copy(update={"label": _label(side, planned)}) for side in planned),
            "design": asked.design.model_dump(),
            "host": host,
            "duration": times,
            **sections,
        }
    )


def _fleet(
    where: Mapping[str, Any] | None, cells: Sequence[AskedCell]
) -> tuple[Mapping[str, Any], dict[str, tuple[str, ...]]]:
    """Return all hosts by name, and by cell the names of the hosts that share its blocks."""
    if where and where["kind"] == "gcp":
        rented = rent.planned_hosts(where, [cell.asked.gcp for cell in cells])
        working = {name: host for name, host in rented.items() if not host.spare}
        return rented, {cell.name: tuple(n for n, host in working.items() if host.runs(cell.set)) for cell in cells}
    if swept_machines := [key for key in cells[0].set if key in GCP_SWEPT]:
        raise UserError(f"matrix: {swept_machines[0]}: machines are swept by renting them: add TARGET=gcp")
    fleet = (where or {}).get("hosts", {"host1": {}})
    return fleet, {cell.name: tuple(n for n, host in fleet.items() if not host.get("spare")) for cell in cells}


def _twice(asked: experiment.Experiment) -> experiment.Experiment:
    baseline = asked.variants["baseline"]
    return asked.model_copy(update={"variants": {"baseline": baseline, "candidate": baseline}})


def _variant(name: str, variant: experiment.Variant, asked: experiment.Experiment) -> Variant:
    workload = WORKLOADS[asked.kind]
    components = tuple(_component(name, part, workload.program(asked, variant, part.role)) for part in variant.parts)
    own = workload.variant_part(asked, variant)
    return Variant(name=name, label="", target=variant.target, components=components, **own)


def _label(variant: Variant, variants: Sequence[Variant]) -> str:
    """Return a short name: the components that differ if all have the same roles, else the database first."""
    parts = variant.components
    if len({side.target for side in variants}) > 1:
        return " ".join([variant.target, *dict.fromkeys(part.label for part in parts)])
    if len({tuple(part.role for part in side.components) for side in variants}) == 1:
        parts = tuple(part for part in parts if not all(part in side.components for side in variants)) or parts
        if len({part.label for part in parts}) == 1 and parts == variant.components:
            return parts[0].label
    *others, main = parts
    if main == variant.components[-1]:
        return " + ".join([main.label, *(p.role + f" {p.label}" * (p.label != main.label) for p in reversed(others))])
    return " + ".join(f"{part.role} {part.label}" for part in reversed(parts))


def _component(variant: str, part: experiment.Component, program: Program) -> Component:
    found = sources.resolve(program, variant, part)
    return found.model_copy(update={"build_key": sources.build_key(program, found)})


def ansible_vars(plan: Plan, *, run_dir: Path, cache: Path) -> dict[str, Any]:
    """Return the variables for Ansible: sources of components and, on this machine, directories."""
    workload = workload_of(plan)
    variants, minima = [], [defaults.GO_MINIMUM]
    for variant in plan.variants if not plan.deployed else ():
        components = []
        for component in variant.components:
            program = workload.program(plan, variant, component.role)
            minima.append(program.go_minimum)
            components.append(
                {
                    **component.model_dump(exclude={"flags", "env", "files", "label"}),
                    "target": variant.target,
                    "module": program.module,
                    "output": program.output,
                    "build_command": list(sources.build_command(program, component)),
                    "go_minimum": program.go_minimum,
                }
            )
        variants.append({"name": variant.name, "components": components})
    return {
        # The directories of another machine are in the inventory.
        **(directories.on_this_host(run_dir=run_dir, cache=cache, project=PROJECT) if plan.builds_here else {}),
        "secrets": secret_store.needed({**os.environ, "TSDUEL_CACHE": str(cache)}, plan),
        "target": plan.place.kind,
        "kind": plan.kind,
        "go_minimum": max(minima, key=lambda text: tuple(int(part) for part in text.split("."))),
        "tsbs_version": plan.tsbs.version if plan.tsbs else "",
        "variants": variants,
    }


def own_commit() -> str:
    """Return the commit of this checkout of tsduel; "" without git, or if it is installed."""
    if IS_INSTALLED:
        return ""
    return repository.git("-C", PROJECT, "describe", "--always", "--dirty", "--abbrev=12").stdout.strip()


def write(run_dir: Path, plan: Plan, *, cache: Path) -> None:
    """Write RUN/plan/, only for its user, since env and logs may have secrets (docs/operating.md)."""
    from tsduel.plan.forecast import estimate  # noqa: PLC0415 - what is mistyped is refused before scipy is loaded

    files.private_directory(run_dir)
    directory = run_dir / "plan"
    directory.mkdir(parents=True, exist_ok=True)
    table = io.StringIO()
    writer = tables.Writer(table, delimiter="\t")
    writer.writerow(tables.BLOCKS_TSV)
    names = [variant.name for variant in plan.variants]
    cells = {cell.name: plan.at(cell.name).query_types for cell in plan.cells}
    hosts, spare_hosts = ({cell: plan.hosts_of(cell, spare=is_spare) for cell in cells} for is_spare in (False, True))
    for row in order.draw(names, cells, plan.design, hosts, spare_hosts):
        writer.writerow(",".join(value) if isinstance(value, tuple) else value for value in astuple(row))
    variables: dict[str, Any] = {"ansible-vars.json": ansible_vars(plan, run_dir=run_dir.absolute(), cache=cache)}
    if isinstance(plan.place, GcpPlace):
        variables["terraform.tfvars.json"] = terraform.variables(plan)
    written: dict[str, str | bytes] = {name: json.dumps(value, indent=2) + "\n" for name, value in variables.items()}
    for name, content in (written | workload_of(plan).written(plan) | {"blocks.tsv": table.getvalue()}).items():
        files.write(directory / name, content)
    estimate.forecast(run_dir, plan, cache).write(run_dir)
    secret_store.keep({**os.environ, "TSDUEL_CACHE": str(cache)}, plan.model_dump_json())
    # Last: experiment.json exists only if the plan is whole.
    plan.write(run_dir)


def _print(run_dir: Path, plan: Plan, cache: Path) -> None:
    from tsduel.plan.forecast import estimate  # noqa: PLC0415 - as in `write`

    design = plan.design
    if plan.sweeps:
        print(swept.described(plan, len(Run(run_dir, plan).due)))
    print(f"run       {run_dir}")
    print(f"go on     make {plan.kind} RUN={run_dir.name}  (after an interruption)")
    if len(plan.every_host) > 1 and isinstance(plan.place, SshPlace):
        hosts = plan.place.hosts.items()
        named = [f"{name} {host.address}{' (spare)' if host.spare else ''}" for name, host in hosts]
        print(f"hosts     {', '.join(named)}; they share the blocks evenly")
    if isinstance(plan.place, K8sPlace):
        print("\n".join(offer.described(plan.place)))
    for variant in plan.variants:
        parts = variant.components
        sides = [
            f"{part.role} {part.label}: " * (len(parts) > 1) + f"{part.source}, {part.revision[:12]}" for part in parts
        ]
        print(f"{variant.name:9} {variant.label} ({'; '.join(sides)})")
    print("\n".join(workload_of(plan).described(plan)))
    again = "fresh data in every block" if design.reload == "every" else "data of the first block for all"
    each = "of each cell, in turn; " if plan.sweeps else ""
    print(
        f"design    {number_of(design.blocks, 'block')}, {design.warmup_blocks} warm-up, {design.spare_blocks} spare "
        f"for what outside causes spoil; {each}{again}"
    )
    print("\n".join(estimate.lines(run_dir, plan, cache)), flush=True)
