"""How far a run is, in a few words, from what lies in its directory: no other machine is asked."""

import json
import os
from pathlib import Path

from tsduel.core.rundir import Run
from tsduel.places.ssh.link import is_home

# An event is a line of some hundred bytes.
TAIL_BYTES = 16_384


def state(run: Run, running: str) -> str:
    """Return `planned`, `built`, `running 3 of 9` (likewise `interrupted`, `ended`, `away`), `imported`, `recorded`.

    `running`: the directory of the run that uses the cache now (tsduel.core.caches.used_by).
    `away`: the run is on another machine and not all of it at home; `make status` asks it. `recorded`: its tables are
    here and its blocks are not, as in results/example. Spare blocks count as soon as they are run.
    """
    if run.plan.imported:
        return "imported"
    # Of a fleet, that of a host that has not ended well, if there is one.
    hosts = run.plan.every_host if run.plan.is_fleet else ("",)
    ends = [found for host in hosts if (found := last_event(run.path / "raw" / host / "events.jsonl"))]
    last = next((end for end in ends if end.get("status") != "ok"), ends[0] if ends else {})
    if not run.blocks and not last:
        if (run.path / "stats/comparison.json").exists():
            return "recorded"
        built = all((run.path / f"build/{variant.name}.json").exists() for variant in run.plan.variants)
        return "built" if built else "planned"
    spares = sum(block.kind == "spare" for block in run.blocks)
    planned = len(run.due) + spares
    failed = sum(block.status != "ok" for block in run.blocks)
    told = f"{len(run.blocks)} of {planned}{f', {failed} failed' if failed else ''}"
    return f"{_doing(run, last, whole=len(run.blocks) >= planned, running=running)} {told}"


def _doing(run: Run, last: dict[str, object], *, whole: bool, running: str) -> str:
    if run.plan.is_local:
        if running and Path(running).resolve() == run.path.resolve():
            return "running"
    elif is_home(run.path):
        return "ended"
    elif last.get("event") != "run-end":
        return "away"
    if last:
        return "ended" if last["event"] == "run-end" and last.get("status") == "ok" else "interrupted"
    return "ended" if whole else "interrupted"


def last_event(path: Path) -> dict[str, object]:
    """Return the last whole line of events.jsonl; an empty dictionary where there is none."""
    if not path.is_file():
        return {}
    with path.open("rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL_BYTES))
        lines = stream.read().split(b"\n")[:-1]
    for line in reversed(lines):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "event" in found:
            return found
    return {}
