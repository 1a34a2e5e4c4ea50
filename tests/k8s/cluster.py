"""A real Kubernetes for tests, which ends with them; where it cannot be, the tests are skipped with a sentence."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import parts
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
UNABLE = 3  # what `up` ends with then
MINUTES = 60


@dataclass(frozen=True)
class Cluster:
    """One that runs: ``kubeconfig`` is its admin's."""

    kubeconfig: Path
    name: str

    def kubectl(self, *words: str, given: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run Kubernetes' own client as the admin."""
        command = [str(parts.programs() / "kubectl"), "--kubeconfig", str(self.kubeconfig), *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=300)
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done

    def get(self, *words: str) -> Any:
        """Return what kubectl gets."""
        return json.loads(self.kubectl("get", *words, "--output", "json").stdout)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Have these objects."""
        self.kubectl(
            "apply", "--filename", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        )

    def processes(self, node: str = "") -> dict[int, list[str]]:
        """Return pid (of this machine's numbering) -> command line of all that runs in it, or on one node."""
        found = {}
        for file in (Path("/sys/fs/cgroup/cpu") / self.name / node).rglob("cgroup.procs"):
            for pid in file.read_text().split():
                with contextlib.suppress(OSError):
                    found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
        return found

    def kill(self, program: str, node: str = "") -> int:
        """Kill a program of Kubernetes, which starts again in a second; return how many processes that were."""
        pids = [pid for pid, line in self.processes(node).items() if Path(line[0]).name == program]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)


@contextlib.contextmanager
def cluster(nodes: int = 2, cpus: str = "shared") -> Iterator[Cluster]:
    """Start a cluster, and take it down."""
    words = [HERE / "up", "--nodes", nodes, "--cpus", cpus, "--minutes", MINUTES, "--owner", os.getpid()]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode == UNABLE:
        pytest.skip(f"no Kubernetes can be here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    kubeconfig = Path(done.stdout.strip().partition("KUBECONFIG=")[2])
    name = kubeconfig.parents[1].name
    try:
        yield Cluster(kubeconfig, name)
    finally:
        subprocess.run([HERE / "down", name], check=True)
