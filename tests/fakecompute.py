"""A small Compute Engine v1 REST API on loopback: networks, subnetworks, firewalls, routers, disks and instances.

Enough for Terraform's google provider to create, read and delete them, and for what we ask ourselves. It refuses as
Google does: unknown projects, wrong tokens, names that are taken, networks in use. Every change is an operation.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROJECT = "tsduel-test"
TOKEN = "a-token-of-the-test"  # noqa: S105 - it opens nothing
ACCOUNT = "me@example.com"
ZONES = ("us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f")
MACHINES = {"e2-standard-2": 2} | {f"{series}-standard-8": 8 for series in ("e2", "n2", "n2d", "c3", "c4")}
DISKS = ("pd-balanced", "pd-ssd", "hyperdisk-balanced")
IMAGE = "debian-12-bookworm-v20261006"
FAMILIES = {"debian-12": IMAGE, "debian-13": "debian-13-trixie-v20261006"}
HOST_KEYS = ("ecdsa-sha2-nistp256 AAAAFake", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFake", "ssh-rsa AAAAFake")
KINDS = ("networks", "subnetworks", "firewalls", "routers", "disks", "instances")
# So many questions in so many seconds about the guest attributes of one machine.
ATTRIBUTES_TIMES, ATTRIBUTES_S = 10, 60.0
# What provider 7.x has asked for machines of ours with (tests/test_terraform.py): nothing else may be asked for.
REQUEST, OF_AN_ORGANISATION = (
    json.loads((Path(__file__).parent / "golden" / f"{name}.json").read_text())
    for name in ("instance-request", "instance-request-organisation")
)
PLACE = r"(?P<place>global|regions/[^/]+|zones/[^/]+)"


class RefusalError(Exception):
    """An answer that is no success, as Google words it."""

    def __init__(self, status: int, reason: str, message: str, detail: str = "", **metadata: str) -> None:
        """Take what is in ``errors``, and the reason and the metadata of ``details`` where there is one."""
        super().__init__(message)
        self.status, self.reason, self.detail, self.metadata = status, reason, detail, metadata

    def body(self) -> dict[str, Any]:
        """Google's JSON."""
        item = {"message": str(self), "domain": "global", "reason": self.reason}
        error: dict[str, Any] = {"code": self.status, "message": str(self), "errors": [item]}
        if self.detail:
            kind = "type.googleapis.com/google.rpc.ErrorInfo"
            info = {"@type": kind, "reason": self.detail, "domain": "googleapis.com", "metadata": self.metadata}
            error |= {"status": "PERMISSION_DENIED", "details": [info]}
        return {"error": error}


# What Google answers: when a quota is used up, an API was never enabled, a role is missing, or it is overloaded.
QUOTA_EXCEEDED = RefusalError(403, "quotaExceeded", "Quota 'CPUS' exceeded.  Limit: 8.0 in region us-central1.")
API_DISABLED = RefusalError(
    403,
    "accessNotConfigured",
    "Compute Engine API has not been used in project 123456789 before or it is disabled. Enable it by visiting the "
    "console then retry. If you enabled this API recently, wait a few minutes and retry.",
)
NO_PERMISSION = RefusalError(
    403, "forbidden", f"Required 'compute.networks.create' permission for 'projects/{PROJECT}/global/networks/n'"
)
UNAVAILABLE = RefusalError(503, "backendError", "Service Unavailable")
# Google's rates are by the minute, and what is beyond them is no 429.
RATE_EXCEEDED = RefusalError(
    403,
    "rateLimitExceeded",
    "Quota exceeded for quota metric 'Read requests' and limit 'Read requests per minute' of service "
    "'compute.googleapis.com' for consumer 'project_number:123456789'.",
    "RATE_LIMIT_EXCEEDED",
    quota_metric="compute.googleapis.com/read_requests",
)
TOO_MANY_OPERATIONS = RefusalError(
    403, "forbidden", "Too many concurrent operations.", "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED"
)
NOT_READY = RefusalError(400, "resourceNotReady", f"The resource 'projects/{PROJECT}/global/networks/n' is not ready")
# What an account gets that may not see the project, or whose project there is none.
NO_PROJECT = RefusalError(
    403, "forbidden", "Permission denied on resource project no-such-project.", "CONSUMER_INVALID",
    consumer="projects/no-such-project",
)  # fmt: skip


def violated(constraint: str) -> RefusalError:
    """Return what Google answers where an organisation policy forbids something: ``managed.X`` is the newer kind."""
    said = f"Constraint constraints/compute.{constraint} violated for project 1."
    if constraint.startswith("managed."):
        said = f'Operation denied by org policy: ["constraints/compute.{constraint}" : "It is not allowed here."].'
    return RefusalError(412, "conditionNotMet", said)


def exhausted(zone: str) -> dict[str, Any]:
    """Return the error of an operation in a zone that has no such machine left."""
    message = (
        f"The zone 'projects/{PROJECT}/zones/{zone}' does not have enough resources available to fulfill the request.  "
        "Try a different zone, or try again later."
    )
    return {"errors": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": message}]}


def _names(given: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield each name in what is asked, and where it stands; of labels any may be asked for."""
    for each in given if isinstance(given, list) else ():
        yield from _names(each, where)
    if isinstance(given, dict) and not where.endswith(("labels", "Tags")):
        for name, value in given.items():
            if value not in (None, "", 0, "0", [], {}, [None]):  # what is not said is not checked
                yield where, name
                yield from _names(value, f"{where}.{name}")


KNOWN_NAMES = {*_names(REQUEST), *_names(OF_AN_ORGANISATION)}


@dataclass
class FakeCompute:
    """The API and all that is in its one project. ``requests`` are method and path of every call, in order."""

    boot: Callable[[dict[str, Any]], str] = lambda _: "203.0.113.10"
    shut_down: Callable[[dict[str, Any]], None] = lambda _: None
    host_keys: Callable[[str], list[str]] = lambda _: list(HOST_KEYS)
    # Each is asked before a request is acted on; the first that returns something has that as its answer.
    faults: list[Callable[[str, str], RefusalError | None]] = field(default_factory=list)
    # How many more machines a zone has, where they come to an end.
    left: dict[str, int] = field(default_factory=dict)
    # A zone, and the types of machine or disk that it never has.
    lacking: set[tuple[str, str]] = field(default_factory=set)
    # Limit and use of a quota, wherever it is the project's or a region's.
    quotas: dict[str, tuple[float, float]] = field(default_factory=dict)
    disabled: set[str] = field(default_factory=set)
    # Policies of the organisation; "restart": Google refuses a time limit beside an automatic restart.
    policies: set[str] = field(default_factory=set)
    # Whether a time limit is forgotten.
    forgetful: bool = False
    keys_at_a_time: int = 10
    console: str = ""
    # Zones that do not answer Google: lists say so, and have nothing of them.
    silent: set[str] = field(default_factory=set)
    # Token -> the account whose it is; `/oauth2/token` issues more of them.
    tokens: dict[str, str] = field(default_factory=lambda: {TOKEN: ACCOUNT})
    stuck: Callable[[dict[str, Any]], bool] = lambda _: False
    stuck_creates: bool = True  # whether the thing exists whose operation is stuck
    asked: list[dict[str, Any]] = field(default_factory=list)
    things: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen on a port of our own."""
        self._numbers = itertools.count(1)
        self._attributes_asked: dict[str, list[float]] = {}
        self._addresses = itertools.count(2)
        self._lock = threading.RLock()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                sent = self.rfile.read(length)
                body = json.loads(sent) if sent.startswith(b"{") else {}
                token = self.headers.get("Authorization", "")
                try:
                    status, found = 200, api.answer(self.command, self.path, token, body)
                except RefusalError as refusal:
                    status, found = refusal.status, refusal.body()
                text = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json; charset=UTF-8")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                with contextlib.suppress(BrokenPipeError):
                    self.wfile.write(text)

            do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _answer  # noqa: N815 - the names are the library's

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/compute/v1/"

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()

    def environment(self) -> dict[str, str]:
        """Return what makes Terraform's provider, and us, speak to this API."""
        services = self.url.replace("/compute/v1/", "/v1/")
        found = {"GOOGLE_COMPUTE_CUSTOM_ENDPOINT": self.url, "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT": services}
        found["GOOGLE_OAUTH2_CUSTOM_ENDPOINT"] = self.url.replace("/compute/v1/", "/oauth2/")
        return found | {"GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN}

    def names(self) -> list[str]:
        """Return kind and name of all that exists."""
        return sorted(f"{t['kind'].partition('#')[2]} {t['name']}" for t in self.things.values())

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the bodies of one kind, like instances."""
        return [t for path, t in self.things.items() if path.split("/")[-2] == kind]

    def preempt(self, ending: str = "") -> None:
        """Take every instance away, or those whose names end so, as Google does with spot machines and at their end."""
        with self._lock:
            for path in [p for p in self.things if "/instances/" in p and p.endswith(ending)]:
                self._remove(path)

    def answer(self, method: str, url: str, authorization: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON of one request."""
        with self._lock:
            path, _, query = urllib.parse.unquote(url).partition("?")
            if path.startswith("/oauth2/"):
                return self._about_tokens(path, query)
            path = path.removeprefix("/compute").removeprefix("/v1/")
            self.requests.append(f"{method} {path}")
            if authorization.removeprefix("Bearer ") not in self.tokens:
                raise RefusalError(401, "authError", "Request had invalid authentication credentials.")
            for fault in self.faults:
                if refusal := fault(method, path):
                    raise refusal
            owner, _, rest = path.removeprefix("projects/").partition("/")
            if rest.startswith("global/images/"):
                return self._image(owner, rest)
            if owner != PROJECT:
                raise RefusalError(404, "notFound", f"The resource 'projects/{owner}' was not found")
            return self._act(method, rest, body, query)

    def _act(  # noqa: C901, PLR0911, PLR0912 - a table of what the API has
        self, method: str, path: str, body: dict[str, Any], query: str
    ) -> dict[str, Any]:
        if not path or re.fullmatch(r"regions/[^/]+", path):
            quotas = [{"metric": k, "limit": v[0], "usage": v[1]} for k, v in self.quotas.items()]
            return {"name": path or PROJECT, "selfLink": self._link(path), "quotas": quotas}
        if found := re.fullmatch(r"services/(?P<name>[^/]+)", path):
            return {"state": "DISABLED" if found["name"] in self.disabled else "ENABLED"}
        if found := re.fullmatch(rf"{PLACE}/operations/(?P<name>[^/]+)", path):
            return self._operation(found["name"])
        if found := re.fullmatch(r"aggregated/(?P<kind>[a-z]+)", path):
            return self._aggregated(found["kind"])
        if found := re.fullmatch(r"zones/(?P<zone>[^/]+)(/(?P<kind>machineTypes|diskTypes)/(?P<name>[^/]+))?", path):
            return self._zone(path, found["zone"], found["kind"], found["name"])
        if found := re.fullmatch(rf"{PLACE}/instances/(?P<name>[^/]+)/getGuestAttributes", path):
            return self._guest_attributes(f"{found['place']}/instances/{found['name']}", query)
        if re.fullmatch(rf"{PLACE}/instances/(?P<name>[^/]+)/serialPort", path):
            return {"contents": self.console}
        if found := re.fullmatch(rf"{PLACE}/(?P<kind>[a-zA-Z]+)", path):
            if method == "POST":
                return self._insert(found["place"], found["kind"], body)
            return {"items": self.of_kind(found["kind"])}
        if path not in self.things:
            raise RefusalError(404, "notFound", f"The resource 'projects/{PROJECT}/{path}' was not found")
        if method == "GET":
            return self.things[path]
        if method == "DELETE":
            return self._delete(path)
        if method in {"PATCH", "PUT"} and "/routers/" in path:
            self.things[path] |= body
            return self._done(path, "update")
        raise RefusalError(501, "notImplemented", f"{method} {path}")

    def expire(self) -> None:
        """Accept no token any more that was issued until now."""
        self.tokens.clear()

    def _about_tokens(self, path: str, query: str) -> dict[str, Any]:
        if path == "/oauth2/token":
            issued = f"token-{next(self._numbers)}"
            self.tokens[issued] = ACCOUNT
            return {"access_token": issued, "expires_in": 3600, "token_type": "Bearer"}
        token = query.removeprefix("access_token=")
        if path != "/oauth2/tokeninfo" or token not in self.tokens:
            raise RefusalError(400, "invalid_token", "Invalid Value")
        return {"expires_in": "3599"} | ({"email": self.tokens[token]} if self.tokens[token] else {})

    def _link(self, path: str) -> str:
        return f"{self.url}projects/{PROJECT}" + (f"/{path}" if path else "")

    def _image(self, owner: str, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if path.startswith("global/images/family/"):
            name = FAMILIES.get(name, "")
        if owner != "debian-cloud" or not name.startswith(tuple(f"{family}-" for family in FAMILIES)):
            raise RefusalError(404, "notFound", f"The resource 'projects/{owner}/{path}' was not found")
        return {"name": name, "selfLink": f"{self.url}projects/{owner}/{path}", "diskSizeGb": "10"}

    def _zone(self, path: str, zone: str, kind: str | None, name: str | None) -> dict[str, Any]:
        known = {"machineTypes": MACHINES, "diskTypes": DISKS, None: (None,)}[kind]
        if zone not in ZONES or name not in known or (zone, name) in self.lacking:
            raise RefusalError(404, "notFound", f"The resource 'projects/{PROJECT}/{path}' was not found")
        return {"name": name or zone, "selfLink": self._link(path), "status": "UP", "guestCpus": MACHINES.get(name)}

    def _guest_attributes(self, path: str, query: str) -> dict[str, Any]:
        asked = self._attributes_asked.setdefault(path, [])
        asked[:] = [at for at in asked if at > time.monotonic() - ATTRIBUTES_S] + [time.monotonic()]
        if len(asked) > ATTRIBUTES_TIMES:
            # "Compute Engine might arbitrarily remove guest attributes."
            self.host_keys = lambda _: []
        items = self.things.get(path, {}).get("metadata", {}).get("items", [])
        hidden = any(item["key"] == "enable-guest-attributes" and item["value"] == "FALSE" for item in items)
        if path not in self.things or "hostkeys/" not in query or hidden:
            raise RefusalError(404, "notFound", f"The resource '{path}' was not found")
        # The guest's agent writes one after the other.
        keys = [line.split() for line in self.host_keys(path)][: self.keys_at_a_time * len(asked)]
        return {"queryValue": {"items": [{"namespace": "hostkeys", "key": k[0], "value": k[1]} for k in keys]}}

    def _aggregated(self, kind: str) -> dict[str, Any]:
        places: dict[str, Any] = {f"zones/{zone}": {"warning": {"code": "NO_RESULTS_ON_PAGE"}} for zone in ZONES}
        places |= {f"zones/{zone}": {"warning": {"code": "UNREACHABLE"}} for zone in self.silent}
        for path, thing in self.things.items():
            place, _, rest = path.rpartition(f"/{kind}/")
            if place and rest and place.removeprefix("zones/") not in self.silent:
                places.setdefault(place, {}).pop("warning", None)
                places[place].setdefault(kind, []).append(thing)
        return {"items": places}

    def _insert(self, place: str, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        if kind not in KINDS:
            raise RefusalError(404, "notFound", f"no {kind} here")
        path = f"{place}/{kind}/{body['name']}"
        if path in self.things:
            raise RefusalError(409, "alreadyExists", f"The resource 'projects/{PROJECT}/{path}' already exists")
        if kind == "instances":
            return self._insert_instance(place, path, body)
        self._add(path, body)
        return self._done(path, "insert")

    def _insert_instance(self, place: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        zone, machine = place.rpartition("/")[2], body["machineType"].rpartition("/")[2]
        if machine not in MACHINES:
            message = (
                f"Invalid value for field 'resource.machineType': '{body['machineType']}'. Machine type with name "
                f"'{machine}' does not exist in zone '{zone}'."
            )
            raise RefusalError(400, "invalid", message)
        self.asked.append(json.loads(json.dumps(body)))
        for where, name in _names(body):
            if (where, name) not in KNOWN_NAMES:
                raise RefusalError(400, "invalid", f'Invalid JSON payload received. Unknown name "{name}" at {where!r}')
        self._check_scheduling(body.get("scheduling") or {})
        items = {item["key"]: item["value"] for item in body.get("metadata", {}).get("items") or []}
        if "managed.disableGuestAttributesAccess" in self.policies and items.get("enable-guest-attributes") == "TRUE":
            raise violated("managed.disableGuestAttributesAccess")
        if self.left.get(zone, 1) < 1:
            return self._done(path, "insert", error=exhausted(zone))
        if zone in self.left:
            self.left[zone] -= 1
        stuck = self.stuck(body)
        if not stuck or self.stuck_creates:
            self._add_instance(place, path, body)
        return self._done(path, "insert", stuck=stuck)

    def _check_scheduling(self, asked: dict[str, Any]) -> None:
        """Refuse what Google's documentation of time limits, spot machines and host events says is not possible."""

        def refuse(name: str, why: str) -> None:
            message = f"Invalid value for field 'resource.scheduling.{name}': '{asked.get(name)}'. {why}"
            raise RefusalError(400, "invalid", message)

        limited = "terminationTime" in asked or "maxRunDuration" in asked
        if limited and "instanceTerminationAction" not in asked:
            refuse("instanceTerminationAction", "A machine with a time limit needs an action for its end.")
        if "instanceTerminationAction" in asked and not limited and asked.get("provisioningModel") != "SPOT":
            refuse("instanceTerminationAction", "It is for machines with a time limit, and spot machines.")
        if "terminationTime" in asked and datetime.fromisoformat(asked["terminationTime"]) < datetime.now(UTC):
            refuse("terminationTime", "It is in the past.")
        spot = asked.get("provisioningModel") == "SPOT" or asked.get("preemptible")
        if asked.get("automaticRestart") and (spot or (limited and "restart" in self.policies)):
            refuse("automaticRestart", "Scheduling must have automaticRestart be false.")
        if spot and asked.get("onHostMaintenance") == "MIGRATE":
            refuse("onHostMaintenance", "A spot machine is not migrated.")

    def _add_instance(self, place: str, path: str, body: dict[str, Any]) -> None:
        disk = body["disks"][0]
        asked = disk.pop("initializeParams")
        disk_path = f"{place}/disks/{body['name']}"
        made = {"name": body["name"], "labels": asked.get("labels") or {}, "sourceImage": asked["sourceImage"]}
        self._add(disk_path, made | {"sizeGb": asked["diskSizeGb"], "type": asked["diskType"]})
        kinds = {"type": "PERSISTENT", "kind": "compute#attachedDisk"}
        disk |= {"source": self._link(disk_path), "deviceName": "persistent-disk-0", **kinds}
        # Provider 4.0.0 sends [null], and cannot read it.
        body.get("scheduling", {}).pop("nodeAffinities", None)
        if self.forgetful:
            body["scheduling"].pop("terminationTime")
        address = self.boot(body)
        for number, card in enumerate(body["networkInterfaces"]):
            subnetwork = self.things.get(card.get("subnetwork", "").partition(f"projects/{PROJECT}/")[2], {})
            card |= {
                "name": f"nic{number}",
                # Who boots real machines knows better.
                "networkIP": card.get("networkIP") or f"10.84.28.{next(self._addresses)}",
                "network": subnetwork.get("network") or self._link("global/networks/n"),
            }
            for access in card.get("accessConfigs") or []:
                access |= {"natIP": address, "kind": "compute#accessConfig"}
        self._add(path, body | {"zone": self._link(place), "status": "RUNNING", "cpuPlatform": "Intel Broadwell"})

    def _add(self, path: str, body: dict[str, Any]) -> None:
        number = next(self._numbers)
        body.setdefault("metadata", {}).setdefault("fingerprint", "abc=")
        known = {"id": str(number), "selfLink": self._link(path), "kind": f"compute#{path.split('/')[-2][:-1]}"}
        known |= {"fingerprint": "abc=", "labelFingerprint": "abc="}
        known |= {"creationTimestamp": "2026-11-20T12:00:00.000-07:00"}
        if path.startswith("regions/"):
            known["region"] = self._link("/".join(path.split("/")[:2]))
        self.things[path] = body | known

    def _delete(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        for other, thing in self.things.items():
            # What is being deleted may name itself; a disk may go with its instance.
            if other != path and f'/{path}"' in json.dumps(thing):
                message = f"The {path.split('/')[-2][:-1]} resource '{name}' is already being used by '{other}'"
                raise RefusalError(400, "resourceInUseByAnotherResource", message)
        self._remove(path)
        return self._done(path, "delete")

    def _remove(self, path: str) -> None:
        thing = self.things.pop(path)
        if "/instances/" in path:
            self.shut_down(thing)
            for disk in thing["disks"]:
                if disk.get("autoDelete"):
                    self.things.pop(disk["source"].partition(f"projects/{PROJECT}/")[2], None)

    def _done(
        self, path: str, kind: str, error: dict[str, Any] | None = None, *, stuck: bool = False
    ) -> dict[str, Any]:
        """Return an operation that is RUNNING now, and DONE when it is asked for, unless it is stuck."""
        name, place = f"operation-{next(self._numbers)}", path.rpartition("/")[0].rpartition("/")[0]
        operation = {
            "kind": "compute#operation",
            "name": name,
            "operationType": kind,
            "status": "RUNNING",
            "targetLink": self._link(path),
            "selfLink": self._link(f"{place}/operations/{name}"),
        }
        scope, _, where = place.partition("/")
        if where:
            operation[scope[:-1]] = self._link(place)
        self.operations[name] = operation | {"_stuck": stuck, "_error": error}
        return operation

    def _operation(self, name: str) -> dict[str, Any]:
        operation = self.operations[name]
        if not operation["_stuck"]:
            operation["status"] = "DONE"
            if operation["_error"]:
                operation["error"] = operation["_error"]
        return {k: v for k, v in operation.items() if not k.startswith("_")}
