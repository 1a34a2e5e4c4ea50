"""`make reap`: whatever of tsduel's is past its deadline in a project, listed, and with YES=1 deleted."""

import os
import re
import sys
from datetime import UTC, datetime

from tsduel.core.errors import UserError
from tsduel.places.gcp import give_back, messages
from tsduel.places.gcp.api import KINDS, Compute, Resource
from tsduel.places.gcp.messages import CloudError
from tsduel.places.gcp.place import PROJECT
from tsduel.places.gcp.provide import EXPIRES

# A network has no labels; terraform/network.tf writes it here.
DESCRIBED = re.compile(r"\bexpires (\d{8}t\d{6}z)\b")
NAME = re.compile(r"tsduel-[a-z0-9-]+")


def expired(compute: Compute, now: datetime) -> dict[str, datetime]:
    """Return name and deadline of every run of which something is there past that deadline, the longest past first."""
    found: dict[str, datetime] = {}
    for kind in ("instances", "disks", "networks"):
        for resource in compute.all(kind):
            name = resource.run or (resource.name if kind == "networks" else "")
            deadline = _deadline(resource)
            if deadline and NAME.fullmatch(name):
                # Several of one run say the same, but for a machine that came later.
                found[name] = max(deadline, found.get(name, deadline))
    return dict(sorted(((n, d) for n, d in found.items() if d < now), key=lambda item: item[1]))


def _deadline(resource: Resource) -> datetime | None:
    described = DESCRIBED.search(resource.description)
    text = resource.labels.get("expires") or (described[1] if described else "")
    try:
        return datetime.strptime(text, EXPIRES).replace(tzinfo=UTC)
    except ValueError:
        return None


def main() -> int:
    """List, and with YES=1 delete; the exit code is 1 while something past its deadline is left."""
    project = os.environ.get("GCP_PROJECT", "").strip()
    if not PROJECT.fullmatch(project):
        raise UserError("reap needs to know where to look: make reap GCP_PROJECT=your-project-id")
    compute = Compute(project)
    try:
        names = expired(compute, datetime.now(UTC))
        if not names:
            print(f"nothing of tsduel's is past its deadline in {project}")
            return 0
        for name, deadline in names.items():
            parts = [r for r in compute.of_run(name) if r.kind in KINDS]
            print(f"{name}: past its deadline since {deadline:%Y-%m-%d %H:%M} UTC: {', '.join(map(str, parts))}")
            if os.environ.get("YES", "").strip() == "1":
                give_back.sweep(parts, compute)
        left = expired(compute, datetime.now(UTC))
    except CloudError as error:
        raise messages.as_user_error(str(error), project) from None
    if left and os.environ.get("YES", "").strip() != "1":
        print(f"to delete all of this: make reap GCP_PROJECT={project} YES=1")
    return 1 if left else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        print(f"tsduel: {error}", file=sys.stderr)
        sys.exit(2)
