"""Reads the events of a run on another machine as they come, with pauses in which the caller can do other work."""

import os
import selectors
from collections.abc import Callable, Iterator

from tsduel.places.ssh import untrusted
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import NO_CONNECTION

CHUNK = 1 << 16
# An event has a few hundred bytes.
MOST_LINE = 1 << 20


def events(link: Link, first: int, pause_s: Callable[[], float]) -> Iterator[bytes | None]:
    """Yield the complete lines of events.jsonl there from number ``first`` (from 1), and None after each pause.

    It ends with the run; a broken connection is raised.
    """
    command = link.host.command(*link.detached("follow", str(first)))
    with link.host.heard(), untrusted.started(command) as (process, ended):
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        yield from _lines(process.stdout.fileno(), pause_s)
        errors = ended(untrusted.SILENCE_S)
    if process.returncode == NO_CONNECTION:
        raise link.host.failure(errors)


def _lines(stream: int, pause_s: Callable[[], float]) -> Iterator[bytes | None]:
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            if not selector.select(pause_s()):
                yield None
                continue
            chunk = os.read(stream, CHUNK)
            if not chunk:
                # An incomplete line is requested again later.
                return
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > MOST_LINE:
                raise untrusted.LieError(f"an event has more than {MOST_LINE >> 20} MiB")
            yield from (line + b"\n" for line in whole)
            yield None
