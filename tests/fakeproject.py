"""A run of a fake database and fake TSBS commands in a directory of the test's own, below the real Go program."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asking import FAKES, TYPES, UNJUDGED, free_port, written

from tsduel.plan import resolve
from tsduel.question import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from tsduel.core.plan import Plan

PROJECT = Path(__file__).resolve().parent.parent
__all__ = ["FAKES", "TYPES", "UNJUDGED", "Project", "agent", "free_port", "script", "wait_for", "written"]
PATIENCE_S = 240.0  # for anything that a loaded machine may take long for


@functools.cache
def agent() -> str:
    """Return the Go program, built in the project's own cache as a run builds it."""
    command = [sys.executable, PROJECT / "ansible" / "build.py"]
    environment = os.environ | {"TSDUEL_CACHE": str(PROJECT / ".cache")}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[-1]


def built(plan: Plan, build: Path, program: str) -> None:
    """Write the records of what would have been built for a plan; `program` is the agent on the host."""
    build.mkdir(parents=True, exist_ok=True)
    for variant in plan.variants:
        components = [{"role": part.role, "binary": part.path} for part in variant.components]
        record = {"variant": variant.name, "components": components, "binary": variant.server.path}
        (build / f"{variant.name}.json").write_text(json.dumps(record))
    (build / "tsbs.json").write_text(json.dumps({"bin_dir": str(FAKES)}))
    (build / "agent.json").write_text(json.dumps({"binary": program}))


class Project:
    """A cache and one run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = root / "cache"
        self.run_dir = root / "results" / "r"
        self.said = root / "said"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("TSDUEL", "TSBS_", "FAKE_"))}
        self.env |= {"TSDUEL_CACHE": str(self.cache), "TSDUEL_PROJECT": str(PROJECT)}
        self.env["TSDUEL_LOCK"] = str(root / "host.lock")

    def plan(self, **parts: dict[str, Any]) -> Plan:
        """Write the plan of an experiment (see `written`), and the records of what would have been built for it."""
        parts["design"] = {"spare_blocks": 0} | parts.get("design", {})
        plan = resolve.resolve(read.validate(written(**parts), "test"), run="r")
        self.cache.mkdir(exist_ok=True)
        resolve.write(self.run_dir, plan, cache=self.cache)
        built(plan, self.run_dir / "build", agent())
        return plan

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        """Start the Go program. What it says goes to a file, since a pipe ends with its last holder."""
        with self.said.open("wb") as stream:
            return subprocess.Popen(
                [agent(), "run", self.run_dir, "host1"],
                env=self.env | env,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def end(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for it and return what it said."""
        process.wait(timeout=PATIENCE_S)
        return self.said.read_text()

    def run(self, expect: int = 0, **env: str) -> str:
        """Run all blocks, require the exit code and that nothing is left running; return what was said."""
        process = self.start(**env)
        said = self.end(process)
        assert process.returncode == expect, said
        assert self.alive() == []
        return said

    def block(self, name: str) -> dict[str, Any]:
        """Return raw/HOST/BBB/block.json."""
        result: dict[str, Any] = json.loads((self.run_dir / "raw/host1" / name / "block.json").read_text())
        return result

    def blocks(self) -> list[str]:
        """Return the names of all finished blocks, in the order of the plan."""
        return sorted(path.parent.name for path in self.run_dir.glob("raw/host1/[0-9][0-9][0-9]/block.json"))

    def begun(self) -> list[str]:
        """Return the name of the block that runs, if one does."""
        return [path.stem for path in self.run_dir.glob("raw/host1/*.partial") if path.is_dir()]

    def events(self) -> list[dict[str, Any]]:
        """Return the events so far, but for a line that is being written."""
        path = self.run_dir / "raw/host1/events.jsonl"
        found = []
        for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
        return found

    def loads(self) -> bool:
        """Whether a load has begun."""
        return any(event["event"] == "phase-start" and event["phase"] == "load" for event in self.events())

    def alive(self, patience_s: float = 0.0) -> list[str]:
        """Return the command lines of everything that a block of ours started and that still runs."""
        deadline = time.monotonic() + patience_s
        while (found := marked(self.cache / "scratch")) and time.monotonic() < deadline:
            time.sleep(0.1)
        return list(found.values())

    def clean_up(self) -> None:
        """End what a failed test has left."""
        for pid in marked(self.cache / "scratch"):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def marked(scratch: Path) -> dict[int, str]:
    """Return pid -> command line of all that runs with this scratch directory in its environment."""
    return running(f"TSDUEL_SCRATCH={scratch}".__eq__)


def running(is_ours: Callable[[str], bool]) -> dict[int, str]:
    """Return pid -> command line of all that runs with such a variable in its environment."""
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(map(is_ours, (directory / "environ").read_text(errors="replace").split("\0"))):
                found[int(directory.name)] = (directory / "cmdline").read_text(errors="replace").replace("\0", " ")
    return found


def wait_for(condition: Callable[[], object]) -> None:
    """Return when the condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def script(path: Path, *lines: str) -> Path:
    """Write a shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path
