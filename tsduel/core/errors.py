"""The only error that users see: a sentence with what happened, where, and what to do."""

from tsduel.core import hidden


class UserError(Exception):
    """Wrong input or a wrong environment. The command line prints it without a stack trace, and without secrets."""

    def __init__(self, sentence: str) -> None:
        super().__init__(hidden.sentence(sentence))
