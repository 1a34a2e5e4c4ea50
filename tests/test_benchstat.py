"""The two files for benchstat: their format, and benchstat itself as referee of every row."""

import csv
import io
import json
import re
import subprocess
from pathlib import Path

import pytest
import synthetic
from reports import analysed

from tsduel.core.metrics import GEOMEAN, METRICS
from tsduel.core.rundir import open_run
from tsduel.stats import compare
from tsduel.workloads.tsbs.read import bench_name, bench_unit

SCRIPT = Path(__file__).parent.parent / "scripts/benchstat"
SPEC = synthetic.Spec(
    blocks=7, query_types=("cpu-max-all-8", "double-groupby-1"), load_s=6, solo_s=2, exchanges=1200, instructions=True
)
LINE = re.compile(r"BenchmarkTSBS(/[a-z]+=[a-zA-Z0-9-]+)+/[a-z]+=\d+ \d+( [0-9.e+-]+ \S+)+")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Write a run, in which a metric is missing in one block and figures of another are equal."""
    run = analysed(synthetic.write_run(tmp_path_factory.mktemp("benchstat") / "run", SPEC))
    path = run / "tidy/measurements.csv"
    text = [
        line
        for line in path.read_text().splitlines(keepends=True)
        if not re.match(r",3,candidate.*,drain_seconds,", line)
    ]
    text = [re.sub(r"(rss_peak_bytes),1(\d)\d+(\.\d+)?", r"\1,1\g<2>00000000", line) for line in text]
    path.write_text("".join(text))
    compare.main(run)
    return run


def test_the_format(run):
    """Same configuration in both files, no name that ends in -N, one line a block, no unit twice in it.

    Units are as the specification names them, bytes and seconds so that benchstat scales them.
    """
    files = [(run / f"stats/{side}.bench.txt").read_text().splitlines() for side in ("baseline", "candidate")]
    heads = [[line for line in lines if line and not line.startswith("Benchmark")] for lines in files]
    assert heads[0] == heads[1]
    assert "Unit queries/s better=higher" in heads[0]
    assert not any(line.startswith(("round:", "commit:")) for line in heads[0])
    units = {unit for line in files[0] if line.startswith("Benchmark") for unit in line.split(" ")[3::2]}
    assert {"queries/s", "samples/s", "p50-ns", "ns/op", "cpu-ns", "cpu-sec", "disk-B"} <= units
    for lines in files:
        benchmarks = [line for line in lines if line.startswith("Benchmark")]
        assert all(LINE.fullmatch(line) for line in benchmarks)
        names = [line.split(" ")[0] for line in benchmarks]
        assert {names.count(name) for name in names} == {SPEC.blocks}
        assert "BenchmarkTSBS/phase=duel/type=cpu-max-all-8/variants=2" in names
        for line in benchmarks:
            units = line.split(" ")[3::2]
            assert len(set(units)) == len(units)
    for phase, counts in (("duel", {"1200"}), ("query", {"6000"})):
        found = {line.split(" ")[1] for line in files[0] if f"phase={phase}/type=cpu-max-all-8" in line}
        assert found == counts


def test_times_are_in_nanoseconds_whatever_their_metric_has():
    """The factors by hand, and not from what writes them."""
    factors = {name: bench_unit(METRICS[name])[1] for name in ("duel_typical_ms", "duel_cpu_us", "disk_bytes")}
    assert factors == {"duel_typical_ms": 1e6, "duel_cpu_us": 1e3, "disk_bytes": 1.0}


@pytest.mark.slow
def test_benchstat_is_of_our_opinion(run):
    """For every row: medians, p and the change of medians."""
    done = subprocess.run([SCRIPT, run, "-format", "csv", "-alpha", "1"], capture_output=True, text=True, check=True)
    theirs = parse(done.stdout)
    document = json.loads((run / "stats/comparison.json").read_text())
    compared = [row for row in document["rows"] if row["query_type"] != GEOMEAN]
    assert len(theirs) == len(compared)
    tied, of = 0, open_run(run)
    for row in compared:
        metric = METRICS[row["metric"]]
        label, factor = bench_unit(metric)
        # benchstat shows ns as seconds.
        label, factor = (
            (re.sub(r"(^|-)ns", r"\1sec", label), factor / 1e9)
            if "ns" in label.split("/")[0].split("-")
            else (label, factor)
        )
        name = bench_name(of, metric, row["query_type"], "").removeprefix("Benchmark")
        baseline, candidate, change, said = theirs[label, name]
        assert float(baseline) == pytest.approx(row["baseline_median"] * factor, rel=1e-9)
        assert float(candidate) == pytest.approx(row["candidate_median"] * factor, rel=1e-9)
        p = row["mann_whitney_p"]
        assert said == f"p={1 if p is None else p:.3f} n={row['blocks']}"
        if p is None or p == 1 or row["baseline_median"] == row["candidate_median"]:
            tied += 1
        else:
            assert change == f"{100 * (row['candidate_median'] / row['baseline_median'] - 1):+.2f}%"
    assert tied < len(compared) / 2


def parse(text):
    """Read benchstat's CSV: cells by unit and name."""
    rows, label = {}, ""
    for cells in csv.reader(io.StringIO(text)):
        if len(cells) == 7 and cells[0] == "" and cells[2] == "CI":
            label = cells[1]
        elif len(cells) == 7 and cells[0].startswith("TSBS/"):
            rows[label, cells[0]] = (cells[1], cells[3], cells[5], cells[6])
    return rows


@pytest.mark.slow
def test_what_benchstat_cannot_read_fails(run):
    """It exits 0 on errors; our script does not."""
    path = run / "stats/candidate.bench.txt"
    path.write_text(path.read_text().replace("Unit queries/s better=higher", "Unit queries/s better"))
    done = subprocess.run([SCRIPT, run], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "errors of benchstat" in done.stderr


def test_a_run_without_statistics(tmp_path):
    """The command that is missing is named."""
    done = subprocess.run([SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "run `make compare` first" in done.stderr
