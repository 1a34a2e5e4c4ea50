"""Inside a checkout of a database: its working tree or its revisions, compared without an experiment of one's own."""

import importlib
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tsduel.build import built
from tsduel.cli import pipeline
from tsduel.cli.commands import COMMANDS, SIDES
from tsduel.core import children, codes, repository, results
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.wording import did_you_mean, last_line, nearest

MODULES = {
    "github.com/VictoriaMetrics/VictoriaMetrics": "victoriametrics",
    "github.com/prometheus/prometheus": "prometheus",
    "github.com/influxdata/influxdb": "influxdb",
}
"""Database by the module of its go.mod; InfluxDB 2 has another one."""
CLUSTER = "victoriametrics-cluster"
_OWN = {
    CLUSTER: "",
    # It takes no lines over HTTP, so batches cannot be exchanged, and compacts when it wants to.
    "prometheus": "workload.batch_size=80 workload.solo_scale=null design.load=solo settle.mode=natural settle.polls=2",
    "influxdb": "",
}
_VERSION = re.compile(r"v\d+\.\d+\.\d+\S*")
_PAUSE_S = 2.0


def main(revisions: Sequence[str], against: str, *, full: bool, watch: bool) -> int:
    """Compare what is named of the checkout that we stand in, the working tree unless two revisions are named."""
    refuse_command(revisions)
    top = checkout()
    database = database_of(top, revisions[-1] if len(revisions) + bool(against) > 1 else "")
    if len(revisions) + bool(against) > 2:  # noqa: PLR2004 - a comparison has two sides
        raise UserError("two revisions at most: tsduel BASELINE CANDIDATE, or tsduel tsbs VERSIONS= for several")
    for knob in SIDES:
        if os.environ.get(knob, "").strip():
            raise UserError(f"{knob}: here a revision is a word: tsduel v1.132.0; for all others: tsduel tsbs {knob}=")
    if watch and len(revisions) > 1:
        raise UserError("watch compares the working tree, with one revision at most")
    knobs = sides(top, revisions, against, watch=watch) | {
        "EXPERIMENT": os.environ.get("EXPERIMENT") or str(PROJECT / f"experiments/{'local' if full else 'quick'}.yml")
    }
    if database != "victoriametrics":
        targets = " ".join(f"variants.{side}.target={database}" for side in ("baseline", "candidate"))
        knobs["SET"] = " ".join(filter(None, [targets, _OWN[database], os.environ.get("SET", "")]))
    environment = {**os.environ, **knobs, "KIND": "tsbs"}
    return _watch(top, environment) if watch else pipeline.compare(environment)


def refuse_command(words: Sequence[str]) -> None:
    """Raise for a mistyped command, which is no revision."""
    commands = [*COMMANDS, "watch", "here", "completion"]
    if (
        words
        and (near := nearest(words[0], commands))
        and not repository.answer(Path.cwd(), "rev-parse", "--verify", "-q", words[0])
    ):
        raise UserError(f"{words[0]!r} is neither a command nor a revision of this checkout; did you mean {near}?")


def checkout() -> Path:
    """Return the top of the checkout that we stand in."""
    done = repository.git("-C", Path.cwd(), "rev-parse", "--show-toplevel")
    if done.returncode != 0 and repository.IS_NONE not in done.stderr:
        raise UserError(f"git reads nothing in {Path.cwd()}: {repository.says(done.stderr)}")
    top = done.stdout.rstrip("\n")
    if not top:
        raise UserError(
            f"{Path.cwd()} is no git checkout: go into one of VictoriaMetrics, Prometheus or InfluxDB 1.x, or name "
            "both sides: tsduel tsbs BASELINE=v1.132.0 CANDIDATE=v1.133.0 (tsduel --help)"
        )
    return Path(top)


def database_of(top: Path, revision: str = "") -> str:
    """Return the database of a checkout by its go.mod, and by the files of a revision, of the tree without one."""
    module = repository.module_of(top)
    if module not in MODULES:
        what = f"its go.mod is of {module}" if module else "it has no go.mod"
        raise UserError(f"{top} is no checkout of VictoriaMetrics, Prometheus or InfluxDB 1.x: {what}")
    return CLUSTER if repository.is_cluster(top, revision) else MODULES[module]


def sides(top: Path, revisions: Sequence[str], against: str, *, watch: bool = False) -> dict[str, str]:
    """Return BASELINE and CANDIDATE; the candidate is the working tree unless two revisions are named."""
    named = [*([against] if against else []), *revisions]
    if len(named) == 2:  # noqa: PLR2004 - both sides
        return {"BASELINE": _revision(top, named[0]), "CANDIDATE": _revision(top, named[1])}
    if named:
        base = _revision(top, named[0])
    else:  # to watch, one begins before the first edit
        example = "tsduel HEAD~1 or tsduel v1.132.0"
        base = f"git:{top}@{repository.merge_base(top, example, unchanged=watch)}"
    return {"BASELINE": base, "CANDIDATE": f"path:{top}"}


def _revision(top: Path, name: str) -> str:
    if not name.startswith("-") and (
        found := repository.answer(top, "rev-parse", "--verify", "-q", f"{name}^{{commit}}")
    ):
        # HEAD~3 is another commit tomorrow, and a label of a report.
        return f"git:{top}@{found if re.search('[~^@]|HEAD', name) else name}"
    refs = repository.answer(
        top, "for-each-ref", "--format=%(refname:short)", "refs/tags", "refs/heads", "refs/remotes"
    ).split()
    near = f"; did you mean v{name}?" if _VERSION.fullmatch(f"v{name}") else did_you_mean(name, refs)
    if _VERSION.fullmatch(name):
        if not name.endswith("-cluster"):  # a clone need not have the tags; the Go module proxy has
            return f"module:{name}"
        near = "; git fetch --tags may bring it"
    more = near or repository.shallow(str(top)) or "; git fetch --tags may bring it"
    raise UserError(f"{name!r} is no revision of {top}{more}")


def _watch(top: Path, environment: Mapping[str, str]) -> int:
    """Compare the tree whenever it has changed and builds; print one line a run until Ctrl-C."""
    print(f"watching {top}; each tree that builds is compared with {environment['BASELINE'].rpartition('@')[2][:12]}")
    seen = ""
    while True:
        tree = _tree(top)
        if tree != seen and tree == _settled(top, tree):
            seen = tree
            print(f"{time.strftime('%H:%M:%S')} {_one_run(environment)}", flush=True)
        time.sleep(_PAUSE_S)


def _tree(top: Path) -> str:
    """Return what changes when a file of the tree changes: the commit, and what is not in it."""
    # Against the commit: what is staged is built, too.
    changed = repository.answer(top, "diff", "--name-only", "--no-renames", "-z", "HEAD").split("\0")
    added = repository.answer(top, "ls-files", "-z", "--others", "--exclude-standard").split("\0")
    times = []
    for name in filter(None, [*changed, *added]):
        try:
            times.append(f"{name} {(top / name).stat().st_mtime_ns}")
        except OSError:
            times.append(f"{name} is gone")
    return "\n".join([repository.answer(top, "rev-parse", "HEAD"), *times])


def _settled(top: Path, tree: str) -> str:
    time.sleep(_PAUSE_S)
    return _tree(top) if tree else ""


def _one_run(environment: Mapping[str, str]) -> str:
    name = pipeline.new_run(environment, "tsbs")
    lines: list[str] = []
    command = [sys.executable, "-m", "tsduel", "tsbs"]
    code = children.call(command, {**environment, "RUN": name, "VIEW": "plain"}, take=lines.append)
    run_dir = results.home() / name
    if codes.interrupted(code):
        raise KeyboardInterrupt
    if not (run_dir / "stats/comparison.json").exists():
        log = built.why_none(run_dir, "candidate")
        return f"does not build: {log}" if log else f"no result: {last_line(chr(10).join(lines))}"
    text = str(importlib.import_module("plots.comment").main(run_dir))
    answer = next((line for line in text.splitlines() if line.startswith("**")), "no answer").replace("**", "")
    return f"{answer} ({run_dir / 'report.html'})"
