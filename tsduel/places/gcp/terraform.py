"""Runs Terraform, or OpenTofu, on a copy of terraform/; each run has its own copy, state and variables."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tsduel.core import caches, files
from tsduel.core.errors import UserError
from tsduel.core.place import GcpPlace
from tsduel.core.plan import Plan
from tsduel.core.project import PROJECT
from tsduel.places.gcp import credentials, report
from tsduel.places.gcp.settings import ORGANISATION

SHOWN = ("apply_start", "apply_complete")
LOCK_S = 300
# Terraform's own name of it.
LOCK = ".terraform.lock.hcl"


class TerraformError(Exception):
    """Terraform failed; the text is its error output."""


class Terraform:
    """Terraform for the machines of one run.

    ``work`` is the run's copy of terraform/. ``last_moment`` is the file of variables that are known only when the
    machines are requested: deadline, key and zones.
    """

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir.absolute()
        self.cache = caches.directory(os.environ) / "terraform"
        self.work = self.cache / self.run_dir.name
        self.state = self.run_dir / "host" / "terraform.tfstate"
        self.last_moment = self.run_dir / "host" / "terraform.tfvars.json"

    def zones(self) -> dict[str, str]:
        """Return the zone in which each host was last requested; none before the first request."""
        zones: dict[str, str] = files.read_json(self.last_moment).get("zones", {}) if self.last_moment.exists() else {}
        return zones

    def prepare(self) -> None:
        """Copy the configuration and get the provider."""
        self.work.mkdir(parents=True, exist_ok=True)
        self.state.parent.mkdir(exist_ok=True)
        for pattern in ("*.tf", LOCK):
            for path in (PROJECT / "terraform").glob(pattern):
                shutil.copyfile(path, self.work / path.name)
        # Without a lock file in terraform/, the first provider that came is kept to, and its plugin cache is used.
        lock = PROJECT / "terraform" / LOCK
        kept = self.cache / f"{hashlib.sha256((self.work / 'terraform.tf').read_bytes()).hexdigest()[:16]}{LOCK}"
        if not lock.exists() and kept.exists():
            shutil.copyfile(kept, self.work / LOCK)
        self._run(["init", "-input=false", "-no-color"])
        if not lock.exists() and not kept.exists() and (self.work / LOCK).exists():
            shutil.copyfile(self.work / LOCK, kept)

    def apply(self) -> dict[str, dict[str, Any]]:
        """Make the machines by the variables, and return the output ``hosts``."""
        # The plan before has such a line, too, without values.
        last = [line for line in self._change("apply").splitlines() if '"type":"outputs"' in line][-1]
        hosts: dict[str, dict[str, Any]] = json.loads(last)["outputs"]["hosts"]["value"]
        return hosts

    def destroy(self) -> None:
        """Delete all that the state has."""
        if self.state.exists() and self.last_moment.exists():
            self._change("destroy")

    def _change(self, command: str) -> str:
        options = ["-json", "-auto-approve", "-input=false", f"-lock-timeout={LOCK_S}s", f"-state={self.state}"]
        stamped = (self.run_dir / "plan" / "terraform.tfvars.json", self.last_moment)
        return self._run([command, *options, *(f"-var-file={path}" for path in stamped)])

    def _run(self, words: Sequence[str]) -> str:
        program = _program()
        plugins = self.cache / "plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        environment = credentials.terraform_environment(os.environ)
        environment.setdefault("TF_PLUGIN_CACHE_DIR", str(plugins))
        output: list[str] = []
        errors: list[str] = []
        # In its own process group it gets Ctrl-C only once, from us, and so ends properly.
        with subprocess.Popen(
            [program, *words], cwd=self.work, env=environment, text=True, process_group=0,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            try:
                for line in process.stdout:
                    output.append(line)
                    errors += _diagnostic(line)
            except BaseException:
                process.send_signal(signal.SIGINT)
                process.communicate()
                raise
        text = "".join(output)
        report.note(self.run_dir, report.TERRAFORM, f"{words[0]} ended with {process.returncode}", text.encode())
        if process.returncode:
            raise TerraformError("\n".join(errors).strip() or text)
        return text


def _program() -> str:
    done = subprocess.run([PROJECT / "scripts" / "ensure-terraform"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise UserError("gcp: there is no Terraform (why is above); install terraform or tofu, or say where with TF=")
    return done.stdout.strip()


def variables(plan: Plan) -> dict[str, Any]:
    """Return plan/terraform.tfvars.json; host/terraform.tfvars.json has what is known only later."""
    place = plan.place
    assert isinstance(place, GcpPlace)  # noqa: S101 - for mypy
    same = {"guest_attributes", "image", "name", "os_login", "project", "spot"}
    same |= {"ssh_source_ranges", "ssh_via"}
    hosts = {
        name: {
            "boot_disk_gb": place.disk_gb,
            "boot_disk_type": host.disk_type,
            "machine_type": host.machine,
            "threads_per_core": host.threads_per_core,
        }
        for name, host in place.hosts.items()
    }
    organisation = place.model_dump(include=set(ORGANISATION))
    return {"hosts": hosts, "organisation": organisation, **place.model_dump(include=same)}


def _diagnostic(line: str) -> list[str]:
    """Print a line about progress; return the text of an error."""
    try:
        entry = json.loads(line)
    except ValueError:
        return [line.strip()]
    if entry.get("type") in SHOWN:
        print(f"gcp: {entry['@message']}", file=sys.stderr, flush=True)
    diagnostic = entry.get("diagnostic") or {}
    if diagnostic.get("severity") != "error":
        return []
    return [f"{diagnostic.get('summary', '')}\n{diagnostic.get('detail', '')}".strip()]
