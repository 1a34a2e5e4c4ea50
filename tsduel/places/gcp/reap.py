"""`make reap` lists tsduel's resources that are past their deadline or have stopped; with YES=1 it deletes them."""

import os
import re
from datetime import UTC, datetime

from tsduel.core.errors import UserError
from tsduel.places.gcp import give_back, messages
from tsduel.places.gcp.api import STOPPED, Compute, Resource
from tsduel.places.gcp.messages import CloudError
from tsduel.places.gcp.place import PROJECT
from tsduel.places.gcp.provide import EXPIRES

# A network has no labels; terraform/network.tf writes the deadline into its description.
DESCRIBED = re.compile(r"\bexpires (\d{8}t\d{6}z)\b")
NAME = re.compile(r"tsduel-[a-z0-9-]+")


def overdue(compute: Compute, now: datetime) -> dict[str, str]:
    """Return name and reason of each run that should have nothing left, the oldest first.

    A run whose machines have all stopped counts: nothing runs on them, and Google does not delete them at their
    deadline.
    """
    deadlines: dict[str, datetime] = {}
    statuses: dict[str, set[str]] = {}
    for kind in ("instances", "disks", "networks"):
        for resource in compute.all(kind):
            name = resource.run or (resource.name if kind == "networks" else "")
            deadline = _deadline(resource)
            if deadline and NAME.fullmatch(name):
                # A machine that was rented later has a later deadline.
                deadlines[name] = max(deadline, deadlines.get(name, deadline))
                if kind == "instances":
                    statuses.setdefault(name, set()).add(resource.status)
    reasons = {}
    for name, deadline in sorted(deadlines.items(), key=lambda item: item[1]):
        if deadline < now:
            reasons[name] = f"past its deadline since {deadline:%Y-%m-%d %H:%M} UTC"
        elif name in statuses and statuses[name] <= set(STOPPED):
            reasons[name] = "all of its machines have stopped, so that Google does not delete them at their deadline"
    return reasons


def _deadline(resource: Resource) -> datetime | None:
    described = DESCRIBED.search(resource.description)
    text = resource.labels.get("expires") or (described[1] if described else "")
    try:
        return datetime.strptime(text, EXPIRES).replace(tzinfo=UTC)
    except ValueError:
        return None


def main() -> int:
    """List, and with YES=1 delete; the exit code is 1 while some of it is left."""
    project = os.environ.get("GCP_PROJECT", "").strip()
    if not PROJECT.fullmatch(project):
        raise UserError("reap needs to know where to look: make reap GCP_PROJECT=your-project-id")
    compute, agreed = Compute(project), os.environ.get("YES", "").strip() == "1"
    try:
        names = overdue(compute, datetime.now(UTC))
        if not names and not compute.silent:
            print(f"nothing of tsduel's is past its deadline in {project}")
            return 0
        for name, reason in names.items():
            parts = compute.of_run(name)
            print(f"{name}: {reason}: {', '.join(map(str, parts))}")
            if agreed:
                give_back.sweep(parts, compute)
        left = overdue(compute, datetime.now(UTC))
    except CloudError as error:
        raise messages.as_user_error(str(error), project) from None
    if left and not agreed:
        print(f"to delete all of this: make reap GCP_PROJECT={project} YES=1")
    if compute.silent:
        where = ", ".join(sorted(compute.silent))
        print(f"Google does not know what is in {where} now, where something may be left: try again later")
    return 1 if left or compute.silent else 0
