"""A machine's host keys, which it tells Google: as guest attributes, or on its serial console.

No key is learnt from the first connection.
"""

import re
import time
from contextlib import suppress
from typing import Any

from tsduel.core.errors import UserError
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError

PATIENCE_S = 180
# Google answers ten questions a minute about the guest attributes of a machine, and may remove them beyond that.
PAUSE_S = 7.0
# Those that Google's guest agents publish, one after the other.
TYPES = {"ecdsa-sha2-nistp256", "ssh-ed25519", "ssh-rsa"}
# The startup script of terraform/host.tf writes them on the serial console, all at once.
ON_CONSOLE = re.compile(r"^(?:.*\s)?tsduel-host-key (\S+ [A-Za-z0-9+/=]+)\s*$", re.MULTILINE)


def published(compute: Compute, outputs: dict[str, Any]) -> set[str]:
    """Return the keys as lines of a known_hosts file without names.

    That is all of `TYPES`, or what an sshd with fewer types has: what two questions in turn were answered with.
    """
    instance = f"zones/{outputs['zone']}/instances/{outputs['instance']}"
    deadline = time.monotonic() + PATIENCE_S
    before = set[str]()
    while True:
        found = _attributes(compute, instance)
        if found and (found == before or {key.split()[0] for key in found} >= TYPES):
            return found
        before = found
        time.sleep(PAUSE_S / 2)
        if said := _console(compute, instance):
            return said
        if time.monotonic() > deadline:
            break
        time.sleep(PAUSE_S / 2)
    if before:
        return before
    raise UserError(
        f"gcp: the machine published no host keys in {PATIENCE_S} s, neither as guest attributes nor on its serial "
        "console, and nobody logs in without them: see whether an organisation policy hides guest attributes "
        "(compute.disableGuestAttributesAccess) and the account may not read the console "
        "(compute.instances.getSerialPortOutput), or take another image"
    )


def _attributes(compute: Compute, instance: str) -> set[str]:
    # Fails until the machine has booted, and where the organisation forbids it. Tries in a row would be too many.
    with suppress(CloudError, KeyError):
        items = compute.look(f"{instance}/getGuestAttributes?queryPath=hostkeys/")["queryValue"]["items"]
        return {f"{item['key']} {item['value'].strip()}" for item in items if item["namespace"] == "hostkeys"}
    return set()


def _console(compute: Compute, instance: str) -> set[str]:
    with suppress(CloudError):
        return set(ON_CONSOLE.findall(compute.look(f"{instance}/serialPort?port=1").get("contents", "")))
    return set()
