"""The rounds on another machine, followed from here: started once, fetched as they are published, never in the way."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from tsduel.core import files, runlog
from tsduel.core.errors import UserError
from tsduel.places.gcp import ending
from tsduel.places.ssh import stream
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import NoConnectionError, RefusedError
from tsduel.rounds.view import show
from tsduel.rounds.view.events import Tail, clean, parse
from tsduel.rounds.view.show import View

if TYPE_CHECKING:
    from pathlib import Path

    from tsduel.places.ssh.link import State

EXIT_INTERRUPTED = 130
# How long a machine may be away before we stop trying; the rounds do not care.
PATIENCE_S = 900.0
LONGEST_PAUSE_S = 30.0
LAST_WORDS = 8
FETCHED = "host/fetched.json"
# Beside the rounds below raw/: what `PROFILE=` asked for.
PROFILES = "profiles/"


def say(text: str) -> None:
    """Words are for stderr."""
    print(text, file=sys.stderr, flush=True)


def is_home(run_dir: Path) -> bool:
    """Return whether all rounds were run elsewhere, ended well, and are here with their checksums compared."""
    return (run_dir / FETCHED).exists()


class Follower:
    """Attends the rounds of one run until they have ended."""

    def __init__(self, link: Link, view: View | None = None, *, patience_s: float = PATIENCE_S) -> None:
        self.link = link
        self.view = view or View()
        self.patience_s = patience_s
        self.heard = 0.0  # when the machine was last heard of; 0: never
        self.started = False

    def attend(self) -> int:
        """Start or find the rounds, follow them to their end, bring all home; return their exit code."""
        pause = 1.0
        while True:
            before = self.heard
            try:
                return self._attend_once()
            except (NoConnectionError, RefusedError) as error:
                if gone := ending.why_gone(self.link.run_dir):
                    raise UserError(gone) from None
                if not self.heard:
                    raise
                if self.heard != before:
                    pause = 1.0
                if time.monotonic() - self.heard > self.patience_s:
                    raise UserError(
                        f"{error}\nno word for {self.patience_s:.0f} s; the rounds go on there if the machine lives. "
                        f"To come back: make {self.link.kind} RUN={self.link.run_dir.name}"
                    ) from None
                self.view.say(
                    f"tsduel: no connection to {self.link.host.name}; the rounds go on there; "
                    f"trying again in {pause:.0f} s"
                )
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def _attend_once(self) -> int:
        state = self._heard(self.link.state())
        # Rounds that were stopped before we came are gone on with; how others ended is told first.
        stopped = state.word == "ended" and state.code == EXIT_INTERRUPTED and not self.started
        if state.word in {"none", "lost"} or stopped:
            if self.started:
                raise UserError(
                    f"the rounds on {self.link.host.name} ended without a last word (restarted, or out of memory?); "
                    f"what is finished is kept. To go on: make {self.link.kind} RUN={self.link.run_dir.name}"
                )
            state = self._heard(self.link.start())
            self.view.say(f"the rounds run on {self.link.host.name}; Ctrl-C leaves them running")
        elif state.word == "running" and not self.started:
            self.view.say(f"back at the rounds on {self.link.host.name}; Ctrl-C leaves them running")
        self.started = True
        self._fetch(state.rounds)
        if state.word == "running":
            self._follow()
            state = self._heard(self.link.state())
            self._fetch(state.rounds)
        if state.word != "ended":
            raise NoConnectionError(f"{self.link.host.name}: the rounds are {state.word} while nothing more is heard")
        return self._finish(state.code)

    def _heard(self, state: State) -> State:
        self.heard = time.monotonic()
        return state

    def _follow(self) -> None:
        """Copy the events as they come, until the rounds have ended or the connection has."""
        path = self.link.raw / "events.jsonl"
        path.parent.mkdir(exist_ok=True)
        known = _keep_whole_lines(path)
        with path.open("ab") as copy:
            for line in stream.events(self.link, known + 1, lambda: self.view.pause_s):
                if line is None:
                    self.view.tick()
                    continue
                self.heard = time.monotonic()
                copy.write(line)
                copy.flush()
                if event := parse(line):
                    self.view.take([event])
                    if event.name == "round-end":
                        self._fetch((event.text("round"),))

    def _fetch(self, names: tuple[str, ...]) -> None:
        for name in names:
            if not (self.link.raw / name / "round.json").exists():
                self.link.fetch_round(name)
                self.heard = time.monotonic()

    def _finish(self, code: int) -> int:
        bring_home(self.link)
        if code == 0:
            files.write(self.link.run_dir / FETCHED, json.dumps({"exit": code, "checksums": "equal"}) + "\n")
        else:
            log = (self.link.run_dir / "host" / "control" / "log").read_text(errors="replace")
            words = log.splitlines()[-LAST_WORDS:]
            # The rest of them was shown as it happened.
            for line in [line for line in words if line.startswith("tsduel: ")] or words:
                self.view.say(clean(line))
        self.link.ask("collected")
        return code


def bring_home(link: Link) -> None:
    """Bring what is not here, or not as it is there, and compare all checksums."""
    link.fetch_files(["control/log"], link.run_dir / "host")
    link.fetch_files(["run.log"], link.run_dir / "host" / "control")
    link.fetch_files(["build"], link.run_dir)
    wrong = link.missing()
    single = [f"raw/{name}" for name in wrong if "/" not in name or name.startswith(PROFILES)]
    for name in sorted({name.split("/")[0] for name in wrong if f"raw/{name}" not in single}):
        link.fetch_round(name)
    if single:
        link.fetch_files(single, link.run_dir)
    if wrong and (still := link.missing()):
        raise UserError(
            f"{link.run_dir / 'raw'}: {', '.join(still[:5])} arrived with another checksum than on {link.host.name}; "
            f"see that neither disk is full or broken, then: make fetch RUN={link.run_dir.name}"
        )


def _keep_whole_lines(path: Path) -> int:
    """Cut off a line that was not finished; return the number of lines."""
    text = path.read_bytes() if path.exists() else b""
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        # In place: somebody may be reading what is whole.
        os.truncate(path, len(whole))
    return whole.count(b"\n")


def main(run_dir: Path) -> int:
    """Attend the rounds of a run elsewhere; Ctrl-C, or the end of a terminal, leaves them running."""
    if is_home(run_dir):
        say(f"{run_dir}: every round is at home already")
        return 0
    link = Link.open(run_dir)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    view = show.choose(os.environ, lambda line: runlog.write(run_dir, "INFO", "run", line))
    try:
        with stream.attending(run_dir):
            view.catch_up(Tail(link.raw / "events.jsonl").read())
            return Follower(link, view).attend()
    except KeyboardInterrupt:
        view.close()
        say(
            f"\ndetached: the rounds go on on {link.host.name}. To come back: make {link.kind} RUN={run_dir.name}; "
            f"to stop them: make stop RUN={run_dir.name}"
        )
        return EXIT_INTERRUPTED
    finally:
        view.close()
