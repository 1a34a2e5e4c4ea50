"""Terraform, or OpenTofu, on the configuration in terraform/: a copy, a state and variables for each run."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tsduel.core import caches
from tsduel.core.errors import UserError
from tsduel.core.plan import GcpPlace, Plan
from tsduel.core.project import PROJECT
from tsduel.places.gcp import credentials

SHOWN = ("apply_start", "apply_complete")
LOCK_S = 300


class TerraformError(Exception):
    """Terraform failed; the text is all that it said about why."""


@dataclass(frozen=True)
class Terraform:
    """One run's machines, as Terraform sees it. The state is host/terraform.tfstate of the run."""

    run_dir: Path
    cache: Path

    @classmethod
    def of(cls, run_dir: Path) -> Self:
        """Return that of a run in results/, with the cache that the environment names."""
        return cls(run_dir.absolute(), caches.directory(os.environ))

    @property
    def work(self) -> Path:
        """Where the configuration lies that is applied: nothing is ever written into terraform/."""
        return self.cache / "terraform" / self.run_dir.name

    @property
    def state(self) -> Path:
        """The state of this run, apart from those of others."""
        return self.run_dir / "host" / "terraform.tfstate"

    @property
    def last_moment(self) -> Path:
        """The variables that are known when the machine is asked for."""
        return self.run_dir / "host" / "terraform.tfvars.json"

    def prepare(self) -> None:
        """Copy the configuration and get the provider."""
        self.work.mkdir(parents=True, exist_ok=True)
        self.state.parent.mkdir(exist_ok=True)
        # The lock file as well, where there is one.
        for path in [*(PROJECT / "terraform").glob("*.tf"), *(PROJECT / "terraform").glob(".terraform.lock.hcl")]:
            shutil.copyfile(path, self.work / path.name)
        self._run(["init", "-input=false", "-no-color"], json_lines=False)

    def apply(self) -> dict[str, dict[str, Any]]:
        """Make what the variables ask for, and return the output ``hosts``."""
        self._run(["apply", "-json", "-auto-approve", *self._options()], json_lines=True)
        said = self._run(["output", "-json", f"-state={self.state}"], json_lines=False)
        hosts: dict[str, dict[str, Any]] = json.loads(said)["hosts"]["value"]
        return hosts

    def destroy(self) -> None:
        """Delete all that the state knows of."""
        if self.state.exists() and self.last_moment.exists():
            self._run(["destroy", "-json", "-auto-approve", *self._options()], json_lines=True)

    def _options(self) -> list[str]:
        files = (self.run_dir / "plan" / "terraform.tfvars.json", self.last_moment)
        return ["-input=false", f"-lock-timeout={LOCK_S}s", f"-state={self.state}", *(f"-var-file={f}" for f in files)]

    def _run(self, words: Sequence[str], *, json_lines: bool) -> str:
        program = self._program()
        plugins = self.cache / "terraform" / "plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        environment = credentials.terraform_environment(os.environ)
        environment.setdefault("TF_PLUGIN_CACHE_DIR", str(plugins))
        said: list[str] = []
        errors: list[str] = []
        # A process group of its own: Ctrl-C reaches Terraform once, through us, and it ends what it has begun.
        with subprocess.Popen(
            [program, *words],
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if words[0] == "output" else subprocess.STDOUT,
            text=True,
            process_group=0,
        ) as process:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            try:
                for line in process.stdout:
                    said.append(line)
                    if json_lines:
                        errors += _diagnostic(line)
                if process.stderr is not None:
                    errors.append(process.stderr.read())
            except BaseException:
                process.send_signal(signal.SIGINT)
                process.communicate()
                raise
        text = "".join(said)
        if process.returncode:
            raise TerraformError("\n".join(errors).strip() or text)
        return text

    def _program(self) -> str:
        done = subprocess.run(
            [PROJECT / "scripts" / "ensure-terraform"], stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise UserError(
                "gcp: there is no Terraform (why is above); install terraform or tofu, or say where with TF="
            )
        return done.stdout.strip()


def variables(plan: Plan) -> dict[str, Any]:
    """Return plan/terraform.tfvars.json; what is known at the last moment only is in host/terraform.tfvars.json."""
    place = plan.place
    assert isinstance(place, GcpPlace)  # noqa: S101 - nobody asks otherwise
    same = ("image", "name", "os_login", "ports_between", "project", "spot", "ssh_source_ranges", "ssh_via")
    hosts = {
        name: {
            "boot_disk_gb": place.disk_gb,
            "boot_disk_type": host.disk_type,
            "machine_type": host.machine,
            "roles": plan.topology.get(name, ()),
            "threads_per_core": host.threads_per_core,
        }
        for name, host in place.hosts.items()
    }
    return {"hosts": hosts, **{name: getattr(place, name) for name in same}}


def _diagnostic(line: str) -> list[str]:
    """Show a line of progress; return what it says of an error."""
    try:
        entry = json.loads(line)
    except ValueError:
        return [line.strip()]
    if entry.get("type") in SHOWN:
        print(f"gcp: {entry['@message']}", file=sys.stderr, flush=True)
    found = entry.get("diagnostic") or {}
    if found.get("severity") != "error":
        return []
    return [f"{found.get('summary', '')}\n{found.get('detail', '')}".strip()]
