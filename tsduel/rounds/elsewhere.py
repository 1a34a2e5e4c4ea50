"""Attends a run elsewhere: on one machine, or on a fleet, where spare hosts replace lost hosts."""

import json
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tsduel.core import files, rundir, runlog
from tsduel.core.errors import UserError
from tsduel.places.ssh import stream
from tsduel.places.ssh.link import FETCHED, Link, is_home, note_home
from tsduel.plan.forecast.spread import Forecast
from tsduel.rounds.attend import EXIT_INTERRUPTED, KILLED, PATIENCE_S, Attendant
from tsduel.rounds.view import show
from tsduel.rounds.view.events import Tail
from tsduel.rounds.view.show import View

LOST = "host/lost.json"
# Time for the threads to end. They look at their connection every other second.
LEAVING_S = 10.0


def say(text: str) -> None:
    """Print on stderr."""
    print(text, file=sys.stderr, flush=True)


def main(run_dir: Path) -> int:
    """Attend a run elsewhere and return its exit code; Ctrl-C or a hang-up leaves it running."""
    if is_home(run_dir):
        say(f"{run_dir}: all blocks are here already")
        return 0
    links = Link.all(run_dir)
    first = next(iter(links.values()))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    expected, board = Forecast.read(rundir.open_run(run_dir)), show.Board()

    def view_of(name: str) -> View:
        host = name if first.of_fleet else ""
        log = partial(runlog.write, run_dir, "INFO", "run")
        view = show.kind(os.environ)(expected, log, host=host, board=board)
        view.catch_up(Tail(links[name].at_home("events.jsonl")).read())
        return view

    try:
        with stream.attending(run_dir):
            if first.of_fleet:
                return Fleet(run_dir, links, view_of).attend()
            return Attendant(first, view_of(first.name)).attend()
    except KeyboardInterrupt:
        board.close()
        where = f"{len(links)} machines" if first.of_fleet else first.host.name
        say(
            f"\ndetached: the run goes on on {where}. To come back: make {first.kind} RUN={run_dir.name}; "
            f"to stop it: make stop RUN={run_dir.name}"
        )
        return EXIT_INTERRUPTED
    finally:
        board.close()


class Fleet:
    """Attends all hosts of a run at the same time. A host that is lost does not stop the others."""

    def __init__(
        self, run_dir: Path, links: dict[str, Link], view_of: Callable[[str], View], *, patience_s: float = PATIENCE_S
    ) -> None:
        self.run = rundir.open_run(run_dir)
        self.links, self.view_of, self.patience_s = links, view_of, patience_s
        # Lost host -> `why`, the `blocks` that it has not run, and the spare host for them in `by`, or "".
        self.lost = self.run.json(LOST)
        self.codes: dict[str, int] = {}
        self.leaving = threading.Event()
        self._views: dict[str, View] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._ended: queue.SimpleQueue[tuple[str, int | BaseException]] = queue.SimpleQueue()

    def attend(self) -> int:
        """Attend all hosts until each has ended or is lost; return the common exit code."""
        _compare_builds(self.run.path, self.links)
        for name in self.run.plan.hosts:
            self._begin(name)
        for loss in list(self.lost.values()):
            if loss["by"]:
                self._begin(loss["by"], loss["blocks"])
        error: UserError | None = None
        try:
            while self._threads:
                name, end = self._ended.get()
                del self._threads[name]
                if isinstance(end, int) and (end < KILLED or end == EXIT_INTERRUPTED):
                    self.codes[name] = end
                    self.lost.pop(name, None)
                    self._save()
                    continue
                if isinstance(end, int):
                    end = UserError(f"what ran on {self.links[name].host.name} was killed (exit code {end})")
                if not isinstance(end, UserError):
                    raise end
                error = end
                self._lose(name, error)
        finally:
            self.leaving.set()
            for thread in self._threads.values():
                thread.join(LEAVING_S)
        if error and not self.codes:
            raise error
        return self._end()

    def _begin(self, name: str, instead: Sequence[int] = ()) -> None:
        if self.lost.get(name, {}).get("by"):
            return
        if name not in self.links:
            self._lose(name, UserError("no zone had such a machine left"))
            return
        link = self.links[name]
        if link.fetched.exists():
            self.codes[name] = 0
            return
        self._views[name] = self.view_of(name)
        attendant = Attendant(
            link, self._views[name], patience_s=self.patience_s, instead=instead, leaving=self.leaving
        )

        def attend() -> None:
            try:
                self._ended.put((name, attendant.attend()))
            except BaseException as error:  # noqa: BLE001 - the main thread raises it
                self._ended.put((name, error))

        # A daemon: we can end before it does, and the run goes on without us.
        self._threads[name] = threading.Thread(target=attend, daemon=True)
        self._threads[name].start()

    def _lose(self, name: str, error: UserError) -> None:
        """Give the blocks of a lost host to a spare host that answers; without one, we may be cut off."""
        why = str(error).splitlines()[0]
        left = self._left(name)
        self.lost[name] = {"why": why, "by": "", "blocks": left}
        self._save()
        tell = self._views[name].say if name in self._views else say
        tell(f"tsduel: {name} is lost: {why}; the others go on")
        taken = {*self._views, *(loss["by"] for loss in self.lost.values())}
        for spare in self.run.plan.standing_by(name) if left else ():
            if spare not in self.links or spare in taken:
                continue
            try:
                self.links[spare].state()
            except UserError as refused:
                tell(f"tsduel: nor can {spare} stand in for it: {refused}")
                continue
            self.lost[name]["by"] = spare
            self._save()
            tell(f"tsduel: {spare} ({self.links[spare].host.name}) runs {len(left)} blocks in its place")
            self._begin(spare, left)
            return

    def _left(self, name: str) -> list[int]:
        """Return the blocks that a host has not run; for a spare host, of those that it took over."""
        rows = [row for row in self.run.planned if row.host == name and row.kind != "warmup"]
        finished = {row.block for row in rows if (self.run.path / "raw" / row.name / "block.json").exists()}
        for loss in self.lost.values():
            if loss["by"] == name:
                return list(loss["blocks"][len(finished) :])
        return [row.block for row in rows if row.kind == "measured" and row.block not in finished]

    def _save(self) -> None:
        path = self.run.path / LOST
        if self.lost or path.exists():
            files.write(path, json.dumps(self.lost, indent=2) + "\n")

    def _end(self) -> int:
        if EXIT_INTERRUPTED in self.codes.values():
            return EXIT_INTERRUPTED
        code = max(self.codes.values())
        missing = {name: len(loss["blocks"]) for name, loss in self.lost.items() if loss["blocks"] and not loss["by"]}
        if missing:
            each = ", ".join(f"{count} of {name}" for name, count in missing.items())
            # Not with rented machines, which are given back now.
            again = f". To try them again: make {self.run.plan.kind} RUN={self.run.path.name}"
            say(
                f"the run ends with what it has: {sum(missing.values())} blocks were not run ({each}), and the report "
                f"says so{again if self.run.plan.place.kind == 'ssh' else ''}"
            )
        elif code == 0:
            note_home(self.run.path / FETCHED)
        return code


def _compare_builds(run_dir: Path, links: dict[str, Link]) -> None:
    """Copy the first host's records of builds to build/, and name the hosts with different builds."""
    (run_dir / "build").mkdir(exist_ok=True)
    builds: dict[str, dict[str, list[object]]] = {}
    for name, link in links.items():
        for path in sorted(link.apart.glob("build/*.json")):
            if path.stem not in builds:
                shutil.copyfile(path, run_dir / "build" / path.name)
            record = files.read_json(path)
            identity = [record.get(key) for key in ("revision", "go_version", "sha256")]
            builds.setdefault(path.stem, {})[name] = identity
    for program, by_host in builds.items():
        first, *others = by_host
        if odd := [name for name in others if by_host[name] != by_host[first]]:
            say(
                f"{program} is not byte for byte the same on {', '.join(odd)} as on {first} (another Go?): hosts are "
                f"compared with care, see host/HOST/build/{program}.json"
            )
