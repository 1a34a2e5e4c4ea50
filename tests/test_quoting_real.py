"""Values are text and nothing else: odd names, paths, flags and variables through all of `make`, Ansible included."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from fakeproject import replace
from test_rounds_real import built  # noqa: F401 - a fixture

PROJECT = Path(__file__).resolve().parent.parent
# One after the other, whatever runs beside them: they share the cache and load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]
# All that a shell, make or awk could take for something else.
NASTY = 'it\'s $(touch pwned) `touch pwned` "x" \\t #;&|*?~ %s'


class TestQuoting:
    """Values are text and nothing else, from the file or the knob to the program's arguments."""

    @pytest.fixture
    def odd_project(self, tmp_path):
        """Return the directory of a checkout whose path has everything in it, with a .venv that needs no installing."""
        home = tmp_path / NASTY.replace("\\t", "")
        listed = ["git", "-C", PROJECT, "ls-files", "-z", "-co", "--exclude-standard", "--", ":!results", ":!docs"]
        names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
        for name in names:
            if name and (PROJECT / name).is_file():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(PROJECT / name, home / name)
        (home / "results").mkdir()
        venv = home / ".venv"
        (venv / "bin").mkdir(parents=True)
        (venv / ".ready").mkdir()
        for program in ("python", "ansible-playbook"):
            (venv / "bin" / program).write_text(f'#!/bin/sh\nexec {PROJECT}/.venv/bin/{program} "$@"\n')
            (venv / "bin" / program).chmod(0o755)
        locks = "".join((home / name).read_text() for name in ("requirements.lock", "requirements-dev.lock"))
        (venv / ".ready" / "requirements-dev.lock").write_text(f"# {venv}\n{locks}")
        return home

    def test_everything_odd_reaches_the_database_as_it_is(self, odd_project, project, built, tmp_path):  # noqa: F811 - a fixture
        """Odd paths of checkout, cache, experiment and binary; odd flags, variables and SET: argv has them as is."""
        binary = tmp_path / "bin ' $(touch pwned)" / "data=base"
        binary.parent.mkdir()
        shutil.copy(PROJECT / "tests/fakes/database", binary)
        flags = [f"-a={NASTY}", "-b=two\nlines", "-c={{ 1 + 1 }}", "-d=$TSDUEL_CACHE"]
        variant = {"source": "binary", "path": str(binary), "flags": flags, "env": {"FAKE_TEXT": f"{NASTY}\nb"}}
        project.plan()
        written = json.loads((project.run_dir / "plan/experiment.json").read_text())
        experiment = odd_project / "experiments" / "odd name.yml"
        experiment.write_text(
            json.dumps(
                {
                    "name": "odd",
                    "noise": {"steal_pct": None, "foreign_cpu_pct": None, "canary_pct": None, "clock_step_s": None},
                    "question": NASTY,
                    "variants": {"baseline": variant, "candidate": variant},
                    "workload": {"scale": 2, "interval": "1h", "workers": 1},
                    "queries": {"types": ["single-groupby-1-1-1"], "workers": 1, "count": 20, "responses": 2},
                    "settle": {"polls": 1},
                    "host": {"port": written["host"]["port"]},
                }
            )
        )
        words = ["RUN=odd", f"EXPERIMENT={experiment}"]
        words.append(f"SET=design.blocks=1 design.warmup_blocks=0 question={shlex.quote(json.dumps(NASTY))}")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "TSBS_", "TSDUEL"))}
        environment |= {"TSDUEL_CACHE": str(odd_project / "a 'cache' $(touch pwned)"), "FAKE_CALLS": "/dev/null"}
        environment["TSDUEL_LOCK"] = project.env["TSDUEL_LOCK"]

        def make(*more):
            done = subprocess.run(
                ["make", *more], cwd=odd_project, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr

        make("plan", *words)
        planned = json.loads((odd_project / "results/odd/plan/experiment.json").read_text())
        assert planned["question"] == NASTY
        make("provision", "RUN=odd")
        # TSBS is built already, as `make build` would: only its place is another.
        there = Path(json.loads((built / "tsbs.json").read_text())["bin_dir"])
        shutil.copytree(there, Path(environment["TSDUEL_CACHE"]) / "tsbs" / there.name)
        make("build", "RUN=odd")
        self._exchange(odd_project)
        shutil.copy(project.run_dir / "workload.json", odd_project / "results/odd")
        make("run", "RUN=odd")
        found = sorted((odd_project / "results/odd/raw").glob("*/server.log"))
        assert len(found) == 2
        for log in found:
            lines = dict(line.split(" ", 1) for line in log.read_text().splitlines() if line[:4] in {"argv", "env "})
            assert json.loads(lines["argv"])[2:-1] == flags
            assert json.loads(lines["env"])["FAKE_TEXT"] == f"{NASTY}\nb"
        assert [path for path in tmp_path.rglob("pwned") if path.is_file()] == []
        assert not (PROJECT / "pwned").exists()

    @staticmethod
    def _exchange(odd_project):
        """Put fakes in the place of TSBS, which a fake database has no answers for."""
        fakes = odd_project / "tests" / "fakes"
        (odd_project / "results" / "odd" / "build" / "tsbs.json").write_text(json.dumps({"bin_dir": str(fakes)}))
        # What costs time and says nothing of quoting; tests/test_workload.py has odd paths of its own.
        scripts = odd_project / "scripts"
        (scripts / "canary").write_text('#!/bin/sh\necho \'{"cpu_s": 1, "memory_s": 1, "fsync_s": 1}\'\n')
        (scripts / "make-workload").write_text('#!/bin/sh\ncp -- "$1/workload.json" "$1/raw/workload.json"\n')
        replace(scripts / "targets/victoriametrics/settle", "CACHE_RESET_US=5500000\n", "CACHE_RESET_US=0\n")
