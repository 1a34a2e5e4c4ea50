"""Rents the machines: the run's own key, zones that have the machines, their host keys, and the first login."""

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tsduel.core.children import mind_signals
from tsduel.core.errors import UserError
from tsduel.core.place import GcpPlace
from tsduel.core.project import PROJECT
from tsduel.places import hosts
from tsduel.places.gcp import give_back, host_keys, messages, os_login, quotas, rent
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError, NoCapacityError, NoDeadlineError
from tsduel.places.gcp.terraform import Terraform, TerraformError
from tsduel.places.ssh import probe
from tsduel.places.ssh.link import is_home
from tsduel.places.ssh.ssh import Host, NoConnectionError, RefusedError

EXPIRES = "%Y%m%dt%H%M%Sz"
LOGIN_S = 300
# What Google may write otherwise than we have asked for it.
SLACK = timedelta(minutes=2)
# A variable of terraform/ that is set once Google has refused a machine in such words, and what is said of it.
_SERIAL = "an organisation policy forbids guest attributes, so the host keys are read from the serial console"
_STOPS = "Google makes no machine that has a deadline and starts again after a failure of its host, so it does not"
CONCESSIONS = {
    "guest_attributes": (messages.NO_GUEST_ATTRIBUTES, _SERIAL), "automatic_restart": (messages.NO_RESTART, _STOPS),
}  # fmt: skip


def machines(
    run_dir: Path, place: GcpPlace, environment: Mapping[str, str], on_them: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Return ``hosts`` of host/outputs.json for running machines; a failure leaves nothing behind.

    Machines that the run has already stay, with their deadline. A machine that is gone is not rented again while others
    run: spare hosts run its blocks. If each block needs all machines, all are given back and rented again. ``on_them``:
    the run of a study that goes on there, if it is not the one that rents.
    """
    mind_signals()
    terraform = Terraform(run_dir)
    compute = Compute(place.project, run_dir)
    recorded = hosts.known(run_dir)
    if found := _preflight(compute, place, recorded):
        # Terraform might change machines on which blocks run, so it is not called.
        for name, host in found.items():
            if host.get("ssh_via") == "iap":
                _iap_config(run_dir, host, name)  # it names this checkout, which may have been moved
        return found
    if recorded:
        give_back.say("no machine of this run is there any more; to go on, others have to be rented")
        rent.ask([place], environment)
    zones = _zones(compute, place, fresh=not terraform.state.exists())
    with give_back.on_failure(run_dir, place, environment):
        terraform.prepare()
        if terraform.state.exists() and not _running(terraform, compute, place):
            # The rest of earlier machines has another deadline in its labels.
            give_back.main(run_dir, place)
        key = make_key(run_dir)
        user = os_login.register(key, place, environment) if place.os_login else ""
        # Recorded before the first of them is there, without an address: later stages log in to known hosts only.
        hosts.write(run_dir, {}, provisioned=True)
        if _running(terraform, compute, place):
            made = terraform.apply()
        else:
            for begun in filter(None, (run_dir, on_them)):
                put_aside(begun)
            made = _in_some_zones(terraform, compute, place, key, zones)
        _check_deadlines(compute, made)
        for name, outputs in made.items():
            outputs |= {
                "user": user or outputs["user"],
                "key_file": str(key.absolute()),
                "known_hosts_file": str(_host_keys(compute, outputs, run_dir, name).absolute()),
                "config_file": _iap_config(run_dir, outputs, name) if outputs["ssh_via"] == "iap" else None,
            }
        return made


def first_login(place: GcpPlace, host: Host) -> None:
    """Wait until the machine accepts our login and can run the blocks."""
    give_back.say(f"waiting for SSH on {host.name}")
    deadline = time.monotonic() + LOGIN_S
    while True:
        try:
            probe.check(host, place.directory)
        except (NoConnectionError, RefusedError):
            # The machine answers before it has made the account.
            if time.monotonic() > deadline:
                raise
            time.sleep(3)
        else:
            return


def make_key(run_dir: Path) -> Path:
    """Return the private key of this run, and make it if there is none: mode 600 in a directory of mode 700."""
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


def _preflight(compute: Compute, place: GcpPlace, recorded: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Check credentials, project and APIs before anything is made; return the known machines if any of them runs."""
    if place.ssh_via == "iap" and not shutil.which("gcloud"):
        raise UserError("SSH_FROM=iap needs gcloud, whose tunnel it is; install it, or give your own public address")
    try:
        compute.get("")
        running = {
            name: host | {"address": compute.address(host["zone"], host["instance"])}
            for name, host in recorded.items()
            if compute.runs(host["zone"], host["instance"])
        }
    except CloudError as error:
        raise messages.as_user_error(str(error), place.project, place.machine, place.zones[0]) from None
    for name in (set(recorded) - set(running)) if running else ():
        give_back.say(f"{name} ({recorded[name]['instance']}) is gone; the others go on")
    if running:
        return {**recorded, **running}
    if place.ssh_via == "iap" and compute.lacks_service("iap.googleapis.com"):
        raise UserError(
            f"gcp: the API of the Identity-Aware Proxy is not enabled in {place.project}: `gcloud services enable "
            f"iap.googleapis.com --project={place.project}`, or SSH_FROM= your own public address"
        )
    return {}


def _zones(compute: Compute, place: GcpPlace, *, fresh: bool) -> dict[str, list[str]]:
    """Return for each host the zones of the plan that have its machine and disk; ``fresh``: check the quotas too."""
    first, having, lacking = place.first, list[str](), ""
    zone = place.zones[0]
    try:
        for zone in place.zones:
            paths = (f"machineTypes/{first.machine}", f"diskTypes/{first.disk_type}")
            missing = (path.rpartition("/")[2] for path in paths if compute.find(f"zones/{zone}/{path}") is None)
            if lacks := next(missing, ""):
                lacking = lacks
                give_back.say(f"there is no {lacking} in {zone}")
            else:
                having.append(zone)
        if not having:
            raise UserError(
                f"gcp: there is no {lacking} in {zone}, nor what it takes in any other zone of gcp.zones: `gcloud "
                f"compute machine-types list --zones={zone}` shows the machines that are there; choose with "
                'SET="gcp.machine=..." or SET="gcp.zones=[...]"'
            )
        cpus = int(compute.get(f"zones/{having[0]}/machineTypes/{first.machine}")["guestCpus"])
        if fresh and (used_up := quotas.used_up(compute, place, cpus)):
            raise UserError(f"gcp: {messages.quota(used_up, place.project)}")
    except CloudError as error:
        raise messages.as_user_error(str(error), place.project, place.machine, zone) from None
    return dict.fromkeys(place.hosts, having)


def _in_some_zones(
    terraform: Terraform, compute: Compute, place: GcpPlace, key: Path, zones: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, Any]]:
    """Request each host in its first zone, then in the next ones while a zone has none; return Terraform's output."""
    # All have one deadline, which is also in the network's description.
    expires = datetime.now(UTC) + timedelta(seconds=place.lifetime_s)
    public_key = key.with_suffix(".pub").read_text(encoding="utf-8").strip()
    left = {name: list(possible) for name, possible in zones.items()}
    at = {name: possible[0] for name, possible in zones.items()}
    conceded = dict[str, bool]()
    while True:
        variables = {"expires": expires.strftime(EXPIRES), "public_key": public_key, "zones": at, **conceded}
        terraform.last_moment.write_text(json.dumps(variables, indent=2) + "\n", encoding="utf-8")
        for zone, count in Counter(at.values()).items():
            give_back.say(f"asking for {f'{count} x ' if count > 1 else ''}{place.machine} in {zone}")
        try:
            return terraform.apply()
        except TerraformError as error:
            if _concede(str(error), conceded):
                continue
            refused = messages.as_user_error(str(error), place.project, place.machine, next(iter(at.values())))
            if not isinstance(refused, NoCapacityError):
                raise refused from None
        lacking = [name for name, zone in at.items() if not compute.runs(zone, place.instance(name))]
        for name in lacking:
            give_back.say(f"{at[name]} has no {place.hosts[name].machine} left at the moment")
        for name in lacking:
            left[name].remove(at[name])
            if left[name]:
                at[name] = left[name][0]
            else:
                del at[name]
                _spared(place, name, zones[name], at)


def _concede(refused: str, conceded: dict[str, bool]) -> bool:
    """Do without what Google has refused, if a run can; return whether that is new."""
    for name, (words, said) in CONCESSIONS.items():
        if name not in conceded and words.search(refused):
            give_back.say(said)
            conceded[name] = False
            return True
    return False


def _check_deadlines(compute: Compute, made: Mapping[str, dict[str, Any]]) -> None:
    """Raise unless Google itself says of each machine that it deletes it in time: Terraform does not compare that."""
    for name, outputs in made.items():
        wanted = datetime.strptime(outputs["expires"], EXPIRES).replace(tzinfo=UTC)
        found = compute.deadline(outputs["zone"], outputs["instance"])
        if found is None or found > wanted + SLACK:
            until = f"until {found:%Y-%m-%d %H:%M} UTC" if found else "for ever"
            raise NoDeadlineError(
                f"gcp: Google has made {name} ({outputs['instance']}) without the deadline that was asked for: it "
                f"would live {until}, so it is given back at once. Please report it with what `make gcp-report` says"
            )


def _spared(place: GcpPlace, name: str, tried: Sequence[str], there: Collection[str]) -> None:
    """Raise if no zone has the machine of a host, and no spare host can replace it."""
    if len(set(there)) < sum(not host.spare for host in place.hosts.values()):
        raise NoCapacityError(
            f"gcp: no zone has a {place.hosts[name].machine} left at the moment (asked: {', '.join(tried)}): try "
            'again later, or name other zones with SET="gcp.zones=[us-east1-b,us-east1-c]"'
        )
    give_back.say(f"{name} is not available in any zone; the run goes on with the others")


def _running(terraform: Terraform, compute: Compute, place: GcpPlace) -> bool:
    return any(compute.runs(zone, place.instance(name)) for name, zone in terraform.zones().items())


def put_aside(run_dir: Path) -> None:
    """Move the blocks of a lost machine to where no stage reads them: they cannot be compared with new ones."""
    raw = run_dir / "raw"
    # A run of a study that has ended keeps its blocks.
    if is_home(run_dir) or not any(raw.glob("*/*/block.json")):
        return
    number = 1 + len(list(run_dir.glob("raw-of-lost-machine-*")))
    aside = raw.rename(run_dir / f"raw-of-lost-machine-{number}")
    # What the hosts had sent, and the list of lost hosts.
    (run_dir / "host" / "lost.json").unlink(missing_ok=True)
    for path in (run_dir / "host").glob("host[0-9]*/"):
        shutil.rmtree(path)
    give_back.say(
        f"the machine of this run is gone, and blocks of two machines are not compared: they are in {aside}, "
        "and all begin anew"
    )


def _host_keys(compute: Compute, outputs: dict[str, Any], run_dir: Path, name: str) -> Path:
    """Write host/NAME.known_hosts. It is for one machine, so its lines are for any name."""
    path = run_dir / "host" / f"{name}.known_hosts"
    keys = host_keys.published(compute, outputs)
    path.write_text("".join(f"* {key}\n" for key in sorted(keys)), encoding="utf-8")
    return path


def _iap_config(run_dir: Path, outputs: dict[str, Any], name: str) -> str:
    """Write host/NAME.ssh_config, which connects by tsduel.places.gcp.tunnel."""
    path = run_dir / "host" / f"{name}.ssh_config"
    tunnel = ["env", f"PYTHONPATH={PROJECT}", sys.executable, "-m", "tsduel.places.gcp.tunnel"]
    where = [str(outputs[name]) for name in ("instance", "port", "project", "zone")]
    path.write_text(f"Host *\n  ProxyCommand {shlex.join([*tunnel, *where]).replace('%', '%%')}\n", encoding="utf-8")
    return str(path.absolute())
