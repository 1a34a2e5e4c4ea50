"""Measure everything, print each figure beside its target, and exit 1 if one is missed: python -m bench [PART...]."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from bench import analysis, bisection, command, faults, overhead, own, pipelines, quick, view
from bench.figures import PROJECT, Figure, run, show

ALONE: dict[str, Callable[[Path], Iterable[Figure]]] = {
    "exchange": overhead.exchange_cost,
    "openloop": overhead.open_loop,
    "own": own.figures,
    "duty": lambda _: overhead.blocks_of_local(PROJECT / "results"),
    "widths": lambda _: quick.widths(quick.RESULTS),
    "analysis": analysis.stages,
    "command": command.answers,
    "bisect": lambda _: bisection.simulated(),
    "kills": lambda _: faults.kills(),
}
OF_A_RUN = ("generate", "feed", "overhead", "resume", "view")
"""Parts that need a run that is planned and built."""
PARTS = (*OF_A_RUN, *ALONE)


def main() -> int:
    """Measure the parts that were asked for."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all unless given")
    parts = parser.parse_args().parts or PARTS
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    work = Path(os.environ.get("TSDUEL_CACHE") or PROJECT / ".cache").resolve() / "bench"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    code = show(measured(parts, work))
    shutil.rmtree(work)
    return code


def measured(parts: Collection[str], work: Path) -> Iterator[Figure]:
    """Measure the parts one after the other; the parts that need a run come first."""
    if set(parts) & set(OF_A_RUN):
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
    for part, measure in ALONE.items():
        if part in parts:
            yield from measure(work)


def prepare(work: Path) -> Path:
    """Plan and build a run of bench.yml below `work`, away from results/latest; return its directory."""
    env = {"PYTHONPATH": str(PROJECT), "TSDUEL_CACHE": str(work.parent), "EXPERIMENT": str(PROJECT / "bench/bench.yml")}
    env["ANSIBLE_CONFIG"] = str(PROJECT / "ansible/ansible.cfg")
    run_dir = work / "results/bench"
    run_dir.parent.mkdir()
    for stage in ("plan", "provision"):
        run([sys.executable, "-m", "tsduel", stage, "bench"], cwd=work, env=env)
    playbook = [Path(sys.executable).parent / "ansible-playbook", PROJECT / "ansible/site.yml"]
    arguments: list[str | Path] = ["-i", run_dir / "host/inventory.json", "-e", f"@{run_dir}/plan/ansible-vars.json"]
    run([*playbook, *arguments], cwd=work, env=env)
    return run_dir


sys.exit(main())
