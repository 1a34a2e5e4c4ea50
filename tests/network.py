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
            names = [f"tsl{hosts[one].link[6:-1]}x{hosts[other].link[6:-1]}{end}" for end in "ab"]
            if self._slow or not self._relayed(names):
                _run("ip", "link", "add", names[0], "type", "veth", "peer", "name", names[1])
            self._slow = self._slow or names[1]
            for end, (mine, theirs) in zip(names, ((one, other), (other, one)), strict=True):
                _run("ip", "link", "set", end, "netns", str(hosts[mine].init))
                self._inside(mine, "ip", "address", "add", f"{self.addresses[mine]}/32", "dev", end)
                self._inside(mine, "ip", "link", "set", end, "up")
                to = f"{self.addresses[theirs]}/32"
                self._inside(mine, "ip", "route", "add", to, "dev", end, "src", self.addresses[mine])

    def _inside(self, host: int, *words: str) -> None:
        _run("nsenter", "--target", str(self.hosts[host].init), "--net", *words)

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
            self._inside(1, "tc", "qdisc", "replace", "dev", self._slow, "root", "netem", "delay", f"{ms}ms")
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
