"""Programs that we wait for: they get our signals, and we return their exit codes."""

import signal
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

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

    ``take``: called with each line of its output; without it the output is ours. ``keep``: descriptors that it gets.
    """
    streams = (
        {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"} if take else {}
    )
    words = [str(word) for word in command]
    # A terminal sends Ctrl-C to the child as well.
    with (
        subprocess.Popen(words, env=environment, pass_fds=keep, **streams) as child,  # type: ignore[call-overload]
        _forwarded_to(child),
    ):
        if take:
            for line in child.stdout:
                take(line.rstrip("\n"))
        code = int(child.wait())
    return code if code >= 0 else 128 - code


@contextmanager
def _forwarded_to(child: subprocess.Popen[str]) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_FORWARDED)}
    signal.signal(signal.SIGINT, lambda *_: None)
    for number in _FORWARDED:
        if before[number] is not signal.SIG_IGN:  # nohup
            signal.signal(number, lambda received, _: child.send_signal(received))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
