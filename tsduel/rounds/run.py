"""The fourth stage: the Go program on this machine below a view, or the run elsewhere attended from here.

Here it is our child, and we mostly sleep. A signal ends it as it does without us, kill -9 of us as well (the kernel
tells it); its exit code is ours.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn

from tsduel.core import rundir, runlog
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.rounds import elsewhere
from tsduel.rounds.view import forecast, show
from tsduel.rounds.view.events import Tail

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(run_dir: Path) -> int:
    """Run the blocks that are missing, here or elsewhere; return the exit code, or die as the Go program did."""
    if not rundir.open_run(run_dir).plan.is_local:
        return elsewhere.main(run_dir)
    return _watch([str(agent(run_dir)), "run", str(run_dir)], run_dir)


def agent(run_dir: Path) -> Path:
    """Return the Go program that was built for a run on this machine."""
    path = Path(rundir.open_run(run_dir).json("build/agent.json").get("binary") or "-")
    if not os.access(path, os.X_OK):
        raise UserError(f"{run_dir.name} is not built: run 'make build RUN={run_dir.name}'")
    return path


def _watch(command: list[str], run_dir: Path) -> int:
    with_screen = show.wants_screen(os.environ)
    environment = os.environ | {"TSDUEL_DIE_WITH_PARENT": "1", "TSDUEL_PROJECT": str(PROJECT)}
    if with_screen:
        environment["TSDUEL_SCREEN"] = "1"
    # A file and no pipe: it is never full, and what runs does not end because we did. All of it is in run.log, too.
    with tempfile.TemporaryFile("a+b") as words:
        said = words if with_screen else None
        for number in ENDING:
            # Until the child is there, a signal ends us at once; what nohup has us ignore, it ignores as well.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        child = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
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
    """The view, and what the Go program says. If it should break, nothing more is shown and the run goes on."""

    def __init__(self, run_dir: Path, words: IO[bytes]) -> None:
        self._run_dir, self._words, self._read = run_dir, words, 0
        self._tail = Tail(run_dir / "raw" / "events.jsonl")
        self._view: show.View | None = None
        self._guarded(self._begin)

    @property
    def pause_s(self) -> float:
        """How long nothing has to be looked at."""
        return self._view.pause_s if self._view else show.PAUSE_TIMED_S

    def look(self) -> None:
        """Show what has happened since."""
        self._guarded(self._look)

    def end(self) -> None:
        """Show the last of it; what the program said stays, whatever has become of the view."""
        self._guarded(self._look)
        if self._view:
            self._guarded(self._view.close)
        self._say(self._view or show.View({}, lambda _: None))

    def _begin(self) -> None:
        self._view = show.choose(
            os.environ,
            forecast.section_of(self._run_dir),
            lambda line: runlog.write(self._run_dir, "INFO", "run", line),
            said=True,
        )
        self._view.catch_up(self._tail.read())

    def _look(self) -> None:
        if self._view:
            self._view.take(self._tail.read())
            self._say(self._view)
            self._view.tick()

    def _say(self, view: show.View) -> None:
        text = os.pread(self._words.fileno(), 1 << 20, self._read)
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            view.say(line)

    def _guarded(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - ten hours of blocks are not ended by a picture of them
            runlog.write(self._run_dir, "ERROR", "view", f"the view broke, and the run goes on without: {error!r}")
            self._view = None


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
