"""Several runs: side by side and over time, and never joined where they are not comparable."""

import pytest
import synthetic
import synthetic_gobench
from reports import compared, edit_plan

from plots import runs
from tsduel.core.errors import UserError
from tsduel.stats import compare

EARLIER = "2026-11-19T09:00:00Z"


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Make two runs that are alike, one on another CPU with other data, and a smoke run."""

    def elsewhere(run):
        synthetic.edit(run / "raw/host1.json", cpu_model="AMD EPYC <7B13>")
        edit_plan(run, lambda plan: plan.update(created=EARLIER) or plan["workload"]["data"][0].update(key="e" * 16))

    (tmp_path / "results").mkdir()
    more = {"a": {}, "b": {"seed": 2}, "c": {}, "smoke": {"smoke": True}}
    for name, options in more.items():
        made = compared(tmp_path / f"made-{name}", elsewhere if name == "c" else None, **options)
        made.rename(tmp_path / "results" / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


@pytest.mark.usefixtures("stored")
def test_runs_stand_side_by_side_where_they_are_comparable():
    """Two that are alike share a table; the third has its own, with the reason: CPU and data differ."""
    found = runs.compare({"RUNS": "a b c"})
    assert found.count("| Ingestion rate, samples/s") == 2
    assert "| a: v1.133.0 against v1.132.0, 6 blocks | b: v1.133.0" in " ".join(found.split())
    said = next(line for line in found.splitlines() if line.startswith("- "))
    data = f"data: {'d' * 16} against {'e' * 16}"
    for part in ("b and c are not put together", "machine: local-intel", "amd-epyc-7b13", data):
        assert part in said
    for names, why in (("a", "RUNS is not two runs"), ("a nothing", "nothing")):
        with pytest.raises(UserError, match=why):
            runs.compare({"RUNS": names})


def test_a_trend_is_of_comparable_results(stored):
    """Runs are in the order of their creation, comparable runs in one table, without smoke runs."""
    found = runs.trend({"METRIC": "duel_typical_ms"}, stored)
    tables = [block for block in found.split("\n\n") if block.startswith("| Created")]
    assert [sum(line.startswith("| 2026") for line in table.splitlines()) for table in tables] == [1, 2]
    assert "all types" in tables[0]
    assert "smoke" not in found
    assert "c and a are not put together" in found
    assert sorted(path.name for path in (stored / "trend").iterdir()) == [
        "duel_typical_ms-geomean.png", "duel_typical_ms-geomean.svg",
    ]  # fmt: skip
    assert "cpu-max-all-1" in runs.trend({"METRIC": "duel_typical_ms/cpu-max-all-1"}, stored)
    assert runs.trend({"METRIC": "time"}, stored) == found
    with pytest.raises(UserError, match=r"METRIC: 'speed' is in no run; give cpu, time, .*load_rate"):
        runs.trend({"METRIC": "speed"}, stored)


def test_what_is_compared_in_its_own_unit_has_a_trend_without_a_picture(stored):
    """Its values stand in the table; there are no percents to draw."""
    found = runs.trend({"METRIC": "duel_idle_cpu_ms"}, stored)
    assert "No picture: no run has a change of it in percent." in found
    assert found.count("CPU when nobody asks") == 2


def test_a_unit_of_benchmarks_has_a_slash_of_its_own(tmp_path, monkeypatch):
    """METRIC=sec/op is the mean over rows; the name of a row follows one more slash."""
    run = synthetic_gobench.write_run(tmp_path / "results/a", synthetic_gobench.Spec())
    synthetic.tidied(run)
    compare.main(run)
    monkeypatch.chdir(tmp_path)
    for given, title in (("sec/op", "sec/op geomean"), ("sec/op/Search/Data/100", "sec/op Search/Data/100")):
        assert runs.trend({"METRIC": given}, tmp_path / "results").startswith(f"# {title}\n")
    assert (tmp_path / "results/trend/sec_op-Search_Data_100.svg").exists()
