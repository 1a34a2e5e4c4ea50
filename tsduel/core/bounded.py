"""A bound of time and memory for what strangers have written: templates of an experiment, patterns of a dashboard."""

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tsduel.core.errors import UserError

SECONDS, BYTES = 10, 1 << 30
_PAGE = resource.getpagesize()


class _LateError(BaseException):
    """No Exception, which a library would take for its own."""


@contextmanager
def bounded(what: str) -> Iterator[None]:
    """Give what follows ten seconds and a gigabyte; a UserError says that ``what`` would take more.

    Python asks for signals between its instructions and while it looks for a pattern, in the main thread alone.
    """
    too_much = UserError(f"{what} would take over {SECONDS} s or {BYTES >> 30} GiB; write it simpler")
    is_main = threading.current_thread() is threading.main_thread()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _address_space() + BYTES
    is_less = most > BYTES and (soft == resource.RLIM_INFINITY or most < soft)

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise _LateError

    if is_main:
        before = signal.signal(signal.SIGALRM, late)
        left_s, _ = signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        if is_less:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        yield
    except (MemoryError, _LateError):
        raise too_much from None
    finally:
        if is_main:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, left_s)
        if is_less:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    """Return the bytes of addresses that this process has; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE
    except (OSError, ValueError):
        return 0
