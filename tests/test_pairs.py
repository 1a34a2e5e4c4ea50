"""Two commands at once on one run: one of them does it, the other one says who does, and nothing is lost or left.

More of them: TSDUEL_TEST_PAIRS=32.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakeproject import FAKES, wait_for
from renting import Rented
from test_remote import FAKE_SSH

from tsduel.core import runlock
from tsduel.core.errors import UserError
from tsduel.core.place import SshHost, SshPlace
from tsduel.core.rundir import open_run
from tsduel.places import hosts
from tsduel.places.ssh.link import Link

PROJECT = Path(__file__).resolve().parent.parent
PAIRS = int(os.environ.get("TSDUEL_TEST_PAIRS", "2"))
ASKED = [f"EXPERIMENT={PROJECT}/experiments/quick.yml"]
ASKED += [f"{side}=binary:{FAKES / 'database'}" for side in ("BASELINE", "CANDIDATE")]
WRITES = re.compile(r"tsduel: \S+: `make (\S+)` \(pid (\d+), since \S+\) writes this run now")
# As `tsduel STAGE r`, but nobody logs in to a machine of a fake Google.
STAGE = """
import sys
from tsduel.cli import app
from tsduel.places.gcp import provide
provide.first_login = lambda *_: None
sys.argv = ["tsduel", sys.argv[1], "r"]
sys.exit(app.main())
"""


def typed(root, *words, python=("-m", "tsduel"), **environment):
    """Start a command."""
    theirs = {k: v for k, v in os.environ.items() if k not in {"VIEW", "RUN"}}
    theirs |= {"PYTHONPATH": str(PROJECT), "TSDUEL_CACHE": str(root / "cache")} | environment
    return subprocess.Popen(
        [sys.executable, *python, *words], cwd=root, env=theirs, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def ended(*processes):
    """Return code and words of commands, in the order of their codes."""
    said = [process.communicate(timeout=240)[0] for process in processes]
    assert not [text for text in said if "Traceback" in text or "a defect" in text], said
    return sorted(zip((process.returncode for process in processes), said, strict=True))


def left(run_dir):
    """Return what is half written."""
    return list(run_dir.rglob("*.partial"))


def test_of_two_questions_with_one_name_one_is_planned(tmp_path, record_property):
    """The plan is whole and of the one that ended with 0; the other one ends with a sentence."""
    replaced = []
    for number in range(PAIRS):
        name = f"pair{number}"
        codes = ended(*(typed(tmp_path, "plan", name, *ASKED, f"BLOCKS={blocks}") for blocks in (6, 8)))
        assert [code for code, _ in codes] == [0, 2], codes
        (_, done), (_, refused) = codes
        assert re.search(r"writes this run now|was planned by another command|would change it", refused), refused
        run = open_run(tmp_path / "results" / name)
        assert f"design    {run.plan.design.blocks} blocks" in done
        rows = [row for row in run.planned if row.kind == "measured"]
        replaced += [name] * (len(rows) != run.plan.design.blocks)
        assert left(run.path) == []
    record_property("pairs", [PAIRS, len(replaced), 0, 0])
    assert replaced == []


def test_a_plan_that_was_killed_is_planned_by_the_same_command(tmp_path):
    """Its directory is gone on with; one that is no run's is not taken for one."""
    words = ("plan", "r", *ASKED)
    run_dir = tmp_path / "results/r"
    run_dir.mkdir(parents=True)
    (run_dir / "thesis.txt").touch()
    ((code, said),) = ended(typed(tmp_path, *words))
    assert (code, "is there already and is no run: give another name, RUN=" in said) == (2, True), said
    (run_dir / "lock").touch()
    (run_dir / "plan").mkdir()
    (run_dir / "plan/blocks.tsv.0a1b2c3d.partial").touch()
    assert [code for code, _ in ended(typed(tmp_path, *words))] == [0]
    assert left(run_dir) == []


@pytest.fixture
def rented(google, tmp_path):
    """Return a run that has no machine yet."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "GOOGLE_", "CLOUDSDK_", "GCP_"))}
    run = Rented(google, tmp_path, kept | {"TF": str(FAKES / "terraform")})
    run.plan()
    return run


def stage(rented, name, **environment):
    """Start a stage of a rented run."""
    return typed(rented.root, name, python=("-c", STAGE), **(rented.environment | environment))


@pytest.mark.parametrize("second", ["provision", "destroy", "give-back"])
def test_no_second_command_deletes_a_machine_that_is_being_made(rented, second):
    """It says who makes it, with the pid; the first one goes on to its end, and the machine stays."""
    keys, rented.api.host_keys = rented.api.host_keys, lambda _: []
    first = stage(rented, "provision")
    wait_for(lambda: rented.api.of_kind("instances") or first.poll() is not None)
    ((code, said),) = ended(stage(rented, second, TSDUEL_FAILED="3"))
    rented.api.host_keys = keys
    assert code == 2, said
    assert WRITES.search(said).groups() == ("provision", str(first.pid))
    assert f"or end it with kill {first.pid}, then: make {second} RUN=r" in said
    assert [code for code, _ in ended(first)] == [0]
    assert [request for request in rented.api.requests if request.startswith("DELETE")] == []
    assert len(rented.api.of_kind("instances")) == 1
    assert set(hosts.known(rented.run_dir)) == {"host1"}
    assert rented.destroy().returncode == 0
    assert rented.api.names() == []


def test_of_two_that_rent_at_once_one_rents(rented, record_property):
    """There is one machine, it is recorded, and both ends are true; a kill -9 of the first frees the run."""
    lost = []
    for _ in range(PAIRS // 2):
        codes = ended(stage(rented, "provision"), stage(rented, "provision"))
        # The second may come when the first is done, and finds the machine.
        assert codes[0][0] == 0, codes
        assert codes[1][0] == 0 or WRITES.search(codes[1][1]), codes
        machines = {each["name"] for each in rented.api.of_kind("instances")}
        lost += machines ^ {host["instance"] for host in hosts.known(rented.run_dir).values()}
        assert len(machines) == 1
        assert rented.destroy().returncode == 0
        assert rented.api.names() == []
    record_property("pairs", [PAIRS // 2, len(lost), 0, len(rented.api.names())])
    assert lost == []
    rented.api.stuck = lambda _: True
    first = stage(rented, "provision")
    wait_for(lambda: rented.api.of_kind("instances"))
    first.send_signal(signal.SIGKILL)
    first.communicate()
    rented.api.stuck = lambda _: False
    assert rented.destroy().returncode == 0
    assert rented.api.names() == []


def test_a_fetch_beside_an_attendant(project, tmp_path, record_property):
    """It publishes nothing while the other one does, and says so; all blocks come home once, and whole."""
    # The other machine is this one: its directory is the project's.
    (tmp_path / "runs").symlink_to(tmp_path / "results")
    there = SshHost(user=None, address="there", port=None, directory=str(tmp_path))
    place = SshPlace(config_file=None, hosts={"host1": there})
    plan = project.plan(duel={"enabled": False}, design={"blocks": PAIRS}).model_copy(update={"place": place})
    home = tmp_path / "home/r"
    shutil.copytree(project.run_dir, home)
    plan.write(home)
    hosts.write(home, {"host1": {"address": "there", "user": None, "port": None}}, provisioned=False)
    (home / "host/host1").mkdir()
    shutil.copytree(project.run_dir / "build", home / "host/host1/build")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(FAKE_SSH)
    (tmp_path / "bin/ssh").chmod(0o755)
    there = project.env | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "FAKE_SSH": str(tmp_path)}
    there["TSDUEL_RESULTS"] = str(tmp_path / "home")
    first, refused = typed(tmp_path, "run", "r", **there), 0
    wait_for(lambda: runlock.is_attended(home) or first.poll() is not None)
    while first.poll() is None:
        ((code, said),) = ended(typed(tmp_path, "fetch", "r", **there))
        assert code == 0 or ("each finished block is here at once" in said and WRITES.search(said)), said
        refused += code != 0
    assert [code for code, _ in ended(first)] == [0]
    assert refused
    link = Link.all(home)["host1"]
    os.environ["PATH"], path = there["PATH"], os.environ["PATH"]
    try:
        missing = link.missing()
    finally:
        os.environ["PATH"] = path
    names = sorted(row.name for row in open_run(home).due)
    assert sorted(path.parent.name for path in home.glob("raw/host1/*/block.json")) == names
    begun = [event["block"] for event in project.events() if event["event"] == "block-start"]
    record_property("pairs", [refused, len(missing), len(begun) - len(names), len(left(home)) + len(project.alive())])
    assert (missing, len(begun), left(home), project.alive()) == ([], len(names), [], [])


HELD = """
import sys
from pathlib import Path
from tsduel.core import runlock
with runlock.holding(Path(sys.argv[1]), "run"):
    print(runlock.is_attended(Path(sys.argv[1])))
"""


class TestHolder:
    """The lock of a run."""

    def test_stages_of_one_command_have_its_lock(self, tmp_path):
        """A stage that it starts goes on; a command beside is refused by the name of the first one, and its stage."""
        with runlock.holding(tmp_path, "tsbs") as lock:
            environment = runlock.passed_on(lock, os.environ | {"PYTHONPATH": str(PROJECT)})
            words = [sys.executable, "-c", HELD, tmp_path]
            inside = subprocess.run(
                words, env=environment, pass_fds=(lock,), capture_output=True, text=True, check=False
            )
            assert inside.stdout == "True\n", inside.stderr
            known = runlock.holder(tmp_path)
            assert (known.pid, known.command, known.stage) == (os.getpid(), "tsbs", "run")
            said = rf"`make tsbs` \(pid {os.getpid()}, since .*then: make destroy RUN="
            with pytest.raises(UserError, match=said), runlock.holding(tmp_path, "destroy"):
                pass
        assert runlock.holder(tmp_path) is None

    def test_the_lock_of_another_run_is_not_inherited(self, tmp_path, monkeypatch):
        """A command that a stage types for another run takes the lock of that run."""
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        with runlock.holding(tmp_path / "a", "tsbs") as lock:
            monkeypatch.setenv(runlock.INHERITED, str(lock))
            with runlock.holding(tmp_path / "b", "tsbs"):
                assert runlock.holder(tmp_path / "b").command == "tsbs"
            assert runlock.holder(tmp_path / "a").command == "tsbs"

    def test_what_a_killed_command_left_half_written_goes(self, tmp_path):
        """But not in raw/, where the driver works."""
        for name in ("host/host1/003.0a0b0c0d.partial/raw/x", "raw/host1/003.partial/x"):
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).touch()
        (tmp_path / "report.md.0a0b0c0d.partial").touch()
        with runlock.holding(tmp_path, "report"):
            assert left(tmp_path) == [tmp_path / "raw/host1/003.partial"]
