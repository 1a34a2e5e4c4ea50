"""What is finished on a host comes home before anything is raised, and before anything is given back."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace

import plans
import pytest

from tsduel.core.errors import UserError
from tsduel.places import hosts, liveness, provision
from tsduel.places.gcp import give_back, provide
from tsduel.places.k8s.provider import PROVIDER
from tsduel.places.place import provider_of
from tsduel.places.ssh import link as links
from tsduel.places.ssh.link import Link, State
from tsduel.places.ssh.ssh import NoConnectionError
from tsduel.rounds import attend, control, ending, remote
from tsduel.rounds.view import show

NAMES = ("host1", "host2")


@pytest.fixture
def run_dir(tmp_path):
    """Return a run on two pods, which are there."""
    path = tmp_path / "r"
    plans.write(path, place=plans.on_a_pod(hosts={name: {} for name in NAMES}, name="r"), hosts=NAMES)
    rows = path / "plan/blocks.tsv"
    head, mine = rows.read_text().split("\n", 1)
    rows.write_text(f"{head}\n{mine}{mine.replace('host1', 'host2')}")
    known = {name: {"address": f"pod-{name}", "node": "n", "through": ["x"]} for name in NAMES}
    hosts.write(path, known, provisioned=True)
    return path


@pytest.fixture
def there(monkeypatch):
    """Have hosts that say their state, or raise it, and note what is fetched from each."""
    states, fetched = {}, []

    def state(link):
        if isinstance(states[link.name], Exception):
            raise states[link.name]
        return states[link.name]

    def fetch(link, name):
        if name in states.get("broken", ()):
            raise UserError(f"{name} is broken")
        fetched.append((link.name, name))

    monkeypatch.setattr(Link, "state", state)
    monkeypatch.setattr(Link, "fetch_block", fetch)
    monkeypatch.setattr(Link, "bring_home", lambda link: fetched.append((link.name, "all")))
    monkeypatch.setattr(liveness, "why_gone", lambda _, name="": states.get(f"gone {name}", ""))
    states["fetched"] = fetched
    return states


@pytest.mark.parametrize("silent", [False, True])
def test_a_run_that_has_ended_unexpectedly_is_fetched_before_that_is_told(run_dir, there, monkeypatch, silent):
    """Out of memory, restarted: the blocks that were finished before are there, and what disturbed the host."""
    there["host1"] = State("lost", 0, ("001", "002"))

    def fetch_files(link, names, _):
        there["fetched"] += [(link.name, name) for name in names]
        if silent:
            raise NoConnectionError("it says no more")

    monkeypatch.setattr(Link, "fetch_files", fetch_files)
    attendant = attend.Attendant(Link.all(run_dir)["host1"], show.View(None), started=True)
    with pytest.raises(UserError, match="ended unexpectedly"):
        attendant.attend()
    assert there["fetched"] == [("host1", "001"), ("host1", "002"), ("host1", "raw/host1/noise.json")]


def test_a_block_that_cannot_be_fetched_keeps_no_other_one_there(run_dir, there):
    """Each is tried; then the error is raised. Without a connection nothing more is tried."""
    there["broken"] = {"001"}
    with pytest.raises(UserError, match="001 is broken"):
        Link.all(run_dir)["host1"].fetch_blocks(("000", "001", "002"))
    assert there["fetched"] == [("host1", "000"), ("host1", "002")]


def test_blocks_come_home_though_logs_cannot_be_read(run_dir, there, monkeypatch):
    """Of one host: what it has measured is worth more than what it has said."""
    monkeypatch.undo()
    fetched = there["fetched"]
    monkeypatch.setattr(Link, "missing", lambda _: ["host1/001/block.json", "host1/noise.json"])
    monkeypatch.setattr(Link, "fetch_block", lambda _, name: fetched.append(name))

    def files(_, names, into, **_more):
        fetched.append((*names, into.name))
        raise UserError("control/log could not be read there")

    monkeypatch.setattr(Link, "fetch_files", files)
    with pytest.raises(UserError, match="could not be read there"):
        Link.all(run_dir)["host1"].bring_home()
    assert fetched[:2] == ["001", ("raw/host1/noise.json", "r")]


def test_a_defect_of_ours_with_one_host_stops_no_other(run_dir, there, monkeypatch):
    """It is raised in the end, when the others are at home."""
    done = []

    def attended(attendant):
        if attendant.link.name == "host1":
            raise KeyError("ours")
        done.append(attendant.link.name)
        return 0

    there["host1"] = there["host2"] = State("none", 0, ())
    monkeypatch.setattr(attend.Attendant, "attend", attended)
    fleet = remote.Fleet(run_dir, Link.all(run_dir), lambda _: show.View(None))
    with pytest.raises(KeyError, match="ours"):
        fleet.attend()
    assert done == ["host2"]
    assert "a defect of ours" in json.loads((run_dir / remote.LOST).read_text())["host1"]["why"]


def test_a_spare_host_for_one_that_there_was_not_is_attended_once(run_dir, there, monkeypatch):
    """No zone had the second machine; the run begins with the spare host in its place."""
    path = run_dir / "plan/experiment.json"
    plan = json.loads(path.read_text())
    plan["place"]["hosts"]["host3"] = plan["place"]["hosts"]["host2"]
    path.write_text(json.dumps(plan | {"spare_hosts": ["host3"]}))
    known = {name: {"address": f"pod-{name}", "node": "n", "through": ["x"]} for name in ("host1", "host3")}
    hosts.write(run_dir, known, provisioned=True)
    attended = []
    monkeypatch.setattr(attend.Attendant, "attend", lambda it: attended.append(it.link.name) or 0)
    there["host1"] = there["host3"] = State("none", 0, ())
    assert remote.Fleet(run_dir, Link.all(run_dir), lambda _: show.View(None)).attend() == 0
    assert sorted(attended) == ["host1", "host3"]


def test_a_full_disk_at_home_loses_no_host(run_dir, monkeypatch):
    """It is raised as it is: the runs go on there, and the same command comes back to all of them."""

    def attended(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(attend.Attendant, "attend", attended)
    fleet = remote.Fleet(run_dir, Link.all(run_dir), lambda _: show.View(None))
    with pytest.raises(OSError, match="No space left"):
        fleet.attend()
    assert not (run_dir / remote.LOST).exists()


class TestGivenBack:
    """One host of a fleet is lost, the other has ended well."""

    @pytest.fixture
    def end(self, run_dir, monkeypatch):
        """Return a function that ends the run with a code, and says whether all was given back."""
        given = []
        pods = replace(PROVIDER, give_back=lambda *_: given.append(1))
        monkeypatch.setattr(ending, "provider_of", lambda _: pods)
        (run_dir / "host/host1").mkdir()
        links.note_home(run_dir / "host/host1/fetched.json")
        (run_dir / remote.LOST).write_text(json.dumps({"host2": {"why": "x", "by": "", "blocks": [1]}}))

        def ended(code=0):
            assert ending.main(run_dir, {}, code, forced=False) == code
            return bool(given)

        return ended

    @pytest.mark.parametrize("code", [0, 1])
    def test_a_lost_host_that_answers_again_is_fetched_first(self, end, there, code):
        """It has blocks from before it was lost, and since."""
        there["host2"] = State("lost", 0, ("001", "002"))
        assert end(code)
        assert there["fetched"] == [("host2", "001"), ("host2", "002"), ("host2", "all")]

    @pytest.mark.parametrize("code", [0, 1])
    def test_one_that_does_not_answer_is_kept_with_the_command_that_fetches_it(self, end, there, run_dir, capsys, code):
        """Until its deadline; that others have run all of its blocks does not hide it from the command."""
        there["host2"] = NoConnectionError("pod-host2 cannot be reached")
        assert not end(code)
        said = capsys.readouterr().err
        assert "pod-host2 cannot be reached\nnot all blocks are here, so what was made is kept." in said
        assert "To fetch them: make fetch RUN=r" in said
        assert "it is deleted at its deadline, or with: make destroy RUN=r" in said
        links.note_home(run_dir / links.FETCHED)
        there["host1"] = State("none", 0, ("001",))
        there["host2"] = State("ended", 0, ("002",))
        control.fetch(run_dir)
        assert ("host2", "002") in there["fetched"]

    def test_any_error_of_one_host_keeps_it_and_leaves_the_others_fetched(self, end, there, run_dir):
        """All are asked before an error is raised."""
        (run_dir / "host/host1/fetched.json").unlink()
        there["host1"] = State("ended", 3, ("001",))
        there["host2"] = State("ended", 3, ("001", "002"))
        there["broken"] = {"001"}
        assert not end(3)
        assert ("host2", "002") in there["fetched"]

    @pytest.mark.parametrize("code", [1, 2, 137])
    def test_one_that_still_runs_is_kept(self, end, there, run_dir, capsys, code):
        """Who attended it was killed, or had no room: nobody has ended the blocks."""
        (run_dir / remote.LOST).unlink()
        there["host2"] = State("running", 0, ("001",))
        assert not end(code)
        assert ("host2", "001") in there["fetched"]
        said = capsys.readouterr().err
        assert "blocks are still run there, so what was made is kept; to come back: make tsbs RUN=r" in said

    def test_a_full_disk_here_keeps_the_machine_and_says_so(self, end, there, capsys, monkeypatch):
        """What has not come home is there alone."""
        there["host2"] = State("lost", 0, ("001",))
        monkeypatch.setattr(control, "fetch", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        assert not end()
        assert "not all blocks are here, so what was made is kept" in capsys.readouterr().err

    def test_the_last_run_of_a_study_fetches_what_an_earlier_one_was_promised(self, end, there, run_dir, capsys):
        """Its machines are about to be given back, and have the blocks of a host that was lost then."""
        (run_dir / remote.LOST).unlink()
        there["host2"] = State("ended", 0, ())
        shutil.copytree(run_dir, run_dir.with_name("earlier"))
        lost = {"host2": {"why": "x", "by": "", "blocks": [1]}}
        (run_dir.with_name("earlier") / remote.LOST).write_text(json.dumps(lost))
        there["host2"] = NoConnectionError("host2 cannot be reached")
        note = run_dir / "host/host2"
        note.mkdir()
        links.note_home(note / "fetched.json")
        assert not end()
        assert "make fetch RUN=earlier" in capsys.readouterr().err

    def test_one_that_is_gone_keeps_nothing(self, end, there):
        """There is nothing to fetch from."""
        there["gone host2"] = "the pod is gone"
        assert end()
        assert there["fetched"] == []


def test_a_machine_that_may_have_blocks_is_not_given_back_since_its_login_fails(tmp_path, monkeypatch):
    """A run that goes on: its machine has another address now, and does not answer there yet."""
    from renting import named  # noqa: PLC0415 - of this test only

    plans.write(tmp_path / "r", place=named("r"))
    provider_of(named("r"))  # it keeps the functions of its import, and would keep those below for all other tests
    hosts.write(tmp_path / "r", {"host1": {"address": "10.0.0.1"}}, provisioned=True)
    monkeypatch.setattr(provide, "machines", lambda *_: {"host1": {"address": "10.0.0.2"}})
    monkeypatch.setattr(give_back, "main", lambda *_: pytest.fail("it was given back"))

    def refuse(*_):
        raise NoConnectionError("10.0.0.2 cannot be reached")

    monkeypatch.setattr(provide, "first_login", refuse)
    with pytest.raises(NoConnectionError, match="cannot be reached\ngcp: blocks may be there: what was made is kept"):
        provision.main(tmp_path / "r")
