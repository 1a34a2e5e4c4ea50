"""Renting and deleting machines with a fake Terraform and a fake Google; tests/test_terraform.py has the real one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import fakecompute
import pytest
from fakecompute import RefusalError
from fakeproject import FAKES
from renting import Rented, refuse_inserts

from tsduel.core.project import PROJECT
from tsduel.places.gcp import report


@pytest.fixture
def rented(google, tmp_path):
    """Return a run that has no machine yet."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "GOOGLE_", "CLOUDSDK_", "GCP_"))}
    return Rented(google, tmp_path, kept | {"TF": str(FAKES / "terraform")})


class TestComesAndGoes:
    """A machine from `provision` to `destroy`."""

    def test_a_fleet(self, rented):
        """If a zone has too few, they stay and the next zone is asked for the rest."""
        where = rented.plan(HOSTS="4")
        rented.api.left = {"us-central1-a": 3}
        done, made = rented.provision_all()
        assert done.returncode == 0, done.stderr
        assert sorted(host["zone"] for host in made.values()) == ["us-central1-a"] * 3 + ["us-central1-b"]
        assert [r for r in rented.api.requests if r.startswith("DELETE")] == []
        assert len([r for r in rented.api.requests if r.startswith("POST") and r.endswith("/networks")]) == 1
        assert {name: host["instance"] for name, host in made.items()} == {n: f"{where.name}-{n}" for n in where.hosts}
        assert len({host["expires"] for host in made.values()}) == 1
        assert len({host["known_hosts_file"] for host in made.values()}) == 4
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []
        assert {p.name for p in (rented.run_dir / "host").iterdir()} == {"outputs.json"}

    def test_a_fleet_that_is_not_to_be_had_whole(self, rented):
        """All is given back, unless a spare host replaces the missing one."""
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
        assert "is not available in any zone; the run goes on with the others" in done.stderr
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []

    def test_the_provider_that_came_first_is_kept_to(self, rented):
        """Without a lock file in terraform/ the next runs take no other executable that gets the token."""
        rented.plan()
        rented.provision()
        rented.destroy()
        first = (rented.work / ".terraform.lock.hcl").read_text()
        shutil.rmtree(rented.work)
        rented.provision()
        assert (rented.work / ".terraform.lock.hcl").read_text() == first
        rented.destroy()

    def test_what_is_reported(self, rented):
        """`make gcp-report` has what was asked and answered, and nobody's token, key, account, address or project."""
        rented.plan(SSH_FROM="198.51.100.7")
        rented.api.policies = {"restart"}
        rented.provision()
        rented.destroy()
        done = rented._python("-m", "tsduel", "gcp-report", "r")
        assert done.returncode == 0, done.stderr
        said = (rented.run_dir / "gcp-report.txt").read_text()
        for there in ("projects/PROJECT/zones/us-central1-a/instances/", '"terminationTime"', "ended with 1",
                      "Scheduling must have automaticRestart be false"):  # fmt: skip
            assert there in said
        for secret in (fakecompute.TOKEN, fakecompute.PROJECT, "198.51.100.7", "203.0.113.10", "AAAAC3Nz", "BEGIN"):
            assert secret not in said
        assert "kind" in report.without_secrets("kind me@example.com Bearer ya29.abc")
        assert report.without_secrets("Bearer abc, me@example.com ya29.x_y-z") == "<token>, <account> <token>"

    def test_what_others_wrote_into_their_machines_is_not_kept(self, tmp_path):
        """A list of the project's machines has the start scripts of all of them."""
        items = {"items": {"zones/z": {"instances": [{"name": "theirs", "metadata": {"items": ["hunter2"]}}]}}}
        for answer in (items, {"name": "p", "commonInstanceMetadata": {"items": ["hunter2"]}}):
            report.note(tmp_path, report.ASKED, "GET x 200", json.dumps(answer).encode())
        kept = (tmp_path / report.ASKED).read_text()
        assert "theirs" in kept
        assert "hunter2" not in kept

    def test_a_second_time_changes_nothing(self, rented):
        """A running machine stays with its deadline; its address may have changed."""
        rented.plan()
        _, first = rented.provision()
        asked = len(rented.api.requests)
        time.sleep(1.1)
        done, second = rented.provision()
        assert second == first, done.stderr
        assert [r for r in rented.api.requests[asked:] if not r.startswith("GET")] == []
        # As after a restart by Google.
        rented.api.of_kind("instances")[0]["networkInterfaces"][0]["accessConfigs"][0]["natIP"] = "203.0.113.11"
        done, third = rented.provision()
        assert third == first | {"address": "203.0.113.11"}, done.stderr
        rented.destroy()


class TestFaults:
    """Each error gives a sentence with the next step, and leaves nothing."""

    @pytest.mark.parametrize("creates", [True, False])
    def test_an_operation_that_never_ends(self, rented, creates):
        """After a limited time all is deleted, also a machine that Terraform does not know."""
        rented.plan()
        rented.api.stuck, rented.api.stuck_creates = (lambda _: True), creates
        done, _ = rented.provision()
        assert "Google has not finished within the time we allow" in done.stderr
        assert rented.api.names() == []

    def test_a_machine_that_is_gone(self, rented):
        """After preemption the next provision, if it is agreed to, moves its blocks away, and rents another one."""
        rented.plan()
        _, first = rented.provision()
        block = rented.run_dir / "raw/host1/001"
        block.mkdir(parents=True)
        (block / "block.json").write_text("{}")
        rented.api.preempt()
        time.sleep(1.1)
        done, second = rented.provision(YES="1")
        assert done.returncode == 0, done.stderr
        assert second["expires"] > first["expires"]
        assert "blocks of two machines are not compared" in done.stderr
        assert (rented.run_dir / "raw-of-lost-machine-1/host1/001/block.json").exists()
        assert not (rented.run_dir / "raw").exists()
        rented.destroy()

    @pytest.mark.parametrize(
        ("kind", "refusal", "sentence"),
        [
            ("networks", fakecompute.NO_PERMISSION, "it needs the roles"),
            ("instances", fakecompute.violated("vmExternalIpAccess"), "compute.vmExternalIpAccess): take SSH_FROM=iap"),
            (
                "instances",
                fakecompute.violated("managed.requireOsLogin"),
                'compute.managed.requireOsLogin): add SET="gcp.os_login=true"',
            ),
        ],
    )
    def test_what_google_refuses(self, rented, kind, refusal, sentence):
        """All that was made is deleted, and the sentence has a solution."""
        rented.plan()
        rented.api.faults.append(refuse_inserts(kind, refusal))
        done, _ = rented.provision()
        assert sentence in done.stderr
        assert rented.api.names() == []

    @pytest.mark.parametrize(
        ("policies", "said", "path", "value"),
        [
            ({"managed.disableGuestAttributesAccess"}, "forbids guest attributes, so the host keys are read from the",
             ("metadata", "items", 0, "value"), "FALSE"),
            ({"restart"}, "starts again after a failure of its host, so it does not",
             ("scheduling", "automaticRestart"), False),
        ],
    )  # fmt: skip
    def test_what_a_run_can_do_without(self, rented, policies, said, path, value):
        """A policy against guest attributes, and a Google that starts nothing again that has a deadline: it goes on."""
        rented.plan()
        rented.api.policies = policies
        rented.api.console = "tsduel-host-key ssh-ed25519 AAAA\n"
        done, host = rented.provision()
        assert done.returncode == 0, done.stderr
        assert said in done.stderr
        found = rented.api.of_kind("instances")[0]
        for name in path:
            found = found[name]
        assert found == value
        # A second time neither changes that nor asks for another machine.
        before = len(rented.api.requests)
        assert rented.provision()[1] == host
        assert [r for r in rented.api.requests[before:] if not r.startswith("GET")] == []
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []

    def test_both_of_them(self, rented):
        """One after the other."""
        rented.plan()
        rented.api.policies = {"managed.disableGuestAttributesAccess", "restart"}
        rented.api.console = "tsduel-host-key ssh-ed25519 AAAA\n"
        done, _ = rented.provision()
        assert done.returncode == 0, done.stderr
        rented.destroy()

    @pytest.mark.parametrize("keep", ["", "1"])
    def test_a_machine_that_google_would_not_delete(self, rented, keep):
        """Google itself says whether a machine has its deadline; without one it is given back at once, and not kept."""
        rented.plan()
        rented.api.forgetful = True
        done, _ = rented.provision(KEEP=keep)
        assert "without the deadline that was asked for" in done.stderr
        assert "it would live for ever, so it is given back at once" in done.stderr
        assert rented.api.names() == []

    def test_a_zone_without_machines_and_the_next(self, rented):
        """Where the first zone has none left, the next one has, with the same deadline."""
        rented.plan()
        rented.api.left = {"us-central1-a": 0}
        done, host = rented.provision()
        assert done.returncode == 0, done.stderr
        assert host["zone"] == "us-central1-b"
        rented.destroy()

    def test_interrupted(self, rented):
        """The end of the session stops Terraform, and all is given back; Ctrl-C: test_terraform.py."""
        rented.plan()
        rented.api.stuck = lambda _: True
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it goes on
        try:
            process = rented.start()
        finally:
            signal.signal(signal.SIGHUP, before)
        while not rented.api.of_kind("instances"):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGHUP)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "gcp: interrupted" in said
        assert rented.api.names() == []

    def test_who_was_told_to_ignore_a_hang_up_goes_on(self):
        """As nohup does; SIGTERM interrupts."""
        code = (
            "import signal; from tsduel.core.children import mind_signals; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
            "; mind_signals(); print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, "
            "signal.getsignal(signal.SIGTERM) is signal.default_int_handler)"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
        assert done.stdout == "True True\n"

    def test_keep(self, rented):
        """KEEP=1 keeps all, and the sentence has the command to delete it."""
        rented.plan()
        rented.api.faults.append(refuse_inserts("instances", fakecompute.QUOTA_EXCEEDED))
        done, _ = rented.provision(KEEP="1")
        assert "KEEP=1: what was made is kept; delete it with: make destroy RUN=r" in done.stderr
        assert len(rented.api.names()) == 3
        rented.destroy()
        assert rented.api.names() == []

    def test_terraform_cannot_delete(self, rented):
        """Then we delete through Google's API."""
        rented.plan()
        rented.provision()
        shutil.rmtree(rented.work)
        done = rented.destroy(TF="no-such-terraform")
        assert done.returncode == 0
        assert "Terraform could not delete it all" in done.stderr
        assert rented.api.names() == []

    def test_what_cannot_be_deleted_is_listed(self, rented):
        """The exit code is 2, and the commands to delete it are printed."""
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
