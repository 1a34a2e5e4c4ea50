"""When a run that goes on need not be prepared again."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import plans
import pytest

from tsduel.build import ansible, built, progress
from tsduel.core.codes import INTERRUPTED
from tsduel.core.plan import Tsbs
from tsduel.core.project import PROJECT


def planned(*keys, tsbs="v1"):
    """Return a plan whose variants have components with these build keys."""
    names = ("baseline", "candidate")
    variants = tuple(
        plans.VARIANTS[0].model_copy(
            update={"name": name, "components": (plans.COMPONENT.model_copy(update={"build_key": key}),)}
        )
        for name, key in zip(names, keys, strict=True)
    )
    return plans.plan(variants=variants, tsbs=Tsbs(version=tsbs) if tsbs else None)


PLAN = planned("k1", "k2")


def program(path, text):
    """Write a program; return its sha256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def run_dir(tmp_path):
    """Return a run with the records and programs of both variants, TSBS and our own."""
    records = tmp_path / "run" / "build"
    records.mkdir(parents=True)
    for variant in PLAN.variants:
        binary = tmp_path / "cache" / variant.name
        component = {"role": "server", "build_key": variant.server.build_key, "binary": str(binary)}
        component["sha256"] = program(binary, variant.name)
        (records / f"{variant.name}.json").write_text(json.dumps({"components": [component]}))
    agent = {"binary": str(tmp_path / "cache" / "agent"), "sha256": program(tmp_path / "cache" / "agent", "agent")}
    (records / "agent.json").write_text(json.dumps(agent))
    loader = program(tmp_path / "cache" / "tsbs" / "tsbs_load", "load")
    record = {"version": "v1", "bin_dir": str(tmp_path / "cache" / "tsbs"), "sha256": {"tsbs_load": loader}}
    (records / "tsbs.json").write_text(json.dumps(record))
    return tmp_path / "run"


def test_all_records_and_programs_are_there(run_dir):
    """Of Go benchmarks there is no TSBS."""
    assert built.is_whole(run_dir, PLAN)
    (run_dir / "build" / "tsbs.json").unlink()
    assert not built.is_whole(run_dir, PLAN)
    assert built.is_whole(run_dir, planned("k1", "k2", tsbs=""))


@pytest.mark.parametrize(
    "harm",
    [
        lambda run, _cache: (run / "build" / "candidate.json").unlink(),
        lambda run, _cache: (run / "build" / "candidate.json").write_text('{"components": [{"build_key": "k2", "bin'),
        lambda run, _cache: (run / "build" / "tsbs.json").write_text(""),
        lambda run, _cache: (run / "build" / "agent.json").unlink(),
        lambda _run, cache: (cache / "agent").write_text("older"),
        lambda _run, cache: (cache / "baseline").unlink(),
        lambda _run, cache: (cache / "baseline").write_text(""),
        lambda _run, cache: (cache / "baseline").chmod(0o600),
        lambda _run, cache: (cache / "tsbs" / "tsbs_load").write_text("other"),
    ],
)
def test_what_is_missing_torn_or_changed_is_built_again(run_dir, harm):
    """As a power cut, a trimmed cache or a hand may leave it."""
    harm(run_dir, run_dir.parent / "cache")
    assert not built.is_whole(run_dir, PLAN)


def test_a_program_of_another_plan_is_none_of_this_run(run_dir):
    """Another revision, or another TSBS."""
    assert not built.is_whole(run_dir, planned("k9", "k2"))
    assert not built.is_whole(run_dir, planned("k1", "k2", tsbs="v2"))


def test_a_build_is_a_line_for_each_program_that_took_a_while(monkeypatch, capsys):
    """Variants have their versions; what Ansible says else is printed as it is, and its tasks are not."""
    monkeypatch.setattr(progress, "_LONG_S", -1.0)
    plan = plans.plan(variants=tuple(v.model_copy(update={"label": v.name[::-1]}) for v in plans.VARIANTS))
    with progress.shown(plan) as shown:
        for line in (
            "task: Look for Go",
            f"task: build : {progress._STEP}tsbs",
            f"task: {progress._STEP}candidate",
        ):
            shown.take(line)
        shown.take("no space left: [bold]")
    said = capsys.readouterr().err
    assert said == "TSBS: 0 s\nno space left: [bold]\netadidnac: 0 s\n"


def test_a_run_is_built_where_its_checkout_and_its_cache_are_now(tmp_path, monkeypatch):
    """They may have been moved since it was planned."""
    plans.write(tmp_path / "r")
    (tmp_path / "r/host").mkdir()
    (tmp_path / "r/host/inventory.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TSDUEL_CACHE", str(tmp_path / "moved"))
    monkeypatch.setenv("TSDUEL_LOCK", str(tmp_path / "lock"))
    asked = []
    monkeypatch.setattr(ansible.children, "call", lambda command, **_: asked.extend(command) or 2)
    assert ansible.main(Path("r")) == 2
    here = {"project_dir": str(PROJECT), "cache_dir": str(tmp_path / "moved"), "run_dir": str(tmp_path / "r")}
    assert json.loads(asked[-1]) == here


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("fails", [False, True])
def test_a_build_that_was_interrupted_is_no_version_that_does_not_build(tmp_path, number, fails):
    """As Ctrl-C does, all are told at once: Ansible may then say that the task failed."""
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": [{"ansible.builtin.command": "sleep 60"}]}]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    program = Path(sys.executable).parent / "ansible-playbook"
    environment = {**os.environ, "ANSIBLE_HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    command = [program, "-c", "local", "-i", "localhost,", tmp_path / "play.yml"]
    if fails:  # what Ansible does when a worker is faster than itself
        command = ["sh", "-c", "trap 'exit 2' INT TERM; echo TASK; sleep 9 & wait"]
    ours = f"""if True:
        import sys
        from tsduel.build import ansible
        from tsduel.core import children
        code = children.call({[str(word) for word in command]!r}, take=lambda line: print(line, flush=True))
        sys.exit(ansible.outcome(code))
    """
    words = [sys.executable, "-c", ours]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        assert any(line.startswith("TASK") for line in child.stdout)
        os.killpg(child.pid, number)
        child.stdout.read()
    assert child.returncode == INTERRUPTED
