"""The knobs about machines behind SSH: which, how they are reached, and our directory there. No library is needed."""

import getpass
import os
import re
from collections.abc import Mapping
from typing import Any

from tsduel.core import files
from tsduel.core.errors import UserError

HOSTS, SPARES = "SSH_HOST", "SPARE_HOSTS"
KNOBS = (HOSTS, SPARES, "SSH_CONFIG", "REMOTE_DIR")
# A host's name never begins with a dash: ssh would read it as an option.
SSH_HOST = re.compile(
    r"(?:(?P<user>[A-Za-z_][A-Za-z0-9._-]*)@)?"
    r"(?P<address>[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
REMOTE_DIR = re.compile(r"(/[A-Za-z0-9._+-]+){2,}")
MAX_PORT = 65535


def asked(knobs: Mapping[str, str]) -> dict[str, Any]:
    """Return ``config_file`` and ``hosts``, the spare ones last."""
    if not knobs[HOSTS]:
        raise UserError("TARGET=ssh needs to know the machine: add SSH_HOST=user@host or SSH_HOST=user@host:port")
    named = [(knob, text.strip()) for knob in (HOSTS, SPARES) for text in knobs[knob].split(",") if knobs[knob]]
    hosts, seen = dict[str, dict[str, Any]](), set[tuple[str, int]]()
    for number, (knob, text) in enumerate(named, 1):
        host = _host(knob, text, knobs["REMOTE_DIR"]) | {"spare": knob == SPARES}
        machine = (host["address"], host["port"] or 22)
        if machine in seen:
            raise UserError(f"{knob}: {text} is named twice, and a machine runs one block at a time: name it once")
        seen.add(machine)
        hosts[f"host{number}"] = host
    return {"config_file": _config_file(knobs["SSH_CONFIG"]), "hosts": hosts}


def _host(knob: str, text: str, directory: str) -> dict[str, Any]:
    match = SSH_HOST.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if not match or (port is not None and not 0 < port <= MAX_PORT):
        raise UserError(
            f"{knob}: {text!r} is no machine to log in to; write user@host or user@host:port, several with commas "
            "between them (an IPv6 address in brackets)"
        )
    user, address = match["user"], match["address"].strip("[]")
    reached = {"user": user, "address": address, "port": port}
    return reached | {"directory": _directory(directory, user)}


def _config_file(text: str) -> str | None:
    if not text:
        return None
    path = files.from_home(text).absolute()
    if not path.is_file() or not os.access(path, os.R_OK):
        raise UserError(f"SSH_CONFIG: {path} cannot be read; give an ssh_config file, or leave it out")
    return str(path)


def _directory(text: str, user: str | None) -> str:
    # A home directory may be on the network, and its path is not known before the login.
    if not text:
        return f"/var/tmp/tsduel-{user or getpass.getuser()}"  # noqa: S108 - private, and probe checks that it is ours
    if not REMOTE_DIR.fullmatch(text) or "/../" in f"{text}/":
        raise UserError(
            f"REMOTE_DIR: {text!r} is no directory of our own; write an absolute path of letters, digits, dots, dashes "
            "and underscores with at least two parts, like /mnt/disk/tsduel"
        )
    return text
