"""What the view costs while a phase is timed: the real screen on a pseudo-terminal, above real progress events."""

import os
import pty
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import PROJECT, Figure

WATCHED_S = 40.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# A load that is timed, after as many events as a run of ten hours has; its watchers' own functions write them.
DRIVER = """#!/usr/bin/env bash
. "{project}/scripts/lib/common.sh"
. "{project}/scripts/lib/tell.sh"
main() {{
  RUN_DIR=$1
  trap 'exit 0' TERM
  event run-start run bench kind tsbs blocks 10 variants 2 rounds 22 finished 20 place gcp price_h 0.3 machine_since 1
  event round-start round 10-1-baseline block 10 position 1 variant baseline kind measured phases 21
  event phase-start round 10-1-baseline phase load query_type ""
  while true; do
    pause 1
    show_progress load "$((SECONDS * 1500000))" 1080000000
  done
}}
main "$@"
"""
SCREEN = (
    "import sys; from pathlib import Path; from tsduel.rounds.view import local; local.main(*map(Path, sys.argv[1:]))"
)
FOLLOW = "import os, sys; from pathlib import Path; from tsduel.rounds.view import events, follow, show; follow.Follower(Path(sys.argv[1]), show.choose(os.environ)).here(lambda: True)"  # noqa: E501 - one line for -c


def watching(work: Path) -> list[Figure]:
    """Return the CPU of the screen that `make tsbs` shows, and of `make follow` beside it, in percent of a core."""
    home = work / "view"
    (home / "raw").mkdir(parents=True)
    driver = home / "driver"
    driver.write_text(DRIVER.format(project=PROJECT), encoding="utf-8")
    driver.chmod(0o755)
    _history(home / "raw/events.jsonl")
    screen = _start(["-c", SCREEN, str(driver), str(home)])
    follow = _start(["-c", FOLLOW, str(home)])
    shares, drawn = _watch((screen, follow))
    for pid, _ in (follow, screen):
        os.kill(pid, 15)
        os.waitpid(pid, 0)
    names = ("the screen of `make tsbs`: % of a core", "`make follow` beside it: % of a core")
    return [
        Figure(name, 100 * share, 1, at_most=True, unit="%", detail=f"{WATCHED_S:g} s of a timed load, drawn {n} times")
        for name, share, n in zip(names, shares, drawn, strict=True)
    ]


def _history(path: Path) -> None:
    """Write the events of 20 rounds of half an hour."""
    with path.open("w", encoding="utf-8") as stream:
        for number in range(20):
            t = 1_795_000_000 + 1800 * number
            name = f"{1 + number // 2:02d}-{1 + number % 2}-baseline"
            stream.write(
                f'{{"t":{t},"event":"round-start","round":"{name}","kind":"measured","block":"1","phases":"21"}}\n'
            )
            stream.write(f'{{"t":{t},"event":"phase-start","round":"{name}","phase":"load"}}\n')
            for step in range(900):
                done = step * 3_000_000
                stream.write(
                    f'{{"t":{t + 2 * step},"event":"progress","phase":"load","done":{done},"total":1080000000}}\n'
                )
            stream.write(f'{{"t":{t + 1800},"event":"round-end","round":"{name}","status":"ok","seconds":"1800"}}\n')


def _start(words: Sequence[str]) -> tuple[int, int]:
    """Start Python on a terminal of its own; return its pid and our end of it."""
    pid, master = pty.fork()
    if pid == 0:
        environment = os.environ | {
            "TERM": "xterm-256color",
            "COLUMNS": "120",
            "LINES": "30",
            "PYTHONPATH": str(PROJECT),
        }
        os.execve(sys.executable, [sys.executable, *words], environment)  # noqa: S606 - our own words
    return pid, master


def _watch(started: Sequence[tuple[int, int]]) -> tuple[list[float], list[int]]:
    """Return each one's share of a core once it has caught up with what was before, and how often it has drawn."""
    _drain(started, 10.0)
    begin, before = time.monotonic(), [_cpu_s(pid) for pid, _ in started]
    drawn = _drain(started, WATCHED_S)
    took = time.monotonic() - begin
    return [(_cpu_s(pid) - was) / took for (pid, _), was in zip(started, before, strict=True)], drawn


def _drain(started: Sequence[tuple[int, int]], seconds: float) -> list[int]:
    """Read what is drawn, as a terminal does; return how often."""
    deadline = time.monotonic() + seconds
    drawn = dict.fromkeys((master for _, master in started), 0)
    while (left := deadline - time.monotonic()) > 0:
        for master in select.select(list(drawn), [], [], left)[0]:
            drawn[master] += os.read(master, 1 << 16).count(b"\x1b[J")
    return list(drawn.values())


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far, without those of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
