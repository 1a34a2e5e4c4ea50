"""Rented machines for tests: what is asked for, what such a run has made at Google's, and its directory here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fakecompute import PROJECT, TOKEN

from tsduel.places.gcp import place
from tsduel.places.gcp.settings import Gcp

if TYPE_CHECKING:
    from pathlib import Path

    from fakecompute import FakeCompute

HERE = {"GCP_PROJECT": PROJECT, "SSH_FROM": "203.0.113.7"}


def asked(**settings: Any) -> dict[str, Any]:
    """Return the place of a small run."""
    return place.complete(
        place.asked(HERE), Gcp(**settings), run="r", disk={"database_bytes": 10**9}, seconds=3600 * 3
    )  # fmt: skip


def rented(google: FakeCompute, name: str, *, expires: str = "20261120t181500z", zone: str = "us-central1-a") -> None:
    """Make what a run of this name would have made."""
    link = f"projects/{PROJECT}"
    labels = {"tsduel-run": name, "expires": expires}
    network = f"{link}/global/networks/{name}"

    def insert(where: str, kind: str, **body: Any) -> None:
        made = google.answer("POST", f"/compute/v1/{link}/{where}/{kind}", f"Bearer {TOKEN}", body)
        assert made["status"] == "RUNNING"

    insert("global", "networks", name=name, description=f"Made by tsduel for one run; expires {expires}")
    insert("regions/us-central1", "subnetworks", name=name, network=network)
    insert("global", "firewalls", name=f"{name}-ssh", network=network)
    disk = {"diskSizeGb": "9", "diskType": "t", "sourceImage": "i", "labels": labels}
    insert(
        f"zones/{zone}", "instances", name=name, labels=labels, machineType="zones/z/machineTypes/e2-standard-8",
        disks=[{"autoDelete": True, "initializeParams": disk}],
        networkInterfaces=[{"network": network, "subnetwork": f"{link}/regions/us-central1/subnetworks/{name}"}],
    )  # fmt: skip


def run_of(tmp_path: Path, name: str, **outputs: Any) -> Path:
    """Return the directory of a run whose machine has this name."""
    run_dir = tmp_path / "r"
    for part in ("plan", "host"):
        (run_dir / part).mkdir(parents=True)
    (run_dir / "plan" / "experiment.json").write_text(json.dumps({"place": asked() | {"name": name}}))
    (run_dir / "plan" / "rounds.tsv").write_text("block\tposition\tvariant\n1\t1\tbaseline\n")
    host = {"instance": name, "zone": "us-central1-a"}
    (run_dir / "host" / "outputs.json").write_text(json.dumps({"provisioned": True, "host": host} | outputs))
    return run_dir
