"""A run and one of its other machines: the directories there, the state of the blocks, and what is copied home."""

import hashlib
import json
import re
import shutil
import signal
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from tsduel.core import files, rundir
from tsduel.core.errors import UserError
from tsduel.places import directories, hosts
from tsduel.places.ssh import untrusted
from tsduel.places.ssh.ssh import NO_CONNECTION, Host, NoConnectionError

T = TypeVar("T")
# A shell's exit code for a missing program: the cache there was removed.
NOT_THERE = 127
# Exists if everything is here and its checksums are equal: for the run, and for each host.
FETCHED = "host/fetched.json"
# What `tsduel-host detached` says.
STATE = re.compile(r"^(?:(none|running|lost)\b.*|ended +(\d{1,3}) *)$", re.MULTILINE)
SUM = re.compile(r"^([0-9a-f]{64})  \./(.+)$", re.MULTILINE)
# Names of files in one command line.
AT_ONCE = 100


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
    came: list[int] = field(default_factory=list, compare=False)  # bytes of each archive so far

    @classmethod
    def all(cls, run_dir: Path) -> dict[str, Self]:
        """Return the links to the hosts that run the blocks, by name; the run must be provisioned."""
        run = rundir.open_run(run_dir)
        recorded = hosts.known(run_dir)
        if not recorded:
            raise UserError(f"{run_dir}: its machine is not known yet: run 'make provision RUN={run_dir.name}'")
        links = {}
        for name, host in recorded.items():
            there = directories.on_host(run.plan, name)
            built: dict[str, Any] = {}
            with suppress(UserError):  # a record that was cut short: it is built again
                built = run.json(f"host/{name}/build/agent.json")
            links[name] = cls(
                run_dir=run_dir,
                host=Host.from_outputs(host),
                agent=str(built.get("binary") or ""),
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
    def received(self) -> Path:
        """The directory here for what this host sent of its log and builds."""
        return self.run_dir / "host" / self.name

    @property
    def fetched(self) -> Path:
        """The file that exists if this host has ended well and all of its files are here."""
        return self.received / Path(FETCHED).name

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
        if done and done.returncode == NOT_THERE and not self.host.run("test", "-e", f"{self.there}/raw").returncode:
            raise UserError(
                f"{self.host.name}: {self.agent} is gone, and what ran is still in {self.there}/raw: "
                f"'make build RUN={self.run_dir.name}' puts the program back, then: make fetch RUN={self.run_dir.name}"
            )
        return _state("none" if done is None or done.returncode == NOT_THERE else done.stdout or done.stderr, self)

    def start(self, instead: Iterable[int] = ()) -> State:
        """Start the run unless it is going on; ``instead``: blocks of a lost host that spare blocks replace."""
        return _state(self.ask("start", *map(str, instead)), self)

    def fetch_block(self, name: str) -> None:
        """Copy one finished block home; it has another name until it is complete, and on the disk."""
        if name not in self.planned:
            foreign = f"has a block {name!r} that is not in plan/blocks.tsv; somebody else was there"
            raise UserError(f"{self.host.name} {foreign}")
        # With which a pod that takes another's place is compared.
        facts = [f"raw/{self.name}.json"] if self.host.through else []
        block = f"raw/{self.name}/{name}"
        with self._unpacked([*facts, f"{block}/"], self.received / name) as arrived:
            if not (arrived / block / "block.json").is_file():
                raise UserError(f"{self.host.name}: no block {name} came of it, though it is finished there")
            if (self.raw / name).exists():
                (self.raw / name).rename(arrived / "damaged")
            for path in (*facts, block):
                _move(arrived / path, self.run_dir / path)

    def fetch_blocks(self, names: Iterable[str]) -> None:
        """Copy those blocks home that are not here; one that cannot be copied keeps no other one there."""
        here = {name for name in self.planned if (self.raw / name / "block.json").exists()}
        _each(self.fetch_block, [name for name in names if name not in here])

    def fetch_files(self, names: Iterable[str], into: Path, *, again: bool = True) -> None:
        """Copy files home, and directories (with a / at the end), to the same names below ``into``.

        Unless ``again``, a file that is here already stays.
        """
        with self._unpacked(list(names), self.received / "fetched") as arrived:
            for path in sorted(arrived.rglob("*")):
                target = into / path.relative_to(arrived)
                if path.is_file() and (again or not target.exists()):
                    _move(path, target)

    def bring_home(self) -> None:
        """Copy home all files that are missing or different, blocks first, and compare all checksums."""
        wrong = self.missing()
        blocks = {name: block for name in wrong if rundir.BLOCK_NAME.fullmatch(block := f"{name}/".split("/")[1])}
        # Other files come without their block: the host's description, noise, profiles.
        single = [f"raw/{name}" for name in wrong if name not in blocks]
        parts = [(single[at : at + AT_ONCE], self.run_dir) for at in range(0, len(single), AT_ONCE)]
        parts += [(["control/log"], self.received), (["run.log"], self.received / "control")]
        fetches = [partial(self.fetch_block, block) for block in sorted(set(blocks.values()))]
        fetches += [partial(self.fetch_files, *part) for part in parts]
        # The records that came before the first block say what runs there; no version can have changed them.
        fetches.append(partial(self.fetch_files, ["build/"], self.received, again=False))
        _each(lambda fetch: fetch(), fetches)
        if wrong and (still := self.missing()):
            raise UserError(
                f"{self.raw}: {', '.join(still[:5])} arrived with another checksum than on {self.host.name}; "
                f"see that neither disk is full or broken, then: make fetch RUN={self.run_dir.name}"
            )

    @contextmanager
    def _unpacked(self, names: list[str], where: Path) -> Iterator[Path]:
        """Have these files and directories in a directory for a while, whose name nobody else has; no others come."""
        arrived = files.partial_of(where)
        arrived.mkdir(parents=True)
        try:
            self._unpack(names, arrived)
            yield arrived
        finally:
            shutil.rmtree(arrived)

    def _unpack(self, names: list[str], arrived: Path) -> None:
        # tar is enough, since a finished block never changes.
        command, broken = self.host.command("tar", "-C", self.there, "-cf", "-", "--", *names), ""
        with self.host.heard(), untrusted.started(command) as (process, ended):
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            try:
                left = untrusted.MOST_OF_HOST - sum(self.came)
                self.came.append(untrusted.unpack(process.stdout.fileno(), names, arrived, left))
            except tarfile.TarError as error:
                broken = str(error)
                # What else comes is not read, so the command must not wait for that.
                process.stdout.close()
            errors = ended(untrusted.SILENCE_S)
        if process.returncode == NO_CONNECTION:
            raise self.host.failure(errors)
        if process.returncode not in {0, -signal.SIGPIPE, 128 + signal.SIGPIPE}:
            raise UserError(f"{self.host.name}: {', '.join(names)} could not be read there: {errors.strip()}")
        if broken:
            raise NoConnectionError(f"{self.host.name}: what came of {', '.join(names)} was cut short ({broken})")

    def missing(self) -> list[str]:
        """Return the files of this host below raw/ there whose content is different or missing here."""
        wrong = []
        for digest, name in SUM.findall(self.ask("sums")):
            path = self.run_dir / "raw" / name
            # What else is named there is not this host's to write.
            of_this_host = name == f"{self.name}.json" or name.startswith(f"{self.name}/")
            if of_this_host and untrusted.is_plain(name) and not (path.is_file() and _digest(path) == digest):
                wrong.append(name)
        if len(wrong) > untrusted.MOST_FILES:
            raise untrusted.LieError(f"{self.host.name}: it names {len(wrong)} files, more than a run has")
        return wrong


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _move(path: Path, target: Path) -> None:
    """Give what is on the disk its name there."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise UserError(f"{target}: a host says that a file is a directory, or the other way round") from None
    files.sync_names(target.parent)


def _each(do: Callable[[T], object], of: Iterable[T]) -> None:
    """Do all of it before an error is raised; only without a connection nothing more is tried."""
    errors: list[UserError] = []
    for one in of:
        try:
            do(one)
        except NoConnectionError:
            raise
        except UserError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _state(output: str, link: Link) -> State:
    # A login shell may print a greeting first.
    if found := STATE.search(output):
        blocks = dict.fromkeys(re.findall(r"^block (\S+)$", output[found.end() :], re.MULTILINE))
        return State(found[1] or "ended", int(found[2] or 0), tuple(blocks))
    said = " ".join(output.split())[:300]
    raise UserError(f"{link.host.name}: the state of the run there is not known: {said or 'no output'}")
