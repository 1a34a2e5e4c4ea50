"""A run goes on with the adapters and the programs that its blocks were measured with, whatever the checkout has."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import tarfile
from pathlib import Path

import plans
import pytest
from renting import named

from tsduel.core.errors import UserError
from tsduel.places.ssh import pack
from tsduel.plan import resolve

PROJECT = Path(__file__).resolve().parent.parent
START = "scripts/targets/victoriametrics/start"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Return a checkout that may be changed."""
    top = tmp_path / "checkout"
    for part in pack.ADAPTERS:
        shutil.copytree(PROJECT / part, top / part)
    for part in pack.PARTS[1:]:
        (top / part).parent.mkdir(parents=True, exist_ok=True)
        (top / part).touch()
    monkeypatch.setattr(pack, "PROJECT", top)
    return top


def has_block(run_dir):
    """Give a run a finished block."""
    (run_dir / "raw/host1/000").mkdir(parents=True)
    (run_dir / "raw/host1/000/block.json").write_text("{}")


def test_the_login_of_a_foreign_database_stands_in_no_arguments(tmp_path):
    """Its answers are had at an address that may have one, and `ps` shows the arguments of a program to all."""
    program = tmp_path / "tsduel-host"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$*" >>"$0.asked"\n')
    program.chmod(0o755)
    environment = {
        "TSDUEL_HOST": str(program),
        "DB_HOST": "me:secret@there",
        "DB_PORT": "8086",
        "PATH": os.environ["PATH"],
    }
    for name in ("ready", "metrics"):
        subprocess.run([PROJECT / "scripts/targets/influxdb" / name], env=environment, check=True)
    asked = (tmp_path / "tsduel-host.asked").read_text()
    assert asked == "get --timeout 5 /query?q=CREATE%20DATABASE%20benchmark\nexpvar /debug/vars\n"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_other_adapters_are_refused_once_there_are_blocks(tmp_path, checkout, monkeypatch, elsewhere):
    """By every stage that would take them; KEPT=1 goes on with those of the run. Before, the newest are taken."""
    run_dir = tmp_path / "r"
    plans.write(run_dir, **({"place": named("tsduel-mine-aaaaaa")} if elsewhere else {}))
    (run_dir / "host").mkdir()
    if elsewhere:
        pack.main(run_dir, sources=False)
    else:
        pack.keep_adapters(run_dir)
    before = (checkout / START).read_text()
    if not elsewhere:
        (checkout / START).write_text(before + "# mended before the first block\n")
        pack.keep_adapters(run_dir)
        before = (run_dir / "project" / START).read_text()
        assert "mended" in before
        has_block(run_dir)
    (checkout / START).write_text(before + "# another flag\n")
    (checkout / "scripts/targets/victoriametrics/stop").unlink()
    (checkout / "scripts/targets/victoriametrics/begin").touch()
    said = r"has other adapters \(\S+/begin, \S+/start, \S+/stop\) than .* make tsbs RUN=r KEPT=1\. To start anew"
    for take in (lambda: resolve.main(run_dir, {}), lambda: pack.main(run_dir), lambda: pack.keep_adapters(run_dir)):
        with pytest.raises(UserError, match=said):
            take()
    monkeypatch.setenv("KEPT", "1")
    pack.main(run_dir, sources=False)
    assert (run_dir / "project" / START).read_text() == before
    with tarfile.open(run_dir / "host/project.tar.gz") as archive:
        assert archive.extractfile(f"project/{START}").read().decode() == before
        names = [name.rpartition("/")[2] for name in archive.getnames() if "targets/victoriametrics/" in name]
    assert {"stop", "begin"} & set(names) == {"stop"}
    assert len(names) == len(set(names))
    monkeypatch.delenv("KEPT")
    for number in range(3):
        (run_dir / f"raw/host1/00{number}").mkdir(parents=True, exist_ok=True)
        (run_dir / f"raw/host1/00{number}/block.json").write_text("{}")
    pack.refuse_other_adapters(run_dir)  # a run that has all its blocks is reported again


def test_a_program_of_a_run_with_blocks_is_not_built_again(tmp_path, monkeypatch):
    """As long as it is there byte for byte; without blocks, or if it was changed, it is."""
    monkeypatch.syspath_prepend(str(PROJECT / "ansible"))
    build = runpy.run_path(str(PROJECT / "ansible/build.py"))
    program, run_dir = tmp_path / "server", tmp_path / "r"
    (run_dir / "build").mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    known = {"binary": str(program), "sha256": build["sha256"](program)}
    (run_dir / "build/agent.json").write_text(json.dumps(known))
    (run_dir / "build/candidate.json").write_text(json.dumps({"binary": str(program), "components": [known]}))
    kept = build["is_kept"]
    names = ("agent", "candidate", "baseline", "tsbs")
    assert [kept(run_dir, name) for name in names] == [False] * 4
    has_block(run_dir)
    assert [kept(run_dir, name) for name in names] == [True, True, False, False]
    program.write_text("#!/bin/sh\n# another Go\n")
    assert [kept(run_dir, name) for name in names] == [False] * 4


def test_influxdb_takes_no_address_from_an_experiment(tmp_path):
    """Its own variables would override our file: its start refuses them, by name."""
    given = {"INFLUXDB_HTTP_BIND_ADDRESS": "0.0.0.0", "DB_DATA_DIR": str(tmp_path), "DB_BINARY": "false"}  # noqa: S104
    start = PROJECT / "scripts/targets/influxdb/start"
    done = subprocess.run([start], env=given, capture_output=True, text=True, check=False)
    assert (done.returncode, "INFLUXDB_HTTP_BIND_ADDRESS is ours" in done.stderr) == (2, True)
