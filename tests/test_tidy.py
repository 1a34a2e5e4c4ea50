"""raw -> tidy: the columns of the contract, and the figures that were put in."""

import csv
import json
import shutil

import pytest
import synthetic

from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS
from tsduel.core.rundir import open_run
from tsduel.tidy import tables as tidy
from tsduel.workloads.tsbs.measure import measure, read_raw
from tsduel.workloads.tsbs.series import load_curve

SPEC = synthetic.Spec(blocks=1, query_types=("cpu-max-all-1", "double-groupby-1"), load_s=6, query_s=3)
COLUMNS = {
    "measurements": "block,position,round,variant,phase,query_type,metric,value,unit",
    "timeseries": "block,position,round,variant,phase,query_type,elapsed_s,metric,value",
    "checks": "block,position,round,variant,phase,query_type,check,expected,actual,ok,message",
}


@pytest.fixture
def run(tmp_path):
    """Write a run of two blocks, the first of them warm-up."""
    return synthetic.write_run(tmp_path / "run", SPEC)


def table(run, name):
    """Return the rows of a table of tidy/."""
    with (run / f"tidy/{name}.csv").open() as stream:
        return list(csv.DictReader(stream))


def test_columns_are_exactly_those_of_the_contract(run):
    """Other programs read these files by their columns."""
    tidy.main(run)
    for name, columns in COLUMNS.items():
        assert (run / f"tidy/{name}.csv").read_text().splitlines()[0] == columns
    assert not list(run.glob("tidy/*.partial"))


def test_metrics_are_those_of_the_registry(run):
    """Every metric is registered, has its unit, and is there once a round and query type."""
    tidy.main(run)
    rows = table(run, "measurements")
    assert {row["metric"] for row in rows} | {"query_p999_ms"} == set(METRICS)
    assert all(row["unit"] == METRICS[row["metric"]].unit for row in rows)
    keys = [(row["round"], row["metric"], row["query_type"]) for row in rows]
    assert len(keys) == len(set(keys))
    assert {row["block"] for row in rows} == {"0", "1"}
    assert all(bool(row["query_type"]) == METRICS[row["metric"]].per_type for row in rows)


def test_values_are_differences_over_the_phase(run):
    """Counters are measured over their phase and not since the start of the process."""
    found = open_run(run)
    raw = read_raw(found.rounds[0], "victoriametrics", found.query_types)
    values = {(m.metric, m.query_type): m.value for m in measure(raw)}
    assert values["load_cpu_seconds", ""] == pytest.approx(
        values["load_cpu_user_seconds", ""] + values["load_cpu_system_seconds", ""]
    )
    per_type = sum(values["query_cpu_seconds", t] for t in found.query_types)
    assert values["cpu_seconds", ""] == pytest.approx(values["load_cpu_seconds", ""] + per_type, rel=0.01)
    assert values["bytes_per_sample", ""] == pytest.approx(0.5)
    assert values["load_rate", ""] == pytest.approx(SPEC.samples / values["load_seconds", ""], rel=0.001)


def test_p99_only_from_a_thousand_requests(run):
    """The p99 of a few hundred requests is not reported."""
    found = open_run(run)
    stdout = found.rounds[0].path / "query/cpu-max-all-1.stdout"
    stdout.write_text(stdout.read_text().replace("count: 9000", "count: 999"))
    names = {(m.metric, m.query_type) for m in measure(read_raw(found.rounds[0], "victoriametrics", found.query_types))}
    assert ("query_p99_ms", "cpu-max-all-1") not in names
    assert ("query_p99_ms", "double-groupby-1") in names


def test_load_curve_reaches_its_end(run):
    """The last interval, which TSBS never prints, is added when it is long enough; time begins with the load."""
    found = open_run(run)
    round_dir = found.rounds[0].path
    (round_dir / "load.csv").write_text(
        "time,per. metric/s,metric total,overall metric/s,per. row/s,row total,overall row/s\n"
        "100,-,-,-,-,-,-\n101,50.00,5.000000E+01,25.00,-,-,-\n\nSummary:\n"
        "loaded 110 metrics in 2.600sec with 4 workers (mean rate 42.30 metrics/sec)\n"
    )
    raw = read_raw(found.rounds[0], "victoriametrics", found.query_types)
    assert load_curve(raw) == [(1.0, 0.0), (2.0, 50.0), (2.6, pytest.approx(100.0))]


def test_time_series_stay_in_their_phase(run):
    """Elapsed seconds begin with the phase, and the levels of the ticks come with rates per second."""
    tidy.main(run)
    rows = table(run, "timeseries")
    assert all(float(row["elapsed_s"]) >= 0 for row in rows)
    assert {"load_rate", "cpu_cores", "rss_bytes", "inserted_rate", "request_rate"} <= {row["metric"] for row in rows}
    cores = [float(row["value"]) for row in rows if row["metric"] == "cpu_cores" and row["phase"] == "load"]
    assert cores == pytest.approx([1.6] * len(cores), rel=0.2)


def test_a_killed_run_still_gives_tables(run):
    """A half round is not looked at; the finished ones are."""
    last = next(run.glob("raw/01-2-*"))
    last.rename(last.with_name(last.name + ".partial"))
    tidy.main(run)
    assert {row["round"] for row in table(run, "measurements")} == {"00-1-baseline", "00-2-candidate", "01-1-candidate"}


def test_a_round_that_failed_early_gives_what_is_known(run):
    """Start time is known of a server that died in the load; nothing is invented for the rest."""
    path = next(run.glob("raw/01-*-candidate"))
    record = json.loads((path / "round.json").read_text())
    record |= {"status": "failed", "failure": {"phase": "load", "message": "died"}, "phases": record["phases"][:1]}
    (path / "round.json").write_text(json.dumps(record | {"sizes": {}}))
    for name in ("load.csv", "load.json", "metrics.prom.gz", "server.log"):
        (path / name).unlink()
    shutil.rmtree(path / "query")
    tidy.main(run)
    assert {row["metric"] for row in table(run, "measurements") if row["round"] == path.name} == {"start_seconds"}


def test_two_processes_write_what_one_writes(run, monkeypatch):
    """The tables do not depend on how many processes made them."""
    tidy.main(run)
    alone = {path.name: path.read_bytes() for path in run.glob("tidy/*.csv")}
    monkeypatch.setattr(tidy, "_ALONE_BELOW", 0)
    tidy.main(run)
    assert alone == {path.name: path.read_bytes() for path in run.glob("tidy/*.csv")}


def test_nothing_to_tidy_is_a_sentence(tmp_path):
    """Before the first round there is nothing to do, and a directory that is no run says so."""
    with pytest.raises(UserError, match="not a run directory"):
        tidy.main(tmp_path)
    run = synthetic.write_run(tmp_path / "run", SPEC)
    shutil.rmtree(run / "raw")
    with pytest.raises(UserError, match="no round has finished"):
        tidy.main(run)


def test_a_cut_round_record_names_its_file(run):
    """A broken round.json is a sentence with file and line."""
    path = next(run.glob("raw/00-1-*/round.json"))
    path.write_text(path.read_text()[:100])
    with pytest.raises(UserError, match=r"round\.json:\d+: not JSON"):
        tidy.main(run)
