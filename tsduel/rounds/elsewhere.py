"""A run elsewhere: one machine, or a fleet of them, where the blocks of one that is lost go to a spare one."""

import json
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tsduel.core import files, rundir, runlog
from tsduel.core.errors import UserError
from tsduel.places.ssh import stream
from tsduel.places.ssh.link import FETCHED, Link, is_home, note_home
from tsduel.rounds.attend import EXIT_INTERRUPTED, KILLED, PATIENCE_S, Attendant
from tsduel.rounds.view import forecast, show
from tsduel.rounds.view.events import Tail
from tsduel.rounds.view.show import View

LOST = "host/lost.json"
# For those who attend to let go of what they do: a connection is looked at every other second.
LEAVING_S = 10.0


def say(text: str) -> None:
    """Words are for stderr."""
    print(text, file=sys.stderr, flush=True)


def main(run_dir: Path) -> int:
    """Attend a run elsewhere; Ctrl-C, or the end of a terminal, leaves it running."""
    if is_home(run_dir):
        say(f"{run_dir}: every block is at home already")
        return 0
    links = Link.all(run_dir)
    first = next(iter(links.values()))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    section, board = forecast.section_of(run_dir), show.Board()

    def view_of(name: str) -> View:
        of = name if first.of_fleet else ""
        view = show.choose(os.environ, section, lambda line: runlog.write(run_dir, "INFO", "run", line), of, board)
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
    """Attends all hosts of a run at once. What befalls one of them is no other's matter."""

    def __init__(
        self, run_dir: Path, links: dict[str, Link], view_of: Callable[[str], View], *, patience_s: float = PATIENCE_S
    ) -> None:
        self.run = rundir.open_run(run_dir)
        self.links, self.view_of, self.patience_s = links, view_of, patience_s
        # Host -> why it is lost, which blocks it has not run, and by whom they are, if by anybody.
        self.lost = self.run.json(LOST)
        self.codes: dict[str, int] = {}
        self.leaving = threading.Event()
        self._views: dict[str, View] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._came: queue.SimpleQueue[tuple[str, int | BaseException]] = queue.SimpleQueue()

    def attend(self) -> int:
        """Attend them until each has ended or is lost; return the exit code of all together."""
        _compare_builds(self.run.path, self.links)
        for name in self.run.plan.hosts:
            self._begin(name)
        for of in list(self.lost.values()):
            if of["by"]:
                self._begin(of["by"], of["blocks"])
        error: UserError | None = None
        try:
            while self._threads:
                name, came = self._came.get()
                del self._threads[name]
                if came == EXIT_INTERRUPTED or (isinstance(came, int) and came < KILLED):
                    self.codes[name] = came
                    self._note(name, None)
                elif isinstance(came, int):
                    error = UserError(f"what ran on {self.links[name].host.name} was killed (exit code {came})")
                    self._lose(name, error)
                elif isinstance(came, UserError):
                    error = came
                    self._lose(name, came)
                else:
                    raise came
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
                self._came.put((name, attendant.attend()))
            except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits for it
                self._came.put((name, error))

        # An end of ours waits for none of them: what runs there does not care.
        self._threads[name] = threading.Thread(target=attend, daemon=True)
        self._threads[name].start()

    def _lose(self, name: str, error: UserError) -> None:
        """Have a spare host run what a lost one has not, if one answers: else it may be we who are cut off."""
        why = str(error).splitlines()[0]
        left = self._left(name)
        self._note(name, {"why": why, "by": "", "blocks": left})
        told = self._views[name].say if name in self._views else say
        told(f"tsduel: {name} is lost: {why}; the others go on")
        for spare in self.run.plan.standing_by(name) if left else ():
            if spare not in self.links or spare in self._views or any(of["by"] == spare for of in self.lost.values()):
                continue
            try:
                self.links[spare].state()
            except UserError as refused:
                told(f"tsduel: nor can {spare} stand in for it: {refused}")
                continue
            self._note(name, {"why": why, "by": spare, "blocks": left})
            told(f"tsduel: {spare} ({self.links[spare].host.name}) runs {len(left)} blocks in its place")
            self._begin(spare, left)
            return

    def _left(self, name: str) -> list[int]:
        """Return the blocks that a host owes: measured ones, or of a spare host those that it stood in for."""
        mine = [row for row in self.run.planned if row.host == name and row.kind != "warmup"]
        here = {row.block for row in mine if (self.run.path / "raw" / row.name / "block.json").exists()}
        for of in self.lost.values():
            if of["by"] == name:
                return list(of["blocks"][len(here) :])
        return [row.block for row in mine if row.kind == "measured" and row.block not in here]

    def _note(self, name: str, of: dict[str, object] | None) -> None:
        if of:
            self.lost[name] = of
        elif not self.lost.pop(name, None):
            return
        files.write(self.run.path / LOST, json.dumps(self.lost, indent=2) + "\n")

    def _end(self) -> int:
        if EXIT_INTERRUPTED in self.codes.values():
            return EXIT_INTERRUPTED
        code = max(self.codes.values())
        owing = {name: len(of["blocks"]) for name, of in self.lost.items() if of["blocks"] and not of["by"]}
        if owing:
            each = ", ".join(f"{count} of {name}" for name, count in owing.items())
            # Rented machines are given back now.
            again = f". To try them again: make {self.run.plan.kind} RUN={self.run.path.name}"
            say(
                f"the run ends with what it has: {sum(owing.values())} blocks were not run ({each}), and the report "
                f"says so{again if self.run.plan.place.kind == 'ssh' else ''}"
            )
        elif code == 0:
            note_home(self.run.path / FETCHED)
        return code


def _compare_builds(run_dir: Path, links: dict[str, Link]) -> None:
    """Have the first host's records of what was built in build/, and say where another has built otherwise."""
    (run_dir / "build").mkdir(exist_ok=True)
    built = {name: sorted(link.apart.glob("build/*.json")) for name, link in links.items()}
    texts: dict[str, dict[str, str]] = {}
    for name, paths in built.items():
        for path in paths:
            of = files.read_json(path)
            same = json.dumps([of.get(key) for key in ("revision", "go_version", "sha256")])
            if not texts.setdefault(path.stem, {}):
                shutil.copyfile(path, run_dir / "build" / path.name)
            texts[path.stem][name] = same
    for what, of in texts.items():
        first, *others = of
        if odd := [name for name in others if of[name] != of[first]]:
            say(
                f"{what} is not byte for byte the same on {', '.join(odd)} as on {first} (another Go?): hosts are "
                f"compared with care, see host/HOST/build/{what}.json"
            )
