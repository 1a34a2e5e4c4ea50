"""What kills cost: blocks lost, repeated, processes left; and how soon an interrupted run measures again."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from bench.figures import PROJECT, Figure, at_least, at_most

SUITES = ("tests/test_faults.py", "tests/test_end_to_end.py")
SUMMARY = re.compile(r"faults: (\d+) kills, (\d+) blocks lost, (\d+) repeated, (\d+) processes left")
KILLS = 33
RESUME_S = 10.0
TIMES = 3
PATIENCE_S = 300.0
POLL_S = 0.02


def kills() -> list[Figure]:
    """Run the fault-injection tests; return the results of all their kills."""
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    words += ["-k", "kill", *SUITES]
    environment = {"TSDUEL_TEST_SEEDS": "1 2"} | os.environ
    done = subprocess.run(words, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    line = SUMMARY.search(done.stdout)
    if not line:
        sys.exit(f"bench: the tests of kills said no figures:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    made, lost, repeated, left = map(int, line.groups())
    verdict = "all tests passed" if done.returncode == 0 else "and tests FAILED"
    detail = f"fakes, the real database, make itself; {verdict}"
    return [
        at_most("tests of kills that failed", int(done.returncode != 0), 0, "", detail),
        at_least("kills of driver, database, clients, everything", made, KILLS, "kills", detail),
        at_most("blocks lost by them", lost, 0, "blocks", "planned, and not there once"),
        at_most("blocks repeated", repeated, 0, "blocks", "published, and begun again"),
        at_most("processes left", left, 0, "processes", "after the end of each"),
    ]


def resume(run_dir: Path, work: Path) -> Figure:
    """Kill a run of real blocks and type `make tsbs RUN=...`, TIMES times; return the slowest start.

    A start has .venv, plan, provision, build, the host's description, and checks of data and queries. ``run_dir`` is a
    built run; it is copied to the project's results, where the stages find it by its name.
    """
    name = f"bench-resume-{os.getpid()}"
    home = PROJECT / "results" / name
    shutil.copytree(run_dir, home, ignore=shutil.ignore_patterns("raw"))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "TSBS_", "EXPERIMENT"))}
    environment = clean | {"TSDUEL_CACHE": str(work.parent)}
    try:
        # The first start makes data and queries, so it does not count.
        took = [_until_block(home, environment) for _ in range(TIMES + 1)][1:]
    finally:
        shutil.rmtree(home, ignore_errors=True)
    each = ", ".join(f"{seconds:.1f}" for seconds in took)
    detail = f"the slowest of {TIMES}: {each} s"
    return at_most("resume: from `make tsbs` to the first new block", max(took), RESUME_S, "s", detail)


def _until_block(home: Path, environment: dict[str, str]) -> float:
    """Type `make`, wait for the first block, kill everything; return the seconds, by the clock of the events."""
    typed, nothing = time.time(), subprocess.DEVNULL
    process = subprocess.Popen(
        ["make", "tsbs", f"RUN={home.name}"], cwd=PROJECT, env=environment, stdin=nothing, stdout=nothing,
        stderr=subprocess.PIPE, text=True, process_group=0,
    )  # fmt: skip
    began, events = 0.0, home / "raw/host1/events.jsonl"
    try:
        while not began and process.poll() is None and time.time() - typed < PATIENCE_S:
            time.sleep(POLL_S)
            lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
            begins = (float(json.loads(line)["t"]) for line in lines if '"block-start"' in line)
            began = next((t for t in begins if t > typed), 0.0)
    finally:
        _kill(home.name, process)
    if not began:
        output = process.stderr.read() if process.stderr else ""
        sys.exit(f"bench: the run did not go on:\n{output[-2000:]}")
    return began - typed


def _kill(name: str, process: subprocess.Popen[str]) -> None:
    """Kill make and all its processes, which have the run's name in their environment."""
    while pids := [process.pid] if process.poll() is None else list(_pids(name)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def _pids(name: str) -> Iterable[int]:
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if f"RUN={name}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                yield int(directory.name)
        except OSError:
            continue
