"""Markdown: what people wrote made harmless, tables, folds. What is marked `Safe` is put in as it is."""

import re
from collections.abc import Iterable, Sequence

from tabulate import tabulate

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


def folded(summary: str, *parts: str) -> str:
    """Return a block that a reader opens, its summary one line of text; an empty string where nothing is in it."""
    body = paragraphs(*parts)
    return f"<details>\n<summary>{text(summary)}</summary>\n\n{body}\n\n</details>" if body else ""


def aside(text: str) -> str:
    """Return a text in parentheses behind a space; nothing of nothing."""
    return f" ({text})" if text else ""


def paragraphs(*parts: str) -> str:
    """Join what is not empty, a blank line between."""
    return "\n\n".join(filter(None, parts))


def items(lines: Iterable[str]) -> str:
    """Return a list of lines of Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def quoted(lines: Iterable[str]) -> str:
    """Return a quotation, a paragraph a line."""
    return "\n>\n".join(f"> {line}" for line in lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Lay out a Markdown table whose source lines up too. `right` are the columns of numbers; nothing without rows."""
    columns = set(right)
    align = ["right" if i in columns else "left" for i in range(len(header))]
    # A plain str, since tabulate looks at the type of a cell.
    escaped = [[str(text(cell)) for cell in row] for row in (header, *rows)]
    if not rows:
        return ""
    return tabulate(escaped[1:], headers=escaped[0], tablefmt="pipe", colalign=align, disable_numparse=True)


def _longest_run(said: str) -> int:
    return max((len(run) for run in re.findall("`+", said)), default=0)
