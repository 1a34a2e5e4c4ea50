"""Asks the API server of a cluster, by the official client, and makes sentences of its refusals."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3
import yaml

from tsduel.core.errors import UserError

if TYPE_CHECKING:
    from kubernetes import client

TIMEOUT_S = (10, 60)
RULES = "docs/kubernetes-rbac.yml"
# What the rules there allow: API group, resource, verbs.
RIGHTS = (
    ("batch", "jobs", ("create", "get", "list", "delete")),
    ("", "pods", ("get", "list")),
    ("", "pods/exec", ("create", "get")),
    ("networking.k8s.io", "networkpolicies", ("create", "get", "list", "delete")),
    ("", "persistentvolumeclaims", ("list",)),
    ("", "events", ("list",)),
)
# What the API server says of a verb that a user has no right to.
NO_RIGHT = re.compile(r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"')
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 401, 403, 404, 409
JOBS, PODS, POLICIES, CLAIMS = (
    "/apis/batch/v1/namespaces/{}/jobs",
    "/api/v1/namespaces/{}/pods",
    "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "/api/v1/namespaces/{}/persistentvolumeclaims",
)


class ApiError(UserError):
    """The API server refuses, or does not answer. ``code``: its HTTP status, 0 for no answer."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.status = code

    @property
    def passes(self) -> bool:
        """Whether it may be another answer later: the server was not reached, is at its limit, or wants a login."""
        return self.status in {0, _UNAUTHORIZED, 429} or self.status >= 500  # noqa: PLR2004 - HTTP's numbers


def cluster_of(asked: Mapping[str, Any]) -> "Cluster":
    """Return the cluster and namespace that the knobs name, by tsduel.places.k8s.place.asked."""
    spaces, current = contexts()
    context = asked["context"] or current
    if context not in spaces:
        raise UserError(f"KUBE_CONTEXT: there is no context {context!r}; there are: {', '.join(spaces) or 'none'}")
    return Cluster(context, asked["namespace"] or spaces[context])


def contexts() -> tuple[dict[str, str], str]:
    """Return the namespaces of all contexts of the kubeconfig by their names, and the name of the current one."""
    # Of several files kubectl takes the first that names one; the client takes the last.
    paths = list(filter(None, os.environ.get("KUBECONFIG", "").split(os.pathsep))) or ["~/.kube/config"]
    spaces, current, why = dict[str, str](), "", f"there is no {' or '.join(paths)}"
    try:
        for path in filter(Path.is_file, (Path(name).expanduser() for name in paths)):
            found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
            current = current or str(found.get("current-context") or "")
            for each in found.get("contexts") or ():
                spaces.setdefault(each["name"], (each.get("context") or {}).get("namespace") or "default")
            why = f"{path} has no context"
    except (OSError, yaml.YAMLError, UnicodeError, AttributeError, TypeError, KeyError) as error:
        spaces, why = {}, " ".join(str(error).split())
    if not spaces:
        raise UserError(
            f"k8s: no cluster is known here ({why}): see that `kubectl get nodes` works, or "
            "name the file with KUBECONFIG=/path in the environment"
        )
    return spaces, current


@dataclass(frozen=True)
class Cluster:
    """One cluster and namespace, asked as the user of a context."""

    context: str
    namespace: str

    @cached_property
    def api(self) -> "client.ApiClient":
        """The client, with fresh credentials of the user."""
        from kubernetes import client, config  # noqa: PLC0415 - stages of other places load this module, too

        settings = client.Configuration()
        try:
            config.load_kube_config(context=self.context, client_configuration=settings)
        except (config.ConfigException, OSError, ValueError, yaml.YAMLError) as error:
            raise UserError(
                f"KUBE_CONTEXT: {self.context!r} cannot be used ({' '.join(str(error).split())}); the contexts are: "
                f"{', '.join(contexts()[0]) or 'none'}"
            ) from None
        if str(settings.proxy or "").startswith("socks"):
            raise UserError(
                f"k8s: {self.context}: tsduel cannot go through a SOCKS proxy; take an HTTP proxy, or ssh -L"
            )
        settings.retries = urllib3.Retry(total=0)
        _strip(settings)
        if refresh := settings.refresh_api_key_hook:

            def refreshed(used: "client.Configuration") -> None:
                refresh(used)
                _strip(used)

            settings.refresh_api_key_hook = refreshed
        return client.ApiClient(settings)

    def signed(
        self, method: str, path: str, query: list[tuple[str, str]], body: Any = None
    ) -> tuple[Any, Any, Any, Any]:
        """Return method, URL, headers and body of a request, with the user's credentials."""
        kind = {"Accept": "application/json", "Content-Type": "application/json"}
        made = self.api.param_serialize(
            method, path, query_params=query, header_params=kind, body=body, auth_settings=["BearerToken"]
        )
        return made[0], made[1], made[2], made[3]

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> dict[str, Any]:
        """Send a request, {} in ``path`` being the namespace; return the answer. An ApiError says what is wrong."""
        from kubernetes.client import ApiException  # noqa: PLC0415 - as in `api`

        signed = self.signed(method, path.format(self.namespace), list(query.items()), body)
        try:
            answer = self.api.call_api(*signed, _request_timeout=TIMEOUT_S)
            status, text = answer.status, answer.read().decode(errors="replace")
        except ApiException as error:
            status, text = int(error.status or 0), str(error.body or error.reason)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            status, text = 0, str(error)
        except ValueError:  # its text would be the token
            status, text = 0, "your credentials make no request"
        if not status or status >= 400:  # noqa: PLR2004 - HTTP's errors
            raise ApiError(self.refusal(status, _message(text)), status)
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:  # of a proxy, for example
            raise ApiError(self.refusal(0, f"no answer of Kubernetes: {_message(text)}"), 0) from None
        return found

    def find(self, path: str) -> dict[str, Any] | None:
        """Return an object; None if there is none."""
        try:
            return self.ask("GET", path)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def all(self, path: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the objects of a kind with these labels."""
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        return list(self.ask("GET", path, labelSelector=selector)["items"])

    def delete(self, path: str) -> None:
        """Delete an object, and in the background what it owns; it may be gone already."""
        try:
            self.ask("DELETE", path, {"propagationPolicy": "Background"})
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise

    def events(self, name: str) -> list[str]:
        """Return what the cluster says of an object of this name, the newest last; nothing if we may not read it."""
        try:
            path = "/api/v1/namespaces/{}/events"
            items = self.ask("GET", path, fieldSelector=f"involvedObject.name={name}")["items"]
        except ApiError:
            return []
        items.sort(key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
        return [" ".join(str(event.get("message", "")).split()) for event in items]

    def lacking(self) -> Iterator[str]:
        """Yield the rights that we need and do not have, as `create jobs.batch`."""
        for group, resource, verbs in RIGHTS:
            for verb in verbs:
                if not self._may(verb, group, resource):
                    yield f"{verb} {'.'.join(filter(None, (resource, group)))}"

    def _may(self, verb: str, group: str, resource: str) -> bool:
        name, _, part = resource.partition("/")
        wanted = {"namespace": self.namespace, "verb": verb, "group": group, "resource": name, "subresource": part}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": wanted},
        }
        answer = self.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    def refusal(self, status: int, text: str) -> str:
        """Return the sentence for an answer of the API server."""
        where = f"k8s: {self.context}"
        if "system:anonymous" in text:  # the client goes on without what a plugin could not give
            return f"{where}: no credentials came of your kubeconfig: see that `kubectl get nodes` works, then go on"
        if right := NO_RIGHT.search(text):
            resource = ".".join(filter(None, (right["resource"], right["group"])))
            return (
                f"{where}: you may not {right['verb']} {resource} in the namespace {self.namespace}: ask who "
                f"administers it for the role in {RULES}"
            )
        if status == _UNAUTHORIZED:
            return f"{where}: your credentials are not accepted (a token that has expired?): log in again, then go on"
        if status == _FORBIDDEN and "quota" in text:
            return (
                f"{where}: the namespace {self.namespace} has a quota that forbids it ({text}): take fewer or smaller "
                'pods (HOSTS=, SET="k8s.cpus=2 k8s.memory_gb=4"), or ask for more'
            )
        if status == _FORBIDDEN:
            return f"{where}: a policy of the cluster forbids it: {text}"
        silent = f"the API server does not answer ({text}): see that `kubectl get nodes` works"
        return f"{where}: {text if status else silent}"


def _strip(settings: "client.Configuration") -> None:
    """Take the end of the line from a token that comes from a file, as kubectl does."""
    settings.api_key = {name: value.strip() for name, value in settings.api_key.items()}


def _message(text: str) -> str:
    """Return the message of a Status, else the text."""
    with suppress(ValueError, AttributeError):
        text = json.loads(text).get("message", text)
    return " ".join(text.split())
