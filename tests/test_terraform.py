"""The Terraform configuration, with the real provider: its own tests, and machines in a fake Google."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import fakecompute
import plans
import pytest
import renting
import terraforming
from fakecompute import FakeCompute, RefusalError

from tsduel.places.gcp import terraform

PROJECT = Path(__file__).resolve().parent.parent
CONFIGURATION = PROJECT / "terraform"
# One after the other: Terraform and its provider take half a gigabyte.
# The first may have to build them.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("provider"), pytest.mark.timeout(2400)]
# What takes minutes of patience in earnest takes seconds here.
IMPATIENT = (
    'resource "google_compute_instance" "main" {\n  timeouts {\n    create = "15s"\n    delete = "15s"\n  }\n}\n'
)

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
provision.write(run_dir, kind="gcp", made=made, provisioned=True)
print(json.dumps(made))
"""


@pytest.fixture(scope="session")
def provider():
    """Return what makes Terraform find a google provider: environment, and the text of an override file."""
    return terraforming.provider()


def test_the_configuration_is_formatted():
    """As `terraform fmt` has it, tests included."""
    command = [terraforming.program(), "fmt", "-check", "-diff", "-recursive", str(CONFIGURATION)]
    done = subprocess.run(command, env=terraforming.ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_terraforms_own_tests_pass(provider, tmp_path):
    """`terraform validate` and `terraform test` of terraform/: lifetime, firewall, labels, refusals."""
    environment, pinned = provider
    work = tmp_path / "terraform"
    shutil.copytree(CONFIGURATION, work)
    (work / "test_override.tf").write_text(pinned)

    def terraform(*words):
        done = subprocess.run(
            [terraforming.program(), *words, "-no-color"],
            cwd=work, env=terraforming.ENVIRONMENT | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    terraform("init", "-input=false")
    terraform("validate")
    assert "44 passed, 0 failed" in terraform("test")


class Rented:
    """A run of a project of the fake Google's, and the stages that are about its machine."""

    def __init__(self, api, provider, tmp_path):
        self.api = api
        self.root = tmp_path
        self.run_dir = tmp_path / "results" / "r"
        (self.run_dir / "plan").mkdir(parents=True)
        environment, pinned = provider
        self.environment = terraforming.ENVIRONMENT | environment | api.environment()
        self.environment |= {"TSDUEL_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(PROJECT)}
        self.environment["TF"] = terraforming.program()
        work = tmp_path / "cache" / "terraform" / "r"
        work.mkdir(parents=True)
        (work / "test_override.tf").write_text(pinned + IMPATIENT)
        self.work = work

    def plan(self, **changes):
        """Write a plan of nothing but its place, and what Terraform is told."""
        where = renting.asked(seconds=600, **changes)
        made = plans.write(self.run_dir, place=where, topology=changes.get("group", {}))
        (self.run_dir / "plan" / "terraform.tfvars.json").write_text(json.dumps(terraform.variables(made)))
        return where

    def provision(self, **environment):
        """Rent the machine; return the process and, if it came, what is known of it."""
        done, made = self.provision_all(**environment)
        return done, made["host1"] if made else None

    def provision_all(self, **environment):
        """Rent the machines; return the process and, if they came, what is known of them."""
        done = self._python("-c", PROVISION, **environment)
        return done, json.loads(done.stdout) if done.returncode == 0 else {}

    def start(self):
        """Begin to rent it."""
        words = [PROJECT / ".venv" / "bin" / "python", "-c", PROVISION]
        return subprocess.Popen(
            words, cwd=self.root, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def destroy(self, **environment):
        """Type `make destroy`."""
        return self._python("-m", "tsduel", "destroy", "r", **environment)

    def _python(self, *words, **environment):
        python = PROJECT / ".venv" / "bin" / "python"
        return subprocess.run(
            [python, *words], cwd=self.root, env=self.environment | environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip


@pytest.fixture
def api():
    """Return a Google with one empty project."""
    with_one_project = FakeCompute()
    yield with_one_project
    with_one_project.close()


@pytest.fixture
def rented(api, provider, tmp_path):
    """Return a run that has no machine yet."""
    return Rented(api, provider, tmp_path)


def refuse_inserts(kind, refusal, times=10**9):
    """Return a fault: so many requests to make something of a kind are answered with a refusal."""
    left = [times]

    def fault(method, path):
        if method != "POST" or not path.endswith(f"/{kind}") or left[0] == 0:
            return None
        left[0] -= 1
        return refusal

    return fault


class TestComesAndGoes:
    """A machine from `provision` to `destroy`."""

    def test_all_that_was_made_is_deleted(self, rented):
        """Five things come, as the variables say; the outputs say how to log in; then nothing is left."""
        where = rented.plan(disk_gb=120)
        done, host = rented.provision()
        assert done.returncode == 0, done.stderr
        name = where.name
        own, shared = ("disk", "instance"), (f"network {name}", f"subnetwork {name}", f"firewall {name}-ssh")
        assert rented.api.names() == sorted([*(f"{kind} {name}-host1" for kind in own), *shared])

        instance, disk = rented.api.of_kind("instances")[0], rented.api.of_kind("disks")[0]
        assert instance["labels"] == {"tsduel-run": name, "expires": host["expires"]} == disk["labels"]
        assert (disk["sizeGb"], disk["type"].rpartition("/")[2]) == ("120", "pd-balanced")
        assert instance.get("serviceAccounts", []) == []
        # Google deletes nothing that is stopped, so nothing stays stopped that can be started.
        assert instance["scheduling"]["automaticRestart"] is True
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
        assert Path(host["known_hosts_file"]).read_text() == "* ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFake\n"
        assert Path(host["key_file"]).stat().st_mode & 0o777 == 0o600
        assert (rented.run_dir / "host").stat().st_mode & 0o777 == 0o700

        gone = rented.destroy()
        assert gone.returncode == 0, gone.stderr
        assert f"nothing of {name} is left in {fakecompute.PROJECT}" in gone.stderr
        assert rented.api.names() == []
        assert json.loads((rented.run_dir / "host" / "outputs.json").read_text())["provisioned"] is False
        assert rented.destroy().returncode == 0

    def test_a_fleet(self, rented):
        """Hosts of two types; where a zone has none left, what came stays and the rest is asked for in the next one."""
        where = rented.plan(machines=("e2-standard-8", "n2-standard-8"), HOSTS="2")
        rented.api.left = {"us-central1-a": 3}
        done, made = rented.provision_all()
        assert done.returncode == 0, done.stderr
        assert [made[name]["machine"] for name in sorted(made)] == ["e2-standard-8"] * 2 + ["n2-standard-8"] * 2
        assert sorted(host["zone"] for host in made.values()) == ["us-central1-a"] * 3 + ["us-central1-b"]
        assert [r for r in rented.api.requests if r.startswith("DELETE")] == []
        assert len([r for r in rented.api.requests if r.startswith("POST") and r.endswith("/networks")]) == 1
        assert {name: host["instance"] for name, host in made.items()} == {n: f"{where.name}-{n}" for n in where.hosts}
        assert len({host["expires"] for host in made.values()}) == 1
        assert len({host["known_hosts_file"] for host in made.values()}) == 4
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []
        assert {p.name for p in (rented.run_dir / "host").iterdir()} == {"outputs.json", "terraform.tfstate.backup"}

    def test_a_fleet_that_is_not_to_be_had_whole(self, rented):
        """Nothing is kept of it, unless a spare host takes the place of what no zone has left."""
        zones = {"zones": ["us-central1-a", "us-central1-b"]}
        rented.plan(HOSTS="2", **zones)
        rented.api.left = {"us-central1-a": 1, "us-central1-b": 0}
        done, _ = rented.provision_all()
        assert "no zone has a e2-standard-8 left at the moment (asked: us-central1-a, us-central1-b)" in done.stderr
        assert rented.api.names() == []
        rented.plan(HOSTS="2", SPARE_HOSTS="1", **zones)
        rented.api.left = {"us-central1-a": 1, "us-central1-b": 1}
        done, made = rented.provision_all()
        assert done.returncode == 0, done.stderr
        assert len(made) == 2
        assert "is not to be had in any zone; the run goes on with the others" in done.stderr
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []

    def test_a_group(self, rented):
        """All in one zone, which the first that lacks one leaves with all; with one that is lost all begin anew."""
        group = {"host1": ("client",), "host2": ("client",), "host3": ("server",)}
        where = rented.plan(group=group, zones=["us-central1-a", "us-central1-b"])
        rented.api.left = {"us-central1-a": 1}
        done, made = rented.provision_all()
        assert done.returncode == 0, done.stderr
        assert "asking for 3 x e2-standard-8 in us-central1-b" in done.stderr
        assert {host["zone"] for host in made.values()} == {"us-central1-b"}
        assert sorted(path for path in rented.api.things if "/instances/" in path) == [
            f"zones/us-central1-b/instances/{where.name}-host{number}" for number in (1, 2, 3)
        ]
        assert sorted(i["labels"]["tsduel-roles"] for i in rented.api.of_kind("instances")) == [
            *("client", "client", "server"),
        ]
        assert {host["private"] for host in made.values()} == {
            card["networkIP"] for i in rented.api.of_kind("instances") for card in i["networkInterfaces"]
        }
        # What is open besides SSH is open to what has this run's tag alone.
        rules = {rule["name"]: rule for rule in rented.api.of_kind("firewalls")}
        between = rules.pop(f"{where.name}-between")
        assert between["allowed"] == [{"IPProtocol": "tcp", "ports": ["8428-8528"]}]
        assert between["sourceTags"] == between["targetTags"] == [where.name]
        assert "sourceRanges" not in between
        assert list(rules) == [f"{where.name}-ssh"]

        rented.api.left = {}
        rented.api.preempt("host3")
        time.sleep(1.1)
        done, second = rented.provision_all()
        assert done.returncode == 0, done.stderr
        assert "is gone; the others are given back, since a block takes all of them" in done.stderr
        assert {host["zone"] for host in second.values()} == {"us-central1-a"}
        assert {host["expires"] for host in second.values()}.isdisjoint(host["expires"] for host in made.values())
        assert len(rented.api.of_kind("instances")) == 3
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []

    def test_nothing_is_written_into_the_configuration(self, rented):
        """The lock file, the provider and the state lie in the cache and in the run."""
        before = sorted(CONFIGURATION.rglob("*"))
        rented.plan()
        rented.provision()
        rented.destroy()
        assert sorted(CONFIGURATION.rglob("*")) == before

    def test_a_second_time_changes_nothing(self, rented):
        """The machine that is there stays, with its deadline, whatever the clock says; its address may have changed."""
        rented.plan()
        _, first = rented.provision()
        asked = len(rented.api.requests)
        time.sleep(1.1)
        done, second = rented.provision()
        assert second == first, done.stderr
        assert [r for r in rented.api.requests[asked:] if not r.startswith("GET")] == []
        # Google has started it again after its host had failed.
        rented.api.of_kind("instances")[0]["networkInterfaces"][0]["accessConfigs"][0]["natIP"] = "203.0.113.11"
        done, third = rented.provision()
        assert third == first | {"address": "203.0.113.11"}, done.stderr
        rented.destroy()

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
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []


class TestFaults:
    """What can go wrong ends in a sentence with the next step, and with nothing left."""

    def test_quota(self, rented):
        """Google's 403 for a quota: which, and what to do."""
        rented.plan()
        rented.api.faults.append(refuse_inserts("instances", fakecompute.quota_exceeded()))
        done, _ = rented.provision()
        assert "quota does not allow it (Quota 'CPUS' exceeded.  Limit: 8.0 in region us-central1)" in done.stderr
        assert "IAM & Admin > Quotas" in done.stderr
        assert rented.api.names() == []

    def test_the_next_zone_is_asked(self, rented):
        """A zone that has none left is said, and the next of the list gets the request; the network stays the same."""
        rented.plan(zones=["us-central1-a", "us-central1-b", "us-central1-c"])
        rented.api.exhausted_zones |= {"us-central1-a"}
        rented.api.lacking.add(("us-central1-b", "e2-standard-8"))
        done, host = rented.provision()
        assert done.returncode == 0, done.stderr
        assert host["zone"] == "us-central1-c"
        assert "us-central1-a has no e2-standard-8 left at the moment" in done.stderr
        assert "there is no e2-standard-8 in us-central1-b" in done.stderr
        assert len([r for r in rented.api.requests if r.startswith("POST") and r.endswith("/networks")]) == 1
        rented.destroy()

    def test_an_organisations_policy(self, rented):
        """What it forbids is a sentence with the way round it."""
        rented.plan()
        rented.api.faults.append(refuse_inserts("instances", fakecompute.violated("vmExternalIpAccess")))
        done, _ = rented.provision()
        assert "forbids machines with a public address (constraints/compute.vmExternalIpAccess): take SSH_FROM=iap" in (
            done.stderr
        )
        assert rented.api.names() == []

    def test_no_zone_has_one(self, rented):
        """All zones of the list are asked, once each, and then all is given back."""
        rented.plan(zones=["us-central1-a", "us-central1-b"])
        rented.api.exhausted_zones |= {"us-central1-a", "us-central1-b"}
        done, _ = rented.provision()
        assert "no zone has a e2-standard-8 left at the moment (asked: us-central1-a, us-central1-b)" in done.stderr
        assert rented.api.names() == []

    @pytest.mark.parametrize("creates", [True, False])
    def test_an_operation_that_never_ends(self, rented, creates):
        """Bounded by the configuration; a machine that came all the same, unknown to Terraform, is deleted."""
        rented.plan()
        rented.api.stuck, rented.api.stuck_creates = (lambda _: True), creates
        done, _ = rented.provision()
        assert "Google has not finished within the time we allow" in done.stderr
        assert rented.api.names() == []

    def test_a_burst_of_503(self, rented):
        """The provider tries again, and so do we."""
        rented.plan()
        rented.api.faults.append(refuse_inserts("networks", fakecompute.unavailable(), times=2))
        asked = []

        def first_three(method, path):
            asked.append(path)
            return fakecompute.unavailable() if method == "GET" and len(asked) <= 3 else None

        rented.api.faults.append(first_three)
        done, host = rented.provision()
        assert host, done.stderr
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []

    def test_a_machine_that_is_gone(self, rented):
        """Preempted: the next provision says where its blocks are, and rents another with a deadline of its own."""
        rented.plan()
        _, first = rented.provision()
        block = rented.run_dir / "raw" / "001"
        block.mkdir(parents=True)
        (block / "block.json").write_text("{}")
        rented.api.preempt()
        time.sleep(1.1)
        done, second = rented.provision()
        assert done.returncode == 0, done.stderr
        assert second["expires"] > first["expires"]
        assert "blocks of two machines are not compared" in done.stderr
        assert (rented.run_dir / "raw-of-lost-machine-1" / "001" / "block.json").exists()
        assert not (rented.run_dir / "raw").exists()
        rented.destroy()

    @pytest.mark.parametrize("kind", ["networks", "firewalls", "instances"])
    def test_a_role_that_is_missing(self, rented, kind):
        """Whatever was made before the refusal is deleted, and the roles are named."""
        rented.plan()
        rented.api.faults.append(refuse_inserts(kind, fakecompute.no_permission()))
        done, _ = rented.provision()
        assert "it needs the roles" in done.stderr
        assert rented.api.names() == []

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
    def test_interrupted(self, rented, number):
        """Ctrl-C, or the end of a session, while a machine is on its way: Terraform stops, and all is given back."""
        rented.plan()
        rented.api.stuck = lambda _: True
        process = rented.start()
        while not rented.api.of_kind("instances"):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "gcp: interrupted" in said
        assert rented.api.names() == []

    def test_keep(self, rented):
        """KEEP=1 keeps what was made, and says how to delete it."""
        rented.plan()
        rented.api.faults.append(refuse_inserts("instances", fakecompute.quota_exceeded()))
        done, _ = rented.provision(KEEP="1")
        assert "KEEP=1: what was made is kept; delete it with: make destroy RUN=r" in done.stderr
        assert len(rented.api.names()) == 3
        rented.destroy()
        assert rented.api.names() == []

    def test_terraform_cannot_delete(self, rented):
        """Then Google's API does, so that nothing is left for want of a provider."""
        rented.plan()
        rented.provision()
        shutil.rmtree(rented.work)
        done = rented.destroy(TF="no-such-terraform")
        assert done.returncode == 0
        assert "Terraform could not delete it all" in done.stderr
        assert rented.api.names() == []

    def test_what_cannot_be_deleted_is_listed(self, rented):
        """A non-zero exit, and the commands to delete it by hand."""
        where = rented.plan()
        rented.provision()

        def no_deleting(method, path):
            held = method == "DELETE" and "/networks/" in path
            return RefusalError(400, "resourceInUseByAnotherResource", "in use") if held else None

        rented.api.faults.append(no_deleting)
        done = rented.destroy()
        assert done.returncode == 2
        assert f"gcloud compute networks delete {where.name} --project={fakecompute.PROJECT} --quiet" in done.stderr
        rented.api.faults.clear()
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []
