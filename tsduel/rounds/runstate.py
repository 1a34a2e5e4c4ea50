"""The state of a run in a few words, and its agent, from the files in its directory; it asks no other machine."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.rundir import Run, open_run
from tsduel.places.ssh.link import is_home
from tsduel.rounds.view.events import parse

# An event has a few hundred bytes.
TAIL_BYTES = 16_384


def state(run: Run, running: str) -> str:
    """Return `planned`, `built`, `recorded`, or `running 3 of 9` (also `interrupted`, `ended`, `away`).

    ``running``: the directory of the run on this machine now (tsduel.places.lock), or "". `away`: the run is
    on another machine and not all of it is here; `make status` asks that machine. `recorded`: the
    tables are here and the blocks are not, as in results/example. Spare blocks count after they ran.
    """
    ends = [end for host in run.plan.every_host if (end := last_event(run.path / f"raw/{host}/events.jsonl"))]
    # A host that has not ended well comes first.
    last = next((end for end in ends if end.get("status") != "ok"), ends[0] if ends else {})
    if not run.blocks and not last:
        if (run.path / "stats/comparison.json").exists():
            return "recorded"
        built = all((run.path / f"build/{variant.name}.json").exists() for variant in run.plan.variants)
        return "built" if built else "planned"
    spares = sum(block.kind == "spare" for block in run.blocks)
    planned = len(run.due) + spares
    failed = sum(block.status != "ok" for block in run.blocks)
    counts = f"{len(run.blocks)} of {planned}{f', {failed} failed' if failed else ''}"
    return f"{_doing(run, last, whole=len(run.blocks) >= planned, running=running)} {counts}"


def _doing(run: Run, last: Mapping[str, Any], *, whole: bool, running: str) -> str:
    if run.plan.place.is_local:
        if running and Path(running).resolve() == run.path.resolve():
            return "running"
    elif is_home(run.path):
        return "ended"
    elif last.get("event") != "run-end":
        return "away"
    if last:
        return "ended" if last["event"] == "run-end" and last.get("status") == "ok" else "interrupted"
    return "ended" if whole else "interrupted"


def last_event(path: Path) -> Mapping[str, Any]:
    """Return the fields of the last event in events.jsonl; {} if there is none."""
    if not path.is_file():
        return {}
    with path.open("rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL_BYTES))
        lines = stream.read().split(b"\n")[:-1]
    return next((event.fields for event in map(parse, reversed(lines)) if event), {})


def agent(run_dir: Path) -> Path:
    """Return the path of the Go program for a run on this machine."""
    path = Path(open_run(run_dir).json("build/agent.json").get("binary") or "-")
    if not os.access(path, os.X_OK):
        raise UserError(f"{run_dir.name} is not built: run 'make build RUN={run_dir.name}'")
    return path
