"""Text that people wrote, made harmless for Markdown: what is marked `Safe` is put in as it is, all else is escaped."""

import re

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"}
_SPECIAL = re.compile(r"[\\`*\[\]~|]|(?<![^\W_])_|_(?![^\W_])")


class Safe(str):
    """Markdown that means what it says."""

    __slots__ = ()


def text(said: str) -> Safe:
    """Escape what Markdown, its tables, HTML or GitHub's mathematics would take for their own; one line."""
    if isinstance(said, Safe):
        return said
    plain = "".join(_ENTITIES.get(character, character) for character in " ".join(said.split()))
    return Safe(_SPECIAL.sub(lambda found: f"\\{found[0]}", plain))


def code(said: str) -> Safe:
    """Return a code span, whatever backticks are in it; a bar is escaped, since most code stands in tables."""
    plain = " ".join(said.split())
    fence = "`" * (_longest_run(plain) + 1)
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return Safe(f"{fence}{space}{plain}{space}{fence}".replace("|", "\\|"))


def block(said: str, language: str = "") -> Safe:
    """Return a fenced block of code."""
    fence = "`" * max(3, _longest_run(said) + 1)
    return Safe(f"{fence}{language}\n{said.rstrip()}\n{fence}")


def folded(summary: str, body: str) -> Safe:
    """Return a block that a reader opens: the summary is one line of text, the body Markdown."""
    return Safe(f"<details>\n<summary>{text(summary)}</summary>\n\n{body}\n\n</details>")


def _longest_run(said: str) -> int:
    return max((len(run) for run in re.findall("`+", said)), default=0)
