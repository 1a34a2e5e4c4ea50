"""Rented machines with a fake of Google's API: credentials, refusals, deletion, and `make reap`."""

from __future__ import annotations

import json
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fakecompute
import plans
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fakecompute import PROJECT, RefusalError
from renting import asked, named, rented, run_of

from tsduel.build import ansible as build
from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places import hosts, liveness, provision
from tsduel.places.gcp import api as compute_api
from tsduel.places.gcp import credentials, give_back, host_keys, messages, os_login, provide, reap, rent, report
from tsduel.places.gcp.api import Compute
from tsduel.rounds import ending, remote

SLOWLY = host_keys.PAUSE_S


SEEN = "$CLOUDSDK_AUTH_ACCESS_TOKEN of $CLOUDSDK_CORE_ACCOUNT as $CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT"
FLEET = {"HOSTS": "4", "SPARE_HOSTS": "2"}


def gcloud(directory, body):
    """Write a fake gcloud, and return an environment whose PATH has it first."""
    program = directory / "gcloud"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return {"PATH": f"{directory}:/usr/bin:/bin"}


@pytest.fixture
def default(google, tmp_path, monkeypatch):
    """Leave this process Google's own defaults alone, those of a service account; return where its file lies."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    known = {"type": "service_account", "client_email": "robot@p.iam.gserviceaccount.com", "private_key": pem}
    known["token_uri"] = google.environment()["GOOGLE_OAUTH2_CUSTOM_ENDPOINT"] + "token"
    # Where `gcloud auth application-default login` leaves a file, too.
    file = tmp_path / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir()
    file.write_text(json.dumps(known))
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(file.parent))
    monkeypatch.setenv("PATH", str(tmp_path))
    credentials.default.cache_clear()
    yield file
    credentials.default.cache_clear()


class TestCredentials:
    """The token for Google Cloud."""

    def test_where_it_comes_from(self, google, default, monkeypatch, tmp_path):
        """GOOGLE_OAUTH_ACCESS_TOKEN, else Google's own defaults, without gcloud: the variable's file, or theirs."""
        assert credentials.token({"GOOGLE_OAUTH_ACCESS_TOKEN": " abc "}) == "abc"
        assert google.tokens[credentials.token({})] == fakecompute.ACCOUNT
        assert Compute(PROJECT).get("")["name"] == PROJECT
        credentials.default.cache_clear()
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(default.rename(tmp_path / "elsewhere.json")))
        assert credentials.token({}) in google.tokens

    def test_none(self, default):
        """The sentence has the command to log in."""
        default.unlink()
        with pytest.raises(UserError, match="log in with `gcloud auth application-default login`"):
            credentials.token({})

    @pytest.mark.usefixtures("default")
    def test_a_token_that_ends_in_mid_run(self, google):
        """One that has ended by itself is renewed, for Terraform one that would not last; one that was given is not."""
        compute = Compute(PROJECT)
        compute.get("")
        first = credentials.token({})
        google.expire()
        assert compute.get("")["name"] == PROJECT
        second = credentials.token({})
        assert second != first
        credentials.default().expiry = datetime.now(UTC).replace(tzinfo=None) + timedelta(minutes=15)
        assert credentials.token({}) == second
        assert credentials.terraform_environment({})["GOOGLE_OAUTH_ACCESS_TOKEN"] != second

    def test_a_given_token_that_has_ended(self, google):
        """It cannot be renewed, so a sentence says how long a token lives."""
        google.expire()
        with pytest.raises(UserError, match="a token lives for one hour"):
            provide._preflight(Compute(PROJECT), asked(), {})

    def test_children_act_as_we_do(self, google):
        """They get none of the user's variables that make them another identity, or change what they do."""
        theirs = {
            "GOOGLE_CREDENTIALS": "{}", "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT": "robot", "GOOGLE_BILLING_PROJECT": "p",
            "USER_PROJECT_OVERRIDE": "true", "GCLOUD_KEYFILE_JSON": "{}", "CLOUDSDK_CORE_PROJECT": "p",
            "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT": "robot", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": "f",
            "TF_VAR_spot": "true", "TF_CLI_ARGS": "-x", "TF_DATA_DIR": "/d", "TF_WORKSPACE": "w",
            "TF_REATTACH_PROVIDERS": "{}",
        }  # fmt: skip
        kept = {"GOOGLE_OAUTH_ACCESS_TOKEN": fakecompute.TOKEN, "HTTPS_PROXY": "p"}
        ours = {"TF_CLI_CONFIG_FILE": "mirror.rc", "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": google.url}
        environment = credentials.terraform_environment(theirs | kept | ours)
        assert not set(theirs) & set(environment)
        assert environment.items() >= (kept | ours).items()
        ours = {"CLOUDSDK_CONFIG": "/c", "CLOUDSDK_PROXY_ADDRESS": "a", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": "f"}
        environment = credentials.gcloud_environment(theirs | kept | ours)
        set_by_us = {
            # Empty, since the user's configuration may say it as well.
            "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT": "",
            "CLOUDSDK_AUTH_ACCESS_TOKEN": fakecompute.TOKEN,
            "CLOUDSDK_CORE_ACCOUNT": fakecompute.ACCOUNT,
        }
        assert environment.items() >= (ours | set_by_us | {"HTTPS_PROXY": "p"}).items()
        assert {n for n in environment if n.startswith(("CLOUDSDK_", "GOOGLE_"))} == {*ours, *set_by_us}


class TestNothingIsLeft:
    """Giving machines back, by Google's API."""

    def test_one_runs_things_go_and_others_stay(self, google, tmp_path):
        """All of this run is deleted, with its key, and nothing of other runs or people."""
        rented(google, "tsduel-mine-aaaaaa", hosts=3)
        rented(google, "tsduel-mine-aaaaaa-ssh-b")
        rented(google, "production")
        before = google.names()
        run_dir = run_of(tmp_path, "tsduel-mine-aaaaaa")
        key = provide.make_key(run_dir)
        give_back.main(run_dir, named("tsduel-mine-aaaaaa"))
        assert [path for path in (key, key.with_suffix(".pub")) if path.exists()] == []
        gone = [thing.partition(" ")[2] for thing in before if thing not in google.names()]
        assert sorted(set(gone)) == [f"tsduel-mine-aaaaaa{end}" for end in ("", "-host1", "-host2", "-host3", "-ssh")]
        assert len(gone) == 9

    def test_who_keeps_it(self, google, tmp_path, capsys):
        """KEEP=1 and Ctrl-C keep the machine; `make destroy` deletes it."""
        name = "tsduel-kept-aaaaaa"
        rented(google, name)
        run_dir = run_of(tmp_path, name)
        for environment, code in (({"KEEP": "1"}, 0), ({"KEEP": "1"}, 3), ({}, 130)):
            assert ending.main(run_dir, environment, code, forced=False) == code
            assert len(google.names()) == 5
        assert "with: make destroy RUN=r" in capsys.readouterr().err
        assert ending.main(run_dir, {"KEEP": "1"}, 0, forced=True) == 0
        assert google.names() == []

    def test_a_finished_run_gives_its_machine_back(self, google, tmp_path):
        """The second time does nothing."""
        rented(google, "tsduel-done-aaaaaa")
        run_dir = run_of(tmp_path, "tsduel-done-aaaaaa")
        assert ending.main(run_dir, {}, 0, forced=False) == 0
        assert google.names() == []
        asked_before = len(google.requests)
        assert ending.main(run_dir, {}, 0, forced=False) == 0
        assert len(google.requests) == asked_before

    def test_a_run_that_is_at_home_needs_no_machine(self, google, tmp_path):
        """After the machine was given back, the stages do and rent nothing."""
        run_dir = run_of(tmp_path, "tsduel-done-aaaaaa")
        (run_dir / "host" / "fetched.json").write_text("{}")
        give_back.main(run_dir, named("tsduel-done-aaaaaa"))
        before = len(google.requests)
        provision.main(run_dir)
        assert build.main(run_dir) == 0
        assert remote.main(run_dir) == 0
        assert ending.main(run_dir, {}, 0, forced=False) == 0
        assert len(google.requests) == before

    def test_a_machine_that_is_gone(self, google, tmp_path):
        """After preemption a sentence has the number of blocks here and the next command; the rest is deleted."""
        rented(google, "tsduel-gone-aaaaaa")
        run_dir = run_of(tmp_path, "tsduel-gone-aaaaaa")
        assert liveness.why_gone(run_dir) == ""
        google.preempt()
        assert (
            "the machine tsduel-gone-aaaaaa-host1 is gone (its life has ended, or it has stopped, or somebody"
            in liveness.why_gone(run_dir)
        )
        assert "0 of 3 blocks are here. To begin anew on another: make tsbs RUN=r" in liveness.why_gone(run_dir)
        assert ending.main(run_dir, {}, 2, forced=False) == 2
        assert google.names() == []

    def test_machines_that_are_gone_are_not_rented_anew_unasked(self, google, tmp_path, capsys):
        """The price was agreed to for those; without a yes nothing is made."""
        rented(google, "tsduel-gone-aaaaaa")
        run_dir = run_of(tmp_path, "tsduel-gone-aaaaaa")
        google.preempt()
        before = len([r for r in google.requests if r.startswith("POST")])
        with pytest.raises(UserError, match="there is no terminal on which to agree to this price"):
            provide.machines(run_dir, rundir.open_run(run_dir).plan.place, {})
        assert len([r for r in google.requests if r.startswith("POST")]) == before
        said = capsys.readouterr()
        assert "no machine of this run is there any more" in said.err
        assert "USD" in said.out

    def test_a_machine_that_lets_nobody_in(self, google, tmp_path, monkeypatch):
        """It is given back after some minutes, or with KEEP=1 stays; it is recorded only after a login."""
        name = "tsduel-shut-aaaaaa"
        rented(google, name)
        run_dir = run_of(tmp_path, name, hosts={}, provisioned=False)
        monkeypatch.setattr(provide, "LOGIN_S", 0)
        host = {"address": "127.0.0.1", "port": 1, "user": "tsduel", "known_hosts_file": str(tmp_path / "known_hosts")}
        monkeypatch.setattr(provide, "machines", lambda *_: {"host1": host})
        for keep, left in (("1", 5), ("", 0)):
            monkeypatch.setenv("KEEP", keep)
            with pytest.raises(UserError, match=r"tsduel@127\.0\.0\.1 cannot be reached"):
                provision.main(run_dir)
            assert len(google.names()) == left
            assert "127.0.0.1" not in (run_dir / "host/outputs.json").read_text()

    def test_one_of_a_fleet_is_gone(self, google, tmp_path):
        """The others go on, none is rented again meanwhile, and all are deleted at the end."""
        rented(google, "tsduel-gone-aaaaaa", hosts=3)
        run_dir = run_of(tmp_path, "tsduel-gone-aaaaaa", count=3)
        google.preempt("host2")
        said = "the machine tsduel-gone-aaaaaa-host2 is gone (its life has ended"
        assert liveness.why_gone(run_dir) == ""
        assert [liveness.why_gone(run_dir, f"host{n}")[: len(said)] for n in (1, 2, 3)] == ["", said, ""]
        before = len([r for r in google.requests if r.startswith("POST")])
        found = provide.machines(run_dir, named("tsduel-gone-aaaaaa"), os.environ)
        assert [host.get("address") for host in found.values()] == ["10.84.28.2", None, "10.84.28.4"]
        assert len([r for r in google.requests if r.startswith("POST")]) == before
        assert ending.main(run_dir, {}, 2, forced=False) == 2
        assert google.names() == []

    def test_runs_of_a_study_share_a_machine_until_the_last(self, google, tmp_path, monkeypatch):
        """The later run is on that of the first, whose files know it, and gives it back."""
        where, runs = named("tsduel-shared-aaaaaa"), [tmp_path / "s-01", tmp_path / "s-02"]
        rented(google, where.name)
        made = {"host1": {"address": "127.0.0.1", "instance": f"{where.name}-host1", "zone": "us-central1-a"}}
        owners = []
        monkeypatch.setattr(provide, "machines", lambda run_dir, *_: owners.append(run_dir.name) or made)
        monkeypatch.setattr(provide, "first_login", lambda *_: None)
        monkeypatch.setattr(ending, "_fetch", lambda *_: "")
        for run, by in zip(runs, ("", "s-01"), strict=True):
            plans.write(run, place=where.model_copy(update={"rented_by": by}))
            provision.main(run)
        assert owners == ["s-01", "s-01"]
        assert [provision.hosts.known(run) for run in runs] == [made, made]
        assert [provision.hosts.provisioned(run) for run in runs] == [True, False]
        assert ending.main(runs[0], {"TSDUEL_SHARED": "1"}, 0, forced=False) == 0
        assert google.names() != []
        assert ending.main(runs[1], {}, 0, forced=True) == 0  # make destroy: it is not its own
        assert google.names() != []
        assert ending.main(runs[1], {}, 0, forced=False) == 0
        assert google.names() == []

    def test_the_account_of_os_login_is_not_reported(self, tmp_path):
        """The user that it makes is the account with other signs."""
        plans.write(tmp_path / "r", place=named("r"))
        known = {"host1": {"address": "192.0.2.1", "user": "alice_example_com"}}
        hosts.write(tmp_path / "r", known, provisioned=True)
        report.main(tmp_path / "r")
        said = (tmp_path / "r/gcp-report.txt").read_text()
        assert "alice" not in said
        assert '"user": "<account>"' in said

    def test_a_zone_that_does_not_answer_is_no_empty_one(self, google, tmp_path):
        """Or a machine there would be forgotten, and nothing said to be left."""
        where = named("tsduel-gone-aaaaaa")
        run_dir = run_of(tmp_path, where.name)
        google.silent = {where.zones[0]}
        with pytest.raises(UserError, match=f"does not know what is in zones/{where.zones[0]} now: try again"):
            give_back.main(run_dir, where)

    def test_a_silent_zone_elsewhere_keeps_no_machine(self, google, tmp_path):
        """Lists name all of Google's zones."""
        run_dir = run_of(tmp_path, "tsduel-gone-aaaaaa")
        google.silent = {"asia-east1-a"}
        give_back.main(run_dir, named("tsduel-gone-aaaaaa"))
        assert google.names() == []

    def test_nobody_knows_whether_it_is_gone(self, google, tmp_path):
        """Without an answer of the API no machine counts as gone."""
        run_dir = run_of(tmp_path, "tsduel-gone-aaaaaa")
        google.faults.append(lambda *_: RefusalError(401, "authError", "Invalid Credentials"))
        assert liveness.why_gone(run_dir) == ""

    def test_a_local_run_has_nothing_to_give_back(self, google, tmp_path):
        """The exit code stays, and Google is not asked."""
        run_dir = run_of(tmp_path, "n")
        plans.write(run_dir)
        assert ending.main(run_dir, {}, 3, forced=False) == 3
        assert google.requests == []


class TestReap:
    """`make reap`."""

    @pytest.fixture
    def project(self, google, monkeypatch):
        """Return a project with two runs past their deadline, one without its machine, and one live run."""
        rented(google, "tsduel-old-aaaaaa", expires="20250101t000000z")
        rented(google, "tsduel-lost-bbbbbb", expires="20250102t000000z", zone="us-central1-b")
        google.things = {p: t for p, t in google.things.items() if "zones/us-central1-b/" not in p}
        rented(google, "tsduel-live-cccccc", expires="29991231t000000z", zone="us-central1-c")
        monkeypatch.setenv("GCP_PROJECT", PROJECT)
        return google

    def test_it_lists(self, project, capsys):
        """Without YES=1 nothing is deleted, and the exit code is 1."""
        before = project.names()
        assert reap.main() == 1
        said = capsys.readouterr().out.splitlines()
        assert said[0].startswith(
            "tsduel-old-aaaaaa: past its deadline since 2025-01-01 00:00 UTC: instance tsduel-old"
        )
        assert said[1].startswith("tsduel-lost-bbbbbb: past its deadline since 2025-01-02 00:00 UTC: firewall")
        assert said[2] == f"to delete all of this: make reap GCP_PROJECT={PROJECT} YES=1"
        assert len(said) == 3
        assert project.names() == before

    def test_a_machine_that_has_stopped(self, project, capsys):
        """Google deletes only running machines, so it is listed before its deadline."""
        instances = {thing["name"]: thing for thing in project.of_kind("instances")}
        instances["tsduel-live-cccccc-host1"]["status"] = "TERMINATED"
        assert reap.main() == 1
        said = capsys.readouterr().out.splitlines()[2]
        assert said.startswith("tsduel-live-cccccc: all of its machines have stopped, so that Google does not delete")

    def test_one_of_a_fleet_that_has_stopped(self, google, monkeypatch, capsys):
        """The others measure: nothing of it is listed, and nothing is deleted."""
        rented(google, "tsduel-fleet-dddddd", hosts=3, expires="29991231t000000z")
        google.of_kind("instances")[0]["status"] = "TERMINATED"
        monkeypatch.setenv("GCP_PROJECT", PROJECT)
        monkeypatch.setenv("YES", "1")
        before = google.names()
        assert reap.main() == 0
        assert capsys.readouterr().out == f"nothing of tsduel's is past its deadline in {PROJECT}\n"
        assert google.names() == before

    def test_it_deletes(self, project, monkeypatch):
        """With YES=1 machines and networks of both runs go; the live run stays."""
        monkeypatch.setenv("YES", "1")
        assert reap.main() == 0
        assert {name.partition(" ")[2][:18] for name in project.names()} == {"tsduel-live-cccccc"}
        assert reap.main() == 0

    @pytest.mark.usefixtures("google")
    def test_it_needs_a_project(self, monkeypatch):
        """A missing and an unknown project are refused."""
        monkeypatch.setenv("GCP_PROJECT", "")
        with pytest.raises(UserError, match="make reap GCP_PROJECT="):
            reap.main()
        monkeypatch.setenv("GCP_PROJECT", "no-such-project")
        with pytest.raises(UserError, match="there is no project no-such-project"):
            reap.main()


class TestBeforeAnythingIsMade:
    """The checks before anything is made."""

    @pytest.mark.parametrize(
        ("fault", "change", "sentence"),
        [
            (fakecompute.API_DISABLED, {}, "gcloud services enable compute.googleapis.com --project=tsduel-test"),
            (fakecompute.NO_PERMISSION, {}, "it needs the roles Compute Instance Admin (v1)"),
            (RefusalError(401, "authError", "Invalid Credentials"), {}, "Google does not accept the credentials; a"),
            (None, {"project": "some-other-one"}, "there is no project some-other-one, or the account may not see it"),
            (fakecompute.UNAVAILABLE, {}, "Google's API is unavailable (503), also after several tries"),
            (fakecompute.RATE_EXCEEDED, {}, "more requests a minute than Google allows tsduel-test (Read requests"),
            (fakecompute.NO_PROJECT, {}, "there is no project tsduel-test, or the account may not see it"),
        ],
    )
    def test_sentences(self, google, fault, change, sentence):
        """The sentence has the next step; only GET requests are sent."""
        google.faults.append(lambda *_: fault)
        where = asked().model_copy(update=change)
        with pytest.raises(UserError) as error:
            provide._preflight(Compute(where.project), where, {})
        assert sentence in str(error.value)
        assert [r for r in google.requests if not r.startswith("GET")] == []

    @pytest.mark.parametrize("refusal", [fakecompute.RATE_EXCEEDED, fakecompute.TOO_MANY_OPERATIONS,
                                         fakecompute.NOT_READY])  # fmt: skip
    def test_what_passes_in_a_minute_is_waited_for(self, google, refusal, monkeypatch):
        """Rates are refilled each minute, so a request that was too much is sent again for more than that."""
        clock = [0.0]
        monkeypatch.setattr(compute_api, "FIRST_WAIT_S", 1.0)
        monkeypatch.setattr(compute_api.time, "sleep", lambda pause: clock.append(clock[-1] + pause))
        google.faults.append(lambda *_: refusal if clock[-1] < 60 else None)
        assert Compute(PROJECT).get("")["name"] == PROJECT
        assert 60 <= clock[-1] < 120

    def test_a_deletion_that_is_too_fast_for_google(self, google, tmp_path):
        """It comes to its end, and the run says that nothing is left."""
        rented(google, "tsduel-mine-aaaaaa")
        refused = iter([fakecompute.RATE_EXCEEDED, fakecompute.NOT_READY] * 2)
        google.faults.append(lambda method, _: next(refused, None) if method == "DELETE" else None)
        give_back.main(run_of(tmp_path, "tsduel-mine-aaaaaa"), named("tsduel-mine-aaaaaa"))
        assert google.names() == []

    def test_iap_that_is_not_enabled(self, google, monkeypatch):
        """Without the API the tunnel would fail later without a reason."""
        monkeypatch.setattr(provide.shutil, "which", lambda name: name)
        where = asked().model_copy(update={"ssh_via": "iap"})
        assert provide._preflight(Compute(PROJECT), where, {}) == {}
        google.disabled.add("iap.googleapis.com")
        with pytest.raises(UserError, match=r"gcloud services enable iap\.googleapis\.com --project"):
            provide._preflight(Compute(PROJECT), where, {})
        # An account that may not ask is not refused.
        google.faults.append(lambda _, path: fakecompute.NO_PERMISSION if "/services/" in path else None)
        assert provide._preflight(Compute(PROJECT), where, {}) == {}

    def test_zones_that_have_no_such_machine_are_left_out(self, google, capsys):
        """Each zone must have machine and disk; if none has, a sentence refuses."""
        where = asked(machine="c4-standard-8", price_h=1)
        assert where.hosts["host1"].disk_type == "hyperdisk-balanced"
        google.lacking |= {("us-central1-a", "c4-standard-8"), ("us-central1-c", "hyperdisk-balanced")}
        found = provide._zones(Compute(PROJECT), where, fresh=True)
        assert found == {"host1": ["us-central1-b", "us-central1-f"]}
        said = capsys.readouterr().err
        assert "there is no c4-standard-8 in us-central1-a\n" in said
        assert "there is no hyperdisk-balanced in us-central1-c\n" in said
        nowhere = asked(machine="m9-standard-8", price_h=1, zones=["us-central1-z"])
        with pytest.raises(
            UserError, match="there is no m9-standard-8 in us-central1-z, nor what it takes in any other"
        ):
            provide._zones(Compute(PROJECT), nowhere, fresh=True)

    @pytest.mark.parametrize(
        ("quota", "need", "place", "remedy"),
        [
            ("CPUS", 48, FLEET, 'take a smaller machine with SET="gcp.machine='),
            ("N2_CPUS", 48, FLEET | {"machine": "n2-standard-8"}, "take a smaller machine"),
            ("CPUS_ALL_REGIONS", 48, FLEET, "take a smaller machine"),
            ("SSD_TOTAL_GB", 600, FLEET, 'delete disks that nobody needs, or take a smaller one with SET="gcp.'),
            ("IN_USE_ADDRESSES", 6, FLEET, "or delete what nobody needs"),
            ("INSTANCES", 6, FLEET, "or delete what nobody needs"),
            ("HDB_TOTAL_GB", 100, {"machine": "c4-standard-8", "price_h": 1}, "delete disks"),
            ("NETWORKS", 1, FLEET, "or delete what nobody needs"),
            ("FIREWALLS", 1, {}, "or delete what nobody needs"),
        ],
    )
    def test_quotas_are_asked_first(self, google, quota, need, place, remedy):
        """Those of all hosts and spare hosts, by family of CPUs."""
        where, others = asked(**place), {"N1_CPUS": (0, 0), "ROUTERS": (0, 0)}
        google.quotas = others | {quota: (need, 0)}
        hosts = set(provide._zones(Compute(PROJECT), where, fresh=True))
        assert hosts == set(where.hosts)
        google.quotas = others | {quota: (need, 1)}
        with pytest.raises(UserError) as error:
            provide._zones(Compute(PROJECT), where, fresh=True)
        assert re.search(
            rf"{quota} of .* is {need}, of which 1 are in use, and this takes {need}\): ask for more at IAM & Admin > "
            rf"Quotas in the console,? {remedy}", str(error.value)
        )  # fmt: skip
        # What is there of this run already is among what is in use.
        assert set(provide._zones(Compute(PROJECT), where, fresh=False)) == hosts

    def test_spot_machines_take_from_a_quota_of_their_own_where_there_is_one(self, google):
        """Then those of others are not asked."""
        google.quotas = {"CPUS": (0, 0), "PREEMPTIBLE_CPUS": (8, 0)}
        assert provide._zones(Compute(PROJECT), asked(spot=True), fresh=True)
        google.quotas = {"CPUS": (0, 0), "PREEMPTIBLE_CPUS": (0, 0)}
        with pytest.raises(UserError, match="CPUS of us-central1 is 0"):
            provide._zones(Compute(PROJECT), asked(spot=True), fresh=True)

    def test_a_machine_has_its_zones(self, google):
        """A zone that lacks the type is left out."""
        google.lacking |= {("us-central1-a", "n2-standard-8")}
        where = asked(machine="n2-standard-8", zones=["us-central1-a", "us-central1-b"])
        assert provide._zones(Compute(PROJECT), where, fresh=True) == {"host1": ["us-central1-b"]}

    def test_the_key(self, tmp_path):
        """The run's own pair is made once; its permissions are corrected."""
        key = provide.make_key(tmp_path)
        assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        key.chmod(0o644)
        before = key.read_text()
        assert provide.make_key(tmp_path).read_text() == before
        assert key.stat().st_mode & 0o777 == 0o600


class TestHostKeys:
    """The keys of a machine, before the first connection."""

    @pytest.fixture
    def outputs(self, google, monkeypatch):
        """Return the outputs of a running machine; nobody waits."""
        monkeypatch.setattr(host_keys, "PAUSE_S", 0.01)
        rented(google, "tsduel-keys-aaaaaa")
        return {"instance": "tsduel-keys-aaaaaa-host1", "zone": "us-central1-a"}

    def test_from_the_guest_attributes_or_the_console(self, google, outputs, tmp_path):
        """The guest's agent publishes them, else the startup script prints them."""
        (tmp_path / "host").mkdir()
        found = provide._host_keys(Compute(PROJECT), outputs, tmp_path, "host1")
        assert found.read_text() == "".join(f"* {key}\n" for key in fakecompute.HOST_KEYS)
        google.host_keys = lambda _: []
        google.console = (
            "boot\r\ntsduel-host-key ssh-ed25519 AAAA+/=\r\nx startup-script: tsduel-host-key ssh-rsa BBBB\n"
        )
        found = provide._host_keys(Compute(PROJECT), outputs, tmp_path, "host1")
        assert found.read_text() == "* ssh-ed25519 AAAA+/=\n* ssh-rsa BBBB\n"

    def test_keys_that_come_one_after_the_other(self, google, outputs):
        """All that sshd has are waited for; an sshd with fewer types than usual is one whose keys become no more."""
        three = ["ssh-rsa A", "ecdsa-sha2-nistp256 B", "ssh-ed25519 C"]
        google.host_keys, google.keys_at_a_time = lambda _: three, 1
        assert host_keys.published(Compute(PROJECT), outputs) == set(three)
        google.host_keys = lambda _: three[:2]
        assert host_keys.published(Compute(PROJECT), outputs) == set(three[:2])

    def test_so_often_as_google_allows(self, google, outputs, monkeypatch):
        """A machine that takes a minute to boot is asked ten times at most, since Google removes its keys else."""
        clock = [0.0]
        for module in (host_keys.time, fakecompute.time):
            monkeypatch.setattr(module, "monotonic", lambda: clock[-1])
            monkeypatch.setattr(module, "sleep", lambda pause: clock.append(clock[-1] + pause))
        monkeypatch.setattr(host_keys, "PAUSE_S", SLOWLY)
        google.faults.append(lambda *_: fakecompute.UNAVAILABLE if clock[-1] < 65 else None)
        found = host_keys.published(Compute(PROJECT), outputs)
        assert (len(found), clock[-1] >= 65) == (3, True)

    def test_else_it_fails(self, google, outputs, tmp_path, monkeypatch):
        """Without keys there is no login."""
        google.host_keys = lambda _: []
        monkeypatch.setattr(host_keys, "PATIENCE_S", 0)
        with pytest.raises(
            UserError, match="published no host keys in 0 s, neither as guest attributes nor on its serial"
        ):
            provide._host_keys(Compute(PROJECT), outputs, tmp_path, "host1")


def test_the_tunnel_has_the_credentials_that_rented(google, tmp_path):
    """The tunnel has our token and its account, impersonates nobody, and works in any directory."""
    host = {"instance": "tsduel-x", "port": 22, "project": PROJECT, "zone": "us-central1-a"}
    (tmp_path / "host").mkdir()
    line = Path(provide._iap_config(tmp_path, host, "host1")).read_text().splitlines()[1]
    assert line.startswith("  ProxyCommand env PYTHONPATH=")
    environment = gcloud(tmp_path, f'echo "{SEEN}: $*"') | google.environment()
    environment["CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT"] = "robot"
    command = line.removeprefix("  ProxyCommand ").replace("%%", "%")
    done = subprocess.run(["sh", "-c", command], cwd="/", env=environment, capture_output=True, text=True, check=True)
    where = f"--project={PROJECT} --zone=us-central1-a"
    wanted = f"compute start-iap-tunnel tsduel-x 22 --listen-on-stdin --verbosity=warning {where}"
    assert done.stdout == f"{fakecompute.TOKEN} of me@example.com as : {wanted}\n"


def test_os_login(google, tmp_path, monkeypatch):
    """The key is in the account's profile until the machine is deleted."""
    log = tmp_path / "log"
    told = f'echo "{SEEN}: $*" >>{log}; echo me_example_com'
    for name, value in gcloud(tmp_path, told).items():
        monkeypatch.setenv(name, value)
    run_dir = run_of(tmp_path, "tsduel-mine-aaaaaa")
    where = named("tsduel-mine-aaaaaa").model_copy(update={"os_login": True})
    key = provide.make_key(run_dir)
    assert os_login.register(key, where, os.environ) == "me_example_com"
    rented(google, where.name)
    give_back.main(run_dir, where)
    first, second = log.read_text().splitlines()
    acts = f"{fakecompute.TOKEN} of me@example.com as : compute os-login ssh-keys"
    assert first.startswith(f"{acts} add --key-file={key}.pub --ttl={6 * 3600}s")
    assert f"ssh-keys remove --key-file={key}.pub --project={PROJECT}" in second
    gcloud(tmp_path, "echo 'ERROR: API [oslogin.googleapis.com] not enabled' >&2; exit 1")
    with pytest.raises(UserError, match=r"not enabled\): `gcloud services enable oslogin.googleapis.com"):
        os_login.register(key, where, os.environ)
    # Without it gcloud would ask for the profile of nobody, or of whom it is logged in as.
    google.tokens["nobodys"] = ""
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "nobodys")
    with pytest.raises(UserError, match="Google does not say whose token it is"):
        os_login.register(key, where, os.environ)


@pytest.mark.usefixtures("google")
@pytest.mark.parametrize("family", fakecompute.FAMILIES)
def test_an_image_family_becomes_its_newest_image(family):
    """That of Debian 12, and the next one; a family that has ended is a sentence."""
    whole = "projects/debian-cloud/global/images"
    assert rent._newest(f"{whole}/family/{family}", PROJECT) == f"{whole}/{fakecompute.FAMILIES[family]}"
    with pytest.raises(UserError, match="there is no family/debian-11 any more, since families of images end"):
        rent._newest(f"{whole}/family/debian-11", PROJECT)


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("Error waiting for instance to create: The zone 'z' does not have enough resources available to fulfill",
         messages.NoCapacityError, "us-central1-a has no e2-standard-8 left"),
        ("A n2-standard-8 VM instance is currently unavailable in the us-central1-b zone. Consider trying your request",
         messages.NoCapacityError, "left at the moment"),
        ("googleapi: Error 412: Constraint constraints/compute.vmExternalIpAccess violated for project 1.", UserError,
         "forbids machines with a public address (constraints/compute.vmExternalIpAccess): take SSH_FROM=iap"),
        ("Constraint constraints/compute.requireOsLogin violated", UserError, 'add SET="gcp.os_login=true"'),
        ('Operation denied by org policy: ["constraints/compute.managed.vmExternalIpAccess" : "No."]', UserError,
         "public address (constraints/compute.managed.vmExternalIpAccess): take SSH_FROM=iap"),
        ('["constraints/compute.managed.requireOsLogin" : "No."]', UserError, 'add SET="gcp.os_login=true"'),
        ('Operation denied by custom org policy: ["customConstraints/custom.onlyN2" : "No."]', UserError,
         "forbids it (customConstraints/custom.onlyN2): ask who administers"),
        ('Error 403: Permission denied on resource project x.\nDetails:\n[{"reason": "CONSUMER_INVALID"}]\n, forbidden',
         UserError, "there is no project tsduel-test"),
        ("Constraint constraints/compute.trustedImageProjects violated", UserError, "have debian-cloud added to it"),
        ("Constraint constraints/compute.restrictCloudNATUsage violated", UserError,
         "forbids it (constraints/compute.restrictCloudNATUsage): ask who administers"),
        ("Quota 'NETWORKS' exceeded.  Limit: 5.0 globally.", UserError,
         "(Quota 'NETWORKS' exceeded.  Limit: 5.0 globally): ask for more at IAM & Admin > Quotas in the console, or "),
        ("code: ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", messages.NoCapacityError, "left at the moment"),
        ("Quota 'CPUS_PER_VM_FAMILY' exceeded.  Limit: 176.0 in region us-central1.", UserError, "CPUS_PER_VM_FAMILY"),
        ("Error 404: The resource 'projects/debian-cloud/global/images/debian-12-x' was not found", UserError,
         "there is no image debian-12-x any more: plan anew"),
        ("Error 404: The resource 'projects/debian-cloud/global/images/family/debian-12' was not found", UserError,
         'take a newer one, like SET="gcp.image=projects/debian-cloud/global/images/family/debian-13"'),
        ("timeout while waiting for state to become 'DONE'", UserError, "within the time we allow"),
        ("This project requires billing to be enabled", UserError, "has no billing account"),
        ("something nobody has seen\n  with details", UserError, "something nobody has seen with details"),
    ],
)  # fmt: skip
def test_what_google_says_becomes_a_sentence(said, kind, words):
    """Known errors get a next step, missing capacity its own error, and unknown texts stay."""
    error = messages.as_user_error(said, PROJECT, "e2-standard-8", "us-central1-a")
    assert type(error) is kind
    assert words in str(error)
