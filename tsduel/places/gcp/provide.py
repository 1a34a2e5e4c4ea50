"""The machine comes: a key for it alone, a zone that has one, its host keys, and the first login."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.plan import GcpPlace
from tsduel.core.project import PROJECT
from tsduel.places import hosts
from tsduel.places.gcp import give_back, messages, os_login, quotas
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError, NoCapacityError
from tsduel.places.gcp.terraform import Terraform, TerraformError
from tsduel.places.ssh import probe
from tsduel.places.ssh.ssh import Host, NoConnectionError, RefusedError

EXPIRES = "%Y%m%dt%H%M%Sz"
HOST_KEYS_S = 180
LOGIN_S = 300
# As terraform/host.tf has the machine write them on its serial console.
ON_CONSOLE = re.compile(r"^(?:.*\s)?tsduel-host-key (\S+ [A-Za-z0-9+/=]+)\s*$", re.MULTILINE)


def machine(run_dir: Path, place: GcpPlace, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return a host of host/outputs.json for a machine that runs; one that cannot be had leaves nothing behind.

    A machine that this run has already is kept as it is, with the deadline that it has.
    """
    give_back.mind_signals()
    terraform = Terraform.of(run_dir)
    compute = Compute(place.project)
    if known := _preflight(compute, place, hosts.known(run_dir).get("host1")):
        # Blocks may run there: Terraform is not asked whether it would rather have it otherwise.
        return known
    zones = _zones(compute, place, fresh=not terraform.state.exists())
    try:
        terraform.prepare()
        if terraform.state.exists() and not _runs(terraform, compute, place):
            # What is left of an earlier one has another deadline in its names and labels.
            give_back.main(run_dir, place)
        key = make_key(run_dir)
        user = os_login.register(key, place, environment) if place.os_login else ""
        outputs = _in_some_zone(terraform, compute, place, key, zones)
        outputs["user"] = user or outputs["user"]
        known_hosts = _host_keys(compute, outputs, run_dir)
    except (TerraformError, CloudError, UserError, KeyboardInterrupt) as error:
        zone = _zone_asked(terraform) or place.zones[0]
        if isinstance(error, UserError):
            raised = error
        elif isinstance(error, KeyboardInterrupt):
            raised = UserError("gcp: interrupted")
        else:
            raised = messages.as_user_error(str(error), place.project, place.machine, zone)
        raise give_back.after_failure(run_dir, place, environment, raised) from None
    return {
        **outputs,
        "key_file": str(key.absolute()),
        "known_hosts_file": str(known_hosts.absolute()),
        "config_file": _iap_config(run_dir, outputs) if outputs["ssh_via"] == "iap" else None,
    }


def first_login(run_dir: Path, place: GcpPlace, environment: Mapping[str, str], host: Host) -> None:
    """Wait until the machine lets us in and can run the blocks; one that does not leaves nothing behind."""
    give_back.say(f"waiting for SSH on {host.name}")
    deadline = time.monotonic() + LOGIN_S
    try:
        while True:
            try:
                probe.check(host, place.directory)
            except (NoConnectionError, RefusedError):
                # The account is made a little after the machine answers.
                if time.monotonic() > deadline:
                    raise
                time.sleep(3)
            else:
                return
    except UserError as error:
        raise give_back.after_failure(run_dir, place, environment, error) from None
    except KeyboardInterrupt:
        raise give_back.after_failure(run_dir, place, environment, UserError("gcp: interrupted")) from None


def make_key(run_dir: Path) -> Path:
    """Return the private key of this run, made if it has none: mode 600 in a directory of mode 700."""
    directory = run_dir / "host"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o700)
    key = directory / "key"
    if not key.exists():
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tsduel", "-f", str(key)]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise UserError("ssh-keygen is not installed; install it (Debian: openssh-client) and try again") from None
        if done.returncode:
            raise UserError(f"ssh-keygen could not make {key}: {done.stderr.strip()}")
    key.chmod(0o600)
    return key


def _preflight(compute: Compute, place: GcpPlace, known: dict[str, Any] | None) -> dict[str, Any] | None:
    """Refuse what cannot work before anything is made: credentials, project, APIs.

    Return the machine that is known if it runs.
    """
    if place.ssh_via == "iap" and not shutil.which("gcloud"):
        raise UserError("SSH_FROM=iap needs gcloud, whose tunnel it is; install it, or give your own public address")
    try:
        compute.get("")
        if known and compute.runs(known["zone"], known["instance"]):
            return known | {"address": compute.address(known["zone"], known["instance"])}
    except CloudError as error:
        raise messages.as_user_error(str(error), place.project, place.machine, place.zones[0]) from None
    if place.ssh_via == "iap" and compute.lacks_service("iap.googleapis.com"):
        raise UserError(
            f"gcp: the API of the Identity-Aware Proxy is not enabled in {place.project}: `gcloud services enable "
            f"iap.googleapis.com --project={place.project}`, or SSH_FROM= your own public address"
        )
    return None


def _zones(compute: Compute, place: GcpPlace, *, fresh: bool) -> list[str]:
    """Return the zones of the plan that have this machine and its disk; quotas are looked at as well if ``fresh``."""
    found, cpus, lacking = [], 0, ""
    zone = place.zones[0]
    try:
        for zone in place.zones:
            for kind, name in (("machineTypes", place.machine), ("diskTypes", place.disk_type)):
                if not compute.exists(f"zones/{zone}/{kind}/{name}"):
                    lacking = f"there is no {name} in {zone}"
                    give_back.say(lacking)
                    break
            else:
                found.append(zone)
        if found:
            cpus = int(compute.get(f"zones/{found[0]}/machineTypes/{place.machine}")["guestCpus"])
            if fresh and (used_up := quotas.used_up(compute, place, cpus)):
                raise UserError(f"gcp: {messages.quota(used_up, place.project)}")
    except CloudError as error:
        raise messages.as_user_error(str(error), place.project, place.machine, zone) from None
    if not found:
        raise UserError(
            f"gcp: {lacking}, nor what it takes in any other zone of gcp.zones: `gcloud compute machine-types list "
            f"--zones={zone}` shows the machines that are there; choose with "
            'SET="gcp.machine=..." or SET="gcp.zones=[...]"'
        )
    return found


def _in_some_zone(
    terraform: Terraform, compute: Compute, place: GcpPlace, key: Path, zones: list[str]
) -> dict[str, Any]:
    if _runs(terraform, compute, place):
        return terraform.apply()
    _put_aside(terraform.run_dir)
    public_key = key.with_suffix(".pub").read_text(encoding="utf-8").strip()
    # One deadline for all zones: a network with another one would be another network.
    expires = datetime.now(UTC) + timedelta(seconds=place.lifetime_s)
    tried = []
    for zone in zones:
        asked = {"expires": expires.strftime(EXPIRES), "public_key": public_key, "zone": zone}
        terraform.last_moment.write_text(json.dumps(asked, indent=2) + "\n", encoding="utf-8")
        give_back.say(f"asking for {place.machine} in {zone}")
        try:
            return terraform.apply()
        except TerraformError as error:
            refused = messages.as_user_error(str(error), place.project, place.machine, zone)
            if not isinstance(refused, NoCapacityError):
                raise refused from None
            give_back.say(str(refused).removeprefix("gcp: "))
            tried.append(zone)
    raise NoCapacityError(
        f"gcp: no zone has a {place.machine} left at the moment (asked: {', '.join(tried)}): try again later, or "
        'name other zones with SET="gcp.zones=[us-east1-b,us-east1-c]"'
    )


def _zone_asked(terraform: Terraform) -> str:
    if not terraform.last_moment.exists():
        return ""
    return str(json.loads(terraform.last_moment.read_text(encoding="utf-8"))["zone"])


def _runs(terraform: Terraform, compute: Compute, place: GcpPlace) -> bool:
    zone = _zone_asked(terraform)
    return bool(zone) and compute.runs(zone, place.name)


def _put_aside(run_dir: Path) -> None:
    """Keep the blocks of a machine that is gone where no stage looks: they are no blocks of the next one."""
    raw = run_dir / "raw"
    if not any(raw.glob("*/block.json")):
        return
    number = 1 + len(list(run_dir.glob("raw-of-lost-machine-*")))
    aside = raw.rename(run_dir / f"raw-of-lost-machine-{number}")
    give_back.say(
        f"the machine of this run is gone, and blocks of two machines are not compared: they are in {aside}, "
        "and all begin anew"
    )


def _host_keys(compute: Compute, outputs: dict[str, Any], run_dir: Path) -> Path:
    """Write host/known_hosts with the keys that the machine has told Google: as guest attributes, or on its console.

    They are never learnt from whoever answers first. The file is for one machine, so its lines are for any name.
    """
    path = run_dir / "host" / "known_hosts"
    instance = f"zones/{outputs['zone']}/instances/{outputs['instance']}"
    deadline = time.monotonic() + HOST_KEYS_S
    while not (keys := _published(compute, instance) or _on_console(compute, instance)):
        if time.monotonic() > deadline:
            raise UserError(
                f"gcp: the machine has told no host keys in {HOST_KEYS_S} s, neither as guest attributes nor on its "
                "serial console, and nobody is trusted unseen: see whether your organisation forbids both "
                "(compute.disableGuestAttributesAccess, compute.disableSerialPortAccess), or take another image"
            )
        # 404 until the machine has booted so far.
        time.sleep(2)
    path.write_text("".join(f"* {key}\n" for key in sorted(keys)), encoding="utf-8")
    return path


def _published(compute: Compute, instance: str) -> set[str]:
    try:
        items = compute.get(f"{instance}/getGuestAttributes?queryPath=hostkeys/")["queryValue"]["items"]
        return {f"{item['key']} {item['value'].strip()}" for item in items if item["namespace"] == "hostkeys"}
    except (CloudError, KeyError):
        return set()


def _on_console(compute: Compute, instance: str) -> set[str]:
    try:
        return set(ON_CONSOLE.findall(compute.get(f"{instance}/serialPort?port=1").get("contents", "")))
    except CloudError:
        return set()


def _iap_config(run_dir: Path, outputs: dict[str, Any]) -> str:
    """Write host/ssh_config: the way through the Identity-Aware Proxy, see tsduel.places.gcp.tunnel."""
    path = run_dir / "host" / "ssh_config"
    tunnel = ["env", f"PYTHONPATH={PROJECT}", sys.executable, "-m", "tsduel.places.gcp.tunnel"]
    where = [str(outputs[name]) for name in ("instance", "port", "project", "zone")]
    path.write_text(f"Host *\n  ProxyCommand {shlex.join([*tunnel, *where]).replace('%', '%%')}\n", encoding="utf-8")
    return str(path.absolute())
