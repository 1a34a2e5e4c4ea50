"""The knobs about rented machines: the project that pays, their number, and from where SSH is let in."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from tsduel.core.errors import UserError

KNOBS = ("GCP_PROJECT", "SSH_FROM", "HOSTS")
MOST_HOSTS = 100
PROJECT = re.compile(r"([a-z][a-z0-9.-]*:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
# As in terraform/host.tf.
USER = "tsduel"
DIRECTORY = f"/var/tmp/tsduel-{USER}"  # noqa: S108 - on a machine that has no other user
# The widest network that terraform/variables.tf accepts.
WIDEST_PREFIX = 8


def asked(knobs: Mapping[str, str]) -> dict[str, Any]:
    """Return ``project``, ``ssh_via`` (public or iap), ``ssh_source_ranges`` and what follows.

    ``each`` and ``spare`` are the numbers of hosts and of spare hosts of each kind of machine.
    """
    project = knobs.get("GCP_PROJECT", "")
    if not project:
        raise UserError("TARGET=gcp needs to know who pays: add GCP_PROJECT=your-project-id (`gcloud projects list`)")
    if not PROJECT.fullmatch(project):
        raise UserError(
            f"GCP_PROJECT: {project!r} is no ID of a project (6 to 30 lower-case letters, digits and dashes): "
            "see `gcloud projects list`"
        )
    via, ranges = _ssh_from(knobs.get("SSH_FROM", ""))
    return {
        "project": project,
        "ssh_via": via,
        "ssh_source_ranges": ranges,
        "user": USER,
        "directory": DIRECTORY,
        "each": _count("HOSTS", knobs, least=1),
        "spare": _count("SPARE_HOSTS", knobs, least=0),
    }


def _count(knob: str, knobs: Mapping[str, str], *, least: int) -> int:
    text = knobs.get(knob, "") or str(least)
    if not text.isdecimal() or not least <= int(text) <= MOST_HOSTS:
        raise UserError(
            f"{knob}: {text!r} is no number of machines of each type, {least} to {MOST_HOSTS}; write {knob}=4"
        )
    return int(text)


def _ssh_from(text: str) -> tuple[str, tuple[str, ...]]:
    if text == "iap":
        return "iap", ()
    if not text:
        raise UserError(
            "TARGET=gcp needs to know from where SSH is let in: add SSH_FROM=203.0.113.7 (your own public address), "
            "or SSH_FROM=iap for a machine without a public address"
        )
    ranges = []
    for word in text.replace(",", " ").split():
        try:
            network = ipaddress.IPv4Network(word)
        except ValueError:
            raise UserError(
                f"SSH_FROM: {word!r} is no IPv4 address or network; write 203.0.113.7, 203.0.113.0/24 or iap"
            ) from None
        if network.prefixlen < WIDEST_PREFIX:
            raise UserError(
                f"SSH_FROM: {word} would open SSH to the whole internet, or a large part of it; give your own address, "
                "like 203.0.113.7, or iap"
            )
        ranges.append(str(network))
    return "public", tuple(ranges)
