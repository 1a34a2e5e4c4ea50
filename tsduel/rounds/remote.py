"""Attends a run on other machines. Where there are several, spare hosts replace lost hosts."""

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from tsduel.core import files, rundir, runlog
from tsduel.core.children import mind_signals
from tsduel.core.codes import INTERRUPTED
from tsduel.core.errors import UserError
from tsduel.places.ssh.link import FETCHED, Link, is_home, note_home
from tsduel.rounds.attend import KILLED, PATIENCE_S, Attendant
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
    run, links = rundir.open_run(run_dir), Link.all(run_dir)
    mind_signals()
    board = show.Board()

    def view_of(name: str) -> View:
        log = partial(runlog.write, run_dir, "INFO", "run")
        view = show.view_of(run, name, os.environ, log=log, board=board)
        view.catch_up(Tail(links[name].raw / "events.jsonl").read())
        return view

    try:
        return Fleet(run_dir, links, view_of).attend()
    except KeyboardInterrupt:
        with suppress(OSError):  # the terminal may be gone
            board.close()
        where = f"{len(links)} machines" if len(links) > 1 else next(iter(links.values())).host.name
        with suppress(OSError):
            say(
                f"\ndetached: the run goes on on {where}. To come back: make {run.plan.kind} RUN={run_dir.name}; "
                f"to stop it: make stop RUN={run_dir.name}"
            )
        return INTERRUPTED
    finally:
        with suppress(OSError):
            board.close()


class Fleet:
    """Attends all hosts of a run, one or several, at the same time. A lost host does not stop the others."""

    def __init__(
        self, run_dir: Path, links: dict[str, Link], view_of: Callable[[str], View], *, patience_s: float = PATIENCE_S
    ) -> None:
        self.run = rundir.open_run(run_dir)
        self.links, self.view_of, self.patience_s = links, view_of, patience_s
        self._command = f"make {self.run.plan.kind} RUN={run_dir.name}"
        # Lost host -> `why`, the `blocks` that it has not run, and the spare host for them in `by`, or "".
        self.lost = self.run.json(LOST)
        self.codes: dict[str, int] = {}
        self._defects: list[Exception] = []
        self.leaving = threading.Event()
        self._views: dict[str, View] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._ended: queue.SimpleQueue[tuple[str, int | BaseException]] = queue.SimpleQueue()

    def attend(self) -> int:
        """Attend all hosts until each has ended or is lost; return the common exit code."""
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
                error = self._take(name, end) or error
        finally:
            self.leaving.set()
            for thread in self._threads.values():
                thread.join(LEAVING_S)
        if self._defects:
            raise self._defects[0]
        if error and not self.codes:
            raise error
        return self._end()

    def _take(self, name: str, end: int | BaseException) -> UserError | None:
        """Note how a host has ended; return why it is lost, or None. The only host is not lost: its end is ours."""
        several = bool(self.run.plan.named(name))
        if isinstance(end, int) and end > KILLED and end != INTERRUPTED:
            killed = f"what ran on {self.links[name].host.name} was killed (exit code {end})"
            if several:
                end = UserError(killed)
            else:
                self._views[name].say(f"tsduel: {killed}; finished blocks are kept. To go on: {self._command}")
        if isinstance(end, int):
            self.codes[name] = end
            self.lost.pop(name, None)
            self._save()
            return None
        if not isinstance(end, Exception) or not several:
            raise end
        if isinstance(end, OSError) and files.sentence(end):  # of our disk: no host is lost by it, and all go on
            raise end
        if not isinstance(end, UserError):
            # The other hosts go on, and what they finish is fetched, before it is raised.
            self._defects.append(end)
            end = UserError(f"a defect of ours: {end!r}")
        self._lose(name, end)
        return end

    def _begin(self, name: str, instead: Sequence[int] = ()) -> None:
        # A spare host may have begun already, in place of one that there was not.
        if self.lost.get(name, {}).get("by") or name in self._threads:
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
        for spare in self.run.plan.spare_hosts if left else ():
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
        finished = {row.block for row in rows if (self.run.path / f"raw/{name}/{row.name}/block.json").exists()}
        for loss in self.lost.values():
            if loss["by"] == name:
                return list(loss["blocks"][len(finished) :])
        return [row.block for row in rows if row.kind == "measured" and row.block not in finished]

    def _save(self) -> None:
        path = self.run.path / LOST
        if self.lost or path.exists():
            files.write(path, json.dumps(self.lost, indent=2) + "\n")

    def _end(self) -> int:
        if INTERRUPTED in self.codes.values():
            return INTERRUPTED
        code = max(self.codes.values())
        missing = {name: len(loss["blocks"]) for name, loss in self.lost.items() if loss["blocks"] and not loss["by"]}
        if missing:
            each = ", ".join(f"{count} of {name}" for name, count in missing.items())
            # Not with rented machines, whose blocks cannot be joined by those of others.
            again = f". To try them again: {self._command}"
            say(
                f"the run ends with what it has: {sum(missing.values())} blocks were not run ({each}), and the report "
                f"says so{'' if self.run.plan.place.rented else again}"
            )
        elif code == 0:
            note_home(self.run.path / FETCHED)
        return code
