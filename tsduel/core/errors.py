"""The one error a user sees: a sentence that says what, where, and what to do."""


class UserError(Exception):
    """Wrong input or a wrong environment; the command line prints it without a stack trace."""
