"""The first stage: the plan, with all values of an experiment and the order of all blocks."""

import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tsduel
from tsduel.core import caches, defaults, files, repository, runlock, secret_store, tables
from tsduel.core.errors import UserError
from tsduel.core.place import Place
from tsduel.core.plan import Asked, Component, Duration, Own, Plan, Variant
from tsduel.core.project import IS_INSTALLED, PROJECT
from tsduel.core.wording import number_of
from tsduel.places import directories, place
from tsduel.places.provider import Needs
from tsduel.places.ssh import pack
from tsduel.plan import order, sources
from tsduel.question import knobs
from tsduel.question import read as question
from tsduel.question.experiments import find
from tsduel.targets.database import Program
from tsduel.workloads import WORKLOADS, experiment, workload_of

NOWHERE = Asked(experiment="")


def main(run_dir: Path, environment: Mapping[str, str], read: question.Question | None = None) -> None:
    """Write RUN/plan/, or keep an existing plan and refuse knobs that would change it; print the plan."""
    if (run_dir / Plan.FILE).exists():
        with runlock.holding(run_dir, "plan"):
            plan = _keep(run_dir, environment)
    else:
        plan = planned(run_dir, environment, read or question.read(environment))
    _print(run_dir, plan, caches.directory(environment))


def planned(
    run_dir: Path, environment: Mapping[str, str], read: question.Question, shared: Place | None = None
) -> Plan:
    """Write RUN/plan/ and return the plan; see resolve for ``shared``."""
    asked_knobs, cache = read.source.knobs, caches.directory(environment)
    where = place.asked(asked_knobs)
    # `make KIND` runs all stages: do not begin a run that could not go on.
    if environment.get("KIND"):
        place.provider_of(where).refuse_if_busy(run_dir, environment["KIND"])
    caches.own(cache, environment)
    plan = resolve(
        read.asked,
        run=run_dir.name,
        aa=asked_knobs.get("AA") == "1",
        where=where,
        environment=environment,
        asked_for=read.source,
        shared=shared,
    )
    with runlock.claimed(run_dir, "plan", Plan.FILE):
        write(run_dir, plan, cache=cache)
    return plan


def _keep(run_dir: Path, environment: Mapping[str, str]) -> Plan:
    plan = Plan.load(run_dir)
    refuse_changes(run_dir, plan.asked, environment)
    # Before any stage that gives a rented machine back when it fails.
    pack.refuse_other_adapters(run_dir)
    owner = run_dir.with_name(plan.place.of("", "rented_by") or run_dir.name)
    place.provider_of(plan.place).agree_again(owner, plan.place, environment)
    return plan


def refuse_changes(run_dir: Path, asked: Asked, environment: Mapping[str, str]) -> None:
    """Raise where knobs would change what was planned."""
    changed = [name for name, value in knobs.given(environment).items() if asked.knobs.get(name) != value]
    experiment = environment.get("EXPERIMENT", "")
    if experiment and find(experiment) != Path(asked.experiment):
        changed.insert(0, "EXPERIMENT")
    elif experiment and question.has_changed(experiment, asked.written):
        changed.insert(0, "EXPERIMENT (its file has changed)")
    if changed:
        raise UserError(
            f"{run_dir}: its plan was fixed before its first block, and {', '.join(changed)} would change it; "
            "start a new run (the same command without RUN=), since a run that gains blocks until the answer "
            "pleases finds differences that are not there"
        )


def resolve(
    asked: experiment.Experiment,
    *,
    run: str,
    aa: bool = False,
    where: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    asked_for: Asked = NOWHERE,
    shared: Place | None = None,
) -> Plan:
    """Return the plan of a validated experiment.

    ``where``: see place.asked. The user is asked about the price, unless the place is ``shared`` with other runs.

    A UserError names a revision that does not exist, or a price without consent.
    """
    if aa:
        if len(asked.variants) == 1:
            raise UserError("AA=1: with gobench.pivot there is one variant, whose columns are not the same benchmark")
        baseline = asked.variants["baseline"]
        asked = asked.model_copy(update={"variants": {"baseline": baseline, "candidate": baseline}})
    planned = tuple(_variant(name, variant, asked) for name, variant in asked.variants.items())
    sections = WORKLOADS[asked.kind].sections(asked, len(planned))
    host, where = asked.host.model_dump(), where or place.asked({})
    provider, settings = place.provider_of(where), getattr(asked, where["kind"], None)
    hosts, spare_hosts = hosts_of(asked, where)
    if len(hosts) > asked.design.blocks:
        raise UserError(
            f"{len(hosts)} hosts share {number_of(asked.design.blocks, 'block')}: name fewer hosts, or more BLOCKS="
        )
    deployed = any(variant.server.url for variant in planned)
    if len(hosts) + len(spare_hosts) > 1 and deployed:
        raise UserError(
            "url: servers that run already are asked in turn, and several hosts would ask them at once: take one"
        )
    times = duration(asked, sections, len(hosts))
    needs = Needs(run=run, estimate=sections["estimate"], seconds=times.total_s, deployed=deployed)
    settled = shared or provider.complete(where, settings, needs)
    if not shared:
        provider.agree([settled], environment or {})
    host["machine"] = settled.of(hosts[0], "named") or host["machine"]
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
            "variants": tuple(side.model_copy(update={"label": _label(side, planned)}) for side in planned),
            "design": asked.design.model_dump(),
            "host": host,
            "duration": times,
            **sections,
        }
    )


def hosts_of(asked: experiment.Experiment, where: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the hosts that share the blocks, and of the spare ones; ``where``: see place.asked."""
    fleet = place.provider_of(where).hosts(where, getattr(asked, where["kind"], None))
    spare = tuple(name for name, host in fleet.items() if dict(host).get("spare"))
    return tuple(name for name in fleet if name not in spare), spare


def fewest_blocks(asked: experiment.Experiment, where: Mapping[str, Any]) -> int:
    """Return an even number of blocks, so that both orders are there, and each host has one."""
    return 2 * math.ceil(len(hosts_of(asked, where)[0]) / 2)


def duration(asked: experiment.Experiment, sections: Mapping[str, Any], hosts: int) -> Duration:
    """Return the times of a run whose blocks so many hosts share; ``sections``: its own ones of the plan."""
    times = WORKLOADS[asked.kind].duration(sections, asked, len(asked.variants))
    before, share = times.prepare_s + times.workload_s, order.share_of_busiest(asked.design, hosts)
    return times.model_copy(update={"total_s": before + math.ceil((times.total_s - before) * share)})


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
        **(directories.on_this_host(run_dir=run_dir, cache=cache, project=PROJECT) if plan.place.builds_here else {}),
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
    for row in order.draw(names, plan.query_types, plan.design, plan.hosts, plan.spare_hosts):
        writer.writerow(",".join(value) if isinstance(value, tuple) else value for value in astuple(row))
    variables = {"ansible-vars.json": ansible_vars(plan, run_dir=run_dir.absolute(), cache=cache)}
    variables |= place.provider_of(plan.place).written(plan)
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
    print(f"run       {run_dir}")
    print(f"go on     make {plan.kind} RUN={run_dir.name}  (after an interruption)")
    where = place.provider_of(plan.place).described(plan.place)
    print("\n".join([*where, *sides(plan), *workload_of(plan).described(plan)]))
    again = "fresh data in every block" if design.reload == "every" else "data of the first block for all"
    print(
        f"design    {number_of(design.blocks, 'block')}, {design.warmup_blocks} warm-up, {design.spare_blocks} spare "
        f"for what outside causes spoil; {again}"
    )
    print("\n".join(estimate.lines(run_dir, plan, cache)), flush=True)


def sides(plan: Plan) -> list[str]:
    """Return the lines of the plan about its variants."""
    lines = []
    for variant in plan.variants:
        parts = variant.components
        each = [
            f"{part.role} {part.label}: " * (len(parts) > 1) + f"{part.source}, {part.revision[:12]}" for part in parts
        ]
        lines.append(f"{variant.name:9} {variant.label} ({'; '.join(each)})")
    return lines
