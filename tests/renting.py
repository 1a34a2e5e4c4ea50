"""Rented machines for tests: what is asked for, what such a run has made at Google's, and its directory here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plans
from fakecompute import IMAGE, PROJECT, TOKEN

from tsduel.core.plan import Estimate
from tsduel.places.gcp import place, rent, terraform
from tsduel.places.gcp.settings import Gcp
from tsduel.places.provider import Needs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakecompute import FakeCompute, RefusalError

    from tsduel.core.place import GcpPlace

HERE = {"GCP_PROJECT": PROJECT, "SSH_FROM": "203.0.113.7"}
ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"
PROVISION = """
import json, os, sys
from pathlib import Path
from tsduel.places import provision
from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places.gcp import provide
run_dir = Path("results/r")
try:
    made = provide.machines(run_dir, rundir.open_run(run_dir).plan.place, os.environ)
except UserError as error:
    sys.exit(str(error))
provision.write(run_dir, made, provisioned=True)
print(json.dumps(made))
"""


def asked(
    *,
    seconds: int = 3600 * 3,
    database_bytes: int = 10**9,
    **settings: Any,
) -> GcpPlace:
    """Return the place of a small run; knobs are settings, by their names."""
    knobs = HERE | {name: settings.pop(name) for name in list(settings) if name.isupper()}
    estimate = Estimate(data_bytes=10**9, database_bytes=database_bytes)
    image = f"projects/debian-cloud/global/images/{IMAGE}"
    needs = Needs(run="r", estimate=estimate, seconds=seconds)
    return rent.complete(place.asked(knobs), Gcp(**{"image": image} | settings), needs)


def named(name: str, **more: Any) -> GcpPlace:
    """Return such a place whose machine has this name."""
    return asked(**more).model_copy(update={"name": name})


def rented(
    google: FakeCompute,
    name: str,
    *,
    expires: str = "20261120t181500z",
    zone: str = "us-central1-a",
    hosts: int = 1,
    rules: tuple[str, ...] = ("ssh",),
) -> None:
    """Make what a run of this name would have made; ``rules``: of its firewall."""
    link = f"projects/{PROJECT}"
    labels = {"tsduel-run": name, "expires": expires}
    network = f"{link}/global/networks/{name}"

    def insert(where: str, kind: str, **body: Any) -> None:
        made = google.answer("POST", f"/compute/v1/{link}/{where}/{kind}", f"Bearer {TOKEN}", body)
        assert made["status"] == "RUNNING"

    insert("global", "networks", name=name, description=f"Made by tsduel for one run; expires {expires}")
    insert("regions/us-central1", "subnetworks", name=name, network=network)
    for rule in rules:
        insert("global", "firewalls", name=f"{name}-{rule}", network=network)
    for number in range(1, hosts + 1):
        disk = {"diskSizeGb": "9", "diskType": "t", "sourceImage": "i", "labels": labels}
        insert(
            f"zones/{zone}", "instances", name=f"{name}-host{number}", labels=labels,
            machineType="zones/z/machineTypes/e2-standard-8", disks=[{"autoDelete": True, "initializeParams": disk}],
            networkInterfaces=[{"subnetwork": f"{link}/regions/us-central1/subnetworks/{name}"}],
        )  # fmt: skip


def run_of(tmp_path: Path, name: str, *, count: int = 1, **outputs: Any) -> Path:
    """Return the directory of a run whose machines have this name."""
    run_dir = tmp_path / "r"
    plans.write(run_dir, place=named(name))
    (run_dir / "host").mkdir()
    hosts = {
        f"host{number}": {"instance": f"{name}-host{number}", "zone": "us-central1-a"} for number in range(1, count + 1)
    }
    (run_dir / "host" / "outputs.json").write_text(json.dumps({"provisioned": True, "hosts": hosts} | outputs))
    return run_dir


class Rented:
    """A run of a project of the fake Google's, and the stages that are about its machine."""

    def __init__(self, api: FakeCompute, root: Path, environment: Mapping[str, str]) -> None:
        """Take a directory, and an environment that says which Terraform there is."""
        self.api = api
        self.root = root
        self.run_dir = root / "results" / "r"
        (self.run_dir / "plan").mkdir(parents=True)
        self.environment = dict(environment) | api.environment()
        self.environment |= {"TSDUEL_CACHE": str(root / "cache"), "PYTHONPATH": str(ROOT)}
        self.work = root / "cache" / "terraform" / "r"
        self.work.mkdir(parents=True)

    def plan(self, **changes: Any) -> GcpPlace:
        """Write a plan of nothing but its place, and what Terraform is told."""
        where = asked(seconds=600, **changes)
        made = plans.write(self.run_dir, place=where)
        (self.run_dir / "plan" / "terraform.tfvars.json").write_text(json.dumps(terraform.variables(made)))
        return where

    def provision(self, **environment: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any] | None]:
        """Rent the machine; return the process and, if it came, what is known of it."""
        done, made = self.provision_all(**environment)
        return done, made["host1"] if made else None

    def provision_all(self, **environment: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        """Rent the machines; return the process and, if they came, what is known of them."""
        done = self._python("-c", PROVISION, **environment)
        return done, json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}

    def start(self) -> subprocess.Popen[str]:
        """Begin to rent it."""
        words = [PYTHON, "-c", PROVISION]
        return subprocess.Popen(
            words, cwd=self.root, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def destroy(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Type `make destroy`."""
        return self._python("-m", "tsduel", "destroy", "r", **environment)

    def _python(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PYTHON, *words], cwd=self.root, env=self.environment | environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip


def refuse_inserts(kind: str, refusal: RefusalError, times: int = 10**9) -> Callable[[str, str], RefusalError | None]:
    """Return a fault: so many requests to make something of a kind are answered with a refusal."""
    left = [times]

    def fault(method: str, path: str) -> RefusalError | None:
        if method != "POST" or not path.endswith(f"/{kind}") or left[0] == 0:
            return None
        left[0] -= 1
        return refusal

    return fault
