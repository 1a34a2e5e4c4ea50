"""On which addresses processes listen, as the kernel says."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LISTENS = "0A"
DIGITS_OF_6 = 32


def _sockets(pid: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                found.add(target.removeprefix("socket:[").removesuffix("]"))
    return found


def listeners(pids: Iterable[int]) -> set[str]:
    """Return `ADDRESS:PORT` of every socket of these processes that takes connections (TCP) or packets (UDP)."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            ours = _sockets(pid)
            for table in ("tcp", "tcp6", "udp", "udp6"):
                for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                    fields = line.split()
                    # A UDP socket without a peer takes packets from anybody.
                    takes = fields[3] == LISTENS if table.startswith("tcp") else fields[2].endswith(":0000")
                    if takes and fields[9] in ours:
                        found.add(_address(fields[1]))
    return found


def not_loopback(pids: Iterable[int]) -> set[str]:
    """Return those of the listeners that another machine could reach."""
    return {found for found in listeners(pids) if not found.startswith(("127.", "[::1]"))}


def _address(text: str) -> str:
    address, port = text.split(":")
    if len(address) == DIGITS_OF_6:
        packed = b"".join(struct.pack("=I", int(address[i : i + 8], 16)) for i in range(0, DIGITS_OF_6, 8))
        name = f"[{socket.inet_ntop(socket.AF_INET6, packed)}]"
    else:
        name = socket.inet_ntoa(struct.pack("=I", int(address, 16)))
    return f"{name}:{int(port, 16)}"


def free_port() -> int:
    """Return a port of this machine that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
