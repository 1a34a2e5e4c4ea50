"""`make gcp-report` collects what a run asked of Google and was answered, without secrets, to be sent to us."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from tsduel.core import runlog
from tsduel.core.errors import UserError

# Below the run's directory; they stay when the machines are given back.
ASKED, TERRAFORM = Path("google/asked.log"), Path("google/terraform.log")
FILES = (Path("plan/terraform.tfvars.json"), Path("host/terraform.tfvars.json"), Path("host/outputs.json"))
LONGEST = 20_000
OUR_USER = "tsduel"
METADATA = {"metadata", "commonInstanceMetadata"}
STAGES = re.compile(r"^\S+ \S+ +(provision|build|give-back|destroy): ")
SECRETS = {
    r"-----BEGIN [^-]*-----.*?(-----END [^-]*-----|$)": "<private key>",
    r"(ya29\.|Bearer |access_token=)[^\s\"',&]+": "<token>",
    r"\bAAAA[A-Za-z0-9+/=]{20,}": "<public key>",
    r"[\w.+-]+@[\w-]+\.[\w.-]+": "<account>",
    r"\b(?!10\.)\d{1,3}(\.\d{1,3}){3}\b": "<address>",
}


def note(run_dir: Path | None, kind: Path, asked: str, answer: bytes) -> None:
    """Append a line, without its secrets, to a file of what was asked; without a run nothing is kept."""
    if run_dir:
        text = without_secrets(f"{asked} {_without_metadata(answer)}")
        path = run_dir / kind
        # A full disk must not keep anything from being deleted.
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with path.open("a", encoding="utf-8") as stream:
                stream.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {text[:LONGEST]}\n")


def _without_metadata(answer: bytes) -> str:
    """Return an answer without what users wrote into the project or their machines: start scripts have passwords."""
    text = answer.decode(errors="replace")
    try:
        document = json.loads(text, object_hook=lambda found: {k: v for k, v in found.items() if k not in METADATA})
    except (ValueError, RecursionError):
        return text
    return json.dumps(document)


def without_secrets(text: str) -> str:
    """Return a text without tokens, keys, accounts and public addresses."""
    for pattern, instead in SECRETS.items():
        text = re.sub(pattern, instead, text, flags=re.DOTALL)
    return text


def main(run_dir: Path) -> str:
    """Write RUN/gcp-report.txt, in which the project is called PROJECT; return what to say of it."""
    # A fresh clone has no libraries yet, and its doctor reads this module.
    from tsduel.core import rundir  # noqa: PLC0415
    from tsduel.core.place import GcpPlace  # noqa: PLC0415
    from tsduel.places import hosts  # noqa: PLC0415

    place = rundir.open_run(run_dir).plan.place
    if not isinstance(place, GcpPlace):
        raise UserError(f"{run_dir.name} is no run with TARGET=gcp: there is nothing to report about Google")
    parts = [
        ("versions", "\n".join(_versions())),
        ("place", place.model_dump_json(indent=2)),
        *((str(path), (run_dir / path).read_text(encoding="utf-8", errors="replace"))
          for path in (*FILES, ASKED, TERRAFORM) if (run_dir / path).exists()),
    ]  # fmt: skip
    if (log := run_dir / runlog.NAME).exists():
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        parts.append((runlog.NAME, "\n".join(line for line in lines if STAGES.match(line))))
    users = {str(host.get("user") or "") for host in hosts.known(run_dir).values()} - {"", OUR_USER}
    text = without_secrets("\n".join(f"== {title}\n{part.strip()}\n" for title, part in parts))
    for user in users:  # of OS Login: it is made of the account
        text = text.replace(user, "<account>")
    path = run_dir / "gcp-report.txt"
    path.write_text(re.sub(rf"(?<![\w-]){re.escape(place.project)}(?![\w-])", "PROJECT", text), encoding="utf-8")
    return f"{path}: what was asked of Google and answered, without tokens, keys, accounts and addresses; read it first"


def _versions() -> Iterator[str]:
    for command in ("terraform version", "tofu version", "gcloud --version"):
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(command.split(), capture_output=True, text=True, timeout=60, check=True)
            yield done.stdout.partition("\n")[0]
