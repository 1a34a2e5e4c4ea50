"""`make follow`: a second view of a run in another terminal. It only reads, and its end changes nothing."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tsduel.core import rundir, runlock
from tsduel.core.errors import UserError
from tsduel.places.ssh import stream
from tsduel.places.ssh.link import Link, is_home
from tsduel.places.ssh.ssh import NoConnectionError
from tsduel.rounds import attend, control
from tsduel.rounds.view import show
from tsduel.rounds.view.events import Tail, parse
from tsduel.rounds.view.show import View

# After so long without an event we ask whether the run goes on. A timed phase has an event every other
# second.
SILENCE_S = 10.0


def main(run_dir: Path, environment: Mapping[str, str]) -> int:
    """Show a run until it ends; return 0."""
    run = rundir.open_run(run_dir)
    board = show.Board()
    followers = [Follower(run, host, show.view_of(run, host, environment, board=board)) for host in run.plan.every_host]
    errors: list[Exception] = []
    try:
        if run.plan.place.is_local:
            followers[0].at_home(lambda: control.local_driver(run_dir, environment) is not None)
        else:
            errors = _follow(followers)
    except KeyboardInterrupt:
        return 0
    finally:
        board.close()
    begun = [shown for shown in board.views if shown.state.last]
    if not begun:
        unbegun = UserError(f"{run_dir.name}: no block has begun yet; once 'make run' is under way, try again")
        raise errors[0] if errors else unbegun
    for error in errors:
        begun[0].say(f"tsduel: {error}")
    for shown in begun:
        if not shown.state.over:
            where = f" on {shown.host}" if shown.host else ""
            shown.say(f"{run_dir.name} does not run any more{where}. To go on: make {run.plan.kind} RUN={run_dir.name}")
    return 0


def _follow(followers: Sequence["Follower"]) -> list[Exception]:
    """Follow all hosts of a run elsewhere at the same time; return their errors. Ctrl-C waits for no host."""
    errors: list[Exception] = []

    def follow(follower: Follower) -> None:
        try:
            follower.elsewhere()
        except Exception as error:  # noqa: BLE001 - main reports it
            errors.append(error)

    threads = [threading.Thread(target=follow, args=(follower,), daemon=True) for follower in followers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


class Follower:
    """Shows events from the file at home while a process writes it, else from the other machine."""

    def __init__(self, run: rundir.Run, host: str, view: View) -> None:
        self.run_dir, self.host, self.view = run.path, host, view
        self.tail = Tail(run.path / f"raw/{host}/events.jsonl")
        self.heard = 0.0

    def at_home(self, is_written: Callable[[], bool]) -> None:
        """Show the events of the file at home until the run is over, or the file is not written any more."""
        while True:
            if events := self.tail.read():
                self.heard = time.monotonic()
                self.view.take(events)
            elif self.view.state.over or (time.monotonic() - self.heard > SILENCE_S and not is_written()):
                return
            else:
                self.view.tick()
                time.sleep(self.view.pause_s)

    def elsewhere(self) -> None:
        """Show the events of a run elsewhere: from home while they are copied there, else over SSH."""
        pause = 1.0
        while not self.view.state.over:
            if is_home(self.run_dir) or runlock.is_attended(self.run_dir):
                self.at_home(lambda: runlock.is_attended(self.run_dir))
                if is_home(self.run_dir):
                    return
                continue
            link = Link.all(self.run_dir).get(self.host)
            if link is None:  # no zone had one
                return
            try:
                word = link.state().word
                self.heard = time.monotonic()
                if word == "none":
                    # All events came home already.
                    self.view.take(self.tail.read())
                    return
                self._over_ssh(link)
                if link.state().word != "running":
                    return
            except NoConnectionError as error:
                if not self.heard or time.monotonic() - self.heard > attend.PATIENCE_S:
                    raise
                self.view.say(f"tsduel: {str(error).splitlines()[0]}; trying again in {pause:.0f} s")
                time.sleep(pause)
                pause = min(2 * pause, attend.LONGEST_PAUSE_S)

    def _over_ssh(self, link: Link) -> None:
        """Show events from SSH without writing them; an attendant brings them home later."""
        self.view.take(self.tail.read())
        for line in stream.events(link, self.tail.lines + 1, lambda: self.view.pause_s):
            if line is None:
                self.view.tick()
                continue
            self.heard = time.monotonic()
            self.tail.lines += 1
            if event := parse(line):
                self.view.take([event])
