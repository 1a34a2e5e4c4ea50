"""A project of its own for a test of the rounds: the real scripts, a fake database and fake TSBS commands.

Only what costs time and says nothing is exchanged: the canary, the making of the workload, and the waits for
VictoriaMetrics' cache reset and its rendering of /metrics.
Every call of an adapter is written to a log, as hyperfine's tests do.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asking import FAKES, asked, free_port, written

from tsduel.plan import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from tsduel.core.plan import Plan

PROJECT = Path(__file__).resolve().parent.parent
__all__ = ["FAKES", "Project", "free_port", "replace", "wait_for", "written"]
LINE = "cpu,hostname=host_0 " + ",".join(f"usage_{n}={n}i" for n in range(10)) + " 1749513600000000000\n"
PATIENCE_S = 240.0  # for anything that a loaded machine may take long for


class Project:
    """Scripts, cache and one run in a directory of the test's own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = root / "cache"
        self.run_dir = root / "results" / "r"
        self.calls_log = root / "calls"
        self.said = root / "said"
        self.scripts = root / "scripts"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("TSDUEL", "TSBS_", "FAKE_"))}
        self.env |= {"TSDUEL_CACHE": str(self.cache), "FAKE_CALLS": str(self.calls_log)}
        self.env["TSDUEL_LOCK"] = str(root / "host.lock")
        shutil.copytree(PROJECT / "scripts", self.scripts)
        _write_program(self.scripts / "canary", 'echo \'{"cpu_s": 1, "memory_s": 1, "fsync_s": 1}\'')
        _write_program(self.scripts / "make-workload", 'cp -- "$1/workload.json" "$1/raw/workload.json"')
        self._log_adapters()

    def _log_adapters(self) -> None:
        real = self.scripts / "targets" / "victoriametrics"
        logged = self.scripts / "targets" / "fake"
        logged.mkdir()
        for adapter in real.iterdir():
            log = f'printf \'%s\\n\' "{adapter.name} ${{*##*/}}" >>"$FAKE_CALLS"\n'
            _write_program(logged / adapter.name, f'{log}exec {real / adapter.name} "$@"')
        replace(real / "settle", "CACHE_RESET_US=5500000\n", "CACHE_RESET_US=0\n")
        replace(self.scripts / "lib" / "round.sh", " 1050000;", " 1000;")

    def plan(self, **parts: dict[str, Any]) -> Plan:
        """Write the plan and the record of the builds of an experiment (see asking.written)."""
        made = resolve.resolve(asked(**parts), run="r")
        resolve.write(self.run_dir, made, cache=self.cache)
        build = self.run_dir / "build"
        build.mkdir(parents=True)
        for variant in made.variants:
            components = [{"role": part.role, "binary": part.path} for part in variant.components]
            record = {"variant": variant.name, "binary": variant.server.path, "components": components}
            (build / f"{variant.name}.json").write_text(json.dumps(record))
        (build / "tsbs.json").write_text(json.dumps({"bin_dir": str(FAKES)}))
        return made

    def _make_workload(self, resolved: dict[str, Any]) -> None:
        data = self.root / "data.zst"
        lines = LINE * resolved["workload"]["lines"]
        data.write_bytes(subprocess.run(["zstd", "-qc"], input=lines.encode(), capture_output=True, check=True).stdout)
        queries = []
        for query_type in resolved["queries"]["types"]:
            path = self.root / f"{query_type['name']}.gob"
            path.write_text("up\n" * (resolved["queries"]["count"] or resolved["queries"]["max_count"]))
            queries.append({"type": query_type["name"], "path": str(path), "responses_path": str(path)})
        (self.run_dir / "workload.json").write_text(json.dumps({"data": {"path": str(data)}, "queries": queries}))

    def start(self, **env: str) -> subprocess.Popen[bytes]:
        """Start run-rounds as `make` would. What it says goes to a file, since a pipe ends with its last holder."""
        with self.said.open("wb") as stream:
            return subprocess.Popen(
                [self.scripts / "run-rounds", self.run_dir],
                env=self.env | env,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def end(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for run-rounds and return what it said."""
        process.wait(timeout=PATIENCE_S)
        return self.said.read_text()

    def run(self, expect: int = 0, **env: str) -> str:
        """Run all rounds, require the exit code and that nothing is left running; return what was said."""
        process = self.start(**env)
        said = self.end(process)
        assert process.returncode == expect, said
        assert self.alive() == []
        return said

    def round_alone(self, expect: int = 3, **env: str) -> dict[str, Any]:
        """Run one round of baseline without the driver; return its round.json."""
        scratch = self.cache / "scratch"
        (scratch / "empty").mkdir(parents=True, exist_ok=True)
        (self.run_dir / "raw").mkdir(exist_ok=True)
        shutil.copy(self.run_dir / "workload.json", self.run_dir / "raw")
        types = [path.stem for path in self.root.glob("*.gob")]
        done = subprocess.run(
            [self.scripts / "round-tsbs", self.run_dir, "1", "1", "baseline", "measured", ",".join(types)],
            env=self.env | {"TSDUEL_SCRATCH": str(scratch)} | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == expect, done.stdout
        assert self.alive() == []
        assert self.rounds() == ["01-1-baseline"]
        return self.round("01-1-baseline")

    def round(self, name: str) -> dict[str, Any]:
        """Return raw/NAME/round.json."""
        result: dict[str, Any] = json.loads((self.run_dir / "raw" / name / "round.json").read_text())
        return result

    def rounds(self) -> list[str]:
        """Return the names of all finished rounds, in the order of the plan."""
        return sorted(p.name for p in (self.run_dir / "raw").glob("[0-9]*") if p.suffix != ".partial")

    def order(self) -> list[str]:
        """Return the names of the rounds as planned."""
        rows = [row.split("\t") for row in (self.run_dir / "plan" / "rounds.tsv").read_text().splitlines()[1:]]
        return [f"{int(row[0]):02d}-{row[1]}-{row[2]}" for row in rows]

    def calls(self) -> list[str]:
        """Return the calls of adapters: name, and arguments without their directories."""
        return [call.strip() for call in self.calls_log.read_text().splitlines()]

    def log(self, round_name: str, word: str) -> list[Any]:
        """Return what the fake database wrote to its log after `word`, one item a start."""
        text = (self.run_dir / "raw" / round_name / "server.log").read_text()
        found = [line.partition(" ")[2] for line in text.splitlines() if line.startswith(f"{word} ")]
        return [json.loads(item) if item[0] in "[{" else item for item in found]

    def alive(self, patience_s: float = 0.0) -> list[str]:
        """Return the command lines of everything that a round of ours started and that still runs."""
        deadline = time.monotonic() + patience_s
        while (found := self._alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return list(found.values())

    def _alive(self) -> dict[int, str]:
        mark = f"TSDUEL_SCRATCH={self.cache}/scratch".encode()
        found = {}
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (directory / "environ").read_bytes().split(b"\0"):
                    found[int(directory.name)] = (directory / "cmdline").read_text().replace("\0", " ")
        return found

    def clean_up(self) -> None:
        """End what a failed test has left."""
        for pid in self._alive():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def replace(path: Path, old: str, new: str) -> None:
    """Exchange the only place of `old` in a file."""
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} in {path}"
    path.write_text(text.replace(old, new))


def wait_for(condition: Callable[[], object]) -> None:
    """Return when the condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _write_program(path: Path, body: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\nset -Eeuo pipefail\n{body}\n")
    path.chmod(0o755)
