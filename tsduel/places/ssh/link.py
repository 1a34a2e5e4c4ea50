"""A run and the machine it runs on: where things lie there, what state the rounds are in, and what is brought home."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places import place
from tsduel.places.ssh.ssh import NO_CONNECTION, Host, NoConnectionError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# A shell's own code for a program that is not there: nothing was brought to the machine yet.
NOT_THERE = 127


@dataclass(frozen=True)
class State:
    """What the rounds there are doing, and which are finished."""

    word: str  # none, running, ended or lost
    code: int  # exit code, where they ended
    rounds: tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """One run here, and the same run there."""

    run_dir: Path
    host: Host
    project_dir: str
    cache_dir: str
    there: str
    planned: tuple[str, ...]
    kind: str = "tsbs"  # which command goes on with it

    @classmethod
    def open(cls, run_dir: Path) -> Link:
        """Open a run that was provisioned elsewhere."""
        run = rundir.open_run(run_dir)
        outputs = run.json("host/outputs.json")
        if not outputs.get("host"):
            raise UserError(f"{run_dir}: its machine is not known yet: run 'make provision RUN={run_dir.name}'")
        there = place.directories(run.plan, run_dir=run_dir, cache=run_dir, project=run_dir)
        names = (f"{int(r['block']):02d}-{r['position']}-{r['variant']}" for r in run.planned)
        return cls(
            run_dir=run_dir,
            host=Host.from_outputs(outputs["host"]),
            project_dir=there["project_dir"],
            cache_dir=there["cache_dir"],
            there=there["run_dir"],
            planned=tuple(names),
            kind=run.kind,
        )

    @property
    def raw(self) -> Path:
        """The rounds at home."""
        return self.run_dir / "raw"

    def detached(self, command: str, *arguments: str) -> list[str]:
        """Return the words of a command of scripts/detached there."""
        return [f"{self.project_dir}/scripts/detached", command, self.there, self.cache_dir, *arguments]

    def ask(self, command: str, *, timeout_s: float = 120.0) -> str:
        """Run a command of scripts/detached there and return its words; one that fails is an error with its words."""
        done = self.host.run(*self.detached(command), timeout_s=timeout_s)
        if done.returncode != 0:
            reason = done.stderr.strip() or f"exit code {done.returncode}"
            raise UserError(f"{self.host.name}: scripts/detached {command} failed: {reason}")
        return done.stdout

    def state(self) -> State:
        """Ask what the rounds are doing."""
        done = self.host.run(*self.detached("state"))
        return _state("none" if done.returncode == NOT_THERE else done.stdout, self)

    def start(self) -> State:
        """Start the rounds unless they run."""
        return _state(self.ask("start"), self)

    def fetch_round(self, name: str) -> Path:
        """Bring one finished round home: under a name of its own until it is whole. Return its directory."""
        if name not in self.planned:
            raise UserError(
                f"{self.host.name} has a round {name!r} that is not in plan/rounds.tsv; somebody else was there"
            )
        partial = self.raw / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        self._unpack([f"raw/{name}"], partial)
        shutil.rmtree(self.raw / name, ignore_errors=True)
        (partial / "raw" / name).rename(self.raw / name)
        shutil.rmtree(partial)
        return self.raw / name

    def fetch_files(self, names: Iterable[str], into: Path) -> None:
        """Bring single files home, named from the run's directory, to the same names below ``into``."""
        partial = self.run_dir / "host" / "fetched.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        self._unpack(list(names), partial)
        for path in sorted(partial.rglob("*")):
            if path.is_file():
                target = into / path.relative_to(partial)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
        shutil.rmtree(partial)

    def _unpack(self, names: list[str], into: Path) -> None:
        # No tool of its own on either side, and a finished round is never touched again: tar is all it takes.
        command = self.host.command("tar", "-C", self.there, "-cf", "-", "--", *names)
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            broken = ""
            try:
                with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                    archive.extractall(into, filter="data")
            except tarfile.TarError as error:
                broken = str(error)
            except BaseException:
                process.kill()
                raise
            assert process.stderr is not None  # noqa: S101 - it is a pipe
            said = process.stderr.read().decode(errors="replace")
        if process.returncode == NO_CONNECTION:
            raise self.host.failure(said)
        if process.returncode != 0:
            raise UserError(f"{self.host.name}: {', '.join(names)} could not be read there: {said.strip()}")
        if broken:
            raise NoConnectionError(f"{self.host.name}: what came of {', '.join(names)} was cut short ({broken})")

    def missing(self) -> list[str]:
        """Return the files below raw/ whose content at home is not what it is there."""
        wrong = []
        for line in self.ask("sums").splitlines():
            digest, _, name = line.partition("  ")
            path = self.raw / name
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                wrong.append(name.removeprefix("./"))
        return wrong


def _state(said: str, link: Link) -> State:
    words = [line.split() for line in said.splitlines() if line.strip()]
    for number, word in enumerate(words):
        # A login shell may greet first.
        if word[0] in {"none", "running", "ended", "lost"}:
            rounds = tuple(w[1] for w in words[number + 1 :] if w[0] == "round")
            return State(word[0], int(word[1]) if word[0] == "ended" else 0, rounds)
    raise UserError(
        f"{link.host.name}: scripts/detached said nothing of the rounds: {said.strip() or 'no words at all'}"
    )
