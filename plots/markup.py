"""Markdown: escaped texts, tables, folds."""

import re
from collections.abc import Iterable, Sequence

from tabulate import tabulate

from tsduel.core.wording import printable

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"}
_SPECIAL = re.compile(r"[\\`*\[\]~|]|(?<![^\W_])_|_(?![^\W_])")


class Safe(str):
    """Markdown; `text` does not escape it again."""

    __slots__ = ()


def text(words: str) -> Safe:
    """Escape the characters of Markdown, its tables, HTML and GitHub's mathematics; return one line."""
    if isinstance(words, Safe):
        return words
    plain = "".join(_ENTITIES.get(character, character) for character in " ".join(printable(words).split()))
    return Safe(_SPECIAL.sub(lambda match: f"\\{match[0]}", plain))


def code(words: str) -> Safe:
    """Return a code span of words with any backticks; a bar is escaped, since most code stands in tables."""
    plain = " ".join(printable(words).split())
    fence = "`" * (_longest_run(plain) + 1)
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return Safe(f"{fence}{space}{plain}{space}{fence}".replace("|", "\\|"))


def block(words: str, language: str = "") -> Safe:
    """Return a fenced block of code."""
    fence = "`" * max(3, _longest_run(words) + 1)
    lines = "\n".join(printable(line) for line in words.rstrip().split("\n"))
    return Safe(f"{fence}{language}\n{lines}\n{fence}")


def folded(summary: str, *parts: str) -> str:
    """Return a block that a reader opens by its summary; an empty string without content."""
    body = paragraphs(*parts)
    return f"<details>\n<summary>{text(summary)}</summary>\n\n{body}\n\n</details>" if body else ""


def titled(title: str, body: str) -> str:
    """Return a text below its title; an empty string for an empty text."""
    return paragraphs(title, body) if body else ""


def aside(text: str) -> str:
    """Return a text in parentheses after a space; an empty string for an empty text."""
    return f" ({text})" if text else ""


def paragraphs(*parts: str) -> str:
    """Join the parts that are not empty with blank lines."""
    return "\n\n".join(filter(None, parts))


def items(lines: Iterable[str]) -> str:
    """Return a list of lines of Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def most(lines: Sequence[str], limit: int, rest: str = "and {} more") -> list[str]:
    """Return the first lines, and the number of the others."""
    return [*lines[:limit], *([rest.format(len(lines) - limit)] if len(lines) > limit else [])]


def quoted(lines: Iterable[str]) -> str:
    """Return a quotation with a paragraph for each line."""
    return "\n>\n".join(f"> {line}" for line in lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Return a Markdown table with aligned source; an empty string without rows. `right`: the columns of numbers."""
    if not rows:
        return ""
    columns = set(right)
    align = ["right" if i in columns else "left" for i in range(len(header))]
    # A plain str, since tabulate looks at the type of a cell.
    escaped = [[str(text(cell)) for cell in row] for row in (header, *rows)]
    return tabulate(escaped[1:], headers=escaped[0], tablefmt="pipe", colalign=align, disable_numparse=True)


def _longest_run(words: str) -> int:
    return max((len(run) for run in re.findall("`+", words)), default=0)
