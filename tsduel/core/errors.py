"""The only error that users see: a sentence with what happened, where, and what to do."""

from tsduel.core import hidden
from tsduel.core.wording import printable

MOST = 20_000
"""Letters of a sentence: what a host says may have many megabytes."""


class UserError(Exception):
    """Wrong input or a wrong environment. The command line prints it without a stack trace, and without secrets.

    It may quote what a server or another machine has said, and a terminal obeys none of it.
    """

    def __init__(self, sentence: str) -> None:
        told = hidden.sentence(sentence[: 2 * MOST])  # no secret is cut in half
        super().__init__(told if len(told) <= MOST else f"{told[:MOST]} ...")

    def __str__(self) -> str:
        return "\n".join(map(printable, super().__str__().split("\n")))
