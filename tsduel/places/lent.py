"""Hosts that run components for a driver on another one: where they are found, and by which token that is known."""

import ipaddress
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tsduel.core import files
from tsduel.core.defaults import LENT_PORT
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import Host

FILE = "host/lent.json"
START_S = 60.0
STOP_S = 180.0
# At which address of its own a machine was reached, and which it has.
ADDRESSES = r"""printf 'reached=%s\naddresses=%s\n' "$SSH_CONNECTION" "$(hostname -I)" """


def write(run_dir: Path, plan: Plan, made: Mapping[str, Mapping[str, Any]]) -> None:
    """Write host/lent.json, for our user alone, where components have hosts of their own; its token stays as it is.

    A UserError names a host without a private address, or with several of which none is named.
    """
    if not plan.topology:
        return
    path = run_dir / FILE
    # As the user says it, or Google.
    found = {name: address(Host.from_outputs(of), of.get("private")) for name, of in made.items()}
    if twice := [name for name, at in found.items() if list(found.values()).count(at) > 1]:
        raise UserError(f"{' and '.join(twice)} have one private address, {found[twice[0]]}: each needs one of its own")
    token = files.read_json(path)["token"] if path.exists() else secrets.token_hex(32)
    lent = {"token": token, "port": plan.host.port + LENT_PORT, "hosts": found}
    path.parent.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o077)
    try:
        files.write(path, json.dumps(lent, indent=2) + "\n")
    finally:
        os.umask(before)


def address(host: Host, given: str | None) -> str:
    """Return a machine's private IPv4 address for the others: as given, else the one that we came to, or its only."""
    said = host.run("sh", "-c", ADDRESSES).stdout.splitlines()
    facts = dict(line.split("=", 1) for line in said if "=" in line)
    private = [text for text in dict.fromkeys(facts.get("addresses", "").split()) if _is_private(text)]
    reached = [*facts.get("reached", "").split(), "", "", ""][2]
    has = ", ".join(private) or "none"
    if given and given not in private:
        raise UserError(f"{host.name} has no private address {given}; it has: {has}")
    if found := given or (reached if reached in private else "") or ("".join(private) if len(private) == 1 else ""):
        return found
    raise UserError(
        f"{host.name}: components listen at one private IPv4 address, and which one is not clear (it has: {has}); "
        "name it: SSH_HOST=user@host/10.0.0.5"
    )


def _is_private(text: str) -> bool:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return False
    return found.version == 4 and found.is_private and not found.is_loopback  # noqa: PLR2004 - adapters write HOST:PORT


def lend(run_dir: Path) -> None:
    """Have the hosts of a run that is about to start wait for its driver; those that do already stay as they are.

    Where one will not, or is not reached, none waits, and a plain UserError says so: it is no lost connection to the
    driver's host, which would be tried again.
    """
    try:
        for name, link in Link.lent(run_dir).items():
            link.ask("lend", name, timeout_s=START_S)
    except UserError as error:
        with suppress(UserError):
            take_back(run_dir)
        raise UserError(str(error)) from None


def take_back(run_dir: Path) -> None:
    """End the waiting of a run's hosts whose driver does not run, and what they were killed over.

    All of them, before a UserError names those that were not reached.
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
