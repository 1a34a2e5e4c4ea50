"""The Terraform configuration, with the real provider: its own tests, and machines in a fake Google.

What is done about what it answers is in tests/test_provide.py, with a fake Terraform.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import fakecompute
import pytest
import renting
import terraforming
from goldens import golden

PROJECT = Path(__file__).resolve().parent.parent
CONFIGURATION = PROJECT / "terraform"
# One after the other: Terraform and its provider take half a gigabyte.
# The first may have to build them.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("provider"), pytest.mark.timeout(2400)]
# What takes minutes of patience in earnest takes seconds here.
IMPATIENT = 'resource "google_compute_instance" "main" {\n  timeouts {\n    create = "5s"\n    delete = "15s"\n  }\n}\n'

# Name of a test of Terraform -> the variables that are wrong, and what refuses them.
HOSTS, SSH, ZONES = "var.hosts", "var.ssh_source_ranges", "var.zones"
REFUSED = {
    "a_host_that_no_plan_has": ("hosts = { bench = {} }", HOSTS),
    "that_nobody_could_log_in": ("ssh_source_ranges = []", "google_compute_firewall.ssh"),
    "the_whole_internet": ('ssh_source_ranges = ["203.0.113.7/32", "0.0.0.0/0"]', SSH),
    "half_of_the_internet": ('ssh_source_ranges = ["0.0.0.0/1", "128.0.0.0/1"]', SSH),
    "what_is_no_network": ('ssh_source_ranges = ["203.0.113.7"]', SSH),
    "a_third_way_for_ssh": ('ssh_via = "vpn"', "var.ssh_via"),
    "a_deadline_on_no_day": ('expires = "20261340t181500z"', "var.expires"),
    "a_deadline_that_no_label_holds": ('expires = "2026-11-20T18:15:00Z"', "var.expires"),
    "an_image_family": ('image = "debian-cloud/debian-12"', "var.image"),
    "another_prefix": ('name = "production"', "var.name"),
    "a_projects_number": ('project = "123456789012"', "var.project"),
    "a_private_key": ('public_key = "-----BEGIN OPENSSH PRIVATE KEY-----"', "var.public_key"),
    "a_region_as_a_zone": ('zones = { host1 = "us-central1" }', ZONES),
    "two_regions": (
        'hosts = { host1 = {}, host2 = {} }\nzones = { host1 = "us-central1-a", host2 = "us-east1-b" }',
        ZONES,
    ),
}


def test_the_configuration_is_formatted():
    """As `terraform fmt` has it, tests included."""
    command = [terraforming.program(), "fmt", "-check", "-diff", "-recursive", str(CONFIGURATION)]
    done = subprocess.run(command, env=terraforming.ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_terraforms_own_tests_pass(tmp_path):
    """`terraform validate` and `terraform test` of terraform/: lifetime, firewall, labels, and what is REFUSED."""
    environment, pinned = terraforming.provider()
    work = tmp_path / "terraform"
    shutil.copytree(CONFIGURATION, work)
    (work / "test_override.tf").write_text(pinned)
    variables = (work / "tests/rented.tftest.hcl").read_text().partition("\nrun ")[0]
    refused = (
        f'run "{name}" {{\n command = plan\n variables {{\n{wrong}\n}}\n expect_failures = [{what}]\n}}\n'
        for name, (wrong, what) in REFUSED.items()
    )
    (work / "tests/refused.tftest.hcl").write_text("\n".join((variables, *refused)))

    def terraform(*words):
        done = subprocess.run(
            [terraforming.program(), *words, "-no-color"],
            cwd=work, env=terraforming.ENVIRONMENT | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    terraform("init", "-input=false")
    terraform("validate")
    assert "21 passed, 0 failed" in terraform("test")


@pytest.fixture
def rented(google, tmp_path):
    """Return a run that has no machine yet."""
    environment, pinned = terraforming.provider()
    made = renting.Rented(google, tmp_path, terraforming.ENVIRONMENT | environment | {"TF": terraforming.program()})
    (made.work / "test_override.tf").write_text(pinned + IMPATIENT)
    return made


def recorded(name, rented, expires):
    """Compare what a provider 7.x asked Google for with what one asked before; UPDATE_GOLDEN=1 records it."""
    if terraforming.provider()[1]:
        return
    (request,) = rented.api.asked
    key = (rented.run_dir / "host" / "key.pub").read_text().strip()
    ends = request["scheduling"]["terminationTime"]
    text = json.dumps(request, indent=2, sort_keys=True) + "\n"
    for own, shown in {key: "KEY", ends: "ENDS", expires: "expires", request["name"]: "NAME-host1"}.items():
        text = text.replace(own, shown)
    golden(f"{name}.json", text.replace(request["name"].removesuffix("-host1"), "NAME"))


class TestComesAndGoes:
    """A machine from `provision` to `destroy`."""

    def test_all_that_was_made_is_deleted(self, rented):
        """Five things come, as the variables say; the outputs say how to log in; then nothing is left.

        The lock file, the provider and the state lie in the cache and in the run, never in the configuration.
        """
        before = sorted(CONFIGURATION.rglob("*"))
        where = rented.plan(disk_gb=120)
        done, host = rented.provision()
        assert done.returncode == 0, done.stderr
        name = where.name
        own, shared = ("disk", "instance"), (f"network {name}", f"subnetwork {name}", f"firewall {name}-ssh")
        assert rented.api.names() == sorted([*(f"{kind} {name}-host1" for kind in own), *shared])

        instance, disk = rented.api.of_kind("instances")[0], rented.api.of_kind("disks")[0]
        ours = {"tsduel-run": name, "expires": host["expires"]}
        # The provider adds one of its own, since 5.16 by itself; ours is not to be seen at another's cost.
        assert ours.items() <= instance["labels"].items() <= (ours | {"goog-terraform-provisioned": "true"}).items()
        assert ours.items() <= disk["labels"].items() <= (ours | {"goog-terraform-provisioned": "true"}).items()
        assert (disk["sizeGb"], disk["type"].rpartition("/")[2]) == ("120", "pd-balanced")
        assert instance.get("serviceAccounts", []) == []
        # Google deletes nothing that is stopped, so nothing stays stopped that can be started.
        recorded("instance-request", rented, host["expires"])
        (request,), known = rented.api.asked, fakecompute.REQUEST
        time_limit = {k: v for k, v in known["scheduling"].items() if v not in (None, [None])}
        e = host["expires"].upper()
        time_limit["terminationTime"] = f"{e[:4]}-{e[4:6]}-{e[6:11]}:{e[11:13]}:{e[13:]}"
        assert {k: v for k, v in request["scheduling"].items() if v not in (None, [None])} == time_limit
        assert request["shieldedInstanceConfig"] == known["shieldedInstanceConfig"]
        key = (rented.run_dir / "host" / "key.pub").read_text().strip()
        metadata = {item["key"]: item["value"] for item in instance["metadata"]["items"]}
        assert "tsduel-host-key" in metadata.pop("startup-script")
        assert metadata == {
            "block-project-ssh-keys": "TRUE",
            "enable-guest-attributes": "TRUE",
            "enable-oslogin": "FALSE",
            "ssh-keys": f"tsduel:{key}",
        }
        rule = rented.api.of_kind("firewalls")[0]
        assert (rule["sourceRanges"], rule["allowed"]) == (
            ["203.0.113.7/32"], [{"IPProtocol": "tcp", "ports": ["22"]}]
        )  # fmt: skip

        assert (host["address"], host["port"], host["user"]) == ("203.0.113.10", 22, "tsduel")
        assert Path(host["known_hosts_file"]).read_text() == "".join(f"* {key}\n" for key in fakecompute.HOST_KEYS)
        assert Path(host["key_file"]).stat().st_mode & 0o777 == 0o600
        assert (rented.run_dir / "host").stat().st_mode & 0o777 == 0o700

        gone = rented.destroy()
        assert gone.returncode == 0, gone.stderr
        assert f"nothing of {name} is left in {fakecompute.PROJECT}" in gone.stderr
        assert rented.api.names() == []
        assert json.loads((rented.run_dir / "host" / "outputs.json").read_text())["provisioned"] is False
        assert rented.destroy().returncode == 0
        assert sorted(CONFIGURATION.rglob("*")) == before

    def test_in_a_network_of_an_organisation(self, rented):
        """Nothing of a network is made; key, labels and tags are passed on to machine and disk."""
        subnetwork = "projects/shared-vpc-host/regions/us-central1/subnetworks/bench"
        key = "projects/p-keys/locations/us-central1/keyRings/r/cryptoKeys/k"
        tags = {"tagKeys/1": "tagValues/2"}
        where = rented.plan(subnetwork=subnetwork, kms_key=key, labels={"team": "storage"}, tags=tags, SSH_FROM="iap")
        programs = rented.root / "bin"
        programs.mkdir()
        (programs / "gcloud").symlink_to(shutil.which("true"))
        done, host = rented.provision(PATH=f"{programs}:{os.environ['PATH']}")
        assert done.returncode == 0, done.stderr
        recorded("instance-request-organisation", rented, host["expires"])
        assert rented.api.names() == [f"disk {where.name}-host1", f"instance {where.name}-host1"]
        request = rented.api.asked[0]
        assert request["networkInterfaces"][0]["subnetwork"].endswith(subnetwork)
        assert request["disks"][0]["diskEncryptionKey"] == {"kmsKeyName": key}
        assert request["labels"]["team"] == request["disks"][0]["initializeParams"]["labels"]["team"] == "storage"
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []

    def test_without_a_public_address(self, rented):
        """With SSH_FROM=iap the machine has none, Cloud NAT lets it out, and gcloud's tunnel is the way in."""
        where = rented.plan(SSH_FROM="iap")
        programs = rented.root / "bin"
        programs.mkdir()
        (programs / "ssh-keygen").symlink_to(shutil.which("ssh-keygen"))
        done, _ = rented.provision(PATH=str(programs))
        assert "SSH_FROM=iap needs gcloud, whose tunnel it is" in done.stderr
        (programs / "gcloud").symlink_to(shutil.which("true"))
        done, host = rented.provision(PATH=f"{programs}:{os.environ['PATH']}")
        assert done.returncode == 0, done.stderr
        assert host["address"] == "10.84.28.2"
        assert "accessConfigs" not in rented.api.of_kind("instances")[0]["networkInterfaces"][0]
        router = rented.api.of_kind("routers")[0]
        assert [nat["name"] for nat in router["nats"]] == [f"{where.name}-nat"]
        assert (
            f"tsduel.places.gcp.tunnel {where.name}-host1 22 {where.project}" in Path(host["config_file"]).read_text()
        )
        # Of a checkout that was moved since, and so of one that has another text.
        tunnel = Path(host["config_file"]).read_text()
        Path(host["config_file"]).write_text("ProxyCommand /before/python")
        done, again = rented.provision(PATH=f"{programs}:{os.environ['PATH']}")
        assert done.returncode == 0, done.stderr
        assert (again["config_file"], Path(host["config_file"]).read_text()) == (host["config_file"], tunnel)
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []


class TestFaults:
    """What the real Terraform says and does when something goes wrong."""

    def test_quota(self, rented):
        """Google's 403 for a quota: which, and what to do."""
        rented.plan()
        rented.api.faults.append(renting.refuse_inserts("instances", fakecompute.QUOTA_EXCEEDED))
        done, _ = rented.provision()
        assert "quota does not allow it (Quota 'CPUS' exceeded.  Limit: 8.0 in region us-central1)" in done.stderr
        assert "IAM & Admin > Quotas" in done.stderr
        assert rented.api.names() == []

    def test_interrupted(self, rented):
        """Ctrl-C while a machine is on its way: Terraform stops, and all is given back."""
        rented.plan()
        rented.api.stuck = lambda _: True
        process = rented.start()
        while not rented.api.of_kind("instances"):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "gcp: interrupted" in said
        assert rented.api.names() == []
