"""The one access token that Terraform, gcloud and our own requests use, and which variables the two programs get."""

import functools
import json
import os
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import TYPE_CHECKING

from tsduel.core.errors import UserError

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

TOKEN = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105 - the name of a variable, which Terraform's provider reads as well
HOW = (
    "log in with `gcloud auth application-default login`, or set GOOGLE_OAUTH_ACCESS_TOKEN to a token (gcloud auth "
    "print-access-token)"
)
# The second says whose token it is, which OS Login asks for.
SCOPES = ("https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email")
OAUTH = "GOOGLE_OAUTH2_CUSTOM_ENDPOINT"
DEFAULT_OAUTH = "https://oauth2.googleapis.com/"
PATIENCE_S = 60
# What asks once more while it runs, and what does not: Terraform keeps a token for as long as it waits for machines.
LASTING, LONG_LASTING = timedelta(minutes=5), timedelta(minutes=40)
# Variables of a user's that could make a child another identity than ours, or have it do something else; and those
# that only say how to reach Google, which programs to run and where to log.
CHANGING = re.compile("(GOOGLE|GCLOUD|CLOUDSDK|TF)_|USER_PROJECT_OVERRIDE")
TERRAFORM_KEEPS = re.compile("GOOGLE_COMPUTE_CUSTOM_ENDPOINT|TF_(CLI_CONFIG_FILE|LOG|LOG_.*|PLUGIN_CACHE_DIR|TOKEN_.*)")
GCLOUD_KEEPS = re.compile("CLOUDSDK_(CONFIG|CONTEXT_AWARE_.*|CORE_CUSTOM_CA_CERTS_FILE|PROXY_.*|PYTHON.*|ROOT_DIR)")
_renewing = threading.Lock()


def token(environment: Mapping[str, str], lasting: timedelta = LASTING) -> str:
    """Return GOOGLE_OAUTH_ACCESS_TOKEN, else a token of Google's application default credentials.

    It lives for an hour, so ask again before each use; ``lasting``: for how long it is needed at least.
    """
    if value := environment.get(TOKEN, "").strip():
        return value
    # A fresh clone has no libraries yet, and its doctor reads this module.
    from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
    from google.auth.transport.requests import Request  # noqa: PLC0415

    try:
        with _renewing:
            found = default()
            ends: datetime | None = found.expiry  # in UTC, and without saying so
            if not found.valid or (ends and ends.replace(tzinfo=UTC) - datetime.now(UTC) < lasting):
                found.refresh(Request())
    except (GoogleAuthError, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(f"no credentials for Google Cloud ({reason}): {HOW}") from None
    return str(found.token)


@functools.cache
def default() -> "Credentials":
    """Return what GOOGLE_APPLICATION_CREDENTIALS names, else the user's own login, else this machine's account."""
    import google.auth  # noqa: PLC0415 - as above

    found: Credentials = google.auth.default(scopes=SCOPES)[0]
    return found


def renew(environment: Mapping[str, str]) -> bool:
    """Have the next token be a new one, since Google refuses this one; False for one that the user gave."""
    if environment.get(TOKEN, "").strip():
        return False
    default().token = None
    return True


@functools.cache
def account(token: str) -> str:
    """Return the address of the account whose token it is; "" if Google does not say."""
    url = f"{os.environ.get(OAUTH) or DEFAULT_OAUTH}tokeninfo?access_token={urllib.parse.quote(token)}"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 - as in api.py
            return str(json.load(answer).get("email") or "")
    except (OSError, HTTPException, ValueError, AttributeError):
        return ""


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run gcloud, which asks nothing; subprocess's own errors where it is missing or slow."""
    return subprocess.run(
        [*command, "--quiet"], env=dict(environment), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def gcloud_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which gcloud acts with our token, as its account, and impersonates nobody once more."""
    ours = token(environment)
    whose = {"CLOUDSDK_CORE_ACCOUNT": account(ours)} if account(ours) else {}
    # An empty variable overrides what the user's configuration says.
    whose |= {"CLOUDSDK_AUTH_ACCESS_TOKEN": ours, "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT": ""}
    return _without(environment, GCLOUD_KEEPS) | whose


def terraform_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Terraform uses our token, and no variable of the user's changes the plan."""
    quiet = {"TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}
    return _without(environment, TERRAFORM_KEEPS) | quiet | {TOKEN: token(environment, LONG_LASTING)}


def _without(environment: Mapping[str, str], kept: re.Pattern[str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if not CHANGING.match(k) or kept.fullmatch(k)}
