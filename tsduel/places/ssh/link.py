"""A run and a machine it runs on: where things lie there, what state the blocks are in, and what is brought home."""

import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tsduel.core import files, rundir
from tsduel.core.errors import UserError
from tsduel.places import directories, hosts
from tsduel.places.ssh.ssh import NO_CONNECTION, Host, NoConnectionError

# A shell's own code for a program that is not there: somebody has emptied the cache there.
NOT_THERE = 127
# Beside the run's inventory, and of a fleet in each host's directory: that all is here, and was compared.
FETCHED = "host/fetched.json"


def is_home(run_dir: Path) -> bool:
    """Return whether all blocks were run elsewhere, ended well, and are here with their checksums compared."""
    return (run_dir / FETCHED).exists()


def note_home(path: Path) -> None:
    """Note in such a file that they are."""
    files.write(path, json.dumps({"exit": 0, "checksums": "equal"}) + "\n")


@dataclass(frozen=True)
class State:
    """What the run there is doing, and which blocks are finished."""

    word: str  # none, running, ended or lost
    code: int  # exit code, where it ended
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """One run here, and what a host has of it there."""

    run_dir: Path
    host: Host
    agent: str  # the Go program there; empty where it is not built
    cache_dir: str
    there: str
    planned: frozenset[str]  # blocks of this host
    kind: str = "tsbs"  # which command goes on with it
    name: str = "host1"  # in the plan
    of_fleet: bool = False

    @classmethod
    def all(cls, run_dir: Path) -> dict[str, Self]:
        """Open a run that was provisioned elsewhere: the hosts that run its blocks, by their names."""
        lent = rundir.open_run(run_dir).plan.lent_hosts
        return {name: link for name, link in cls._every(run_dir).items() if name not in lent}

    @classmethod
    def lent(cls, run_dir: Path) -> dict[str, Self]:
        """Open those that run components for the driver on another."""
        lent = rundir.open_run(run_dir).plan.lent_hosts
        return {name: link for name, link in cls._every(run_dir).items() if name in lent} if lent else {}

    @classmethod
    def _every(cls, run_dir: Path) -> dict[str, Self]:
        run = rundir.open_run(run_dir)
        known = hosts.known(run_dir)
        if not known:
            raise UserError(f"{run_dir}: its machine is not known yet: run 'make provision RUN={run_dir.name}'")
        found = {}
        for name, of in known.items():
            there = directories.there(run.plan, name)
            # The build has brought its record home.
            apart = run.plan.is_fleet or name in run.plan.lent_hosts
            built = f"host/{name}/build/agent.json" if apart else "build/agent.json"
            found[name] = cls(
                run_dir=run_dir,
                host=Host.from_outputs(of),
                agent=run.json(built).get("binary", ""),
                cache_dir=there["cache_dir"],
                there=there["run_dir"],
                planned=frozenset(row.name for row in run.planned if row.host == name),
                kind=run.plan.kind,
                name=name,
                of_fleet=apart,
            )
        return found

    @property
    def raw(self) -> Path:
        """The blocks at home, of all hosts."""
        return self.run_dir / "raw"

    @property
    def apart(self) -> Path:
        """What is of this host alone at home, and no measurement: its log, its builds."""
        return self.run_dir / "host" / self.name if self.of_fleet else self.run_dir / "host"

    @property
    def fetched(self) -> Path:
        """Say by its existence that this host has ended well, and all of it is here."""
        return self.apart / Path(FETCHED).name

    def at_home(self, name: str) -> Path:
        """Return where a file of raw/ there is here: of a fleet in raw/HOST, but for blocks and HOST.json."""
        shared = rundir.BLOCK_NAME.fullmatch(name.partition("/")[0]) or name == f"{self.name}.json"
        return self.raw / name if shared or not self.of_fleet else self.raw / self.name / name

    def detached(self, command: str, *arguments: str) -> list[str]:
        """Return the words of `tsduel-host detached COMMAND` there."""
        return [self.agent, "detached", command, self.there, self.cache_dir, *arguments]

    def ask(self, command: str, *arguments: str, timeout_s: float = 120.0) -> str:
        """Have the Go program there do something and return its words; where it fails, its words are the error."""
        if not self.agent:
            raise UserError(f"{self.run_dir}: nothing is built for it: run 'make build RUN={self.run_dir.name}'")
        done = self.host.run(*self.detached(command, *arguments), timeout_s=timeout_s)
        if done.returncode != 0:
            reason = done.stderr.strip().removeprefix("tsduel: ") or f"exit code {done.returncode}"
            raise UserError(f"{self.host.name}: tsduel-host detached {command} failed: {reason}")
        return done.stdout

    def state(self) -> State:
        """Ask what the run is doing there."""
        done = self.host.run(*self.detached("state")) if self.agent else None
        return _state("none" if done is None or done.returncode == NOT_THERE else done.stdout or done.stderr, self)

    def start(self, instead: Iterable[int] = ()) -> State:
        """Start the run unless it is going on; ``instead``: a lost host's blocks, for which its spare ones are run."""
        return _state(self.ask("start", self.name, *map(str, instead)), self)

    def fetch_block(self, name: str) -> None:
        """Bring one finished block home: under a name of its own until it is whole."""
        if name not in self.planned:
            raise UserError(
                f"{self.host.name} has a block {name!r} that is not in plan/blocks.tsv; somebody else was there"
            )
        partial = self.raw / f"{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        self._unpack([f"raw/{name}"], partial)
        shutil.rmtree(self.raw / name, ignore_errors=True)
        (partial / "raw" / name).rename(self.raw / name)
        shutil.rmtree(partial)

    def fetch_blocks(self, names: Iterable[str]) -> None:
        """Bring those home that are not here."""
        for name in names:
            if not (self.raw / name / "block.json").exists():
                self.fetch_block(name)

    def fetch_files(self, names: Iterable[str], into: Path | None = None) -> None:
        """Bring single files home, named from the run's directory, to the same names below ``into``.

        Without it they are of raw/, and come to where `at_home` says.
        """
        partial = self.apart / "fetched.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        self._unpack(list(names), partial)
        for path in sorted(partial.rglob("*")):
            if path.is_file():
                name = path.relative_to(partial)
                target = into / name if into else self.at_home(str(name.relative_to("raw")))
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
        shutil.rmtree(partial)

    def bring_home(self) -> None:
        """Bring what is not here, or not as it is there, and compare all checksums."""
        self.fetch_files(["control/log"], self.apart)
        self.fetch_files(["run.log"], self.apart / "control")
        self.fetch_files(["build"], self.apart if self.of_fleet else self.run_dir)
        wrong = self.missing()
        blocks = {top for name in wrong if rundir.BLOCK_NAME.fullmatch(top := name.partition("/")[0])}
        for name in sorted(blocks):
            self.fetch_block(name)
        # What lies beside the blocks comes file by file: the host's description, noise, profiles.
        if single := [f"raw/{name}" for name in wrong if name.partition("/")[0] not in blocks]:
            self.fetch_files(single)
        if wrong and (still := self.missing()):
            raise UserError(
                f"{self.raw}: {', '.join(still[:5])} arrived with another checksum than on {self.host.name}; "
                f"see that neither disk is full or broken, then: make fetch RUN={self.run_dir.name}"
            )

    def _unpack(self, names: list[str], into: Path) -> None:
        # No tool of its own on either side, and a finished block is never touched again: tar is all it takes.
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
        """Return the files below raw/ there whose content at home is not what it is there."""
        wrong = []
        for line in self.ask("sums").splitlines():
            digest, _, name = line.partition("  ")
            path = self.at_home(name.removeprefix("./"))
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                wrong.append(name.removeprefix("./"))
        return wrong


def _state(said: str, link: Link) -> State:
    words = [line.split() for line in said.splitlines() if line.strip()]
    for number, word in enumerate(words):
        # A login shell may greet first.
        if word[0] in {"none", "running", "ended", "lost"}:
            blocks = tuple(w[1] for w in words[number + 1 :] if w[0] == "block")
            return State(word[0], int(word[1]) if word[0] == "ended" else 0, blocks)
    raise UserError(f"{link.host.name}: nothing is said of the run there: {said.strip() or 'no words at all'}")
