"""Attends a run on another machine: starts it once, shows its events, and fetches each published block."""

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tsduel.core import files
from tsduel.core.codes import INTERRUPTED
from tsduel.core.errors import UserError
from tsduel.places import liveness
from tsduel.places.ssh import stream
from tsduel.places.ssh.link import Link, State, note_home
from tsduel.places.ssh.ssh import NoConnectionError, RefusedError
from tsduel.rounds.view.events import clean, parse
from tsduel.rounds.view.show import View

# A larger exit code is a shell's for a program that was killed by a signal.
KILLED = 128
# We stop trying after so long without a connection. The run does not depend on us.
PATIENCE_S = 900.0
LONGEST_PAUSE_S = 30.0
LAST_WORDS = 8
STARTING_S = 60.0
# So many hosts in place of lost ones may each be lost before a block is finished.
MOST_REPLACED = 3
# A day's have some 10 MiB.
MOST_EVENTS = 256 << 20


@dataclass(eq=False)
class Attendant:
    """Attends a run on one host until it has ended.

    ``instead``: blocks of a lost host that this host runs; ``leaving``: set to leave while the run goes on;
    ``heard``: time of the last answer, 0 for never.
    """

    link: Link
    view: View
    patience_s: float = PATIENCE_S
    instead: Sequence[int] = ()
    leaving: threading.Event = field(default_factory=threading.Event)
    heard: float = 0.0
    started: bool = False
    replaced: list[int] = field(default_factory=list)  # finished blocks here whenever another host took the place

    def attend(self) -> int:
        """Start or find the run, follow it to its end, bring everything home; return its exit code."""
        pause, begun = 1.0, time.monotonic()
        while True:
            before = self.heard
            try:
                return self._attend_once()
            except (NoConnectionError, RefusedError) as error:
                with suppress(NoConnectionError):  # a cluster may not answer either
                    if gone := liveness.why_gone(self.link.run_dir, self.link.name):
                        self._replace(gone)
                        continue
                # A kubelet that has just been started again knows its pods a moment later.
                patient = self.link.host.through and isinstance(error, NoConnectionError)
                if not self.heard and not (patient and time.monotonic() - begun < STARTING_S):
                    raise
                if self.heard != before:
                    pause = 1.0
                if time.monotonic() - (self.heard or begun) > self.patience_s:
                    raise UserError(
                        f"{error}\nno answer for {self.patience_s:.0f} s; the run goes on there if the machine lives. "
                        f"To come back: make {self.link.kind} RUN={self.link.run_dir.name}"
                    ) from None
                # Of ssh, why is of no use before the patience ends; of a cluster it may be a login.
                why = f" ({str(error).splitlines()[0]})" if self.link.host.through else ""
                self.view.say(
                    f"tsduel: no connection to {self.link.host.name}{why}; the run goes on there; "
                    f"trying again in {pause:.0f} s"
                )
                self._pause(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def _replace(self, gone: str) -> None:
        """Go on with another host in place of one that is gone, or raise why not."""
        here = len(list(self.link.raw.glob("*/block.json")))
        if self.replaced.count(here) >= MOST_REPLACED:
            raise UserError(f"{gone}; {MOST_REPLACED} others were lost as well before they had finished a block")
        self.link, self.started = liveness.replaced(self.link, gone), False
        self.replaced.append(here)

    def _pause(self, seconds: float = 0.0) -> None:
        if self.leaving.wait(seconds):
            raise KeyboardInterrupt

    def _attend_once(self) -> int:
        state = self._heard(self.link.state())
        # Whatever becomes of the run, first of all.
        self._fetch(state.blocks)
        # Resume a run that was stopped before we came. Report any other end first.
        stopped = state.word == "ended" and state.code == INTERRUPTED and not self.started
        if state.word in {"none", "lost"} or stopped:
            if self.started:
                raise UserError(
                    f"the run on {self.link.host.name} ended unexpectedly (restarted, or out of memory?); "
                    f"what is finished is kept. To go on: make {self.link.kind} RUN={self.link.run_dir.name}"
                )
            liveness.equip(self.link)
            state = self._heard(self.link.start(self.instead))
            self.view.say(f"it runs on {self.link.host.name}; Ctrl-C leaves it running")
        elif state.word == "running" and not self.started:
            self.view.say(f"back at the run on {self.link.host.name}; Ctrl-C leaves it running")
        self.started = True
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
        """Copy and show events until the run ends or the connection breaks."""
        path = self.link.raw / "events.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as copy:
            copy.seek(0)
            lines = copy.read().split(b"\n")
            # Cut off a torn line in place, since another view may be reading the others.
            copy.truncate(copy.tell() - len(lines[-1]))
            for line in stream.events(self.link, len(lines), lambda: self.view.pause_s):
                if line is None:
                    self._pause()
                    self.view.tick()
                    continue
                self.heard = time.monotonic()
                if copy.tell() + len(line) > MOST_EVENTS:
                    raise UserError(f"{path} would have more than {MOST_EVENTS >> 20} MiB: {self.link.host.name} lies")
                copy.write(line)
                copy.flush()
                if event := parse(line):
                    self.view.take([event])
                    if event.name == "block-end":
                        self._fetch((f"{int(event.number('block')):03d}",))
            # It is not fetched again in the end.
            os.fsync(copy.fileno())

    def _fetch(self, names: tuple[str, ...]) -> None:
        self.link.fetch_blocks(names)
        with suppress(UserError):  # what disturbed it is judged there; a host that is lost later says it no more
            self.link.fetch_files([f"raw/{self.link.name}/noise.json"], self.link.run_dir)
        self.heard = time.monotonic()

    def _finish(self, code: int) -> int:
        self.link.bring_home()
        if code == 0:
            note_home(self.link.fetched)
        else:
            log = files.end_of(self.link.received / "control" / "log")
            for line in log.splitlines()[-LAST_WORDS:]:
                # The event of the end has the reason, if there is such an event.
                if line.startswith("tsduel: ") or not self.view.state.over:
                    self.view.say(clean(line))
        self.link.ask("collected")
        return code
