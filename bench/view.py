"""The cost of the view while a phase is timed: the real screen on a pseudo-terminal, with real progress events."""

import json
import os
import pty
import select
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import PROJECT, Figure, at_most, cpu_s

WATCHED_S = 40.0
# A timed load, after the events of a run of ten hours.
DRIVER = """#!/usr/bin/env bash
trap 'exit 0' TERM
event() { printf '{"t":%s,"event":"%s"%s}\\n' "$EPOCHREALTIME" "$1" "$2" >>"$RUN_DIR/raw/host1/events.jsonl"; }
RUN_DIR=$2
event run-start ',"run":"bench","kind":"tsbs","blocks":10,"planned":11,"finished":10,"place":"gcp","price_h":0.3'
event block-start ',"block":10,"kind":"measured","phases":21'
event phase-start ',"block":10,"part":"solo","variant":"baseline","phase":"load","query_type":""'
while true; do
  sleep 2
  event progress ",\\"phase\\":\\"load\\",\\"done\\":$((SECONDS * 1500000)),\\"total\\":1080000000"
done
"""
SCREEN = "import sys; from pathlib import Path; from tsduel.rounds import run; run.main(Path(sys.argv[1]))"
FOLLOW = (
    "import os, sys; from pathlib import Path; from tsduel.core.rundir import open_run; "
    "from tsduel.rounds import follow; from tsduel.rounds.view import show; run = open_run(Path(sys.argv[1])); "
    "follow.Follower(run, 'host1', show.view_of(run, 'host1', os.environ)).at_home(lambda: True)"
)


def watching(run_dir: Path, work: Path) -> list[Figure]:
    """Return the CPU of the screen that `make tsbs` shows, and of `make follow` beside it, in percent of a core."""
    home = work / "view"
    shutil.copytree(run_dir / "plan", home / "plan")
    for part in ("raw/host1", "build"):
        (home / part).mkdir(parents=True)
    driver = home / "driver"
    driver.write_text(DRIVER, encoding="utf-8")
    driver.chmod(0o755)
    (home / "build/agent.json").write_text(json.dumps({"binary": str(driver)}), encoding="utf-8")
    _history(home / "raw/host1/events.jsonl")
    screen = _start(["-c", SCREEN, str(home)])
    follow = _start(["-c", FOLLOW, str(home)])
    # First let both read the old events.
    started = (screen, follow)
    _drain(started, 10.0)
    begin, before = time.monotonic(), [cpu_s(pid) for pid, _ in started]
    drawn = _drain(started, WATCHED_S)
    took = time.monotonic() - begin
    shares = [(cpu_s(pid) - earlier) / took for (pid, _), earlier in zip(started, before, strict=True)]
    for pid, _ in (follow, screen):
        os.kill(pid, 15)
        os.waitpid(pid, 0)
    names = ("the screen of `make tsbs`: % of a core", "`make follow` beside it: % of a core")
    return [
        at_most(name, 100 * share, 0.5, "%", f"{WATCHED_S:g} s of a timed load, drawn {count} times")
        for name, share, count in zip(names, shares, drawn, strict=True)
    ]


def _history(path: Path) -> None:
    """Write the events of ten blocks of an hour."""
    with path.open("w", encoding="utf-8") as stream:

        def event(t: float, name: str, **fields: object) -> None:
            stream.write(json.dumps({"t": t, "event": name, **fields}) + "\n")

        for block in range(10):
            begin = 1_795_000_000.0 + 3600 * block
            event(begin, "block-start", block=block, kind="measured", phases=21)
            event(begin, "phase-start", block=block, part="solo", variant="baseline", phase="load")
            for step in range(1800):
                event(begin + 2 * step, "progress", phase="load", done=step * 600_000, total=1_080_000_000)
            ratios = {"candidate": {"load_rate": 0.01 * (block % 3), "duel_typical_ms": 0.001 * (block % 4)}}
            event(begin + 3600, "block-end", block=block, kind="measured", status="ok", seconds=3600, ratios=ratios)


def _start(words: Sequence[str]) -> tuple[int, int]:
    """Start Python on a terminal of its own; return its pid and our end of the terminal."""
    pid, master = pty.fork()
    if pid == 0:
        terminal = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30", "PYTHONPATH": str(PROJECT)}
        os.execve(sys.executable, [sys.executable, *words], os.environ | terminal)  # noqa: S606 - our own words
    return pid, master


def _drain(started: Sequence[tuple[int, int]], seconds: float) -> list[int]:
    """Read the output, as a terminal does; return how often each process has drawn."""
    deadline = time.monotonic() + seconds
    drawn = dict.fromkeys((master for _, master in started), 0)
    while (left := deadline - time.monotonic()) > 0:
        for master in select.select(list(drawn), [], [], left)[0]:
            drawn[master] += os.read(master, 1 << 16).count(b"\x1b[J")
    return list(drawn.values())
