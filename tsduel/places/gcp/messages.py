"""Turns error texts of Google and Terraform into a sentence with the next step."""

import json
import re

from tsduel.core.errors import UserError
from tsduel.places.gcp.credentials import HOW

CAPACITY = re.compile(
    "RESOURCE_POOL_EXHAUSTED|does not have enough resources available|resource_availability|STOCKOUT"
    r"|is currently unavailable in the \S+ zone"
)
QUOTA = re.compile(
    r"[Qq]uota '?[A-Z0-9_]*'? exceeded(?:\. +Limit: [0-9.]+ (?:in region [a-z0-9-]+|globally))?"
    "|quotaExceeded|QUOTA_EXCEEDED"
)
# Rates of Google's, and parts of it that are not ready: the same request may succeed a minute later.
PASSING = re.compile("(?i)rate_?limit_?exceeded|concurrent_operations_quota|resource_?not_?ready")


def _constraint(name: str) -> str:
    """Return the pattern of a policy that exists in an older kind, and since 2025 in a managed one."""
    return rf"(constraints/compute\.(?:managed\.)?{name})"


NO_GUEST_ATTRIBUTES = re.compile(_constraint("disableGuestAttributesAccess"))
# Both are options of `scheduling`; what Google says where it does not take one beside the other.
NO_RESTART = re.compile(r"Error 400:[^\n]*[aA]utomatic_?[rR]estart")
# What Google or Terraform prints -> what to do. The first match counts; {0} is what its group caught.
SENTENCES = {
    CAPACITY.pattern: "{zone} has no {machine} left at the moment",
    _constraint("vmExternalIpAccess"): (
        "an organisation policy of {project} forbids machines with a public address ({0}): take SSH_FROM=iap"
    ),
    _constraint("requireOsLogin"): (
        "an organisation policy of {project} asks for OS Login ({0}): add "
        'SET="gcp.os_login=true"; the account needs the role Compute OS Admin Login'
    ),
    _constraint("trustedImageProjects"): (
        "an organisation policy of {project} forbids images of this project ({0}): have debian-cloud added to it, or "
        'name one that it allows with SET="gcp.image=projects/PROJECT/global/images/NAME" (Debian 12 or alike, with '
        "Google's guest agent)"
    ),
    r"((?:c|customC)onstraints/[a-zA-Z.0-9_-]+)": (
        "an organisation policy of {project} forbids it ({0}): ask who administers the organisation for an "
        "exception, or take a project without it"
    ),
    r"Quota exceeded for quota metric '([^']*)'|[rR]ateLimitExceeded|RATE_LIMIT_EXCEEDED|CONCURRENT_OPERATIONS_QUOTA": (
        "more requests a minute than Google allows {project} ({0}), also after a minute of tries: see who else "
        "uses the project's API, and type the same command again in some minutes"
    ),
    QUOTA.pattern: "{quota}",
    "Machine type with name '[^']*' does not exist in zone '[^']*'": (
        "there is no {machine} in {zone}: `gcloud compute machine-types list --zones={zone}` shows those that "
        'are there; choose with SET="gcp.machine=..." or SET="gcp.zones=[...]"'
    ),
    "accessNotConfigured|SERVICE_DISABLED|has not been used in project|API is not enabled": (
        "the Compute Engine API is not enabled in {project}: `gcloud services enable compute.googleapis.com "
        "--project={project}`, wait a minute, and type the same command again"
    ),
    "BILLING_DISABLED|[Bb]illing (is|must be|has not been) (disabled|enabled)|requires billing": (
        "{project} has no billing account: link one in the console (Billing), then type the same command again"
    ),
    "authError|Invalid Credentials|invalid authentication credentials|UNAUTHENTICATED|Error 401": (
        f"Google does not accept the credentials; a token lives for one hour: {HOW}"
    ),
    "Permission denied on resource project|CONSUMER_INVALID|USER_PROJECT_DENIED|PROJECT_(?:DELETED|INVALID)"
    "|Failed to find project|The resource 'projects/[^'/]*' was not found|Unknown project id": (
        "there is no project {project}, or the account may not see it: `gcloud projects list` shows the IDs; "
        "choose with GCP_PROJECT="
    ),
    r"(?:Required '?([a-z.A-Z]+)'? permission|(?:IAM_)?PERMISSION_DENIED|Error 403: [^\n]*forbidden)": (
        "the account may not do this in {project} ({0}): it needs the roles Compute Instance Admin (v1), Compute "
        "Network Admin and Compute Security Admin: see docs/gcp.md"
    ),
    "resource 'projects/[^']*/images/(family/[^']*)' was not found": (
        "there is no {0} any more, since families of images end: take a newer one, like "
        'SET="gcp.image=projects/debian-cloud/global/images/family/debian-13" (`gcloud compute images list` has all)'
    ),
    "resource 'projects/[^']*/images/([^']*)' was not found": (
        "there is no image {0} any more: plan anew, or choose one of `gcloud compute images list --show-deprecated` "
        'with SET="gcp.image=projects/debian-cloud/global/images/NAME"'
    ),
    "timeout while waiting for state|context deadline exceeded|has not come to its end": (
        "Google has not finished within the time we allow: try again, or another zone"
    ),
    r"Error 503|backendError|Service Unavailable|\b503\b": (
        "Google's API is unavailable (503), also after several tries: try again in some minutes"
    ),
    "Failed to query available provider packages|could not connect to [a-z.]*|Failed to install provider": (
        "Terraform cannot get its google provider: see that the Terraform registry, or a mirror of it in your "
        "Terraform CLI configuration, can be reached"
    ),
}
TEMPORARY = {429, 500, 502, 503, 504}


class CloudError(Exception):
    """A failed request: HTTP status (0 without an answer), Google's reason, and Google's message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({reason})" if reason else message)
        self.status = status
        self.reason = reason

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.status in TEMPORARY or self.reason == "unreachable" or bool(PASSING.search(self.reason))


class NoDeadlineError(UserError):
    """A machine that Google would not delete by itself."""


class NoCapacityError(UserError):
    """A zone has no such machine left; another zone may have one."""


def from_body(status: int, body: bytes) -> CloudError:
    """Return the error of an answer, whose body is Google's JSON or any text."""
    try:
        error = json.loads(body)["error"]
        # The details say why, where the older list says no more than "forbidden".
        items = [*(error.get("errors") or []), *(error.get("details") or [])]
        reasons = dict.fromkeys(str(item["reason"]) for item in items if item.get("reason"))
        return CloudError(status, ", ".join(reasons) or f"Error {status}", str(error["message"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return CloudError(status, f"Error {status}", body[:200].decode(errors="replace").strip())


def sentence(text: str, project: str, machine: str = "machine", zone: str = "the zone") -> str:
    """Return what to do about an error text of Google's or Terraform's; the text itself if it is unknown."""
    for pattern, remedy in SENTENCES.items():
        if match := re.search(pattern, text):
            caught = next((group for group in match.groups() if group), match[0]).strip().rstrip(".,")
            words = {"project": project, "machine": machine, "zone": zone, "quota": quota(caught, project)}
            return remedy.format(caught, **words)
    return " ".join(text.split())[:600]


def quota(which: str, project: str) -> str:
    """Return what to do about a quota that is used up; ``which`` names it in Google's or our words."""
    console = "ask for more at IAM & Admin > Quotas in the console"
    if "CPUS" in which:
        remedy = (
            f'{console}, take a smaller machine with SET="gcp.machine=e2-standard-4", or another region with '
            'SET="gcp.zones=[us-east1-b]"'
        )
    elif "TOTAL_GB" in which:
        remedy = f'{console}, delete disks that nobody needs, or take a smaller one with SET="gcp.disk_gb=50"'
    else:
        remedy = f"{console}, or delete what nobody needs; what tsduel has left: make reap GCP_PROJECT={project}"
    return f"the project's quota does not allow it ({which}): {remedy}"


def as_user_error(text: str, project: str, machine: str = "machine", zone: str = "the zone") -> UserError:
    """Return the error to raise for such a text; a NoCapacityError where another zone may help."""
    kind = NoCapacityError if CAPACITY.search(text) else UserError
    return kind(f"gcp: {sentence(text, project, machine, zone)}")
