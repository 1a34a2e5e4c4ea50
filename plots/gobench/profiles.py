"""Where the time and the memory went: `go tool pprof -top` of the difference between two profiles."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tsduel.workloads.gobench.build import GO_MINIMUM

if TYPE_CHECKING:
    from tsduel.core.rundir import Run

PROJECT = Path(__file__).resolve().parent.parent.parent
TITLES = {"cpu": "CPU", "mem": "memory allocated"}
_SAMPLES = {"cpu": [], "mem": ["-sample_index=alloc_space"]}
_NODES = 20
_PPROF_S = 300


def differences(run: Run) -> list[dict[str, str]]:
    """Return title and text of each candidate's difference to the baseline, for each kind of profile there is."""
    if run.plan["gobench"]["pivot"]:
        return []
    found = []
    baseline, *candidates = run.variants
    for kind in run.plan["gobench"].get("profile") or []:
        base = run.path / f"raw/profiles/{baseline}.{kind}.pprof"
        for candidate in candidates:
            mine = run.path / f"raw/profiles/{candidate}.{kind}.pprof"
            if base.exists() and mine.exists():
                title = f"{TITLES[kind]}, {candidate} minus {baseline}"
                found.append({"title": title, "text": _top(base, mine, _SAMPLES[kind])})
    return found


def _top(base: Path, mine: Path, flags: list[str]) -> str:
    words = [
        *(str(PROJECT / "scripts/with-go"), GO_MINIMUM, "local", "go", "tool", "pprof", "-top"),
        *(f"-nodecount={_NODES}", *flags, f"-diff_base={base}", str(mine)),
    ]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_PPROF_S)
    except subprocess.TimeoutExpired:
        return f"go tool pprof did not end within {_PPROF_S} s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["go tool pprof gave no reason"])[-1]
    return done.stdout.rstrip()
