"""The first stage: an experiment with every value resolved, and the whole order of rounds, before anything starts."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tsduel
from tsduel.core import caches, files
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.rundir import read_json, refuse_imported
from tsduel.places import place
from tsduel.places.gcp import place as rented
from tsduel.places.gcp import rent
from tsduel.plan import duration, foresight, needs, order, outlook, sources
from tsduel.question import knobs
from tsduel.question import read as question
from tsduel.question.experiment import Experiment
from tsduel.rounds import lock
from tsduel.workloads import kinds
from tsduel.workloads.gobench import plan as go_plan
from tsduel.workloads.tsbs import queries as tsbs_queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tsduel.question.read import AnyExperiment
    from tsduel.workloads.kinds import AnyVariant

TSBS_VERSION = "v0.0.0-20230921131859-37fced794d56"
SCREEN_BLOCKS = 6
# The responses sample asks other questions than the timed phase, so that it does not warm that phase's caches.
RESPONSES_SEED_OFFSET = 100_000


def main(run_dir: Path, environment: Mapping[str, str]) -> None:
    """Write RUN/plan/, or keep the plan that is there and refuse knobs that would change it."""
    given = knobs.given(environment)
    if (run_dir / "plan" / "experiment.json").exists():
        _keep(run_dir, environment, given)
    else:
        # A whole run is asked for, and not the plan alone: what could not go on is not begun.
        if environment.get("KIND") and place.asked(given)["kind"] == "local":
            lock.refuse_if_taken(run_dir, environment["KIND"])
        _make(run_dir, environment, given)
    _print(run_dir)


def _make(run_dir: Path, environment: Mapping[str, str], given: Mapping[str, str]) -> None:
    read = question.read(environment)
    aa = given.get("AA") == "1"
    cache = caches.directory(environment)
    files.private_directory(cache)
    caches.own(cache, environment)
    plan = resolve(read.asked, run=run_dir.name, aa=aa, where=place.asked(given))
    plan["asked"] = {"experiment": read.path, "written": _plain(read.written), "knobs": dict(given)}
    if plan["place"]["kind"] == "gcp":
        rent.offer(plan, read.asked.gcp, environment)
    outlook.foresee(plan, run_dir.parent, cache)
    _write(run_dir, plan, ansible_vars(plan, run_dir=run_dir.absolute(), cache=cache))
    point_latest(run_dir)


def point_latest(run_dir: Path) -> None:
    """Let results/latest lead to this run."""
    fresh = run_dir.parent / f".latest.{os.getpid()}"
    fresh.symlink_to(run_dir.name)
    fresh.rename(run_dir.parent / "latest")


def _plain(data: Any) -> Any:
    """YAML knows times; JSON does not."""
    return json.loads(json.dumps(data, default=str))


def _keep(run_dir: Path, environment: Mapping[str, str], given: Mapping[str, str]) -> None:
    experiment = environment.get("EXPERIMENT", "")
    plan = read_json(run_dir / "plan" / "experiment.json")
    refuse_imported(run_dir, plan)
    asked = plan["asked"]
    changed = [name for name, value in given.items() if asked["knobs"].get(name) != value]
    if experiment and Path(experiment) != Path(asked["experiment"]):
        changed.insert(0, "EXPERIMENT")
    if changed:
        raise UserError(
            f"{run_dir}: its plan was fixed before its first round, and {', '.join(changed)} would change it; "
            "start a new run (the same command without RUN=), since a run that gains blocks until the answer "
            "pleases finds differences that are not there",
        )
    if place.place_of(plan)["kind"] == "gcp":
        rent.offer_again(run_dir, plan, environment)


def resolve(
    asked: AnyExperiment, *, run: str, aa: bool = False, where: Mapping[str, Any] = place.LOCAL
) -> dict[str, Any]:
    """Return the contents of plan/experiment.json for a validated experiment; ``where``: see place.asked."""
    variants: dict[str, AnyVariant] = dict(asked.variants)
    if aa:
        variants = {"baseline": variants["baseline"], "candidate": variants["baseline"]}
    drawn = order.rounds(list(variants), asked)
    plan = {
        "schema": 1,
        "run": run,
        "place": dict(where),
        "name": asked.name,
        "question": asked.question,
        "kind": asked.kind,
        "smoke": asked.smoke,
        "screen": asked.design.blocks < SCREEN_BLOCKS,
        "aa": aa,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "tsduel": {"version": tsduel.__version__, "commit": own_commit()},
        "variants": [_variant(name, variant, asked) for name, variant in variants.items()],
        "design": asked.design.model_dump(),
        "watchdog": asked.watchdog.model_dump(),
        "noise": {**asked.noise.model_dump(), "spare_blocks": asked.noise.spares(asked.design.blocks)},
        "host": asked.host.model_dump(),
        **(_tsbs_part(asked, len(variants)) if isinstance(asked, Experiment) else go_plan.part(asked, aa=aa)),
        "rounds": drawn,
    }
    lasts = duration.estimate if isinstance(asked, Experiment) else go_plan.duration
    plan = {**plan, "duration": lasts(plan, len(drawn))}
    return {**plan, "forecast": foresight.section(plan)}


def _tsbs_part(asked: Experiment, variants: int) -> dict[str, Any]:
    if len({v.target for v in asked.variants.values()}) > 1:
        raise UserError("variants: all have to be versions of the same database")
    workload, queries = asked.workload, asked.queries
    lines = needs.lines(workload)
    samples = lines * tsbs_queries.SAMPLES_PER_LINE[workload.use_case]
    data = {
        "tsbs": TSBS_VERSION,
        "format": "victoriametrics",
        **{k: getattr(workload, k) for k in ("use_case", "scale", "start", "end", "interval", "seed")},
    }
    types = [_query_type(asked, name, number, data) for number, name in enumerate(queries.types)]
    return {
        "tsbs": {"version": TSBS_VERSION},
        "workload": {
            **workload.model_dump(),
            "interval_s": workload.interval_s,
            "format": data["format"],
            "lines": lines,
            "samples": samples,
            "data_key": _key(data),
            "estimated_bytes": lines * needs.DATA_BYTES_A_LINE,
        },
        "queries": {**queries.model_dump(), "types": types},
        "settle": asked.settle.model_dump(),
        "report": asked.report.model_dump(),
        "estimate": needs.disk(asked, variants),
    }


def _variant(name: str, variant: AnyVariant, asked: AnyExperiment) -> dict[str, Any]:
    target = kinds.target(asked, variant)
    found = sources.resolve(
        target, variant=name, source=variant.source, ref=variant.ref, repo=variant.repo, path=variant.path
    )
    go = "" if variant.source == "binary" else sources.go_version(target.go_minimum, variant.go)
    location = target.module if variant.source == "module" else sources.absolute_location(variant.repo)
    key = sources.build_key(
        target, found, source=variant.source, location=location, go=go, built_for=sources.platform()
    )
    return {
        "name": name,
        **variant.model_dump(),
        **kinds.variant_part(asked, variant),
        "repo": sources.absolute_location(variant.repo) if variant.repo else "",
        "path": sources.absolute_location(variant.path) if variant.path else "",
        "label": found.label,
        "revision": found.revision,
        "version": found.version,
        "sum": found.sum,
        "dirty": found.dirty,
        "build_key": key,
    }


def _query_type(asked: Experiment, name: str, number: int, data: Mapping[str, Any]) -> dict[str, Any]:
    """Seeds: one for each type, since with one seed all types ask for the same hosts and warm each other."""
    queries = asked.queries
    seed = queries.seed if queries.shared_seed else queries.seed + 1 + number
    shape = {
        **{k: v for k, v in data.items() if k not in {"interval", "seed"}},
        "type": name,
        "seed": seed,
        "count": queries.count or queries.max_count,
        "responses": queries.responses,
    }
    return {"name": name, "seed": seed, "responses_seed": seed + RESPONSES_SEED_OFFSET, "key": _key(shape)}


def ansible_vars(plan: Mapping[str, Any], *, run_dir: Path, cache: Path) -> dict[str, Any]:
    """Return what Ansible is told: where things lie on the measured machine, and what each variant is built from."""
    variants = []
    for variant in plan["variants"]:
        target = kinds.planned_target(plan, variant)
        variants.append(
            {
                **variant,
                "module": target.module,
                "output": target.output,
                "build_command": list(target.build_command(variant["source"], variant["version"])),
                "go_minimum": target.go_minimum,
            }
        )
    return {
        **place.directories(plan, run_dir=run_dir, cache=cache, project=PROJECT),
        "target": place.place_of(plan)["kind"],
        "kind": plan["kind"],
        "go_minimum": max((v["go_minimum"] for v in variants), key=_version),
        "tsbs_version": plan.get("tsbs", {}).get("version", ""),
        "variants": variants,
    }


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _key(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def own_commit() -> str:
    """Return the commit of this checkout of tsduel; empty where it is none."""
    done = subprocess.run(
        ["git", "-C", PROJECT, "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def _write(run_dir: Path, plan: dict[str, Any], variables: dict[str, Any]) -> None:
    # Variables of a variant and logs are nobody else's; who wants to share opens this directory (docs/operating.md).
    files.private_directory(run_dir)
    directory = run_dir / "plan"
    directory.mkdir(parents=True, exist_ok=True)
    drawn = plan.pop("rounds")
    table = io.StringIO()
    rows = csv.DictWriter(table, list(drawn[0]), delimiter="\t", lineterminator="\n")
    rows.writeheader()
    rows.writerows(drawn)
    files.write(directory / "rounds.tsv", table.getvalue())
    if plan["place"]["kind"] == "gcp":
        files.write(
            directory / "terraform.tfvars.json", json.dumps(rented.terraform_variables(plan["place"]), indent=2) + "\n"
        )
    # A line, since nobody reads its table.
    files.write(directory / "forecast.json", json.dumps(plan.pop("forecast")) + "\n")
    files.write(directory / "ansible-vars.json", json.dumps(variables, indent=2) + "\n")
    # Last: a plan that exists is a plan that is whole.
    files.write(directory / "experiment.json", json.dumps(plan, indent=2) + "\n")


def _print(run_dir: Path) -> None:
    plan = json.loads((run_dir / "plan" / "experiment.json").read_text(encoding="utf-8"))
    design = plan["design"]
    print(f"run       {run_dir}")
    print(f"go on     make {plan['kind']} RUN={run_dir.name}  (after an interruption)")
    for variant in plan["variants"]:
        print(f"{variant['name']:9} {variant['label']} ({variant['source']}, {variant['revision'][:12]})")
    print(kinds.described(plan))
    spares = plan.get("noise", {}).get("spare_blocks", 0)
    print(
        f"design    {design['blocks']} blocks of {len(plan['variants'])} rounds, {design['warmup_blocks']} warm-up, "
        f"{spares} spare for what outside causes spoil"
    )
    cache = caches.directory(os.environ)
    print("\n".join(outlook.lines(run_dir, plan, cache)), flush=True)
