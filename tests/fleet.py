"""A fleet for tests: bare hosts behind real SSH, with a fake database that waits where a real one works."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asking import written
from barehost import USERS, BareHost
from fakeproject import agent, built

from tsduel.core.rundir import open_run
from tsduel.places import place, provision
from tsduel.places.ssh.link import Link
from tsduel.plan import resolve
from tsduel.question import read

if TYPE_CHECKING:
    from collections.abc import Sequence

PROJECT = Path(__file__).resolve().parent.parent
OURS = f"/var/tmp/tsduel-{USERS[0]}"  # noqa: S108 - in a tree of the test's own


class Fleet:
    """Some bare hosts that see this project, and runs of fakes on them."""

    def __init__(self, root: Path, count: int, load_s: float = 0.4) -> None:
        """Boot them; each load takes ``load_s`` seconds."""
        agent()
        self.root = root
        self.hosts: list[BareHost] = []
        self.environment = {k: v for k, v in os.environ.items() if k not in {"VIEW", "SSH_AUTH_SOCK"}}
        self.environment |= {"PYTHONPATH": str(PROJECT), "TSDUEL_CACHE": str(root / "cache")}
        try:
            for number in range(count):
                host = BareHost(root / f"h{number + 1}", mounts={PROJECT: str(PROJECT)})
                self.hosts.append(host)
                host.start()
                host.ssh(f"echo FAKE_LOAD_S={load_s} >>/etc/environment", user="root")
                # The fakes run from this checkout, at its own path: below /root that would be closed to others.
                host.ssh(f"chmod o+x {' '.join(map(shlex.quote, map(str, PROJECT.parents)))}", user="root")
        except BaseException:
            self.stop()
            raise
        self.config = root / "ssh_config"
        texts = [host.config.read_text().replace("Host *", f"Host {host.address}") for host in self.hosts]
        self.config.write_text("".join(texts))

    def stop(self) -> None:
        """End all of them."""
        for host in self.hosts:
            host.stop()

    def asked(self, hosts: list[BareHost], spares: Sequence[BareHost] = ()) -> dict[str, Any]:
        """Return the place of a run on these hosts."""
        named = [",".join(f"{USERS[0]}@{host.address}" for host in of) for of in (hosts, spares)]
        knobs = {"TARGET": "ssh", "SSH_HOST": named[0], "SPARE_HOSTS": named[1], "SSH_CONFIG": str(self.config)}
        return place.asked(knobs)

    def prepare(self, name: str, hosts: list[BareHost], spares: Sequence[BareHost] = (), /, **parts: Any) -> Path:
        """Plan a run and provision it; bring there what Ansible would."""
        run_dir = self.root / "results" / name
        parts["design"] = {"spare_blocks": 0, "warmup_blocks": 1} | parts.get("design", {})
        asked = read.validate(written(**{"duel": {"enabled": False}} | parts), "test")
        plan = resolve.resolve(asked, run=name, where=self.asked(hosts, spares))
        resolve.write(run_dir, plan, cache=self.root / "cache")
        provision.main(run_dir)
        links = Link.all(run_dir)
        for link, host in zip(links.values(), [*hosts, *spares], strict=True):
            program = Path(agent())
            built(plan, link.received / "build", f"{link.there}/{program.name}")
            host.ssh(f"umask 077; mkdir -p {link.there}; ln -sfn {PROJECT} {link.there}/project")
            # The cache that it lies in is for its owner alone, who logs in nowhere.
            for base, part in ((run_dir, "plan"), (link.received, "build"), (program.parent, program.name)):
                self._bring(link, base, part)
        return run_dir

    @staticmethod
    def _bring(link: Link, base: Path, part: str) -> None:
        packed = subprocess.run(["tar", "-C", base, "-c", part], capture_output=True, check=True).stdout
        subprocess.run(link.host.command("tar", "-C", link.there, "-x"), input=packed, check=True)

    def stage(self, run_dir: Path, name: str = "run", log: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a stage as make does, its words in a file."""
        with (log or self.said(run_dir)).open("ab") as stream:
            return subprocess.Popen(
                # It ends with us, however we end.
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tsduel", name, run_dir.name],
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def said(self, run_dir: Path) -> Path:
        """Return where the words of stages are."""
        return self.root / f"{run_dir.name}.said"

    def do(self, run_dir: Path, name: str, expect: int = 0) -> str:
        """Do a stage and return its words."""
        log = self.root / f"{run_dir.name}.{name}"
        log.unlink(missing_ok=True)
        code = self.stage(run_dir, name, log).wait()
        text = log.read_text()
        assert code == expect, text
        assert "Traceback" not in text, text
        return text


def left(host: BareHost) -> list[str]:
    """Return what runs there but sshd."""
    return list(host.left().values())


def missing(run_dir: Path) -> list[str]:
    """Return the due blocks that are not here, and those here that are neither due nor spare."""
    run = open_run(run_dir)
    here = {path.parent.name for path in run_dir.glob("raw/*/[0-9]*/block.json")}
    due = {row.name for row in run.due}
    return sorted((due - here) | (here - {row.name for row in run.planned}))
