"""Exit codes, which docs/operating.md lists, and the knob that asks for one of them."""

import signal

from tsduel.core.errors import UserError
from tsduel.core.wording import did_you_mean

DONE = 0
DEFECT = 1
USER = 2
CHECK_FAILED = 4
TOO_NOISY = 5
REGRESSION = 6
INTERRUPTED = 130
REPORTED = frozenset((DONE, CHECK_FAILED, TOO_NOISY, REGRESSION))
"""How a run ends that has its comparison and its report."""
_TOLD = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
FAIL_ON = ("", "regression")


def interrupted(code: int) -> bool:
    """Return whether a program ended since it was told to, by a signal that its shell counts from 128 on."""
    return code - 128 in _TOLD


def fail_on(value: str) -> str:
    """Validate the knob FAIL_ON."""
    if value not in FAIL_ON:
        near = did_you_mean(value, FAIL_ON[1:])
        raise UserError(f"FAIL_ON: {value!r} is not known; FAIL_ON=regression is, or leave it out{near}")
    return value
