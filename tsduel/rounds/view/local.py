"""The rounds on this machine below the screen of a terminal: scripts/run-rounds is our child, and we mostly sleep.

A signal ends the rounds as it does without us, kill -9 of us as well (the kernel tells them); their exit code is ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING, NoReturn

from tsduel.core import runlog
from tsduel.rounds.view.events import Tail
from tsduel.rounds.view.show import Screen, View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(driver: Path, run_dir: Path) -> int:
    """Run the driver below a screen; return its exit code, or die as it did."""
    # A file and no pipe: it is never full, and what runs does not end because we did. All of it is in run.log, too.
    with tempfile.TemporaryFile("a+b") as words:
        for number in ENDING:
            # Until the child is there, a signal ends us at once; what nohup has us ignore, it ignores as well.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        child = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "--", str(driver), str(run_dir)],
            stdout=words,
            stderr=words,
            env=os.environ | {"TSDUEL_SCREEN": "1"},
        )
        signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING, signal.SIGCHLD))
        shown = _Shown(run_dir, words)
        while child.poll() is None:
            _sleep(shown.pause_s, child)
            shown.look()
        shown.end()
    if child.returncode < 0:
        _die_of(-child.returncode)
    return child.returncode


class _Shown:
    """The screen, and what the scripts say. If it should break, nothing is shown any more and the rounds go on."""

    def __init__(self, run_dir: Path, words: IO[bytes]) -> None:
        self._run_dir, self._words, self._said = run_dir, words, 0
        self._tail = Tail(run_dir / "raw" / "events.jsonl")
        self._view: View = Screen(says_how_it_failed=False)
        self._guarded(lambda: self._view.catch_up(self._tail.read()))

    @property
    def pause_s(self) -> float:
        """How long nothing has to be looked at."""
        return self._view.pause_s

    def look(self) -> None:
        """Show what has happened since."""
        self._guarded(self._look)

    def end(self) -> None:
        """Show the last of it; what the scripts said stays, whatever has become of the screen."""
        self._guarded(self._look)
        self._guarded(self._view.close)
        self._say()

    def _look(self) -> None:
        if isinstance(self._view, Screen):
            self._view.take(self._tail.read())
            self._say()
            self._view.tick()

    def _say(self) -> None:
        text = os.pread(self._words.fileno(), 1 << 20, self._said)
        whole = text[: text.rfind(b"\n") + 1]
        self._said += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            self._view.say(line)

    def _guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - ten hours of rounds are not ended by a picture of them
            runlog.write(self._run_dir, "ERROR", "view", f"the screen broke, and the rounds go on without: {error!r}")
            self._view = View()


def _sleep(seconds: float, child: subprocess.Popen[bytes]) -> None:
    """Sleep until it is time to look again or the child is gone; pass a signal on."""
    received = signal.sigtimedwait((*ENDING, signal.SIGCHLD), seconds)
    if received and received.si_signo in ENDING:
        # The terminal tells the whole group of a Ctrl-C, but its session's leader alone that it is gone. Twice is once.
        child.send_signal(received.si_signo)


def _die_of(number: int) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    raise SystemExit(128 + number)
