"""Faults of our own side while machines are rented: the network, the disk, a kill. Nothing is left unsaid."""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import time
import urllib.error
import urllib.request
from io import BytesIO

import pytest
from fakeproject import FAKES
from renting import Rented, named, rented, run_of

from tsduel.core.errors import UserError
from tsduel.places import hosts, provision
from tsduel.places.gcp import api as compute_api
from tsduel.places.gcp import give_back, provide
from tsduel.places.gcp.api import Compute
from tsduel.places.gcp.messages import CloudError
from tsduel.rounds import ending

NAME = "tsduel-mine-aaaaaa"
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/results/r/host/key")


class Answer(BytesIO):
    """An answer whose body ends with an error, or has no JSON."""

    def __init__(self, said):
        """Take a body or the error of reading it."""
        super().__init__(said if isinstance(said, bytes) else b"")
        self.said = said

    def read(self, *_):
        """Read all of it."""
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (http.client.IncompleteRead(b"{", 100), "IncompleteRead(1 bytes read, 100 more expected)"),
        (ssl.SSLError(1, "[SSL] record layer failure"), "cannot be reached: [SSL] record layer failure"),
        (http.client.BadStatusLine("???"), "???"),
        (b"<html>Please log in to this network</html>", "no JSON object: '<html>Please log in"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "no JSON object: '[]'"),
    ],
)
def test_an_answer_that_breaks_off_is_asked_for_again_and_then_said(monkeypatch, said, words):
    """What fails while an answer is read is an error of Google's API, also in the body of a refusal."""
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "t")
    monkeypatch.setattr(compute_api, "FIRST_WAIT_S", 0)
    tries = []

    def answers(request, **_):
        tries.append(request)
        return Answer(said)

    monkeypatch.setattr(urllib.request, "urlopen", answers)
    with pytest.raises(CloudError, match=re.escape(words)) as caught:
        Compute("p").get("")
    assert (caught.value.temporary, len(tries)) == (True, compute_api.ATTEMPTS)

    def refuses(request, **_):
        raise urllib.error.HTTPError(request.full_url, 400, "Bad", http.client.HTTPMessage(), Answer(said))

    monkeypatch.setattr(urllib.request, "urlopen", refuses)
    with pytest.raises(CloudError):
        Compute("p").get("")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (FULL, UserError, "/results/r/host/key cannot be written or read: its disk is full"),
        (OSError(errno.EMFILE, "Too many open files"), UserError, "too many files are open; raise ulimit -n"),
        (OSError(errno.EXDEV, "Invalid cross-device link"), OSError, "Invalid cross-device link"),
        (KeyError("networkInterfaces"), KeyError, "networkInterfaces"),
        (KeyboardInterrupt(), UserError, "gcp: interrupted"),
        (SystemExit(3), SystemExit, "3"),
    ],
)
def test_whatever_escapes_gives_back(google, tmp_path, error, kind, words):
    """A full disk is a sentence; a defect of ours stays one, after the machine was given back."""
    rented(google, NAME)
    with pytest.raises(kind, match=words), give_back.on_failure(run_of(tmp_path, NAME), named(NAME), {}):
        raise error
    assert google.names() == []


def test_a_defect_says_what_became_of_the_machine(google, tmp_path, capsys):
    """Its own sentence is of the defect; KEEP=1 and what is left are said before it."""
    rented(google, NAME)
    with pytest.raises(KeyError), give_back.on_failure(run_of(tmp_path, NAME), named(NAME), {"KEEP": "1"}):
        raise KeyError("x")
    assert "KEEP=1: what was made is kept; delete it with: make destroy RUN=r" in capsys.readouterr().err
    assert google.names() != []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (UserError("no credentials for Google Cloud: log in"), "no credentials for Google Cloud"),
        (FULL, "No space left on device"),
        (KeyError("name"), "KeyError"),
        (CloudError(503, "backendError", "Service Unavailable"), "Google's API is unavailable (503)"),
    ],
)
def test_giving_back_that_fails_says_what_is_left(google, tmp_path, monkeypatch, error, words):
    """A second Ctrl-C, a token that has expired, a full disk: the command that goes on, and by hand without us."""

    def fails(*_):
        raise error

    rented(google, NAME)
    monkeypatch.setattr(Compute, "delete" if isinstance(error, KeyError) else "of_run", fails)
    with pytest.raises(UserError, match="it is not known whether everything of tsduel-mine-aaaaaa is gone") as caught:
        give_back.main(run_of(tmp_path, NAME), named(NAME))
    assert words in str(caught.value)
    assert "make destroy RUN=r" in str(caught.value)
    assert f"gcloud compute instances list --project={named(NAME).project} --filter=labels.tsduel-run={NAME}" in (
        str(caught.value)
    )


def test_a_full_disk_keeps_no_machine(google, tmp_path, monkeypatch, capsys):
    """Terraform's files cannot be copied: the API deletes all of it. That it is gone is said, though not recorded."""
    rented(google, NAME)
    run_dir = run_of(tmp_path, NAME)
    (run_dir / "host/terraform.tfstate").write_text("{}")
    (run_dir / "host/terraform.tfvars.json").write_text("{}")

    def full(*_, **__):
        raise FULL

    monkeypatch.setattr(shutil, "copyfile", full)
    monkeypatch.setattr(hosts, "write", full)
    with pytest.raises(UserError, match=r"nothing of tsduel-mine-aaaaaa is left in .*, but .* its disk is full"):
        give_back.main(run_dir, named(NAME))
    assert google.names() == []
    assert "Terraform could not delete it all" in capsys.readouterr().err


@pytest.fixture
def killed(google, tmp_path):
    """Return a run that was killed, as with kill -9, when its machine was just made."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "GOOGLE_", "CLOUDSDK_", "GCP_"))}
    run = Rented(google, tmp_path, kept | {"TF": str(FAKES / "terraform")})
    run.plan()
    # The operation never ends, so that Terraform waits while the machine is there.
    google.stuck = lambda _: True
    process = run.start()
    while not google.of_kind("instances"):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    google.stuck = lambda _: False
    return run


def test_a_machine_is_recorded_before_it_is_asked_for(google, killed):
    """What gives back after a failure finds it: nothing has to be fetched, since nobody has logged in."""
    assert json.loads((killed.run_dir / "host/outputs.json").read_text()) == {
        "target": "gcp", "provisioned": True, "hosts": {}
    }  # fmt: skip
    assert ending.main(killed.run_dir, {}, 137, forced=False) == 137
    assert google.names() == []
    assert not hosts.provisioned(killed.run_dir)


def test_the_first_login_is_not_left_out_after_a_kill(google, killed, monkeypatch):
    """The same command goes on; the machine is known to later stages only when somebody has logged in."""
    logged_in = []
    monkeypatch.chdir(killed.root)
    monkeypatch.setattr(provide, "machines", lambda *_: {"host1": {"address": "10.0.0.1"}})
    monkeypatch.setattr(provide, "first_login", lambda _, host: logged_in.append(host.address))
    provision.main(killed.run_dir)
    assert logged_in == ["10.0.0.1"]
    assert set(hosts.known(killed.run_dir)) == {"host1"}
    ending.main(killed.run_dir, {}, 0, forced=True)
    assert google.names() == []


def test_a_record_that_cannot_be_written_gives_back(google, tmp_path, monkeypatch):
    """The disk is full when the machine is there: it is not kept, since no later stage would know of it."""
    rented(google, NAME)
    run_dir = run_of(tmp_path, NAME, hosts={}, provisioned=False)

    def full(*_, **__):
        raise FULL

    monkeypatch.setattr(provide, "machines", lambda *_: {"host1": {"address": "10.0.0.1"}})
    monkeypatch.setattr(provide, "first_login", lambda *_: None)
    monkeypatch.setattr(provision, "write", full)
    with pytest.raises(UserError, match="its disk is full"):
        provision.main(run_dir)
    assert google.names() == []
