"""Bare hosts with a private network of their own: a link between each two, of which the first can be made slow."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barehost import BareHost


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def _inside(host: BareHost, *words: str) -> None:
    _run("nsenter", "--target", str(host.init), "--net", *words)


def _devices(one: BareHost, other: BareHost) -> list[str]:
    return [f"tsl{one.link[6:-1]}x{other.link[6:-1]}{end}" for end in "ab"]


def connect(one: BareHost, other: BareHost, addresses: Sequence[str], *, made: bool = False) -> None:
    """Link two hosts, which run, by an address of each; ``made``: both ends of the link are there already."""
    names = _devices(one, other)
    if not made:
        _run("ip", "link", "add", names[0], "type", "veth", "peer", "name", names[1])
    for end, host, mine, theirs in zip(names, (one, other), addresses, addresses[::-1], strict=True):
        _run("ip", "link", "set", end, "netns", str(host.init))
        _inside(host, "ip", "address", "add", f"{mine}/32", "dev", end)
        _inside(host, "ip", "link", "set", end, "up")
        _inside(host, "ip", "route", "add", f"{theirs}/32", "dev", end, "src", mine)


class Network:
    """`addresses` of the hosts, in their order: each host has one, at which the others reach it."""

    def __init__(self, hosts: Sequence[BareHost]) -> None:
        """Link the hosts, which run."""
        self.hosts = hosts
        self.addresses = [f"10.214.0.{number}" for number in range(1, len(hosts) + 1)]
        self._relay: subprocess.Popen[str] | None = None
        # What the second host sends to the first is what will be slow.
        self._slow = ""
        for one, other in itertools.combinations(range(len(hosts)), 2):
            names = _devices(hosts[one], hosts[other])
            relayed = not self._slow and self._relayed(names)
            self._slow = self._slow or names[1]
            connect(hosts[one], hosts[other], [self.addresses[one], self.addresses[other]], made=relayed)

    def _relayed(self, names: Sequence[str]) -> bool:
        """Make a link through a program of ours where this kernel has no netem."""
        asked = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return False
        # It ends with us, however we end.
        words = ["setpriv", "--pdeathsig", "KILL", sys.executable, str(Path(__file__).parent / "slowlink"), *names]
        self._relay = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._relay.stdout is not None
        assert self._relay.stdout.readline() == "ready\n"
        return True

    def delay(self, ms: float) -> None:
        """Have all that the second host sends to the first come so much later."""
        if self._relay is None:
            _inside(self.hosts[1], "tc", "qdisc", "replace", "dev", self._slow, "root", "netem", "delay", f"{ms}ms")
            return
        assert self._relay.stdin is not None
        self._relay.stdin.write(f"{ms}\n")
        self._relay.stdin.flush()

    def stop(self) -> None:
        """End what passes frames on; the links end with their hosts."""
        if self._relay is not None:
            self._relay.kill()
            self._relay.communicate()


@contextlib.contextmanager
def network(hosts: Sequence[BareHost]) -> Iterator[Network]:
    """Boot the hosts, and link them."""
    with contextlib.ExitStack() as stack:
        for host in hosts:
            stack.callback(host.stop)
            host.start()
        linked = Network(hosts)
        stack.callback(linked.stop)
        yield linked
