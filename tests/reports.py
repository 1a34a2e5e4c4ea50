"""Runs taken all the way to their report, for several test files."""

import json
import os
from pathlib import Path

import synthetic

from plots import report
from tsduel.stats import compare
from tsduel.tidy import tables as tidy

GOLDEN = Path(__file__).with_name("golden")
SPEC = synthetic.Spec(blocks=6, query_types=("cpu-max-all-1", "double-groupby-1"), load_s=20, query_s=6)


def made(path, spec=SPEC, edit=None):
    """Write a run, edit it, and take it all the way to its report."""
    run = synthetic.write_run(path / "20261120T140000Z-synthetic", spec)
    if edit:
        edit(run)
    tidy.main(run)
    compare.main(run)
    report.main(run)
    return run


def edit_plan(run, **changes):
    """Change fields of the plan."""
    path = run / "plan/experiment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def text(run):
    """Return the report."""
    return (run / "report.md").read_text()


def golden(name, found):
    """Compare with a recorded file; UPDATE_GOLDEN=1 records it again, to be looked at before it is committed."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()
