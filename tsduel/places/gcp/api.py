"""The little of the Compute Engine v1 REST API that we ask ourselves: to see that nothing is left, and to remove it."""

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tsduel.places.gcp import credentials, messages

# The variable is the one that Terraform's provider reads: both speak to the same API, a test's as well.
ENDPOINT = "GOOGLE_COMPUTE_CUSTOM_ENDPOINT"
DEFAULT_ENDPOINT = "https://compute.googleapis.com/compute/v1/"
REQUEST_S = 30
ATTEMPTS = 6
FIRST_WAIT_S = 1.0
OPERATION_S = 600
NOT_FOUND = 404
# Of a machine that does not run, or soon will not: Google's clock does not run for it either.
STOPPED = {"STOPPING", "STOPPED", "SUSPENDING", "SUSPENDED", "TERMINATED"}
SERVICE_USAGE = "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT"
DEFAULT_SERVICE_USAGE = "https://serviceusage.googleapis.com/v1/"
# Everything a run consists of, in the order in which it can be deleted, and where it lives.
KINDS = {
    "instances": "zones",
    "disks": "zones",
    "firewalls": "global",
    "routers": "regions",
    "subnetworks": "regions",
    "networks": "global",
}


@dataclass(frozen=True)
class Resource:
    """One thing in the project: ``place`` is global, zones/ZONE or regions/REGION."""

    kind: str
    place: str
    name: str
    labels: dict[str, str]
    description: str
    status: str = ""

    def __str__(self) -> str:
        """Name it as gcloud's commands do."""
        return f"{self.kind[:-1]} {self.name} ({self.place.rpartition('/')[2]})"

    @property
    def run(self) -> str:
        """The value of its label tsduel-run; empty where it has none."""
        return self.labels.get("tsduel-run", "")


class Compute:
    """A project's Compute Engine. Every answer that is no success is an ``messages.CloudError``."""

    def __init__(self, project: str) -> None:
        self.project = project
        self.endpoint = os.environ.get(ENDPOINT) or DEFAULT_ENDPOINT

    def get(self, path: str) -> dict[str, Any]:
        """Return what is at a path below the project; the empty path is the project itself."""
        return self._call("GET", path)

    def exists(self, path: str) -> bool:
        """Return whether there is something at a path below the project."""
        try:
            self.get(path)
        except messages.CloudError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    def runs(self, zone: str, instance: str) -> bool:
        """Return whether a machine is there and not on its way out."""
        try:
            found = self.get(f"zones/{zone}/instances/{instance}")
        except messages.CloudError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return found.get("status") not in STOPPED

    def address(self, zone: str, instance: str) -> str:
        """Return where a machine is reached now: one that Google has started again may have another public address."""
        card = self.get(f"zones/{zone}/instances/{instance}")["networkInterfaces"][0]
        public = (card.get("accessConfigs") or [{}])[0].get("natIP")
        return str(public or card["networkIP"])

    def lacks_service(self, name: str) -> bool:
        """Return whether an API like iap.googleapis.com is known not to be enabled; an account need not see that."""
        endpoint = os.environ.get(SERVICE_USAGE) or DEFAULT_SERVICE_USAGE
        try:
            project = urllib.parse.quote(self.project, safe=":")
            found = self._once("GET", f"{endpoint}projects/{project}/services/{name}")
        except messages.CloudError:
            return False
        return found.get("state") == "DISABLED"

    def all(self, kind: str) -> list[Resource]:
        """Return every resource of a kind in the project that tsduel may have made: by its name or its label."""
        path = f"global/{kind}" if KINDS[kind] == "global" else f"aggregated/{kind}"
        found = []
        for item, place in self._pages(path):
            labels = item.get("labels") or {}
            if str(item["name"]).startswith("tsduel-") or "tsduel-run" in labels:
                told = (item.get("description") or "", str(item.get("status") or ""))
                found.append(Resource(kind, place, item["name"], labels, *told))
        return found

    def of_run(self, name: str) -> list[Resource]:
        """Return everything of one run, in an order in which it can be deleted."""
        names = {name, f"{name}-ssh", f"{name}-between", f"{name}-nat"}
        return [r for kind in KINDS for r in self.all(kind) if r.run == name or r.name in names]

    def delete(self, resource: Resource) -> None:
        """Delete and wait until it is gone; what is not there any more is what was wanted."""
        path = f"{resource.place}/{resource.kind}/{urllib.parse.quote(resource.name)}"
        try:
            operation = self._call("DELETE", path)
            self._wait(operation, resource)
        except messages.CloudError as error:
            if error.status != NOT_FOUND:
                raise

    def _wait(self, operation: dict[str, Any], resource: Resource) -> None:
        deadline = time.monotonic() + OPERATION_S
        pause = 0.2
        while operation.get("status") != "DONE":
            if time.monotonic() > deadline:
                raise messages.CloudError(
                    0, "timeout", f"deleting {resource} has not come to its end in {OPERATION_S} s"
                )
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
            operation = self.get(f"{resource.place}/operations/{urllib.parse.quote(operation['name'])}")
        errors = (operation.get("error") or {}).get("errors") or []
        if errors:
            raise messages.CloudError(0, str(errors[0].get("code")), str(errors[0].get("message")))

    def _pages(self, path: str) -> Iterator[tuple[dict[str, Any], str]]:
        token = ""
        while True:
            page = self.get(f"{path}?maxResults=500" + (f"&pageToken={urllib.parse.quote(token)}" if token else ""))
            items = page.get("items") or {}
            if isinstance(items, list):
                yield from ((item, "global") for item in items)
            else:
                for place, scoped in items.items():
                    for found in scoped.values():
                        yield from ((item, place) for item in found if isinstance(item, dict) and "name" in item)
            token = page.get("nextPageToken") or ""
            if not token:
                return

    def _call(self, method: str, path: str) -> dict[str, Any]:
        url = f"{self.endpoint}projects/{urllib.parse.quote(self.project, safe=':')}"
        if path:
            url += f"/{path}"
        wait = FIRST_WAIT_S
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._once(method, url)
            except messages.CloudError as error:
                # Google asks to try again after these, ever more slowly.
                if attempt == ATTEMPTS or not error.temporary:
                    raise
            time.sleep(wait)
            wait *= 2
        raise AssertionError

    def _once(self, method: str, url: str) -> dict[str, Any]:
        request = urllib.request.Request(url, method=method)  # noqa: S310 - https, or what the user's variable says
        request.add_header("Authorization", f"Bearer {credentials.token(os.environ)}")
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:  # noqa: S310 - as above
                body = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise messages.from_body(error.code, error.read()) from None
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", error)
            raise messages.CloudError(0, "unreachable", f"{self.endpoint} cannot be reached: {reason}") from None
        found: dict[str, Any] = json.loads(body) if body else {}
        return found
