"""The one access token that Terraform and our own requests use."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence

from tsduel.core.errors import UserError

TOKEN = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105 - the name of a variable, which Terraform's provider reads as well
HOW = "log in with `gcloud auth login`, or set GOOGLE_OAUTH_ACCESS_TOKEN to a token (gcloud auth print-access-token)"
PATIENCE_S = 60


def token(environment: Mapping[str, str]) -> str:
    """Return GOOGLE_OAUTH_ACCESS_TOKEN, else a fresh token of gcloud's.

    A token is valid for an hour, so ask again before each use. With GOOGLE_APPLICATION_CREDENTIALS it is that file's
    account, else the account of gcloud.
    """
    if given := environment.get(TOKEN, "").strip():
        return given
    if not shutil.which("gcloud", path=environment.get("PATH")):
        raise UserError(f"no credentials for Google Cloud, and no gcloud on PATH to get them from: {HOW}")
    command = ["gcloud", "auth", "print-access-token"]
    if environment.get("GOOGLE_APPLICATION_CREDENTIALS"):
        command.insert(2, "application-default")
    try:
        done = run(command, environment)
    except subprocess.TimeoutExpired:
        raise UserError(f"`{' '.join(command)}` does not answer for {PATIENCE_S} s: {HOW}") from None
    text = done.stdout.strip()
    if done.returncode or not text:
        reason = next((line for line in done.stderr.splitlines() if line.strip()), "it printed no token")
        raise UserError(f"no credentials for Google Cloud (`{' '.join(command)}`: {reason.strip()}): {HOW}")
    return text


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run gcloud, which asks nothing; subprocess's own errors where it is missing or slow."""
    return subprocess.run(
        [*command, "--quiet"], env=dict(environment), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def gcloud_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which gcloud uses our token, and not the account that it is logged in with."""
    return {**environment, "CLOUDSDK_AUTH_ACCESS_TOKEN": token(environment)}


def terraform_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Terraform uses our token, and no variable of the user's changes the plan."""
    kept = {k: v for k, v in environment.items() if not k.startswith(("TF_VAR_", "TF_CLI_ARGS", "TF_WORKSPACE"))}
    for name in ("GOOGLE_CREDENTIALS", "GOOGLE_APPLICATION_CREDENTIALS"):
        kept.pop(name, None)
    return kept | {TOKEN: token(environment), "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}
