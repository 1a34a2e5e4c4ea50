"""What is done for the hosts of a run, from their price to their end. Each kind of place has one `Provider`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.plan import Estimate, Plan
from tsduel.core.rundir import Run
from tsduel.places.ssh.link import Link

Made = Mapping[str, Mapping[str, Any]]
"""Hosts by their names, as in host/outputs.json."""
Write = Callable[..., None]
"""tsduel.places.provision.write, which records them."""
UNSEEN = "not known yet: what machine it is shows when it is reached (an A/A run there, AA=1, says what it can tell)"


@dataclass(frozen=True)
class Needs:
    """What a run needs of its place; ``seconds``: of all that runs there; ``deployed``: its servers run already."""

    run: str
    estimate: Estimate = field(default_factory=Estimate)
    seconds: int = 0
    deployed: bool = False


def _not_replaced(_link: Link, why: str) -> Link:
    raise UserError(why)


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Functions of one kind of place, each with what it takes; the defaults are for hosts that are there anyway.

    ``asked`` is what tsduel.places.place.asked returns; ``settings`` the section of the experiment with the name of the
    kind, or None; a place is the one of the plan.
    """

    # asked, settings, needs: returns the place.
    complete: Callable[[Mapping[str, Any], Any, Needs], Any]
    # RUN, place, write: have the hosts, and record them with `write`.
    provide: Callable[[Path, Any, Write], None]
    # asked, settings: returns all hosts by name, before the place is complete.
    hosts: Callable[[Mapping[str, Any], Any], Mapping[str, Any]] = lambda asked, _: asked.get("hosts", {"host1": {}})
    # RUN, the command that continues it: a UserError if the place is known to be taken.
    refuse_if_busy: Callable[[Path, str], None] = lambda *_: None
    # Places, environment: the user agrees to their price; RUN, place, environment: again, if a run rents once more.
    agree: Callable[[Sequence[Any], Mapping[str, str]], None] = lambda *_: None
    agree_again: Callable[[Path, Any, Mapping[str, str]], None] = lambda *_: None
    # Place: returns the lines of the plan about it; plan: further files of plan/, as JSON by name.
    described: Callable[[Any], list[str]] = lambda _: []
    written: Callable[[Plan], dict[str, Any]] = lambda _: {}
    # What the forecast has of the hosts; None if it is not known. The argument of two is the cache of this machine.
    machine: Callable[[Path], dict[str, Any] | None] = lambda _: None
    free_bytes: Callable[[Path], int | None] = lambda _: None
    memory_bytes: Callable[[Any], int | None] = lambda _: None
    unseen: str = UNSEEN
    # RUN, names of hosts: bring there what was built here.
    bring: Callable[[Path, Sequence[str]], None] = lambda *_: None
    # RUN, place: delete what was made, and see that nothing is left; a UserError lists what is.
    give_back: Callable[[Path, Any], None] = lambda *_: None
    # Run, place, hosts: returns a sentence if they are all gone; "" if one exists, or nobody knows.
    why_gone: Callable[[Run, Any, Made], str] = lambda *_: ""
    # Link, why it is gone: returns the link to another host in its place, or raises why; link: gives it what it lacks.
    replaced: Callable[[Link, str], Link] = _not_replaced
    equip: Callable[[Link], None] = lambda _: None
