"""The first stage: an experiment with every value resolved, and the whole order of blocks, before anything starts."""

import csv
import io
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tsduel
from tsduel.core import caches, defaults, files, tables
from tsduel.core.errors import UserError
from tsduel.core.plan import GCP_SWEPT, Asked, Component, Design, GcpPlace, LocalPlace, Own, Plan, SshPlace, Variant
from tsduel.core.project import PROJECT
from tsduel.core.rundir import Run, refuse_imported
from tsduel.core.wording import number_of
from tsduel.places import directories, lock, place
from tsduel.places.gcp import rent, terraform
from tsduel.plan import cells as swept
from tsduel.plan import order, outlook, sources, topology
from tsduel.question import knobs
from tsduel.question import read as question
from tsduel.question.matrix import AskedCell
from tsduel.question.read import Question
from tsduel.stats.power import FEWEST_BLOCKS
from tsduel.targets.database import Program
from tsduel.workloads import WORKLOADS, experiment, workload_of

NOWHERE = Asked(experiment="")


def main(run_dir: Path, environment: Mapping[str, str]) -> None:
    """Write RUN/plan/, or keep the plan that is there and refuse knobs that would change it."""
    given = knobs.given(environment)
    cache = caches.directory(environment)
    if (run_dir / Plan.FILE).exists():
        plan = _keep(run_dir, environment, given)
    else:
        where = place.asked(given)
        # A whole run is asked for, and not the plan alone: what could not go on is not begun.
        if environment.get("KIND") and where["kind"] == "local":
            lock.refuse_if_taken(run_dir, environment["KIND"])
        read = question.read(environment)
        files.private_directory(cache)
        caches.own(cache, environment)
        plan = resolve(
            read.asked,
            cells=read.cells,
            run=run_dir.name,
            aa=given.get("AA") == "1",
            where=where,
            environment=environment,
            asked_for=_asked(read),
        )
        write(run_dir, plan, cache=cache)
        point_latest(run_dir)
    _print(run_dir, plan, cache)


def point_latest(run_dir: Path) -> None:
    """Let results/latest lead to this run."""
    fresh = run_dir.parent / f".latest.{os.getpid()}"
    fresh.symlink_to(run_dir.name)
    fresh.rename(run_dir.parent / "latest")


def _asked(read: Question) -> Asked:
    """YAML knows times; JSON does not."""
    return Asked(
        experiment=read.path, written=json.loads(json.dumps(read.written, default=str)), knobs=dict(read.given)
    )


def _keep(run_dir: Path, environment: Mapping[str, str], given: Mapping[str, str]) -> Plan:
    plan = Plan.load(run_dir)
    refuse_imported(run_dir, plan)
    changed = [name for name, value in given.items() if plan.asked.knobs.get(name) != value]
    experiment = environment.get("EXPERIMENT", "")
    if experiment and Path(experiment) != Path(plan.asked.experiment):
        changed.insert(0, "EXPERIMENT")
    if changed:
        raise UserError(
            f"{run_dir}: its plan was fixed before its first block, and {', '.join(changed)} would change it; "
            "start a new run (the same command without RUN=), since a run that gains blocks until the answer "
            "pleases finds differences that are not there",
        )
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
    """Return the plan of a validated experiment, ``cells`` its settings where it is a sweep, of which it is the first.

    ``where``: see place.asked; a machine to rent is priced and agreed to.

    A UserError names a revision that does not exist, or a price that nobody agreed to.
    """
    cells = cells or (AskedCell("", {}, asked),)
    workload = WORKLOADS[asked.kind]
    variants = dict(asked.variants)
    if aa:
        if len(variants) == 1:
            raise UserError("AA=1: with gobench.pivot there is one variant, whose columns are not the same benchmark")
        variants = {"baseline": variants["baseline"], "candidate": variants["baseline"]}
        if len({one.target for one in asked.variants.values()}) > 1:  # of one database only, then
            cells = [replace(one, asked=_twice(one.asked)) for one in cells]
            asked = cells[0].asked
    planned = tuple(_variant(name, variant, asked) for name, variant in variants.items())
    sections, lasts, settings = swept.settle(workload, cells, len(variants))
    design = asked.design.model_dump()
    if design["spare_blocks"] is None:
        design["spare_blocks"] = asked.design.spares_by_default
    host = asked.host.model_dump()
    if asked.topology:
        where = topology.machines(asked.topology, where or {}, port=host["port"], swept=cells[0].set)
    fleet, sharing = _fleet(None if asked.topology else where, cells)  # of a topology its driver's host alone
    spare_hosts = tuple(name for name, of in fleet.items() if dict(of).get("spare"))
    hosts = tuple(name for name in fleet if name not in spare_hosts)
    if (most := max(map(len, sharing.values()))) > asked.design.blocks:
        raise UserError(
            f"{most} hosts share {number_of(asked.design.blocks, 'block')}: name fewer hosts, or more BLOCKS="
        )
    lasts = swept.shared(lasts, order.share_of_busiest(Design(**design), sharing))
    settled: Any = where or LocalPlace()
    if where and where["kind"] == "gcp":
        settled = rent.offer(
            where,
            [one.asked.gcp for one in cells],
            environment or {},
            run=run,
            estimate=sections["estimate"],
            seconds=lasts.total_s,
        )
        # What they are recorded and compared as.
        host["machine"] = ", ".join(dict.fromkeys(of.named for of in settled.hosts.values()))
    return Plan.model_validate(
        {
            "run": run,
            "name": asked.name,
            "question": asked.question,
            "kind": asked.kind,
            "smoke": asked.smoke,
            "screen": asked.design.blocks < FEWEST_BLOCKS,
            "aa": aa,
            "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "own": Own(version=tsduel.__version__, commit=own_commit()),
            "asked": asked_for,
            "place": settled,
            "hosts": hosts,
            "spare_hosts": spare_hosts,
            "topology": asked.topology,
            "cells": tuple(
                swept.started(cell, own, planned, cells[0]) for cell, own in zip(settings, cells, strict=True)
            ),
            "variants": tuple(one.model_copy(update={"label": _label(one, planned)}) for one in planned),
            "design": design,
            "noise": asked.noise,
            "watchdog": asked.watchdog,
            "host": host,
            "duration": lasts,
            **sections,
        }
    )


def _fleet(
    where: Mapping[str, Any] | None, cells: Sequence[AskedCell]
) -> tuple[Mapping[str, Any], dict[str, tuple[str, ...]]]:
    """Return the hosts by name, spare ones among them, and which of the others share the blocks of each cell."""
    if where and where["kind"] == "gcp":
        rented = rent.planned_hosts(where, [one.asked.gcp for one in cells])
        working = {name: of for name, of in rented.items() if not of.spare}
        return rented, {cell.name: tuple(n for n, of in working.items() if of.runs(cell.set)) for cell in cells}
    if swept_machines := [key for key in cells[0].set if key in GCP_SWEPT]:
        raise UserError(f"matrix: {swept_machines[0]}: machines are swept by renting them: add TARGET=gcp")
    fleet = (where or {}).get("hosts", {"host1": {}})
    return fleet, {cell.name: tuple(name for name, of in fleet.items() if not of.get("spare")) for cell in cells}


def _twice(asked: experiment.Experiment) -> experiment.Experiment:
    baseline = asked.variants["baseline"]
    return asked.model_copy(update={"variants": {"baseline": baseline, "candidate": baseline}})


def _variant(name: str, variant: experiment.Variant, asked: experiment.Experiment) -> Variant:
    workload = WORKLOADS[asked.kind]
    components = tuple(_component(name, part, workload.program(asked, variant, part.role)) for part in variant.parts)
    return Variant(
        name=name,
        label="",
        target=variant.target,
        components=components,
        **workload.variant_part(asked, variant),
    )


def _label(variant: Variant, variants: Sequence[Variant]) -> str:
    """Return a short name: of variants with the same components what differs, else what keeps the data first."""
    parts = variant.components
    if len({one.target for one in variants}) > 1:
        return " ".join([variant.target, *dict.fromkeys(part.label for part in parts)])
    if len({tuple(part.role for part in one.components) for one in variants}) == 1:
        parts = tuple(part for part in parts if not all(part in one.components for one in variants)) or parts
        if len({part.label for part in parts}) == 1 and parts == variant.components:
            return parts[0].label
    *others, main = parts
    if main == variant.components[-1]:
        return " + ".join([main.label, *(p.role + f" {p.label}" * (p.label != main.label) for p in reversed(others))])
    return " + ".join(f"{part.role} {part.label}" for part in reversed(parts))


def _component(variant: str, part: experiment.Component, program: Program) -> Component:
    found = sources.resolve(program, variant=variant, source=part.source, ref=part.ref, repo=part.repo, path=part.path)
    go = "" if part.source == "binary" else sources.go_version(program.go_minimum, part.go)
    location = program.module if part.source == "module" else sources.absolute_location(part.repo)
    key = sources.build_key(program, found, source=part.source, location=location, go=go, built_for=sources.platform())
    return Component(
        role=part.role,
        program=program.name,
        source=part.source,
        ref=part.ref,
        repo=sources.absolute_location(part.repo) if part.repo else "",
        path=sources.absolute_location(part.path) if part.path else "",
        go=part.go,
        flags=part.flags,
        env=part.env,
        files=part.files,
        build_key=key,
        **vars(found),
    )


def ansible_vars(plan: Plan, *, run_dir: Path, cache: Path) -> dict[str, Any]:
    """Return what Ansible is told: what each component is built from, and on this machine where things lie."""
    workload = workload_of(plan)
    variants, minima = [], [defaults.GO_MINIMUM]
    for variant in plan.variants:
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
                    "build_command": list(program.build_command(component.source, component.version)),
                    "go_minimum": program.go_minimum,
                }
            )
        variants.append({"name": variant.name, "components": components})
    return {
        # Those of another machine are in the inventory.
        **(directories.here(run_dir=run_dir, cache=cache, project=PROJECT) if plan.is_local else {}),
        "target": plan.place.kind,
        "kind": plan.kind,
        "go_minimum": max(minima, key=lambda text: tuple(int(part) for part in text.split("."))),
        "tsbs_version": plan.tsbs.version if plan.tsbs else "",
        "variants": variants,
    }


def own_commit() -> str:
    """Return the commit of this checkout of tsduel; empty where it is none."""
    done = subprocess.run(
        ["git", "-C", PROJECT, "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def write(run_dir: Path, plan: Plan, *, cache: Path) -> None:
    """Write RUN/plan/. Environments of variants and logs are nobody else's; docs/operating.md says how to share."""
    files.private_directory(run_dir)
    directory = run_dir / "plan"
    directory.mkdir(parents=True, exist_ok=True)
    table = io.StringIO()
    writer = csv.writer(table, delimiter="\t", lineterminator="\n")
    writer.writerow(tables.BLOCKS_TSV)
    names = [variant.name for variant in plan.variants]
    cells = {cell.name: plan.at(cell.name).query_types for cell in plan.cells}
    hosts, spare_hosts = ({cell: plan.hosts_of(cell, spare=spare) for cell in cells} for spare in (False, True))
    for row in order.draw(names, cells, plan.design, hosts, spare_hosts):
        writer.writerow((row.block, row.cell, row.host, row.kind, ",".join(row.order), ",".join(row.query_types)))
    files.write(directory / "blocks.tsv", table.getvalue())
    written: dict[str, Any] = {"ansible-vars.json": ansible_vars(plan, run_dir=run_dir.absolute(), cache=cache)}
    if isinstance(plan.place, GcpPlace):
        written["terraform.tfvars.json"] = terraform.variables(plan)
    for name, value in written.items():
        files.write(directory / name, json.dumps(value, indent=2) + "\n")
    # A line, since nobody reads its table.
    files.write(directory / "forecast.json", json.dumps(outlook.forecast(run_dir, plan, cache)) + "\n")
    # Last: a plan that exists is a plan that is whole.
    plan.write(run_dir)


def _print(run_dir: Path, plan: Plan, cache: Path) -> None:
    design = plan.design
    if plan.sweeps:
        print(swept.described(plan, len(Run(run_dir, plan).due)))
    print(f"run       {run_dir}")
    print(f"go on     make {plan.kind} RUN={run_dir.name}  (after an interruption)")
    if plan.is_fleet and isinstance(plan.place, SshPlace):
        named = [f"{name} {of.address}{' (spare)' if of.spare else ''}" for name, of in plan.place.hosts.items()]
        print(f"hosts     {', '.join(named)}; they share the blocks evenly")
    for variant in plan.variants:
        parts = variant.components
        whose = [f"{part.role} {part.label}: " if len(parts) > 1 else "" for part in parts]
        of = [f"{name}{part.source}, {part.revision[:12]}" for name, part in zip(whose, parts, strict=True)]
        print(f"{variant.name:9} {variant.label} ({'; '.join(of)})")
    print("\n".join(workload_of(plan).described(plan)))
    again = "fresh data in every block" if design.reload == "every" else "data of the first block for all"
    each = "of each cell, in turn; " if plan.sweeps else ""
    print(
        f"design    {number_of(design.blocks, 'block')}, {design.warmup_blocks} warm-up, {design.spare_blocks} spare "
        f"for what outside causes spoil; {each}{again}"
    )
    print("\n".join(outlook.lines(run_dir, plan, cache)), flush=True)
