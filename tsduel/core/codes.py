"""Exit codes, which docs/operating.md lists, and the knob that asks for one of them."""

from tsduel.core.errors import UserError
from tsduel.core.wording import did_you_mean

DONE = 0
DEFECT = 1
USER = 2
CHECK_FAILED = 4
TOO_NOISY = 5
REGRESSION = 6
INTERRUPTED = 130
FAIL_ON = ("", "regression")


def fail_on(value: str) -> str:
    """Validate the knob FAIL_ON."""
    if value not in FAIL_ON:
        near = did_you_mean(value, FAIL_ON[1:])
        raise UserError(f"FAIL_ON: {value!r} is not known; FAIL_ON=regression is, or leave it out{near}")
    return value
