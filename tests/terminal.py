"""A terminal for tests: a pseudo-terminal of a size, the process on it, and the lines that one sees in front of it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

TOKEN = re.compile(rb"\x1b\[(\d*)([A-Za-z])|\x1b\[([\d;]*)m|\r|\n|[^\x1b\r\n]+")

# A read may end in the middle of a character or a sequence.
UNFINISHED = re.compile(rb"(?:\x1b(?:\[[\d;]*)?|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")


class Seen:
    """What a terminal shows, with all that has scrolled away above it: as much of ECMA-48 as the view uses."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.lines = [""]
        self.row = self.column = 0
        self.wrapped = 0
        self.rest = b""

    def feed(self, data: bytes) -> None:
        """Obey what was written."""
        data = self.rest + data
        cut = UNFINISHED.search(data)
        data, self.rest = (data[: cut.start()], cut[0]) if cut else (data, b"")
        for token in TOKEN.finditer(data):
            text = token[0]
            if text == b"\r":
                self.column = 0
            elif text == b"\n":
                self.row, self.column = self.row + 1, 0
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif token[2]:
                self._obey(int(token[1] or 1), token[2].decode())
            elif token[3] is None:
                self._write(text.decode())

    def _obey(self, number: int, letter: str) -> None:
        if letter == "A":
            self.row = max(0, self.row - number)
        elif letter == "K":
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif letter == "J":
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        else:
            assert letter == "m", letter

    def _write(self, text: str) -> None:
        assert text.isprintable(), text
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + text + line[self.column + len(text) :]
        self.column += len(text)
        self.wrapped += self.column > self.columns


class Terminal:
    """A process in the foreground of a pseudo-terminal of its own."""

    def __init__(self, command, *, columns=80, rows=24, env=None, cwd=None) -> None:
        self.seen = Seen(columns)
        self.raw = b""
        self.code = None
        size = struct.pack("HHHH", rows, columns, 0, 0)
        ready, go = os.pipe()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.read(ready, 1)
            # A terminal has it so, whatever nohup has made of us.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            if cwd:
                os.chdir(cwd)
            words = [str(word) for word in command]
            os.execvpe(words[0], words, {"TERM": "xterm-256color", **(env or {})})  # noqa: S606 - the test's own words
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        os.write(go, b"x")
        os.close(ready)
        os.close(go)
        self.attributes = termios.tcgetattr(self.master)

    def read(self, seconds: float) -> None:
        """See what is shown within a time; less if it ends before."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                return
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                return
            self.raw += data
            self.seen.feed(data)

    def until(self, word: str, patience_s: float = 120.0) -> None:
        """Wait until a word has been shown."""
        deadline = time.monotonic() + patience_s
        while word.encode() not in self.raw:
            assert time.monotonic() < deadline, self.raw.decode(errors="replace")
            self.read(0.2)

    def wait(self, patience_s: float = 120.0) -> int:
        """Wait for the end of the process; return its exit code, or minus the signal that ended it."""
        deadline = time.monotonic() + patience_s
        while self.code is None:
            assert time.monotonic() < deadline, self.raw.decode(errors="replace")
            self.read(0.2)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        self.read(0.3)
        return self.code
