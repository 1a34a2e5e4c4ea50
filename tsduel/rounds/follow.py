"""`make follow`: a second view of a run, from another terminal. It only reads, and leaving it changes nothing."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places.ssh import stream
from tsduel.places.ssh.link import Link, is_home
from tsduel.places.ssh.ssh import NoConnectionError
from tsduel.rounds import attend, control
from tsduel.rounds.view import forecast, show
from tsduel.rounds.view.events import Tail, parse
from tsduel.rounds.view.show import View

# After so long without an event we ask whether it still goes on: a phase that is timed has one every other second.
SILENCE_S = 10.0


def main(run_dir: Path, environment: Mapping[str, str]) -> int:
    """Show a run until it has ended, and how; return 0."""
    run = rundir.open_run(run_dir)
    rundir.refuse_imported(run_dir, run.plan)
    section, board = forecast.section_of(run_dir), show.Board()
    hosts = run.plan.every_host if run.plan.is_fleet else ("",)
    followers = [Follower(run_dir, show.choose(environment, section, host=host, board=board)) for host in hosts]
    errors = list[Exception]()
    try:
        if run.plan.is_local:
            followers[0].here(lambda: control.local_driver(run_dir, environment) is not None)
        else:
            errors = _follow(followers)
    except KeyboardInterrupt:
        return 0
    finally:
        board.close()
    seen = [view for view in board.views if view.state.last]
    if not seen:
        unbegun = UserError(f"{run_dir.name}: no block has begun yet; once 'make run' is under way, try again")
        raise errors[0] if errors else unbegun
    for error in errors:
        seen[0].say(f"tsduel: {error}")
    for view in seen:
        if not view.state.over:
            where = f" on {view.host}" if view.host else ""
            view.say(f"{run_dir.name} does not run any more{where}. To go on: make {run.plan.kind} RUN={run_dir.name}")
    return 0


def _follow(followers: Sequence["Follower"]) -> list[Exception]:
    """Follow each host of a run elsewhere by itself; return what went wrong. Whoever leaves waits for none of them."""
    errors = list[Exception]()

    def follow(follower: Follower) -> None:
        try:
            follower.elsewhere()
        except Exception as error:  # noqa: BLE001 - it is told or raised where somebody waits for it
            errors.append(error)

    threads = [threading.Thread(target=follow, args=(one,), daemon=True) for one in followers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


class Follower:
    """Reads the events at home while somebody writes them there, else those on the other machine."""

    def __init__(self, run_dir: Path, view: View) -> None:
        self.run_dir, self.view = run_dir, view
        self.tail = Tail(run_dir / "raw" / view.host / "events.jsonl")
        self.heard = 0.0

    def here(self, is_written: Callable[[], bool]) -> None:
        """Show the events in our own file until the run is over, or nobody writes it any more."""
        while True:
            if found := self.tail.read():
                self.heard = time.monotonic()
                self.view.take(found)
            elif self.view.state.over or (time.monotonic() - self.heard > SILENCE_S and not is_written()):
                return
            else:
                self.view.tick()
                time.sleep(self.view.pause_s)

    def elsewhere(self) -> None:
        """Show the events of a run on another machine: from home while they come home, else over SSH."""
        pause = 1.0
        while not self.view.state.over:
            if is_home(self.run_dir) or stream.is_attended(self.run_dir):
                self.here(lambda: stream.is_attended(self.run_dir))
                if is_home(self.run_dir):
                    return
                continue
            links = Link.all(self.run_dir)
            link = links[self.view.host or next(iter(links))]
            try:
                word = link.state().word
                self.heard = time.monotonic()
                if word == "none":
                    # What was collected is here.
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
        """Show what comes over SSH, and write none of it: whoever attends the run later brings it home."""
        self.view.take(self.tail.read())
        for line in stream.events(link, self.tail.lines + 1, lambda: self.view.pause_s):
            if line is None:
                self.view.tick()
                continue
            self.heard = time.monotonic()
            self.tail.lines += 1
            if event := parse(line):
                self.view.take([event])
