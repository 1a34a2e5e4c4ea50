"""How far a run is, in a few words, from what lies in its directory: no other machine is asked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tsduel.core.rundir import read_json
from tsduel.places import place
from tsduel.rounds import attend as rounds

if TYPE_CHECKING:
    from tsduel.core.rundir import Run

# An event is a line of some hundred bytes.
TAIL_BYTES = 16_384


def state(run: Run, running: str) -> str:
    """Return `planned`, `built`, `running 3 of 14` (likewise `interrupted`, `ended`, `away`), `imported`, `recorded`.

    `running`: the directory of the run that uses the cache now (tsduel.core.caches.used_by).
    `away`: the rounds are on another machine and not all at home; `make status` asks it. `recorded`: its tables are
    here and its rounds are not, as in results/example. Spare blocks count as soon as they are run.
    """
    if run.plan.get("imported"):
        return "imported"
    found = [read_json(path) for path in run.path.glob("raw/*/round.json") if path.parent.suffix != ".partial"]
    last = last_event(run.path / "raw/events.jsonl")
    if not found and not last:
        if (run.path / "stats/comparison.json").exists():
            return "recorded"
        built = all((run.path / f"build/{variant['name']}.json").exists() for variant in run.plan["variants"])
        return "built" if built else "planned"
    spares = sum(record["kind"] == "spare" for record in found)
    planned = sum(row["kind"] != "spare" for row in run.planned) + spares
    failed = sum(record["status"] != "ok" for record in found)
    told = f"{len(found)} of {planned}{f', {failed} failed' if failed else ''}"
    return f"{_doing(run, last, whole=len(found) >= planned, running=running)} {told}"


def _doing(run: Run, last: dict[str, object], *, whole: bool, running: str) -> str:
    if place.is_local(run.plan):
        if running and Path(running).resolve() == run.path.resolve():
            return "running"
    elif rounds.is_home(run.path):
        return "ended"
    elif last.get("event") != "run-end":
        return "away"
    if last:
        well = last["event"] == "run-end" and last.get("status", "ok") == "ok" and not last.get("message")
        return "ended" if well else "interrupted"
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
