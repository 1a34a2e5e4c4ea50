"""Values are text and nothing else: odd names, paths, flags and variables through all of `make`, Ansible included."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest
from asking import FAKES, free_port
from checkout import CACHE, PROJECT, Checkout, build
from fakeproject import UNJUDGED, agent

from tsduel.workloads.tsbs.plan import TSBS_VERSION

# One after the other: they load the machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("real")]
# All that a shell, make or awk could take for something else.
NASTY = 'it\'s $(touch pwned) `touch pwned` "x" \\t #;&|*?~ %s'


def test_everything_odd_reaches_the_database_as_it_is(tmp_path, monkeypatch):
    """Odd paths of checkout, cache, experiment and binary; odd flags, variables and SET: argv has them as is."""
    monkeypatch.setenv("TSDUEL_LOCK", str(tmp_path / "lock"))
    home = tmp_path / NASTY.replace("\\t", "")
    cache = home / "a 'cache' $(touch pwned)"
    odd = Checkout(home, cache)
    # Built already, as `make build` would: only their place is another.
    assert agent()
    (tmp_path / "built/plan").mkdir(parents=True)
    (tmp_path / "built/plan/ansible-vars.json").write_text(json.dumps({"variants": [], "tsbs_version": TSBS_VERSION}))
    build(tmp_path / "built", "tsbs")
    for name in ("agent", "tsbs"):
        shutil.copytree(CACHE / name, cache / name, ignore=shutil.ignore_patterns("*.partial*"))
    binary = tmp_path / "bin ' $(touch pwned)" / "data=base"
    binary.parent.mkdir()
    shutil.copy(FAKES / "database", binary)
    flags = [f"-a={NASTY}", "-b=two\nlines", "-c={{ 1 + 1 }}", "-d=$TSDUEL_CACHE"]
    variant = {"source": "binary", "path": str(binary), "flags": flags, "env": {"FAKE_TEXT": f"{NASTY}\nb"}}
    experiment = home / "experiments" / "odd name.yml"
    experiment.write_text(
        json.dumps(
            {
                "name": "odd",
                "noise": UNJUDGED,
                "variants": {"baseline": variant, "candidate": variant},
                "workload": {"scale": 2, "interval": "1h", "workers": 1},
                "queries": {"types": ["single-groupby-1-1-1"], "max_count": 200},
                "duel": {"enabled": False},
                "settle": {"polls": 1},
                "host": {"port": free_port()},
            }
        )
    )
    question = f"question={shlex.quote(json.dumps(NASTY))}"
    odd.make("plan", "RUN=odd", f"EXPERIMENT={experiment}", f"SET=design.blocks=1 design.warmup_blocks=0 {question}")
    run_dir = odd.results("odd")
    assert json.loads((run_dir / "plan/experiment.json").read_text())["question"] == NASTY
    odd.make("provision", "RUN=odd")
    odd.make("build", "RUN=odd")
    # A fake database has no answers for the real TSBS.
    (run_dir / "build/tsbs.json").write_text(json.dumps({"bin_dir": str(FAKES)}))
    odd.make("run", "RUN=odd")
    for side in ("baseline", "candidate"):
        log = (run_dir / f"raw/host1/001/{side}/server.log").read_text()
        lines = dict(line.split(" ", 1) for line in log.splitlines() if line[:4] in {"argv", "env "})
        assert set(flags) <= set(json.loads(lines["argv"]))
        assert json.loads(lines["env"])["FAKE_TEXT"] == f"{NASTY}\nb"
    assert [path for path in tmp_path.rglob("pwned") if path.is_file()] == []
    assert not (PROJECT / "pwned").exists()
