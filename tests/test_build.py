"""What is built: variants from every kind of source, once each, with a record and a log."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import plans
import pytest
from fakeproject import PATIENCE_S, script, wait_for
from gitrepo import Repository

from tsduel.build.built import AT_FAULT, why_none
from tsduel.core import sections
from tsduel.core.plan import Component, Tsbs, Variant
from tsduel.plan import resolve
from tsduel.targets import databases
from tsduel.workloads.tsbs.plan import TSBS_VERSION

PROJECT = Path(__file__).resolve().parent.parent
TARGET = databases()["victoriametrics"].programs["server"]
# A stand-in for the database: `make victoria-metrics` writes a script.
MAKEFILE = "victoria-metrics:\n\tmkdir -p bin && cp server bin/victoria-metrics\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Give the test a cache of its own that shares Go's module and build caches."""
    shared = Path(os.environ.get("TSDUEL_CACHE", PROJECT / ".cache"))
    made = tmp_path / "cache"
    made.mkdir()
    (shared / "go").mkdir(parents=True, exist_ok=True)
    (made / "go").symlink_to(shared / "go")
    monkeypatch.setenv("TSDUEL_CACHE", str(made))
    return made


@pytest.fixture
def repository(tmp_path):
    """Make a repository that builds in no time."""
    made = Repository(tmp_path / "db")
    made.write("Makefile", MAKEFILE)
    made.write("server", "#!/bin/sh\necho one\n", 0o755)
    made.commit_all("first")
    return made


class Run:
    """A run's directory as plan and provision leave it, and the stage that builds."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory = directory
        self.cache = cache
        self.variants: list[Variant] = []

    def add(self, name: str, source: str, *, role: str = "server", **where: str) -> Component:
        """Plan a component, of the newest variant unless it is a server."""
        part = sections.ComponentAsked(role=role, source=source, flags=("-x={{ y }}",), env={"K": "V"}, **where)
        made = resolve._component(name, part, databases()["victoriametrics"].programs[role])
        before = () if role == "server" else self.variants.pop().components
        variant = Variant(name=name, label=name, target="victoriametrics", components=(*before, made))
        self.variants.append(variant)
        return made

    def start(self, variant: str = "") -> subprocess.Popen[str]:
        """Start the stage, or what it does for one variant, in a process group of its own, as a terminal does."""
        for part in ("plan", "host"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = self.directory / "host" / "inventory.json"
        inventory.write_text(json.dumps({"all": {"hosts": {"local": local}}}))
        values = self.directory / "plan" / "ansible-vars.json"
        plan = plans.plan(variants=tuple(self.variants), tsbs=Tsbs(version=TSBS_VERSION))
        values.write_text(json.dumps(resolve.ansible_vars(plan, run_dir=self.directory, cache=self.cache)))
        command = [Path(sys.executable).parent / "ansible-playbook", "-i", inventory, "-e", f"@{values}"]
        command.append(PROJECT / "ansible" / "site.yml")
        if variant:
            command = [PROJECT / "ansible" / "build.py", self.directory, variant]
        settings = {"ANSIBLE_CONFIG": str(PROJECT / "ansible/ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "VIEW": "verbose"}
        return subprocess.Popen(
            command, env=os.environ | settings, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def build(self, variant: str = "") -> tuple[int, str]:
        """Run the stage, or what it does for one variant; return its exit code and what it said."""
        with self.start(variant) as process:
            text, _ = process.communicate(timeout=900)
        return process.returncode, text

    def record(self, name: str) -> dict[str, object]:
        """Return what the stage wrote of TSBS, the agent, or a variant's first component."""
        whole = json.loads((self.directory / "build" / f"{name}.json").read_text())
        if "components" not in whole:
            return whole
        assert (whole["variant"], whole["binary"]) == (name, whole["components"][0]["binary"])
        return whole["components"][0]


@pytest.fixture
def run(tmp_path, cache):
    """Make a run whose TSBS and agent are in the cache already."""
    for name in ("tsbs", "agent"):
        shared = (cache / "go").resolve().parent / name
        shared.mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(shared)
    return Run(tmp_path / "run", cache)


def output_of(binary: object) -> str:
    """Run a stand-in server."""
    return subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout.strip()


def test_git_path_and_binary_are_built_once_and_recorded(run, repository, tmp_path, monkeypatch):
    """A commit, a checkout with changes and files each give their own binary; a second time nothing is built."""
    monkeypatch.setenv("GOFLAGS", "-race")
    monkeypatch.setenv("GOSUMDB", "sum.golang.org")
    monkeypatch.setenv("GOPRIVATE", "example.com/mine")
    first = repository.git("rev-parse", "HEAD")
    repository.write("server", "#!/bin/sh\necho two\n", 0o755)
    repository.write("new file", "untracked")
    before = repository.git("status", "--porcelain")
    run.add("baseline", "git", ref="main", repo=str(repository.path))
    run.add("candidate", "path", path=str(repository.path))
    run.add("third", "binary", path=str(script(tmp_path / "server", "echo three")))
    run.add("third", "binary", role="vmauth", path=str(script(tmp_path / "vmauth", "echo four")))
    code, text = run.build()
    assert code == 0, text
    front = json.loads((run.directory / "build/third.json").read_text())["components"][1]
    assert (front["role"], output_of(front["binary"])) == ("vmauth", "four")
    records = [run.record(name) for name in ("baseline", "candidate", "third")]
    assert [output_of(record["binary"]) for record in records] == ["one", "two", "three"]
    assert records[0]["revision"] == records[1]["revision"] == first
    assert records[0]["ref"] == "main"
    assert records[0]["build_command"] == "make victoria-metrics"
    # As they were used, whoever has set them.
    assert records[0]["go_settings"] == {
        "GOFLAGS": "-trimpath -buildvcs=false -modcacherw", "GOSUMDB": "sum.golang.org", "GONOSUMDB": "example.com/mine"
    }  # fmt: skip
    agent = run.record("agent")
    assert hashlib.sha256(Path(str(agent["binary"])).read_bytes()).hexdigest() == agent["sha256"]
    assert agent["version"] == Path(str(agent["binary"])).parent.name
    assert all(Path(str(record["binary"])).parent.name == record["build_key"] for record in records)
    assert (Path(str(records[1]["binary"])).parent / "source.diff").read_text().count("echo two") == 1
    assert repository.git("status", "--porcelain") == before
    assert len(repository.git("worktree", "list").splitlines()) == 1
    assert not list((run.cache / "variants").glob("*.partial*"))

    # A cache that was moved is as good as before, and the records say where the programs lie now.
    run.cache = run.cache.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("TSDUEL_CACHE", str(run.cache))
    code, text = run.build()
    assert code == 0, text
    assert "changed=0" in text
    again = [run.record(name) for name in ("baseline", "candidate", "third")]
    assert all(Path(str(record["binary"])).is_relative_to(run.cache) for record in again)
    assert [record | {"binary": ""} for record in again] == [record | {"binary": ""} for record in records]
    assert Path(str(run.record("tsbs")["bin_dir"])).parent.parent == run.cache


def test_a_build_that_the_network_failed_is_tried_again_and_no_other(run, repository, tmp_path):
    """A module that did not come at the first time comes at the second; a program that is wrong stays wrong."""
    tried = tmp_path / "tried"
    why = "read: connection reset by peer"
    rule = f"echo x >>{tried}; test $$(wc -l <{tried}) -gt 1 || {{ echo '{why}' >&2; exit 1; }}; mkdir -p bin; touch $@"
    repository.write("Makefile", f"victoria-metrics: bin/victoria-metrics\nbin/victoria-metrics:\n\t{rule}\n")
    run.add("baseline", "path", path=str(repository.path))
    code, text = run.build("baseline")
    assert code == 0, text
    assert tried.read_text() == "x\n" * 2
    why = "syntax error"
    repository.write("Makefile", f"victoria-metrics:\n\techo x >>{tried}; echo '{why}' >&2; exit 1\n")
    run.add("candidate", "path", path=str(repository.path))
    code, text = run.build("candidate")
    assert code != 0
    assert "syntax error" in text
    assert tried.read_text() == "x\n" * 3


@pytest.fixture
def builder(tmp_path, monkeypatch):
    """Make a user that builds, as a rented machine has one; sudo is runuser's where root needs none."""
    if os.geteuid() != 0 or not shutil.which("useradd"):
        pytest.skip("only root can make a user")
    name, home = f"tsduel-b{os.getpid()}", Path(tempfile.mkdtemp(dir="/var/tmp"))
    subprocess.run(["useradd", "--system", "--no-create-home", "--home-dir", home, name], check=True)
    shutil.chown(home, name)
    lines = (
        '[ "$1 $2 $3 $5" = "-n -H -u --" ] || exit 2',
        "user=$4; shift 5",
        f'HOME={home} exec runuser -u "$user" -- "$@"',
    )
    script(tmp_path / "bin" / "sudo", *lines)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("TSDUEL_BUILD_USER", name)
    yield name
    subprocess.run(["userdel", name], check=True)
    shutil.rmtree(home)


def test_candidates_are_built_by_a_user_of_their_own(run, repository, builder, tmp_path):
    """What it runs cannot read what is ours, is gone when it has built, and what it made is as if we had built it."""
    secret = script(tmp_path / "secret", "")
    secret.chmod(0o600)
    told = f"echo $$(id -un), $$(cat {secret} 2>/dev/null || echo denied), $$GOFLAGS"
    repository.write(
        "Makefile",
        f"victoria-metrics:\n\tsleep 3217 &\n\tmkdir -p bin\n\techo \"echo '`{told}`'\" >bin/victoria-metrics\n",
    )
    repository.commit_all("second")
    run.add("baseline", "git", ref="main", repo=str(repository.path))
    run.add("candidate", "path", path=str(repository.path))
    for name in ("baseline", "candidate"):
        code, text = run.build(name)
        assert code == 0, text
        record = run.record(name)
        said = subprocess.run(["sh", record["binary"]], check=True, capture_output=True, text=True).stdout.strip()
        assert said == f"{builder}, denied, -trimpath -buildvcs=false -modcacherw"
        assert record["built_by"] == builder
    # Ended, whether or not somebody has taken note of it.
    left = subprocess.run(["ps", "-u", builder, "-o", "stat="], capture_output=True, text=True, check=False).stdout
    assert all(state.startswith("Z") for state in left.split())

    repository.write("Makefile", "victoria-metrics:\n\techo it breaks >&2; exit 3\n")
    run.add("third", "path", path=str(repository.path))
    code, text = run.build("third")
    assert code == 2
    assert "it breaks" in text


def test_a_url_is_cloned_without_old_contents_and_built(run, repository):
    """A partial clone brings the files of the commit that is built, also of one that came later."""
    repository.git("config", "uploadpack.allowFilter", "true")
    url = f"file://{repository.path}"
    run.add("baseline", "git", ref="main", repo=url)
    code, text = run.build("baseline")
    assert code == 0, text
    repository.write("server", "#!/bin/sh\necho later\n", 0o755)
    repository.commit_all("second")
    run.add("candidate", "git", ref="main", repo=url)
    code, text = run.build("candidate")
    assert code == 0, text
    assert output_of(run.record("candidate")["binary"]) == "later"


def test_a_failing_build_shows_the_last_lines_of_its_log(run, repository):
    """The variant, the log's name and its end are on the screen, and the cache holds nothing of it."""
    repository.write("Makefile", "victoria-metrics:\n\t@seq 100; echo 'db.go:7: cannot compile' >&2; exit 1\n")
    repository.commit_all("broken")
    variant = run.add("candidate", "git", ref="main", repo=str(repository.path))
    code, text = run.build()
    assert code != 0
    assert "variant candidate: the build failed" in text
    assert "db.go:7: cannot compile" in text
    lines = {line.strip() for line in text.splitlines()}
    assert "100" in lines
    assert "50" not in lines
    log = run.directory / "build" / "candidate.log"
    assert str(log) in text
    assert "50\n" in log.read_text()
    assert not (run.cache / "variants" / variant.build_key).exists()
    assert not list((run.cache / "variants").glob("*.partial*"))


@pytest.mark.parametrize(
    ("said", "theirs"),
    [
        ("db.go:7: syntax error: unexpected EOF", True),
        ("write: no space left on device", False),
        ("signal: killed", False),
        ("go: go.mod requires go >= 1.99.1 (running go1.26.0; GOTOOLCHAIN=local)", False),
    ],
)
def test_only_what_does_not_compile_is_the_revisions_fault(run, repository, said, theirs):
    """A bisection steps around it, and not around a full disk."""
    repository.write("Makefile", f"victoria-metrics:\n\t@echo '{said}' >&2; exit 1\n")
    repository.commit_all("broken")
    run.add("candidate", "git", ref="main", repo=str(repository.path))
    code, text = run.build()
    assert code != 0
    assert (AT_FAULT in text) == theirs
    assert bool(why_none(run.directory, "candidate")) == theirs


def test_sources_that_changed_since_the_plan_are_not_built(run, repository):
    """What the plan says was measured is what is measured."""
    run.add("candidate", "path", path=str(repository.path))
    repository.write("server", "#!/bin/sh\necho changed\n", 0o755)
    code, text = run.build("candidate")
    assert code != 0
    assert f"{repository.path} changed since the plan was made; plan again" in text


def test_a_cache_that_cannot_be_written_is_a_sentence(tmp_path):
    """As on a full disk: the file and the reason, without a stack trace."""
    (tmp_path / "file").touch()
    environment = os.environ | {"TSDUEL_CACHE": str(tmp_path / "file" / "cache")}
    command = [sys.executable, PROJECT / "ansible/build.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("[Errno 20] Not a directory: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "of"), [(signal.SIGINT, ""), (signal.SIGTERM, "candidate")])
def test_an_interrupted_build_leaves_nothing(run, repository, number, of):
    """Ctrl-C and SIGTERM end the build's processes, and the cache holds no half of it."""
    mark = f"86{os.getpid()}"
    repository.write("Makefile", f"victoria-metrics:\n\tsleep {mark}\n")
    repository.commit_all("endless")
    run.add("candidate", "git", ref="main", repo=str(repository.path))

    def sleeps() -> bool:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if path.read_bytes() == f"sleep\0{mark}\0".encode():
                    return True
        return False

    def halves() -> list[Path]:
        return [path for path in (run.cache / "variants").iterdir() if path.is_dir()]

    with run.start(of) as process:
        wait_for(lambda: sleeps() or process.poll() is not None)
        assert sleeps()
        os.killpg(process.pid, number)
        process.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not sleeps() and not halves())


@pytest.mark.parametrize("capture", [True, False])
def test_a_signal_that_comes_just_before_the_wait_is_not_lost(tmp_path, monkeypatch, capture):
    """One that another thread gets does not interrupt the wait either."""

    def leave(*_: object) -> None:
        sys.exit(1)

    def receive() -> None:
        time.sleep(0.5)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    monkeypatch.syspath_prepend(PROJECT / "ansible")
    builder = runpy.run_path(str(PROJECT / "ansible/build.py"))["Builder"]
    with (tmp_path / "log").open("a") as log:
        before, began = signal.signal(signal.SIGUSR1, leave), time.monotonic()
        try:
            threading.Thread(target=receive).start()
            with pytest.raises(SystemExit):
                builder("a build", Path(log.name), log).run("sleep", 60, cwd=tmp_path, capture=capture)
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - began < 30


def test_builds_do_not_see_the_users_settings(cache):
    """GOFLAGS, GOAMD64, compiler flags and make's own variables stay outside; the proxy comes through."""
    mine = {"GOFLAGS": "-tags=x", "GOAMD64": "v3", "CGO_CFLAGS": "-O0", "MAKEFLAGS": "k", "GOPROXY": "off"}
    command = [PROJECT / "scripts" / "with-go", TARGET.go_minimum, "local", "env"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | mine)
    values = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert not {"GOAMD64", "CGO_CFLAGS", "MAKEFLAGS"} & set(values)
    assert (values["GOFLAGS"], values["GOPROXY"]) == ("-trimpath -buildvcs=false -modcacherw", "off")
    assert values["GOMODCACHE"] == str(cache / "go" / "mod")
