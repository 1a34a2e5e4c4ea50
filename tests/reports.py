"""Runs taken all the way to their report, for several test files."""

import contextlib
import json
from dataclasses import replace

import pytest
import synthetic

from plots import report, sweep
from plots.charts import style
from tsduel.stats import compare
from tsduel.studies import compare as studies
from tsduel.studies import settings

SPEC = synthetic.Spec(blocks=6, query_types=synthetic.TWO_TYPES, solo_s=0.5)
NAME = "20261120T140000Z-synthetic"
DRAW = style.save
EMPTY = '<svg xmlns="http://www.w3.org/2000/svg" width="1pt" height="1pt" viewBox="0 0 1 1"></svg>'


def sketch(_figure, path):
    """Write an empty picture."""
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".svg").write_text(EMPTY)
    path.with_suffix(".png").touch()


@contextlib.contextmanager
def drawing():
    """Have the pictures of reports drawn, which conftest.py leaves empty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "save", DRAW)
        yield


def compared(path, edit=None, **spec):
    """Write a run, edit it, tidy and compare it."""
    run = synthetic.write_run(path / NAME, replace(SPEC, **spec))
    if edit:
        edit(run)
    return analysed(run)


def analysed(run):
    """Tidy and compare a run that is written, and return it."""
    synthetic.tidied(run)
    compare.main(run)
    return run


def reported(run):
    """Take a run that is written to its report, or a study with all of its runs, and return it."""
    if settings.is_study(run):
        for _, each in settings.runs(run):
            reported(each.path)
        studies.main(run)
        sweep.main(run)
    else:
        report.main(analysed(run))
    return run


def made(path, edit=None, **spec):
    """Take a run all the way to its report."""
    run = compared(path, edit, **spec)
    report.main(run)
    return run


def drawn(path, edit=None, **spec):
    """Take a run all the way to its report, with its pictures."""
    with drawing():
        return made(path, edit, **spec)


def edit_json(run, pattern, change):
    """Change the JSON files of a run that match a pattern, by a function of what is in each."""
    for path in run.glob(pattern):
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))


def edit_plan(run, change):
    """Change the plan by a function of it."""
    edit_json(run, "plan/experiment.json", change)


def text(run):
    """Return the report."""
    return (run / "report.md").read_text()


def section(run, title):
    """Return a section of the report."""
    return text(run).partition(f"\n## {title}\n")[2].partition("\n## ")[0]
