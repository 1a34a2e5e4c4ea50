"""The part of the Compute Engine v1 REST API that we call ourselves: to verify that nothing is left, and to delete."""

import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tsduel.places.gcp import credentials, messages, report

# Terraform's provider reads the same variable, so both use the same API, also in tests.
ENDPOINT = "GOOGLE_COMPUTE_CUSTOM_ENDPOINT"
DEFAULT_ENDPOINT = "https://compute.googleapis.com/compute/v1/"
REQUEST_S = 30
# Together they wait for more than a minute, after which Google's rates are refilled.
ATTEMPTS = 8
FIRST_WAIT_S = 1.0
LONGEST_WAITS = 20
OPERATION_S = 600
UNREACHABLE = "UNREACHABLE"
UNAUTHORIZED, NOT_FOUND = 401, 404
# States in which a machine does not run, or soon will not. Google does not delete such a machine at its deadline.
STOPPED = {"STOPPING", "STOPPED", "SUSPENDING", "SUSPENDED", "TERMINATED"}
SERVICE_USAGE = "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT"
DEFAULT_SERVICE_USAGE = "https://serviceusage.googleapis.com/v1/"
# The kinds of resources of a run, in the order in which they can be deleted, and their scope.
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
    """One resource of the project: ``scope`` is global, zones/ZONE or regions/REGION."""

    kind: str
    scope: str
    name: str
    labels: dict[str, str]
    description: str
    status: str = ""

    def __str__(self) -> str:
        """Return the name that gcloud's commands use."""
        return f"{self.kind[:-1]} {self.name} ({self.scope.rpartition('/')[2]})"

    @property
    def run(self) -> str:
        """The value of its label tsduel-run; empty without one."""
        return self.labels.get("tsduel-run", "")


def _warns(scope: dict[str, Any]) -> str:
    warning = scope.get("warning")
    return str(warning.get("code")) if isinstance(warning, dict) else ""


class Compute:
    """A project's Compute Engine. Every request that fails raises a ``messages.CloudError``."""

    def __init__(self, project: str, run_dir: Path | None = None) -> None:
        """Take the run whose requests are kept for `make gcp-report`, if they are a run's."""
        self.project = project
        self._run_dir = run_dir
        self.silent = set[str]()
        """Zones and regions that Google could not ask for a list: they may have more than it has."""
        self.endpoint = os.environ.get(ENDPOINT) or DEFAULT_ENDPOINT

    def refuse_silence(self, zones: Iterable[str]) -> None:
        """Raise if a list lacks what is in one of these zones, or in its region."""
        scopes = {scope for zone in zones for scope in (f"zones/{zone}", f"regions/{zone.rpartition('-')[0]}")}
        if silent := sorted(self.silent & scopes):
            said = f"Google does not know what is in {', '.join(silent)} now: try again"
            raise messages.CloudError(0, "unreachable", said)

    def get(self, path: str) -> dict[str, Any]:
        """Return the resource at a path below the project; the empty path is the project itself."""
        return self._call("GET", path)

    def look(self, path: str) -> dict[str, Any]:
        """Return the resource at a path below the project; asked only once."""
        return self._once("GET", self._url(path))

    def find(self, path: str) -> dict[str, Any] | None:
        """Return the resource at a path below the project, None if there is none."""
        try:
            return self.get(path)
        except messages.CloudError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def runs(self, zone: str, instance: str) -> bool:
        """Return whether a machine exists, and neither stops nor has stopped."""
        machine = self.find(f"zones/{zone}/instances/{instance}")
        return machine is not None and machine.get("status") not in STOPPED

    def deadline(self, zone: str, instance: str) -> datetime | None:
        """Return when Google deletes a machine; None if it only stops it then, or never does either."""
        said = self.get(f"zones/{zone}/instances/{instance}").get("scheduling") or {}
        if said.get("instanceTerminationAction") != "DELETE" or not said.get("terminationTime"):
            return None
        return datetime.fromisoformat(said["terminationTime"])

    def address(self, zone: str, instance: str) -> str:
        """Return a machine's present address: the public one changes when Google restarts the machine."""
        card = self.get(f"zones/{zone}/instances/{instance}")["networkInterfaces"][0]
        public = (card.get("accessConfigs") or [{}])[0].get("natIP")
        return str(public or card["networkIP"])

    def lacks_service(self, name: str) -> bool:
        """Return whether an API like iap.googleapis.com is known to be disabled; not every account may see that."""
        endpoint = os.environ.get(SERVICE_USAGE) or DEFAULT_SERVICE_USAGE
        try:
            project = urllib.parse.quote(self.project, safe=":")
            service = self._once("GET", f"{endpoint}projects/{project}/services/{name}")
        except messages.CloudError:
            return False
        return service.get("state") == "DISABLED"

    def all(self, kind: str) -> list[Resource]:
        """Return all resources of a kind in the project that tsduel may have made, by name or label."""
        path = f"global/{kind}" if KINDS[kind] == "global" else f"aggregated/{kind}"
        resources = []
        for item, scope in self._pages(path):
            labels = item.get("labels") or {}
            if str(item["name"]).startswith("tsduel-") or "tsduel-run" in labels:
                texts = (item.get("description") or "", str(item.get("status") or ""))
                resources.append(Resource(kind, scope, item["name"], labels, *texts))
        return resources

    def of_run(self, name: str) -> list[Resource]:
        """Return all resources of one run, in an order in which they can be deleted."""
        names = {name, f"{name}-ssh", f"{name}-nat"}
        return [r for kind in KINDS for r in self.all(kind) if r.run == name or r.name in names]

    def delete(self, resource: Resource) -> None:
        """Delete a resource and wait until it is gone; it may be gone already."""
        path = f"{resource.scope}/{resource.kind}/{urllib.parse.quote(resource.name)}"
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
                late = f"deleting {resource} has not come to its end in {OPERATION_S} s"
                raise messages.CloudError(0, "timeout", late)
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
            operation = self.get(f"{resource.scope}/operations/{urllib.parse.quote(operation['name'])}")
        errors = (operation.get("error") or {}).get("errors") or []
        if errors:
            raise messages.CloudError(0, str(errors[0].get("code")), str(errors[0].get("message")))

    def _pages(self, path: str) -> Iterator[tuple[dict[str, Any], str]]:
        token = ""
        while True:
            page = self.get(f"{path}?maxResults=500" + (f"&pageToken={urllib.parse.quote(token)}" if token else ""))
            items = page.get("items") or {}
            scopes = {"global": {"": items}} if isinstance(items, list) else items
            self.silent |= {scope for scope, own in scopes.items() if _warns(own) == UNREACHABLE}
            self.silent |= {"/".join(str(name).split("/")[-2:]) for name in page.get("unreachables") or ()}
            for scope, scoped in scopes.items():
                for listed in scoped.values():
                    yield from ((item, scope) for item in listed if isinstance(item, dict) and "name" in item)
            token = page.get("nextPageToken") or ""
            if not token:
                return

    def _call(self, method: str, path: str) -> dict[str, Any]:
        url = self._url(path)
        for attempt in range(ATTEMPTS - 1):
            try:
                return self._once(method, url)
            except messages.CloudError as error:
                ended = attempt == 0 and error.status == UNAUTHORIZED and credentials.renew(os.environ)
                if not error.temporary and not ended:
                    raise
            # Google asks for a longer pause after each failure.
            time.sleep(FIRST_WAIT_S * min(2**attempt, LONGEST_WAITS))
        return self._once(method, url)

    def _url(self, path: str) -> str:
        return f"{self.endpoint}projects/{urllib.parse.quote(self.project, safe=':')}{path and '/'}{path}"

    def _once(self, method: str, url: str) -> dict[str, Any]:
        request = urllib.request.Request(url, method=method)  # noqa: S310 - https, or what the user's variable says
        request.add_header("Authorization", f"Bearer {credentials.token(os.environ)}")
        try:
            try:
                with urllib.request.urlopen(request, timeout=REQUEST_S) as answer:  # noqa: S310 - as above
                    body = answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    said = error.read()
                report.note(self._run_dir, report.ASKED, f"{method} {url} {error.code}", said)
                raise messages.from_body(error.code, said) from None
            report.note(self._run_dir, report.ASKED, f"{method} {url} 200", body)
        except (OSError, http.client.HTTPException) as error:
            # Also while the answer is read: TLS and lengths are checked there.
            reason = getattr(error, "reason", None) or str(error) or repr(error)
            raise messages.CloudError(0, "unreachable", f"{self.endpoint} cannot be reached: {reason}") from None
        try:
            document = json.loads(body) if body else {}
        except ValueError:
            document = None
        if not isinstance(document, dict):
            # As of a proxy, or a network that wants a login first.
            no_json = f"{self.endpoint} has answered no JSON object: {body[:80].decode(errors='replace')!r}"
            raise messages.CloudError(0, "unreachable", no_json)
        return document
