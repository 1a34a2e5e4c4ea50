"""Programs that we wait for: they get our signals, and we return their exit codes."""

import signal
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tsduel.core import codes

_FORWARDED = (signal.SIGTERM, signal.SIGHUP)


def mind_signals() -> None:
    """Treat the end of a session like Ctrl-C; who was told to ignore it (nohup) goes on."""
    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def call(
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    take: Callable[[str], object] | None = None,
    keep: Collection[int] = (),
) -> int:
    """Run a program to its end and return its exit code, 128 + N if signal N has ended it.

    One that fails after it was told to end was interrupted: Ansible sometimes calls that a failed task.

    ``take``: called with each line of its output; without it the output is ours. ``keep``: descriptors that it gets.
    """
    streams = (
        {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"} if take else {}
    )
    words = [str(word) for word in command]
    # A terminal sends Ctrl-C to the child as well.
    with (
        subprocess.Popen(words, env=environment, pass_fds=keep, **streams) as child,  # type: ignore[call-overload]
        _forwarded_to(child) as told,
    ):
        if take:
            for line in child.stdout:
                take(line.rstrip("\n"))
        code = int(child.wait())
    if told and 0 < code < codes.INTERRUPTED:
        return codes.INTERRUPTED
    return code if code >= 0 else 128 - code


@contextmanager
def _forwarded_to(child: subprocess.Popen[str]) -> Iterator[list[int]]:
    told: list[int] = []

    def forward(received: int, _: object) -> None:
        told.append(received)
        child.send_signal(received)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_FORWARDED)}
    signal.signal(signal.SIGINT, lambda received, _: told.append(received))
    for number in _FORWARDED:
        if before[number] is not signal.SIG_IGN:  # nohup
            signal.signal(number, forward)
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
