"""Seconds, bytes and counts in words, the same everywhere."""

import difflib
from collections.abc import Iterable

GB = 1e9


def lasting(seconds: float) -> str:
    """Return a time in words."""
    if seconds < 90:  # noqa: PLR2004 - a minute and a half
        return f"{seconds:.0f} s"
    if seconds < 5400:  # noqa: PLR2004 - an hour and a half
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"


def amount(count: float) -> str:
    """Return bytes as MB or GB."""
    return f"{count / 1e6:,.0f} MB" if count < GB else f"{count / GB:,.1f} GB"


def number_of(count: int, thing: str) -> str:
    """Return 1 block, 2 blocks."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def last_line(text: str) -> str:
    """Return the last line of a program's output, which usually has the reason of a failure."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")


def printable(text: str) -> str:
    """Return a text with a space for each character that a terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the known word that is nearest to a mistyped ``word``; "" if no word is near."""
    folded = {name.casefold(): name for name in words}
    close = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def allowed(word: str, words: Iterable[str]) -> str:
    """Return the end of a sentence: "allowed: quick, local; did you mean quick?"."""
    names = list(words)
    return f"allowed: {', '.join(names)}{did_you_mean(word, names)}"


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return the end of a sentence: "; did you mean quick?", or "" if no known word is near."""
    near = nearest(word, words)
    return f"; did you mean {near}?" if near else ""
