"""The only error that users see: a sentence with what happened, where, and what to do."""


class UserError(Exception):
    """Wrong input or a wrong environment. The command line prints it without a stack trace."""
