"""The machines go, and nothing of them stays: Terraform deletes, Google's API is asked whether that is true."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.core.plan import GcpPlace
from tsduel.places import hosts
from tsduel.places.gcp import messages, os_login
from tsduel.places.gcp.api import Compute, Resource
from tsduel.places.gcp.messages import CloudError
from tsduel.places.gcp.terraform import Terraform, TerraformError

AT_ONCE = 16


def say(text: str) -> None:
    """Words are for stderr."""
    print(f"gcp: {text}", file=sys.stderr, flush=True)


def main(run_dir: Path, place: GcpPlace) -> None:
    """Delete everything of a run and verify it; a UserError lists what is left and how to delete it by hand.

    The machines themselves go first and through the API: they cost money, and Terraform does not know of one that came
    after it had given up waiting.
    """
    mind_signals()
    terraform, compute, name = Terraform.of(run_dir), Compute(place.project), place.name
    zone = place.zones[0]
    try:
        sweep([r for r in compute.of_run(name) if r.kind == "instances"], compute)
        failure = _by_terraform(terraform)
        sweep(compute.of_run(name), compute)
        left = compute.of_run(name)
    except CloudError as error:
        hours = place.lifetime_s / 3600
        reason = messages.sentence(str(error), place.project, place.machine, zone)
        raise UserError(
            f"gcp: it is not known whether everything of {name} is gone: {reason}. Then: make destroy "
            f"RUN={run_dir.name} (while it runs, Google deletes the machine {hours:.1f} h after it was asked for)"
        ) from None
    if left:
        raise UserError(_list(left, place.project))
    if failure:
        reason = messages.sentence(failure, place.project, place.machine, zone)
        say(f"Terraform could not delete it all ({reason}); Google's API did")
    if place.os_login:
        os_login.forget(run_dir, place, os.environ)
    # Nothing there is true any more, and a next machine begins with a new deadline. Its key goes with the machine.
    of_the_machines = ("inventory.json", "lent.json", "key", "key.pub", "*known_hosts", "*ssh_config")
    there = (path for name in of_the_machines for path in (run_dir / "host").glob(name))
    for path in (terraform.state, terraform.last_moment, *there):
        path.unlink(missing_ok=True)
    hosts.write(run_dir, kind="gcp", hosts={}, provisioned=False)
    say(f"nothing of {name} is left in {place.project}")


def mind_signals() -> None:
    """Have the end of a session end us as Ctrl-C does: with a last word to Terraform, and what follows from it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


@contextmanager
def unless_whole(run_dir: Path, place: GcpPlace, environment: Mapping[str, str]) -> Iterator[None]:
    """Have what fails in here, or is interrupted, leave nothing behind; see `after_failure`."""
    try:
        yield
    except (UserError, KeyboardInterrupt) as error:
        raised = error if isinstance(error, UserError) else UserError("gcp: interrupted")
        raise after_failure(run_dir, place, environment, raised) from None


def after_failure(run_dir: Path, place: GcpPlace, environment: Mapping[str, str], error: UserError) -> UserError:
    """Give the machine back unless KEEP=1, and return the error with a sentence on what became of it."""
    if environment.get("KEEP", "").strip() == "1":
        return type(error)(
            f"{error}\ngcp: KEEP=1: what was made is kept; delete it with: make destroy RUN={run_dir.name}"
        )
    try:
        main(run_dir, place)
    except UserError as left:
        return type(error)(f"{error}\n{left}")
    return error


def sweep(resources: list[Resource], compute: Compute) -> None:
    """Delete through the API, kind by kind in the given order; what cannot be deleted is said, and listed as left."""
    for _, alike in groupby(resources, key=lambda resource: resource.kind):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for said in pool.map(partial(_delete, compute), alike):
                say(said)


def _delete(compute: Compute, resource: Resource) -> str:
    try:
        compute.delete(resource)
    except CloudError as error:
        return f"{resource} could not be deleted: {error}"
    return f"{resource} is deleted"


def _by_terraform(terraform: Terraform) -> str:
    """Return what Terraform had to complain about."""
    if not terraform.state.exists():
        return ""
    try:
        terraform.prepare()
        terraform.destroy()
    except (TerraformError, UserError) as error:
        return str(error)
    return ""


def _list(left: list[Resource], project: str) -> str:
    lines = [f"gcp: this is left in {project} and costs money or quota; delete it by hand:"]
    for resource in left:
        kind = {"subnetworks": "networks subnets", "firewalls": "firewall-rules"}.get(resource.kind, resource.kind)
        scope, _, where = resource.place.partition("/")
        option = {"zones": f" --zone={where}", "regions": f" --region={where}"}.get(scope, "")
        lines.append(f"gcloud compute {kind} delete {resource.name}{option} --project={project} --quiet")
    return "\n".join(lines)
