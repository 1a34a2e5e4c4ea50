"""A run and one of its other machines: the directories there, the state of the blocks, and what is copied home."""

import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tsduel.core import files, rundir
from tsduel.core.errors import UserError
from tsduel.places import directories, hosts
from tsduel.places.ssh.ssh import NO_CONNECTION, Host, NoConnectionError

# A shell's exit code for a missing program: the cache there was removed.
NOT_THERE = 127
# Exists if everything is here and its checksums are equal: for the run, and for each host.
FETCHED = "host/fetched.json"


def is_home(run_dir: Path) -> bool:
    """Return whether all blocks ran elsewhere, the run ended well, and all is here with equal checksums."""
    return (run_dir / FETCHED).exists()


def note_home(path: Path) -> None:
    """Write such a file."""
    files.write(path, json.dumps({"exit": 0, "checksums": "equal"}) + "\n")


@dataclass(frozen=True)
class State:
    """The state of the run there, and its finished blocks."""

    word: str  # none, running, ended or lost
    code: int  # exit code, where it ended
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """One run here and its part on a host."""

    run_dir: Path
    host: Host
    agent: str  # path of the Go program there; empty if it is not built
    cache_dir: str
    there: str
    planned: frozenset[str]  # blocks of this host
    kind: str = "tsbs"  # the command that continues the run
    name: str = "host1"  # in the plan

    @classmethod
    def all(cls, run_dir: Path) -> dict[str, Self]:
        """Return the links to the hosts that run the blocks, by name; the run must be provisioned."""
        lent = rundir.open_run(run_dir).plan.lent_hosts
        return {name: link for name, link in cls._every(run_dir).items() if name not in lent}

    @classmethod
    def lent(cls, run_dir: Path) -> dict[str, Self]:
        """Return the links to the lent hosts, by name."""
        lent = rundir.open_run(run_dir).plan.lent_hosts
        return {name: link for name, link in cls._every(run_dir).items() if name in lent} if lent else {}

    @classmethod
    def _every(cls, run_dir: Path) -> dict[str, Self]:
        run = rundir.open_run(run_dir)
        known = hosts.known(run_dir)
        if not known:
            raise UserError(f"{run_dir}: its machine is not known yet: run 'make provision RUN={run_dir.name}'")
        links = {}
        for name, host in known.items():
            there = directories.on_host(run.plan, name)
            links[name] = cls(
                run_dir=run_dir,
                host=Host.from_outputs(host),
                agent=run.json(f"host/{name}/build/agent.json").get("binary", ""),
                cache_dir=there["cache_dir"],
                there=there["run_dir"],
                planned=frozenset(row.name for row in run.planned if row.host == name),
                kind=run.plan.kind,
                name=name,
            )
        return links

    @property
    def raw(self) -> Path:
        """The directory here for what this host has written about its blocks."""
        return self.run_dir / "raw" / self.name

    @property
    def apart(self) -> Path:
        """The directory here for this host's log and builds."""
        return self.run_dir / "host" / self.name

    @property
    def fetched(self) -> Path:
        """The file that exists if this host has ended well and all of its files are here."""
        return self.apart / Path(FETCHED).name

    def detached(self, command: str, *arguments: str) -> list[str]:
        """Return the command line of `tsduel-host detached COMMAND` there."""
        return [self.agent, "detached", command, self.there, self.cache_dir, self.name, *arguments]

    def ask(self, command: str, *arguments: str, timeout_s: float = 120.0) -> str:
        """Run a command of the Go program there and return its output; a UserError has its error text."""
        if not self.agent:
            raise UserError(f"{self.run_dir}: nothing is built for it: run 'make build RUN={self.run_dir.name}'")
        done = self.host.run(*self.detached(command, *arguments), timeout_s=timeout_s)
        if done.returncode != 0:
            reason = done.stderr.strip().removeprefix("tsduel: ") or f"exit code {done.returncode}"
            raise UserError(f"{self.host.name}: tsduel-host detached {command} failed: {reason}")
        return done.stdout

    def state(self) -> State:
        """Return the state of the run there."""
        done = self.host.run(*self.detached("state")) if self.agent else None
        return _state("none" if done is None or done.returncode == NOT_THERE else done.stdout or done.stderr, self)

    def start(self, instead: Iterable[int] = ()) -> State:
        """Start the run unless it is going on; ``instead``: blocks of a lost host that spare blocks replace."""
        return _state(self.ask("start", *map(str, instead)), self)

    def fetch_block(self, name: str) -> None:
        """Copy one finished block home; it has another name until it is complete."""
        if name not in self.planned:
            foreign = f"has a block {name!r} that is not in plan/blocks.tsv; somebody else was there"
            raise UserError(f"{self.host.name} {foreign}")
        # With which a pod that takes another's place is compared.
        facts = [f"raw/{self.name}.json"] if self.host.through else []
        with self._unpacked([f"raw/{self.name}/{name}", *facts], self.apart / name) as partial:
            for file in facts:
                (partial / file).replace(self.run_dir / file)
            self.raw.mkdir(parents=True, exist_ok=True)
            if (self.raw / name).exists():
                (self.raw / name).rename(partial / "damaged")
            (partial / "raw" / self.name / name).rename(self.raw / name)

    def fetch_blocks(self, names: Iterable[str]) -> None:
        """Copy those blocks home that are not here."""
        for name in names:
            if not (self.raw / name / "block.json").exists():
                self.fetch_block(name)

    def fetch_files(self, names: Iterable[str], into: Path) -> None:
        """Copy single files home, from names below the run's directory to the same names below ``into``."""
        with self._unpacked(list(names), self.apart / "fetched") as partial:
            for path in sorted(partial.rglob("*")):
                if path.is_file():
                    target = into / path.relative_to(partial)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.replace(target)

    def bring_home(self) -> None:
        """Copy home all files that are missing or different, and compare all checksums."""
        self.fetch_files(["control/log"], self.apart)
        self.fetch_files(["run.log"], self.apart / "control")
        self.fetch_files(["build"], self.apart)
        wrong = self.missing()
        blocks = {name: block for name in wrong if rundir.BLOCK_NAME.fullmatch(block := f"{name}/".split("/")[1])}
        for block in sorted(set(blocks.values())):
            self.fetch_block(block)
        # Other files come one by one: the host's description, noise, profiles.
        if single := [f"raw/{name}" for name in wrong if name not in blocks]:
            self.fetch_files(single, self.run_dir)
        if wrong and (still := self.missing()):
            raise UserError(
                f"{self.raw}: {', '.join(still[:5])} arrived with another checksum than on {self.host.name}; "
                f"see that neither disk is full or broken, then: make fetch RUN={self.run_dir.name}"
            )

    @contextmanager
    def _unpacked(self, names: list[str], where: Path) -> Iterator[Path]:
        """Have these files in a directory for a while, whose name nobody else has."""
        partial = files.partial_of(where)
        partial.mkdir(parents=True)
        try:
            self._unpack(names, partial)
            yield partial
        finally:
            shutil.rmtree(partial)

    def _unpack(self, names: list[str], into: Path) -> None:
        # tar is enough, since a finished block never changes.
        command = self.host.command("tar", "-C", self.there, "-cf", "-", "--", *names)
        pipe, broken = subprocess.PIPE, ""
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
            try:
                with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                    archive.extractall(into, filter="data")
            except tarfile.TarError as error:
                broken = str(error)
            except BaseException:
                process.kill()
                raise
            assert process.stderr is not None  # noqa: S101 - it is a pipe
            errors = process.stderr.read().decode(errors="replace")
        if process.returncode == NO_CONNECTION:
            raise self.host.failure(errors)
        if process.returncode != 0:
            raise UserError(f"{self.host.name}: {', '.join(names)} could not be read there: {errors.strip()}")
        if broken:
            raise NoConnectionError(f"{self.host.name}: what came of {', '.join(names)} was cut short ({broken})")

    def missing(self) -> list[str]:
        """Return the files below raw/ there whose content is different or missing here."""
        wrong = []
        for line in self.ask("sums").splitlines():
            digest, _, name = line.partition("  ")
            path = self.run_dir / "raw" / name.removeprefix("./")
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                wrong.append(name.removeprefix("./"))
        return wrong


def _state(output: str, link: Link) -> State:
    words = [line.split() for line in output.splitlines() if line.strip()]
    for number, word in enumerate(words):
        # A login shell may print a greeting first.
        if word[0] in {"none", "running", "ended", "lost"}:
            blocks = tuple(w[1] for w in words[number + 1 :] if w[0] == "block")
            return State(word[0], int(word[1]) if word[0] == "ended" else 0, blocks)
    raise UserError(f"{link.host.name}: the state of the run there is not known: {output.strip() or 'no output'}")
