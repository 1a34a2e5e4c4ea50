"""Draws a few lines at the foot of a terminal again and again, below lines that stay and scroll away.

We do not use rich's Live: it hides the cursor, which stays hidden after kill -9, and it counts lines by the
old width after the window became narrower. Rich makes the lines, and we place them with one write.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

CLEAR_LINE, CLEAR_BELOW = "\x1b[K", "\x1b[J"


class Painter:
    """Draws the foot of a terminal. If the terminal is closed, it does nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)
        self._foot: list[str] = []
        self._widths: list[int] = []
        self._late: list[RenderableType] = []

    def show(self, staying: Sequence[RenderableType], foot: RenderableType | None) -> None:
        """Print lines that stay above the foot, and draw the foot again (None: remove it)."""
        staying = [*self._late, *staying]
        if not self._is_ours():
            # We are in the background: the terminal belongs to the shell.
            self._late = staying
            return
        self._late = []
        width, height = self._size()
        self._console.size = type(self._console.size)(width - 1, height)
        lines, widths = self._lines(foot, height)
        above = "".join(f"{line}{CLEAR_LINE}\n" for item in staying for line in self._rendered(item, wrap=True))
        if not above and lines == self._foot:
            return
        # The terminal breaks old lines if it became narrower.
        rows = sum(max(1, -(-w // width)) for w in self._widths)
        up = f"\r\x1b[{rows}A" if rows else "\r"
        below = "".join(f"{line}{CLEAR_LINE}\n" for line in lines)
        self._write(f"{up}{above}{below}{CLEAR_BELOW}")
        self._foot, self._widths = lines, widths

    def _lines(self, foot: RenderableType | None, height: int) -> tuple[list[str], list[int]]:
        if foot is None:
            return [], []
        lines = self._rendered(foot, wrap=False)[: max(1, height - 1)]
        return lines, [Text.from_ansi(line).cell_len for line in lines]

    def _rendered(self, item: RenderableType, *, wrap: bool) -> list[str]:
        with self._console.capture() as captured:
            self._console.print(item, no_wrap=not wrap or None, overflow=None if wrap else "ellipsis")
        return [line.rstrip() for line in captured.get().split("\n")[:-1]]

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return 80, 24
        # Some terminals have the size 0.
        return max(20, size.columns or 80), size.lines or 24

    def _is_ours(self) -> bool:
        try:
            return os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()
        except OSError:
            return False

    def _write(self, text: str) -> None:
        data = text.encode(self._stream.encoding or "utf-8", "replace")
        # The window may be closed. The signal for that ends the run, not this error.
        with suppress(OSError):
            while data:
                data = data[os.write(self._stream.fileno(), data) :]
