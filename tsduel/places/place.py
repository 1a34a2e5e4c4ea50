"""Decides where the blocks run: on this machine, on another one over SSH, on a rented one, or in pods."""

import getpass
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.wording import allowed
from tsduel.places.gcp import place as gcp
from tsduel.places.k8s import place as k8s

KINDS = ("local", "ssh", "gcp", "k8s")
SSH_KNOBS = ("SSH_HOST", "SPARE_HOSTS", "SSH_CONFIG", "REMOTE_DIR")
KNOBS = ("TARGET", *SSH_KNOBS, *gcp.KNOBS, *k8s.KNOBS)
# A host's name never begins with a dash: ssh would read it as an option.
SSH_HOST = re.compile(
    r"(?:(?P<user>[A-Za-z_][A-Za-z0-9._-]*)@)?"
    r"(?P<address>[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
REMOTE_DIR = re.compile(r"(/[A-Za-z0-9._+-]+){2,}")
MAX_PORT = 65535


def asked(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the knobs TARGET, SSH_HOST and so on as fields of tsduel.core.plan.Place.

    For rented machines it is the part that ``tsduel.places.gcp.place.asked`` describes, and tsduel.places.gcp.rent adds
    the rest. The values are plain, since `make doctor` works without pydantic.
    """
    given = {name: environment.get(name, "").strip() for name in KNOBS}
    kind = given["TARGET"] or "local"
    if given["HOSTS"] and kind not in {"gcp", "k8s"}:
        raise UserError(
            "HOSTS: so many machines are rented with TARGET=gcp, or pods made with TARGET=k8s; machines of your own: "
            "TARGET=ssh SSH_HOST=a,b,c"
        )
    if kind not in KINDS:
        raise UserError(f"TARGET: {kind!r} is no place for the blocks; {allowed(kind, KINDS)}")
    _refuse_of_other_places(given, kind)
    if kind != "ssh":
        return {"gcp": gcp.asked, "k8s": k8s.asked}[kind](given) if kind != "local" else {"kind": "local"}
    if not given["SSH_HOST"]:
        raise UserError("TARGET=ssh needs to know the machine: add SSH_HOST=user@host or SSH_HOST=user@host:port")
    named = [(knob, text.strip()) for knob in SSH_KNOBS[:2] for text in given[knob].split(",") if given[knob]]
    hosts, seen = dict[str, dict[str, Any]](), set[tuple[str, int]]()
    for number, (knob, text) in enumerate(named, 1):
        host = _host(knob, text, given["REMOTE_DIR"]) | {"spare": knob == SSH_KNOBS[1]}
        machine = (host["address"], host["port"] or 22)
        if machine in seen:
            raise UserError(f"{knob}: {text} is named twice, and a machine runs one block at a time: name it once")
        seen.add(machine)
        hosts[f"host{number}"] = host
    return {"kind": kind, "config_file": _config_file(given["SSH_CONFIG"]), "hosts": hosts}


def _refuse_of_other_places(given: Mapping[str, str], kind: str) -> None:
    # GCP_PROJECT, SSH_FROM, KUBE_CONTEXT, NAMESPACE and IMAGE may always be in the user's environment.
    for name in ("NODE_SELECTOR", "STORAGE_CLASS"):
        if given[name] and kind != "k8s":
            raise UserError(f"{name} is for pods; add TARGET=k8s, or leave {name} away")
    if kind == "k8s" and given["SPARE_HOSTS"]:
        raise UserError("SPARE_HOSTS: a pod that is lost gets another one in its place; leave SPARE_HOSTS away")
    for name in SSH_KNOBS if kind != "ssh" else ():
        # For rented machines SPARE_HOSTS is a number.
        if given[name] and (name, kind) != ("SPARE_HOSTS", "gcp"):
            raise UserError(f"{name} is for another machine; add TARGET=ssh, or leave {name} away")


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
    path = Path(text).expanduser().absolute()
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
