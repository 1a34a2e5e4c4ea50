"""What kills cost: blocks lost, repeated, processes left; and how soon a run that was cut off measures again."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from bench.figures import PROJECT, Figure

SUITES = ("tests/test_faults.py", "tests/test_faults_real.py")
SAID = re.compile(r"faults: (\d+) kills, (\d+) blocks lost, (\d+) repeated, (\d+) processes left")
KILLS = 33
RESUME_S = 10.0
TIMES = 3
PATIENCE_S = 300.0
POLL_S = 0.02


def kills() -> list[Figure]:
    """Run the fault-injection tests and return what came of all their kills."""
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", *SUITES]
    done = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=False)
    found = SAID.search(done.stdout)
    if not found:
        sys.exit(f"bench: the tests of kills said no figures:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    made, lost, repeated, left = (int(number) for number in found.groups())
    verdict = "all tests passed" if done.returncode == 0 else "and tests FAILED"
    return [
        Figure("kills of driver, database, clients, everything", made, KILLS, at_most=False, unit="kills",
               detail=f"fakes, the real database, make itself; {verdict}"),
        Figure("blocks lost by them", lost, 0, at_most=True, unit="blocks", detail="planned, and not there once"),
        Figure("blocks repeated", repeated, 0, at_most=True, unit="blocks", detail="published, and begun again"),
        Figure("processes left", left, 0, at_most=True, unit="processes", detail="after the end of each"),
    ]  # fmt: skip


def resume(run_dir: Path, work: Path) -> Figure:
    """Kill a run of real blocks and type `make tsbs RUN=...`, as often as TIMES says; return the slowest start.

    That is .venv, plan, provision, build, describing the host, verifying data and queries. ``run_dir`` is a run that is
    built; it is copied below the project's results, where the stages find it by its name.
    """
    name = f"bench-resume-{os.getpid()}"
    home = PROJECT / "results" / name
    shutil.copytree(run_dir, home, ignore=shutil.ignore_patterns("raw"))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "TSBS_", "EXPERIMENT"))}
    environment = clean | {"TSDUEL_CACHE": str(work.parent)}
    try:
        # The first start makes data and queries, which is no resuming.
        took = [_until_block(home, environment) for _ in range(TIMES + 1)][1:]
    finally:
        shutil.rmtree(home, ignore_errors=True)
    each = ", ".join(f"{seconds:.1f}" for seconds in took)
    return Figure("resume: from `make tsbs` to the first new block", max(took), RESUME_S, at_most=True, unit="s",
                  detail=f"the slowest of {TIMES}: {each} s")  # fmt: skip


def _until_block(home: Path, environment: dict[str, str]) -> float:
    """Type `make`, wait for the event, kill all of it; return the seconds between, by the clock of the events."""
    typed = time.time()
    process = subprocess.Popen(
        ["make", "tsbs", f"RUN={home.name}"],
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    began = 0.0
    try:
        while not began and process.poll() is None and time.time() - typed < PATIENCE_S:
            time.sleep(POLL_S)
            began = _block_start(home / "raw/events.jsonl", typed)
    finally:
        _kill(home.name, process)
    if not began:
        said = process.stderr.read() if process.stderr else ""
        sys.exit(f"bench: the run did not go on:\n{said[-2000:]}")
    return began - typed


def _block_start(events: Path, after: float) -> float:
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    for line in lines:
        if '"block-start"' in line and (at := float(json.loads(line)["t"])) > after:
            return at
    return 0.0


def _kill(name: str, process: subprocess.Popen[str]) -> None:
    """Kill make and all that it has started, which have the run's name in their environment."""
    while ours := [process.pid] if process.poll() is None else list(_of(name)):
        for pid in ours:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()


def _of(name: str) -> Iterable[int]:
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if f"RUN={name}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                yield int(directory.name)
        except OSError:
            continue
