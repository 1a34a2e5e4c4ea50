"""Exit codes: each way to end has its own, and the sentence says why."""

import shutil

import pytest
import synthetic
from reports import analysed, edit_json

from tsduel import __main__ as cli
from tsduel.core import codes
from tsduel.stats import outcome
from tsduel.tidy import tables as tidy

SPEC = synthetic.Spec(blocks=6, query_types=("cpu-max-all-1",), load_s=6, exchanges=60)


def document(*verdicts, failed=0, **more):
    """Return what an outcome depends on."""
    rows = [{"metric": "load_rate", "query_type": "", "verdict": verdict} for verdict in verdicts]
    return {"checks": {"failed": failed}, "rows": rows} | more


@pytest.mark.parametrize(
    ("found", "fail_on", "smoke", "code"),
    [
        (document("equivalent", "inconclusive"), "", False, 0),
        (document("regression"), "", False, 0),
        (document("regression"), "regression", False, 6),
        (document("improvement", "negligible", "inconclusive"), "regression", False, 0),
        (document("failed", failed=2), "", False, 4),
        (document("failed", "regression", failed=2), "regression", False, 4),
        (document("failed", failed=1), "", True, 4),
        (document("inconclusive: environment"), "", False, 5),
        (document("inconclusive: environment"), "", True, 0),
        (document("inconclusive: environment", "regression"), "regression", False, 5),
        (document("regression", aa={"passed": False}), "regression", False, 5),
        (document("inconclusive", aa={"passed": False}), "", False, 5),
        (document("inconclusive", aa={"passed": True}), "", False, 0),
    ],
)
def test_codes(found, fail_on, smoke, code):
    """A failed check comes first, then noise, then a regression if that was asked for."""
    given, why = outcome.outcome(found, fail_on, smoke=smoke)
    assert given == code
    assert bool(why) == (code != 0)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Write a run and compare it."""
    return analysed(synthetic.write_run(tmp_path_factory.mktemp("outcome") / "run", SPEC))


@pytest.mark.parametrize(
    ("failed", "fail_on", "code", "sentence"),
    [
        (0, "", 0, ""),
        (0, "regression", 6, "tsduel: regression (FAIL_ON=regression): duel_typical_ms"),
        (0, "everything", 2, "FAIL_ON: 'everything' is not known; FAIL_ON=regression is"),
        (1, "", 4, "1 check failed: exit code 4"),
    ],
)
def test_the_command_ends_with_it(compared, tmp_path, monkeypatch, capsys, *, failed, fail_on, code, sentence):
    """`python -m tsduel report` is the last stage; it writes the report unless FAIL_ON is unknown."""
    run = shutil.copytree(compared, tmp_path / "results/run")
    edit_json(run, "stats/comparison.json", lambda found: found["checks"].update(failed=failed))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIL_ON", fail_on)
    monkeypatch.setattr("sys.argv", ["tsduel", "report", "run"])
    assert cli.main() == code
    assert (run / "report.md").exists() == (code != 2)
    assert sentence in capsys.readouterr().err


def test_an_unforeseen_error_is_a_sentence_too(tmp_path, monkeypatch, capsys):
    """The sentence says where; only run.log has the stack. Ctrl-C prints no stack either."""
    run = synthetic.write_run(tmp_path / "results/run", SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["tsduel", "tidy", "run"])

    def broken(_):
        raise KeyError("what nobody has foreseen")

    monkeypatch.setattr(tidy, "main", broken)
    assert cli.main() == codes.DEFECT
    said = capsys.readouterr().err
    assert said.startswith("tsduel: a defect of ours in `tidy` (KeyError('what nobody has foreseen') in ")
    assert said.endswith(
        " nothing that was measured is lost. Please report it, with run.log of run, which has all of it\n"
    )
    assert len(said.splitlines()) == 1
    assert "Traceback (most recent call last):" in (run / "run.log").read_text()

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tidy, "main", interrupted)
    assert cli.main() == codes.INTERRUPTED
    assert capsys.readouterr().err == "tsduel: interrupted\n"
