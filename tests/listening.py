"""On which addresses processes listen, as the kernel says."""

from __future__ import annotations

import re
import socket
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Sockets that take connections (TCP) or packets (UDP) from anybody: state, queues, address, peer, processes.
COMMAND = ("ss", "--no-header", "--listening", "--tcp", "--udp", "--numeric", "--processes")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listeners(pids: Iterable[int]) -> set[str]:
    """Return `ADDRESS:PORT` of every socket of these processes that listens."""
    said = subprocess.run(COMMAND, stdout=subprocess.PIPE, text=True, check=True).stdout
    ours = {str(pid) for pid in pids}
    return {line.split()[4] for line in said.splitlines() if ours.intersection(re.findall(r"pid=(\d+)", line))}


def not_loopback(pids: Iterable[int]) -> set[str]:
    """Return those of the listeners that another machine could reach."""
    return {found for found in listeners(pids) if not found.startswith(("127.", "[::1]"))}
