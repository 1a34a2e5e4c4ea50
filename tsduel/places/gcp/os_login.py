"""OS Login, which some organisations require: the run's key is in the account's profile while the machine lives."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tsduel.core.errors import UserError
from tsduel.core.place import GcpPlace
from tsduel.core.wording import last_line
from tsduel.places.gcp import credentials


def register(key: Path, place: GcpPlace, environment: Mapping[str, str]) -> str:
    """Put the public key into the profile until the machine's deadline; return the user to log in as."""
    name = _gcloud(
        place, environment, "add", f"--key-file={key.with_suffix('.pub')}", f"--ttl={place.lifetime_s}s",
        "--format=value(loginProfile.posixAccounts[0].username)",
    )  # fmt: skip
    if not name:
        raise UserError(
            f"gcp: the account has no POSIX user for OS Login in {place.project}: see `gcloud compute os-login "
            "describe-profile`, and that it has the role Compute OS Admin Login"
        )
    return name


def forget(run_dir: Path, place: GcpPlace, environment: Mapping[str, str]) -> None:
    """Remove the key from the profile; if that fails, the key expires."""
    if (public := run_dir / "host" / "key.pub").exists():
        try:
            _gcloud(place, environment, "remove", f"--key-file={public}")
        except UserError as error:
            print(f"{error}; the key expires by itself", flush=True)


def _gcloud(place: GcpPlace, environment: Mapping[str, str], *words: str) -> str:
    command = ["gcloud", "compute", "os-login", "ssh-keys", *words, f"--project={place.project}"]
    acting = credentials.gcloud_environment(environment)
    if "CLOUDSDK_CORE_ACCOUNT" not in acting:
        raise UserError(f"gcp: Google does not say whose token it is, which OS Login asks for: {credentials.HOW}")
    try:
        done = credentials.run(command, acting)
    except FileNotFoundError:
        raise UserError("gcp: gcp.os_login needs gcloud, which registers the key; install it") from None
    except subprocess.TimeoutExpired:
        late = f"gcp: gcloud has not answered for {credentials.PATIENCE_S} s ({words[0]} a key for OS Login)"
        raise UserError(late) from None
    if done.returncode:
        raise UserError(
            f"gcp: the key cannot be put into, or taken from, the OS Login profile ({last_line(done.stderr)}): "
            f"`gcloud services enable oslogin.googleapis.com --project={place.project}`, and the role Compute OS Admin "
            "Login"
        )
    return done.stdout.strip()
