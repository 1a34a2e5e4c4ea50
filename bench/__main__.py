"""Measure everything, print each figure beside its target, and exit 1 if one is missed: python -m bench [PART...]."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import analysis, bisection, faults, openloop, overhead, pipelines, view
from bench.figures import PROJECT, Figure, run

PARTS = (
    "generate",
    "feed",
    "overhead",
    "exchange",
    "openloop",
    "duty",
    "resume",
    "view",
    "analysis",
    "bisect",
    "kills",
)

# What needs a run that is planned and built.
OF_A_RUN = {"generate", "feed", "overhead", "resume", "view"}


def main() -> int:
    """Make what is measured, then the parts that were asked for."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all unless given")
    parts = parser.parse_args().parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    work = Path(os.environ.get("TSDUEL_CACHE") or PROJECT / ".cache").resolve() / "bench"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    figures = list[Figure]()

    def add(*new: Figure) -> None:
        for figure in new:
            sys.stdout.write(f"{figure}\n")
            sys.stdout.flush()
        figures.extend(new)

    if OF_A_RUN & set(parts):
        for figure in of_a_run(parts, work):
            add(figure)
    if "exchange" in parts:
        add(overhead.exchange_cost(work))
    alone = {
        "openloop": lambda: openloop.driver(work),
        "duty": lambda: overhead.duty_cycle(PROJECT / "results"),
        "analysis": lambda: analysis.stages(work),
        "bisect": bisection.simulated,
        "kills": faults.kills,
    }
    for part, measure in alone.items():
        if part in parts:
            add(*measure())
    shutil.rmtree(work)
    missed = [figure for figure in figures if not figure.met]
    sys.stdout.write(f"\n{len(figures) - len(missed)} of {len(figures)} targets met\n")
    return 1 if missed else 0


def of_a_run(parts: Sequence[str], work: Path) -> Iterator[Figure]:
    """Measure those of the parts that need a run."""
    run_dir = prepare(work)
    plan = json.loads((run_dir / "plan/experiment.json").read_text(encoding="utf-8"))
    bin_dir = Path(json.loads((run_dir / "build/tsbs.json").read_text(encoding="utf-8"))["bin_dir"])
    if {"generate", "feed"} & set(parts):
        yield from pipelines.generation(run_dir, plan, bin_dir, work)
    if "feed" in parts:
        yield pipelines.feeding(plan, bin_dir, work)
    if "overhead" in parts:
        yield overhead.own_cost(run_dir, work.parent)
    if "resume" in parts:
        yield faults.resume(run_dir, work)
    if "view" in parts:
        yield from view.watching(run_dir, work)


def prepare(work: Path) -> Path:
    """Plan and build a run of bench.yml below `work`, out of sight of results/latest; return its directory."""
    env = {"PYTHONPATH": str(PROJECT), "TSDUEL_CACHE": str(work.parent), "EXPERIMENT": str(PROJECT / "bench/bench.yml")}
    env["ANSIBLE_CONFIG"] = str(PROJECT / "ansible/ansible.cfg")
    (work / "results").mkdir()
    for stage in ("plan", "provision"):
        run([sys.executable, "-m", "tsduel", stage, "bench"], cwd=work, env=env)
    run_dir = work / "results/bench"
    playbook = [Path(sys.executable).parent / "ansible-playbook", PROJECT / "ansible/site.yml"]
    run(
        [*playbook, "-i", run_dir / "host/inventory.json", "-e", f"@{run_dir}/plan/ansible-vars.json"],
        cwd=work,
        env=env,
    )
    return run_dir


sys.exit(main())
