"""Lent hosts: they run components for a driver on another host. The keys of both are derived from a token."""

import ipaddress
import json
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tsduel.core import files
from tsduel.core.defaults import LENT_PORT
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan
from tsduel.core.wording import last_line
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import Host

FILE = "host/lent.json"
START_S = 60.0
STOP_S = 180.0
# Prints the address at which we reached the machine, and its IPv4 addresses; sbin is not on every PATH. A bare Debian
# has no `ip`, and others than Debian have no `hostname -I`.
ADDRESSES = r"""printf 'reached %s\n' "$SSH_CONNECTION"; PATH=$PATH:/usr/sbin:/sbin
if command -v ip >/dev/null; then ip -o -4 addr; else hostname -I; fi"""


def write(run_dir: Path, plan: Plan, made: Mapping[str, Mapping[str, Any]]) -> None:
    """Write host/lent.json, readable only by our user, if the plan has a topology; an existing token stays.

    A UserError names a host without a private address, or with several if none was chosen.
    """
    if not plan.topology:
        return
    path = run_dir / FILE
    addresses = {name: address(Host.from_outputs(host), host.get("private")) for name, host in made.items()}
    if twice := [name for name, text in addresses.items() if list(addresses.values()).count(text) > 1]:
        same = addresses[twice[0]]
        raise UserError(f"{' and '.join(twice)} have one private address, {same}: each needs one of its own")
    token = files.read_json(path)["token"] if path.exists() else secrets.token_hex(32)
    lent = {"token": token, "port": plan.host.port + LENT_PORT, "hosts": addresses}
    path.parent.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o077)
    try:
        files.write(path, json.dumps(lent, indent=2) + "\n")
    finally:
        os.umask(before)


def address(host: Host, given: str | None) -> str:
    """Return a machine's private IPv4 address: ``given``, else the one that we reached, else its only one.

    That of a pod is what its cluster has given.
    """
    if host.through:
        if not given or ":" in given:
            raise UserError(f"{host.name} has no IPv4 address ({given or 'none'}), at which components listen")
        return given
    done = host.run("sh", "-c", ADDRESSES)
    if done.returncode:
        raise UserError(
            f"{host.name}: its addresses are not known ({last_line(done.stderr)}): "
            "install `ip` there (Debian, Alpine: iproute2; Red Hat: iproute)"
        )
    # 2: eth0    inet 10.0.0.5/24 brd 10.0.0.255 scope global eth0
    # A login shell may greet before.
    reached_line, _, rest = f"\n{done.stdout}".rpartition("\nreached ")[2].partition("\n")
    found = re.findall(r"^\d+: \S+ +inet ([0-9.]+)", rest, re.MULTILINE) or rest.split()
    private = [str(text) for text in dict.fromkeys(found) if _is_private(text)]
    reached: str = "".join(re.findall(r"^\S+ \S+ (\S+)", reached_line))
    has = ", ".join(private) or "none"
    if given and given not in private:
        raise UserError(f"{host.name} has no private address {given}; it has: {has}")
    if given or reached in private:
        return given or reached
    if len(private) == 1:
        return private[0]
    raise UserError(
        f"{host.name}: components listen at one private IPv4 address, and which one is not clear (it has: {has}); "
        "name it: SSH_HOST=user@host/10.0.0.5"
    )


def _is_private(text: str) -> bool:
    # IPv4 only, since adapters write HOST:PORT.
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return address.is_private and not address.is_loopback


def lend(run_dir: Path) -> None:
    """Have the lent hosts of a run wait for its driver; a host that waits already is not changed.

    If one refuses or is not reached, none waits. The error is a plain UserError, since only a lost connection to the
    driver's host is tried again.
    """
    try:
        for name, link in Link.lent(run_dir).items():
            link.ask("lend", name, timeout_s=START_S)
    except UserError as error:
        with suppress(UserError):
            take_back(run_dir)
        raise UserError(str(error)) from None


def take_back(run_dir: Path) -> None:
    """End the waiting of a run's lent hosts, and what a kill has left there; the run's driver must not run.

    All hosts are tried before a UserError names those that were not reached.
    """
    errors = []
    for link in Link.lent(run_dir).values():
        try:
            if link.state().word != "none":
                link.ask("stop", timeout_s=STOP_S)
                link.ask("collected")
        except UserError as error:
            errors.append(f"{error}; if it still waits for this run's driver, that ends by itself (docs/operating.md)")
    if errors:
        raise UserError("\n".join(errors))
