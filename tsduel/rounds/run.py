"""The fourth stage: run the Go program on this machine and show its events, or attend the run elsewhere.

On this machine the program is our child, and we mostly sleep. We pass signals on, and after kill -9 of us the
kernel tells it. We return its exit code.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

from tsduel.core import rundir, runlog
from tsduel.places.ssh import pack
from tsduel.rounds import remote
from tsduel.rounds.runstate import agent
from tsduel.rounds.view import show
from tsduel.rounds.view.events import Tail

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(run_dir: Path) -> int:
    """Run the missing blocks; return the exit code, or die by the same signal as the Go program."""
    plan = rundir.open_run(run_dir).plan
    if not plan.place.is_local:
        return remote.main(run_dir)
    pack.keep_adapters(run_dir)
    return _watch([str(agent(run_dir)), "run", str(run_dir), plan.hosts[0]], run_dir)


def _watch(command: list[str], run_dir: Path) -> int:
    environment = os.environ | {"TSDUEL_DIE_WITH_PARENT": "1", "TSDUEL_SCREEN": "1"}
    # A file is never full, unlike a pipe, and stays after our end. run.log has all of it, too.
    with tempfile.TemporaryFile("a+b") as output:
        for number in ENDING:
            # Until the child exists, a signal ends us at once. Signals that nohup ignores stay ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        child = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING, signal.SIGCHLD))
        shown = _Shown(run_dir, output)
        while child.poll() is None:
            received = signal.sigtimedwait((*ENDING, signal.SIGCHLD), shown.pause_s)
            if received and received.si_signo in ENDING:
                # A terminal sends Ctrl-C to its whole group, a hang-up to us only; the child may get a signal twice.
                child.send_signal(received.si_signo)
            shown.show_new()
        shown.end()
    if child.returncode == -signal.SIGABRT:  # Go has ended it: no goroutine can catch that
        raise RuntimeError("the driver has crashed; its stack is above")
    if child.returncode < 0:
        _die_of(-child.returncode)
    return child.returncode


class _Shown:
    """Shows events and output of the Go program. If the view breaks, the run goes on without it."""

    def __init__(self, run_dir: Path, output: IO[bytes]) -> None:
        self._run_dir, self._output, self._read = run_dir, output, 0
        self._tail = Tail(run_dir / f"raw/{rundir.open_run(run_dir).plan.hosts[0]}/events.jsonl")
        self._view: show.View | None = None
        self._guarded(self._begin)

    @property
    def pause_s(self) -> float:
        """Seconds until the next look."""
        return self._view.pause_s if self._view else show.PAUSE_TIMED_S

    def show_new(self) -> None:
        """Show what is new."""
        self._guarded(self._show_new)

    def end(self) -> None:
        """Show the last events, and the program's output also without a view."""
        self._guarded(self._show_new)
        if self._view:
            self._guarded(self._view.board.close)
        self._say(self._view or show.View(None))

    def _begin(self) -> None:
        run = rundir.open_run(self._run_dir)
        log = partial(runlog.write, self._run_dir, "INFO", "run")
        self._view = show.view_of(run, run.plan.hosts[0], os.environ, log=log, logged=True)
        self._view.catch_up(self._tail.read())

    def _show_new(self) -> None:
        if self._view:
            self._view.take(self._tail.read())
            self._say(self._view)
            self._view.tick()

    def _say(self, view: show.View) -> None:
        text = os.pread(self._output.fileno(), 1 << 20, self._read)
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        # At once: a stack has a thousand lines, and the foot is drawn again after each message.
        if whole:
            view.say(whole.decode(errors="replace").rstrip("\n"))

    def _guarded(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - no error of the view may end hours of blocks
            runlog.write(self._run_dir, "ERROR", "view", f"the view broke, and the run goes on without: {error!r}")
            self._view = None


def _die_of(number: int) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    raise SystemExit(128 + number)
