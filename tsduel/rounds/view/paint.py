"""A few lines at the foot of a terminal that are drawn anew in place, below what stays and scrolls away.

Why not rich's own Live: it hides the cursor, which kill -9 would leave hidden, and counts lines by the old width
after the window was made narrower. Rich makes the lines; here they are put where they belong, with one write.
"""

import os
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

CLEAR_LINE, CLEAR_BELOW = "\x1b[K", "\x1b[J"


class Painter:
    """Owns the foot of one terminal. What cannot be written, since nobody looks any more, is not."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)
        self._foot: list[str] = []
        self._widths: list[int] = []
        self._late: list[RenderableType] = []

    def show(self, staying: Sequence[RenderableType], foot: RenderableType | None) -> None:
        """Put what stays above the foot, and draw the foot anew (None: there is none any more)."""
        staying = [*self._late, *staying]
        if not self._is_ours():
            # In the background the terminal is the shell's.
            self._late = staying
            return
        self._late = []
        width, height = self._size()
        self._console.size = type(self._console.size)(width - 1, height)
        lines, widths = self._lines(foot, height)
        above = "".join(f"{line}{CLEAR_LINE}\n" for item in staying for line in self._rendered(item, wrap=True))
        if not above and lines == self._foot:
            return
        # A terminal breaks lines that have become too long for it.
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
            if wrap:
                self._console.print(item)
            else:
                self._console.print(item, no_wrap=True, overflow="ellipsis", crop=True)
        return [line.rstrip() for line in captured.get().split("\n")[:-1]]

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return 80, 24
        # A terminal that was never told its size says 0.
        return max(20, size.columns or 80), size.lines or 24

    def _is_ours(self) -> bool:
        try:
            return os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()
        except OSError:
            return False

    def _write(self, text: str) -> None:
        data = text.encode(self._stream.encoding or "utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._stream.fileno(), data) :]
        except OSError:
            # The window was closed: what runs is ended by the signal that comes with it, if at all.
            return
