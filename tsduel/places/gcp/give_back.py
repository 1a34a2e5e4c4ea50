"""Deletes the machines of a run with Terraform, and verifies with Google's API that nothing is left."""

import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path

from tsduel.core import files
from tsduel.core.children import mind_signals
from tsduel.core.errors import UserError
from tsduel.core.place import GcpPlace
from tsduel.places import hosts
from tsduel.places.gcp import messages, os_login
from tsduel.places.gcp.api import Compute, Resource
from tsduel.places.gcp.messages import CloudError, NoDeadlineError
from tsduel.places.gcp.terraform import Terraform, TerraformError

AT_ONCE = 16


def say(text: str) -> None:
    """Print a line on stderr."""
    print(f"gcp: {text}", file=sys.stderr, flush=True)


def main(run_dir: Path, place: GcpPlace) -> None:
    """Delete everything of a run and verify it; a UserError lists what is left and how to delete it by hand.

    The machines go first and through the API: they cost most, and Terraform does not know a machine that came after
    Terraform stopped waiting.
    """
    mind_signals()
    terraform, compute, name = Terraform(run_dir), Compute(place.project, run_dir), place.name
    zone = place.zones[0]
    try:
        sweep([r for r in compute.of_run(name) if r.kind == "instances"], compute)
        failure = _by_terraform(terraform)
        sweep(compute.of_run(name), compute)
        left = compute.of_run(name)
        compute.refuse_silence(place.zones)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, machines may be left
        hours = place.lifetime_s / 3600
        reason = messages.sentence(_said(error), place.project, place.machine, zone)
        raise UserError(
            f"gcp: it is not known whether everything of {name} is gone: {reason}. Then: make destroy "
            f"RUN={run_dir.name} (while it runs, Google deletes the machine {hours:.1f} h after it was asked for); "
            f"what is there: gcloud compute instances list --project={place.project} --filter=labels.tsduel-run={name}"
        ) from None
    if left:
        raise UserError(_list(left, place.project))
    if failure:
        reason = messages.sentence(failure, place.project, place.machine, zone)
        say(f"Terraform could not delete it all ({reason}); Google's API did")
    if place.os_login:
        os_login.forget(run_dir, place, os.environ)
    gone = f"nothing of {name} is left in {place.project}"
    try:
        _forget(run_dir, terraform)
    except OSError as error:
        raise UserError(f"gcp: {gone}, but {files.sentence(error) or error}") from None
    say(gone)


def _forget(run_dir: Path, terraform: Terraform) -> None:
    """Remove the files about these machines: other machines get another deadline and another key."""
    patterns = ("inventory.json", "key", "key.pub", "*known_hosts", "*ssh_config")
    found = (path for pattern in patterns for path in (run_dir / "host").glob(pattern))
    for path in (terraform.state, terraform.last_moment, *found):
        path.unlink(missing_ok=True)
    hosts.write(run_dir, {}, provisioned=False)


def _said(error: BaseException) -> str:
    """Return an error's text; a defect's with its name, since a KeyError says nothing but the key."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) if isinstance(error, CloudError | OSError | TerraformError | UserError) else repr(error)


@contextmanager
def on_failure(run_dir: Path, place: GcpPlace, environment: Mapping[str, str], *, kept: str = "") -> Iterator[None]:
    """Give the machines back if the body fails or is interrupted, unless KEEP=1 or ``kept`` says why not.

    Every error that is not a defect becomes a UserError, which says what became of the machines.
    """
    try:
        yield
    except BaseException as error:
        fate = ""
        kept = kept or ("KEEP=1" if environment.get("KEEP", "").strip() == "1" else "")
        if kept and not isinstance(error, NoDeadlineError):
            fate = f"\ngcp: {kept}: what was made is kept; delete it with: make destroy RUN={run_dir.name}"
        else:
            try:
                main(run_dir, place)
            except UserError as left:
                fate = f"\n{left}"
        if raised := _for_user(error, run_dir, place):
            raise type(raised)(f"{raised}{fate}") from None
        sys.stderr.write(fate and f"{fate.strip()}\n")
        raise


def _for_user(error: BaseException, run_dir: Path, place: GcpPlace) -> UserError | None:
    """Return the sentence of an error; None for a defect of ours."""
    if isinstance(error, CloudError | TerraformError):
        zone = next(iter(Terraform(run_dir).zones().values()), place.zones[0])
        return messages.as_user_error(str(error), place.project, place.machine, zone)
    if isinstance(error, KeyboardInterrupt):
        return UserError("gcp: interrupted")
    if isinstance(error, OSError) and (sentence := files.sentence(error)):
        return UserError(f"gcp: {sentence}")
    return error if isinstance(error, UserError) else None


def sweep(resources: list[Resource], compute: Compute) -> None:
    """Delete through the API, kind by kind in the given order, and print what was and what was not deleted."""
    for _, alike in groupby(resources, key=lambda resource: resource.kind):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for text in pool.map(partial(_delete, compute), alike):
                say(text)


def _delete(compute: Compute, resource: Resource) -> str:
    try:
        compute.delete(resource)
    except CloudError as error:
        return f"{resource} could not be deleted: {error}"
    return f"{resource} is deleted"


def _by_terraform(terraform: Terraform) -> str:
    """Have Terraform delete what it knows; return its error, or ""."""
    if not terraform.state.exists():
        return ""
    try:
        terraform.prepare()
        terraform.destroy()
    except Exception as error:  # noqa: BLE001 - whatever it is (a full disk), Google's API deletes the rest
        return _said(error)
    return ""


def _list(left: list[Resource], project: str) -> str:
    lines = [f"gcp: this is left in {project} and costs money or quota; delete it by hand:"]
    for resource in left:
        kind = {"subnetworks": "networks subnets", "firewalls": "firewall-rules"}.get(resource.kind, resource.kind)
        scope, _, where = resource.scope.partition("/")
        option = {"zones": f" --zone={where}", "regions": f" --region={where}"}.get(scope, "")
        lines.append(f"gcloud compute {kind} delete {resource.name}{option} --project={project} --quiet")
    return "\n".join(lines)
