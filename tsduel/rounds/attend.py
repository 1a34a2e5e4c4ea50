"""A run on another machine, attended from here: started once, its blocks fetched as they are published."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.places import lent
from tsduel.places.gcp import presence
from tsduel.places.ssh import stream
from tsduel.places.ssh.link import Link, State, note_home
from tsduel.places.ssh.ssh import NoConnectionError, RefusedError
from tsduel.rounds.view.events import clean, parse
from tsduel.rounds.view.show import View

EXIT_INTERRUPTED = 130
# From here on an exit code is a shell's for who was killed by a signal.
KILLED = 128
# How long a machine may be away before we stop trying; what runs there does not care.
PATIENCE_S = 900.0
LONGEST_PAUSE_S = 30.0
LAST_WORDS = 8


class Attendant:
    """Attends one run on one host until it has ended; ``leaving``: somebody wants to, and the run goes on."""

    def __init__(
        self,
        link: Link,
        view: View,
        *,
        patience_s: float = PATIENCE_S,
        instead: Sequence[int] = (),
        leaving: threading.Event | None = None,
    ) -> None:
        self.link = link
        self.view = view
        self.patience_s = patience_s
        self.instead = instead
        self.leaving = leaving or threading.Event()
        self.heard = 0.0  # when the machine was last heard of; 0: never
        self.started = False

    def attend(self) -> int:
        """Start or find the run, follow it to its end, bring all home; return its exit code."""
        pause = 1.0
        while True:
            before = self.heard
            try:
                return self._attend_once()
            except (NoConnectionError, RefusedError) as error:
                if gone := presence.why_gone(self.link.run_dir, self.link.name):
                    raise UserError(gone) from None
                if not self.heard:
                    raise
                if self.heard != before:
                    pause = 1.0
                if time.monotonic() - self.heard > self.patience_s:
                    raise UserError(
                        f"{error}\nno word for {self.patience_s:.0f} s; the run goes on there if the machine lives. "
                        f"To come back: make {self.link.kind} RUN={self.link.run_dir.name}"
                    ) from None
                self.view.say(
                    f"tsduel: no connection to {self.link.host.name}; the run goes on there; "
                    f"trying again in {pause:.0f} s"
                )
                self._pause(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def _pause(self, seconds: float = 0.0) -> None:
        if self.leaving.wait(seconds):
            raise KeyboardInterrupt

    def _attend_once(self) -> int:
        state = self._heard(self.link.state())
        # One that was stopped before we came is gone on with; how another has ended is told first.
        stopped = state.word == "ended" and state.code == EXIT_INTERRUPTED and not self.started
        if state.word in {"none", "lost"} or stopped:
            if self.started:
                self._take_back()
                raise UserError(
                    f"the run on {self.link.host.name} ended without a last word (restarted, or out of memory?); "
                    f"what is finished is kept. To go on: make {self.link.kind} RUN={self.link.run_dir.name}"
                )
            lent.lend(self.link.run_dir)
            state = self._heard(self.link.start(self.instead))
            self.view.say(f"it runs on {self.link.host.name}; Ctrl-C leaves it running")
        elif state.word == "running" and not self.started:
            self.view.say(f"back at the run on {self.link.host.name}; Ctrl-C leaves it running")
        self.started = True
        self._fetch(state.blocks)
        if state.word == "running":
            self._follow()
            state = self._heard(self.link.state())
            self._fetch(state.blocks)
        if state.word != "ended":
            raise NoConnectionError(f"{self.link.host.name}: the run is {state.word} while nothing more is heard")
        return self._finish(state.code)

    def _heard(self, state: State) -> State:
        self.heard = time.monotonic()
        return state

    def _follow(self) -> None:
        """Copy the events as they come, until the run has ended or the connection has."""
        path = self.link.at_home("events.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        known = _keep_whole_lines(path)
        with path.open("ab") as copy:
            for line in stream.events(self.link, known + 1, lambda: self.view.pause_s):
                if line is None:
                    self._pause()
                    self.view.tick()
                    continue
                self.heard = time.monotonic()
                copy.write(line)
                copy.flush()
                if event := parse(line):
                    self.view.take([event])
                    if event.name == "block-end":
                        self._fetch((f"{int(event.number('block')):03d}",))

    def _fetch(self, names: tuple[str, ...]) -> None:
        self.link.fetch_blocks(names)
        self.heard = time.monotonic()

    def _finish(self, code: int) -> int:
        self.link.bring_home()
        if code == 0:
            note_home(self.link.fetched)
        else:
            log = (self.link.apart / "control" / "log").read_text(errors="replace")
            words = log.splitlines()[-LAST_WORDS:]
            # Why it has ended is an event, if it came so far.
            for line in words if not self.view.state.over else [w for w in words if w.startswith("tsduel: ")]:
                self.view.say(clean(line))
        if code > KILLED and code != EXIT_INTERRUPTED and not self.link.of_fleet:
            self.view.say(
                f"tsduel: what ran on {self.link.host.name} was killed (exit code {code}); finished blocks are kept. "
                f"To go on: make {self.link.kind} RUN={self.link.run_dir.name}"
            )
        self.link.ask("collected")
        self._take_back()
        return code

    def _take_back(self) -> None:
        """End what other hosts do for a driver that is gone: it has told them so itself, unless it was killed."""
        try:
            lent.take_back(self.link.run_dir)
        except UserError as error:
            # A rented one that is not reached may be gone, and Google knows.
            gone = filter(None, (presence.why_gone(self.link.run_dir, name) for name in Link.lent(self.link.run_dir)))
            self.view.say(f"tsduel: {next(gone, error)}")


def _keep_whole_lines(path: Path) -> int:
    """Cut off a line that was not finished; return the number of lines."""
    text = path.read_bytes() if path.exists() else b""
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        # In place: somebody may be reading what is whole.
        os.truncate(path, len(whole))
    return whole.count(b"\n")
