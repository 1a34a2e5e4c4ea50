"""The rounds on this machine below the screen of a terminal: scripts/run-rounds is our child, and we mostly sleep.

A signal ends the rounds as it does without us, kill -9 of us as well (the kernel tells them); their exit code is ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING, NoReturn

from tsduel.view.events import Tail
from tsduel.view.show import Screen

if TYPE_CHECKING:
    from pathlib import Path

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(driver: Path, run_dir: Path) -> int:
    """Run the driver below a screen; return its exit code, or die as it did."""
    tail = Tail(run_dir / "raw" / "events.jsonl")
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
        view = Screen(says_how_it_failed=False)
        view.catch_up(tail.read())
        said = 0
        while child.poll() is None:
            _sleep(view.pause_s, child)
            view.take(tail.read())
            said = _say(view, words, said)
            view.tick()
        view.take(tail.read())
        view.close()
        _say(view, words, said)
        view.close()
    if child.returncode < 0:
        _die_of(-child.returncode)
    return child.returncode


def _sleep(seconds: float, child: subprocess.Popen[bytes]) -> None:
    """Sleep until it is time to look again or the child is gone; pass a signal on."""
    received = signal.sigtimedwait((*ENDING, signal.SIGCHLD), seconds)
    if received and received.si_signo in ENDING:
        # The terminal tells the whole group of a Ctrl-C, but its session's leader alone that it is gone. Twice is once.
        child.send_signal(received.si_signo)


def _say(view: Screen, words: IO[bytes], known: int) -> int:
    """Show what the scripts have said since; return how many bytes are known."""
    text = os.pread(words.fileno(), 1 << 20, known)
    whole = text[: text.rfind(b"\n") + 1]
    for line in whole.decode(errors="replace").splitlines():
        view.say(line)
    return known + len(whole)


def _die_of(number: int) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    raise SystemExit(128 + number)
