"""raw -> tidy: the columns of the contract, the figures that were put in, and which blocks count."""

import csv
import gzip
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import synthetic
from scipy import stats as scipy_stats
from scipy.stats import mstats

from tsduel.core import tables
from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS
from tsduel.core.rundir import open_run
from tsduel.tidy import tables as tidy
from tsduel.workloads.tsbs.read import read_times

SPEC = synthetic.Spec(blocks=2, query_types=synthetic.TWO_TYPES, load_s=6, exchanges=60)
THREE = ("baseline", "candidate", "third")


def table(run, name):
    """Return the rows of a table of tidy/."""
    with (run / f"tidy/{name}.csv").open() as stream:
        return list(csv.DictReader(stream))


def made(path, **changes):
    """Write a run and tidy it."""
    return synthetic.tidied(synthetic.write_run(path / "run", synthetic.Spec(**(vars(SPEC) | changes))))


def causes(run, candidate="candidate"):
    """Return the cause of each block for a candidate, empty for those that count."""
    return {int(line["block"]): line["cause"] for line in table(run, "blocks") if line["candidate"] == candidate}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Tidy a run of two blocks and a warm-up, with a closed loop of queries and instructions counted."""
    return made(tmp_path_factory.mktemp("tidy"), solo_s=3.5, instructions=True, duel_load=True)


def test_columns_are_those_of_the_registry(run):
    """Other programs read these files by their columns."""
    for path in run.glob("tidy/*.csv"):
        assert tuple(path.read_text().splitlines()[0].split(",")) == getattr(tables, path.stem.upper())
    assert not list(run.glob("tidy/*.partial"))


def test_metrics_are_those_of_the_registry(run):
    """Every metric is registered, has its unit and phase, and is there once a block, variant and query type."""
    rows = table(run, "measurements")
    # Those of components, of what an agent queues, and of servers with limits are of variants that have such.
    of_others = {name for name, metric in METRICS.items() if metric.per_role} | {"arrival_seconds"}
    of_others |= {"duel_throttled_us", "duel_load_throttled_us", "duel_go_cpus"}
    registered = {m.name for m in METRICS.values() if not m.further} - of_others
    assert {row["metric"] for row in rows} | {"query_p999_ms"} == registered
    for row in rows:
        metric = METRICS[row["metric"]]
        assert (row["unit"], row["phase"], row["part"]) == (metric.unit, metric.phase, metric.part)
        assert bool(row["query_type"]) == metric.per_type
    keys = [(row["block"], row["variant"], row["metric"], row["query_type"]) for row in rows]
    assert len(keys) == len(set(keys))
    assert {row["block"] for row in rows} == {"0", "1", "2"}


def record_of(run, block):
    """Return the host's record of a block."""
    return json.loads((run / f"raw/host1/{block:03}/block.json").read_text())


def times_of(path):
    """Return ns by query type, sitting and variant, as the host has written them."""
    table = pd.read_csv(path)
    return {
        name: {
            at: {side: own[f"{side}_ns"].to_numpy(float) for side in ("baseline", "candidate")}
            for at, own in of.groupby("sitting")
        }
        for name, of in table.groupby("query_type")
    }  # fmt: skip


def values_of(run, block, variant):
    """Return what is measured of a variant in a block."""
    return {
        (row["metric"], row["query_type"]): float(row["value"])
        for row in table(run, "measurements")
        if (row["block"], row["variant"]) == (str(block), variant)
    }


def test_values_are_differences_over_the_phase(run):
    """Counters are measured over their phase, CPU of the load by the process's clock until drained."""
    values = values_of(run, 1, "baseline")
    solo = record_of(run, 1)["solo"]["baseline"]
    assert values["load_cpu_seconds", ""] == pytest.approx(solo["cpu_ns"]["drained"] / 1e9)
    assert values["drain_seconds", ""] == pytest.approx(solo["drain_s"])
    ticks = values["load_cpu_user_seconds", ""] + values["load_cpu_system_seconds", ""]
    assert ticks == pytest.approx(solo["cpu_ns"]["load"] / 1e9, abs=0.03)
    assert values["bytes_per_sample", ""] == pytest.approx(0.5)
    assert values["load_rate", ""] == pytest.approx(SPEC.samples / values["load_seconds", ""], rel=0.001)
    assert ("query_p99_ms", "cpu-max-all-1") in values
    assert values["slow_inserts", ""] == 10_000


def test_a_duel_is_one_ratio_a_block_with_its_error(run):
    """Trimmed mean of the log ratios, log of the ratio of sums, CPU an operation: from the exchanges as written."""
    duel = record_of(run, 1)["duel"]
    sat = times_of(run / "raw/host1/001/duel/exchanges.csv.gz")["double-groupby-1"]
    ratios = [np.log(ns["candidate"] / ns["baseline"]) for ns in sat.values()]
    pairs = {(row["metric"], row["query_type"]): row for row in table(run, "pairs") if row["block"] == "1"}
    typical = pairs["duel_typical_ms", "double-groupby-1"]
    means = [scipy_stats.trim_mean(d, 0.1) for d in ratios]
    assert float(typical["log_ratio"]) == pytest.approx(np.mean(means))
    assert float(typical["sitting_sd"]) == pytest.approx(np.std(means, ddof=1))
    errors = [float(mstats.trimmed_stde(d, (0.1, 0.1))) for d in ratios]
    assert float(typical["se"]) == pytest.approx(math.hypot(*errors) / 2, rel=0.02)
    assert (typical["sittings"], len(sat)) == ("2", 2)
    total = pairs["duel_total_ms", "double-groupby-1"]
    sums = [math.log(ns["candidate"].sum() / ns["baseline"].sum()) for ns in sat.values()]
    assert float(total["log_ratio"]) == pytest.approx(np.mean(sums))
    cpu = {
        (at, variant): sum(one["cpu_ns"][variant] for one in duel["types"] if one["sitting"] == at)
        for at in sat for variant in ("baseline", "candidate")
    }  # fmt: skip
    assert float(pairs["duel_cpu_us", "all"]["log_ratio"]) == pytest.approx(
        np.mean([math.log(cpu[at, "candidate"] / cpu[at, "baseline"]) for at in sat])
    )
    of_types = [float(pairs["duel_typical_ms", name]["log_ratio"]) for name in SPEC.query_types]
    assert float(pairs["duel_typical_ms", "geomean"]["log_ratio"]) == pytest.approx(np.mean(of_types))
    assert pairs["duel_cpu_us", "all"]["se"] == ""
    assert {row["n"] for row in pairs.values() if row["query_type"] == "cpu-max-all-1"} == {"60"}
    values = values_of(run, 1, "baseline")
    whole = np.concatenate([ns["baseline"] for ns in sat.values()])
    assert values["duel_p50_ms", "double-groupby-1"] == pytest.approx(np.median(whole) / 1e6)
    assert values["duel_cpu_us", "all"] == pytest.approx(sum(cpu[at, "baseline"] for at in sat) / 120 / 1e3)
    assert values["duel_idle_cpu_ms", ""] == pytest.approx(
        sum(idle["cpu_ns"]["baseline"] for idle in duel["idle"]) / 2 / 1e6
    )
    assert ("duel_load_typical_ms", "") in pairs


def test_distributions_are_pooled_over_the_blocks_that_count(tmp_path):
    """Percentiles of several blocks come from all their exchanges, never from averages, and not from spoilt blocks."""
    run = made(tmp_path, blocks=3, spoilt={2: "a build ran beside it"})
    rows = [row for row in table(run, "distributions") if row["query_type"] == "cpu-max-all-1"]
    assert {row["n"] for row in rows} == {"120"}
    mine = [row for row in rows if row["variant"] == "candidate"]
    pooled = np.concatenate(
        [
            sat["candidate"]
            for block in (1, 3)
            for sat in times_of(run / f"raw/host1/00{block}/duel/exchanges.csv.gz")["cpu-max-all-1"].values()
        ]
    )
    by_quantile = {float(row["quantile"]): float(row["value_ms"]) for row in mine}
    assert by_quantile[0.95] == pytest.approx(np.quantile(pooled, 0.95) / 1e6, rel=1e-6)
    assert list(by_quantile.values()) == sorted(by_quantile.values())
    assert min(by_quantile) == 0.001
    assert max(by_quantile) == 0.999


def test_time_series_are_the_load_rate_and_the_course_of_the_server(run):
    """Elapsed seconds begin with the load; CPU comes as cores, from one reading to the next."""
    rows = table(run, "timeseries")
    assert all(float(row["elapsed_s"]) >= 0 for row in rows)
    assert {(row["metric"], row["phase"]) for row in rows} == {
        ("load_rate", "load"),
        *((name, "solo") for name in ("cpu_cores", "rss_bytes", "data_size_bytes", "storage_written_bytes")),
    }
    cores = [float(row["value"]) for row in rows if row["metric"] == "cpu_cores" and float(row["elapsed_s"]) < 4]
    assert cores == pytest.approx([1.6] * len(cores), rel=0.2)


def test_load_curve_reaches_its_end(tmp_path):
    """The last interval, which TSBS never prints, is added when it is long enough; time begins with the load."""
    run = synthetic.write_run(tmp_path / "run", SPEC)
    (run / "raw/host1/001/baseline/load.csv").write_text(
        "time,per. metric/s,metric total,overall metric/s,per. row/s,row total,overall row/s\n"
        "100,-,-,-,-,-,-\n101,50.00,5.000000E+01,25.00,-,-,-\n\nSummary:\n"
        "loaded 110 metrics in 2.600sec with 4 workers (mean rate 42.30 metrics/sec)\n"
    )
    synthetic.tidied(run)
    curve = [
        (float(row["elapsed_s"]), float(row["value"]))
        for row in table(run, "timeseries")
        if (row["block"], row["variant"], row["metric"]) == ("1", "baseline", "load_rate")
    ]
    assert curve == [(1.0, 0.0), (2.0, 50.0), (2.6, pytest.approx(100.0))]


def test_garbage_collection_is_flagged_beside_the_hosts_judgement(run):
    """What the host judged is copied; what only tidy can see is added."""
    signals = {(row["signal"], row["effect"]) for row in table(run, "noise")}
    assert ("steal_pct", "ok") in signals
    assert {name for name, _ in signals} == {"steal_pct", "gc_pct"}


def test_checks_are_what_the_host_has_checked(run):
    """Copied, with whole numbers as such."""
    mine = next(row for row in table(run, "checks") if row["check"] == "samples_stored")
    assert (mine["expected"], mine["actual"], mine["ok"]) == (str(SPEC.samples), str(SPEC.samples), "true")


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """Tidy a run of three variants in whose blocks all kinds of things happen."""
    failed = {2: ("third", "solo"), 3: ("third", "duel"), 4: ("baseline", "duel"), 5: ("candidate", "solo")}
    changes = {
        "blocks": 7, "spare_blocks": 1, "variants": THREE, "spoilt": {3: "a build"}, "void": {6: "unequal starts"},
        "failed": {block: (*of, "it died") for block, of in failed.items()},
    }  # fmt: skip
    run = synthetic.write_run(tmp_path_factory.mktemp("tidy") / "run", synthetic.Spec(**(vars(SPEC) | changes)))
    (run / "raw/host1/007").rename(run / "raw/host1/007.partial")
    return synthetic.tidied(run)


class TestBlocks:
    """blocks.csv, the one place that decides which blocks count."""

    def test_why_a_block_does_not_count(self, troubled):
        """A crash of another candidate matters to nobody else; if such a block is spoilt, too, no spare is owed."""
        alike = {0: "warmup", 1: "", 4: "failed", 6: "void", 7: "missing"}
        assert causes(troubled) == alike | {2: "", 3: "spoilt", 5: "failed"}
        assert causes(troubled, "third") == alike | {2: "failed", 3: "failed", 5: ""}
        reasons = {row["block"]: row["reason"] for row in table(troubled, "blocks") if row["candidate"] == "third"}
        assert (reasons["2"], reasons["6"]) == (
            "third failed: it died",
            "nothing in it may be compared: unequal starts",
        )

    def test_what_is_known_of_a_block_in_which_something_failed(self, troubled):
        """Who died has no ratio; without a baseline there is none at all. What came before is kept."""
        whole = {(block, name) for block in "01" for name in THREE[1:]}
        pairs = {(row["block"], row["candidate"]) for row in table(troubled, "pairs")}
        assert pairs == whole | {("2", "candidate"), ("3", "candidate"), ("5", "third")}
        assert ("load_rate", "") in values_of(troubled, 3, "third")
        assert {metric for metric, _ in values_of(troubled, 5, "candidate")} == {
            "start_seconds", "load_client_cpu_seconds",
        }  # fmt: skip
        assert {row["block"] for row in table(troubled, "measurements")} == set("0123456")

    def test_who_came_second(self, tmp_path):
        """By each coin of a block, as it was run."""
        run = made(tmp_path, blocks=4)
        blocks = {block.block: block for block in open_run(run).blocks if block.block}
        for coin in tables.COINS:
            seconds = {row["block"]: row[coin] for row in table(run, "blocks") if row["counts"] == "true"}
            assert seconds == {str(n): str(getattr(of, coin)[1] == "candidate").lower() for n, of in blocks.items()}
            assert set(seconds.values()) == {"true", "false"}

    def test_what_a_block_has_no_coin_for_is_not_known(self, tmp_path):
        """A record of a kind that draws nothing for starts."""
        run = synthetic.write_run(tmp_path / "run", SPEC)
        synthetic.edit(run / "raw/host1/001/block.json", start=[])
        synthetic.tidied(run)
        assert [row["start"] for row in table(run, "blocks") if row["block"] == "1"] == [""]
        typical = [row for row in table(run, "pairs") if row["metric"] == "duel_typical_ms" and row["block"] == "1"]
        assert {row["second_effect"] for row in typical} == {""}


def test_a_load_of_which_nothing_was_exchanged_has_no_figure(tmp_path):
    """A candidate refuses connections: its block has failed, and the others are tidied as usual."""
    run = synthetic.write_run(
        tmp_path / "run",
        synthetic.Spec(**(vars(SPEC) | {"duel_load": True, "failed": {1: ("candidate", "duel", "gone")}})),
    )
    path = run / "raw/host1/001/duel"
    path.mkdir(exist_ok=True)
    duel = json.loads((run / "raw/host1/002/block.json").read_text())["duel"]
    lost = {"exchanges": 0, "lines": 0, "samples": 0, "seconds": 0.0, "cpu_ns": {"baseline": 0, "candidate": 0}}
    for rows in ("", "0,01,2000,,4000000\n"):
        for name, head in (("load", "k,order,lines"), ("exchanges", "query_type,k,order,bytes")):
            text = f"{head},baseline_ns,candidate_ns\n{rows if name == 'load' else ''}"
            (path / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
        nothing = duel | {"types": [], "idle": None, "load": [lost | {"cpu_ns_by_role": {"baseline": None}}]}
        synthetic.edit(run / "raw/host1/001/block.json", duel=nothing)
        synthetic.tidied(run)
        of = {row["block"] for row in table(run, "pairs") if row["metric"] == "duel_load_typical_ms"}
        assert of == {"0", "2"}


def test_files_that_cannot_be_read_are_a_sentence(tmp_path):
    """A run directory that is not whole says which file; nothing to tidy is a sentence, too."""
    with pytest.raises(UserError, match="not a run directory"):
        tidy.main(tmp_path)
    run = synthetic.write_run(tmp_path / "run", SPEC)
    with pytest.raises(UserError, match=r"values\.csv is missing: `tsduel-host tidy .*/run` makes it from the other"):
        tidy.main(run)
    synthetic.tidied(run)
    values = run / "raw/host1/001/values.csv"
    whole = values.read_text()
    values.write_text(re.sub(r",[^,]+\n$", ",inf\n", whole))
    with pytest.raises(UserError, match=r"values\.csv: no whole table of values: inf is no value"):
        tidy.main(run)
    values.write_text(whole)
    for field, lie in (("memory_bytes", "8 GB"), ("cpus", 1.5), ("sysctls", [1])):
        facts = (run / "raw/host1.json").read_text()
        synthetic.edit(run / "raw/host1.json", **{field: lie})
        with pytest.raises(UserError, match=rf"host1\.json: {field}: .*: this description of a host is damaged"):
            _ = open_run(run).machines
        (run / "raw/host1.json").write_text(facts)
    synthetic.edit(run / "raw/host1.json", cpu_model="\ud800")
    with pytest.raises(UserError, match=r"host1\.json: not JSON: .*surrogates not allowed"):
        _ = open_run(run).machines
    (run / "raw/host1.json").write_text(facts)
    path = run / "raw/host1/001/duel/exchanges.csv.gz"
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:10] + b"\xff" * 50):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"exchanges\.csv\.gz: no whole table of exchanges"):
            tidy.main(run)
    path.unlink()
    with pytest.raises(UserError, match=r"exchanges\.csv\.gz is missing, though its block was finished"):
        tidy.main(run)
    path.write_bytes(gzip.compress(b"query_type,k,order,bytes\n"))
    record = run / "raw/host1/001/block.json"
    synthetic.edit(record, schema=7)
    with pytest.raises(UserError, match="has schema 7 of a block's record, and this tsduel reads schema 1: "):
        tidy.main(run)
    record.write_text(record.read_text()[:100])
    with pytest.raises(UserError, match=r"block\.json:\d+: not JSON"):
        tidy.main(run)
    for block in run.glob("raw/host1/0*"):
        block.rename(f"{block}.partial")
    with pytest.raises(UserError, match="no block has finished"):
        tidy.main(run)


def test_a_half_written_exchange_is_left_out(tmp_path):
    """Rows that a variant lacks because it died."""
    path = tmp_path / "exchanges.csv.gz"
    path.write_bytes(gzip.compress(b"query_type,k,order,bytes,a_ns,b_ns\nx,0,01,9,5,6\nx,1,10,9,7,\ny,0,01,9,0,3\n"))
    found = {key: ns.tolist() for key, ns in read_times(path, ["a", "b"]).items()}
    assert found == {("a", "x"): [5.0], ("b", "x"): [6.0]}


class TestSittings:
    """A block is the mean of its sittings."""

    @pytest.mark.parametrize(("sittings", "effect"), [(2, 0.02), (3, 0.02), (4, -0.01)])
    def test_who_is_started_second_takes_longer_and_the_mean_does_not_know(self, tmp_path, sittings, effect):
        """B C C B: the effect is found again, and an even number of sittings is without it."""
        spec = {"within": 0.0, "between": 0.0, "factors": {}, "exchanges": 60}
        run = made(tmp_path, sittings=sittings, second_effect=effect, **spec)
        for row in table(run, "pairs"):
            if row["metric"] not in {"duel_typical_ms", "duel_total_ms", "duel_cpu_us"}:
                continue
            assert int(row["sittings"]) == sittings
            assert float(row["second_effect"]) == pytest.approx(effect, rel=0.01)
            if sittings % 2 == 0:
                assert float(row["log_ratio"]) == pytest.approx(0.0, abs=1e-4)

    def test_one_sitting_has_no_spread(self, tmp_path):
        """And nobody was started second in another one."""
        rows = [row for row in table(made(tmp_path, sittings=1), "pairs") if row["metric"] == "duel_typical_ms"]
        assert {(row["sittings"], row["sitting_sd"], row["second_effect"]) for row in rows} == {("1", "", "")}


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory):
    """Tidy a run in which all data go to both in turn, with one large load of each in the warm-up block."""
    return made(tmp_path_factory.mktemp("tidy"), load="in_turn", alone_s=5.0, load_sittings=2)


class TestLoadInTurn:
    """design.load: in_turn."""

    def test_a_measured_block_has_ingestion_in_turn_and_sizes(self, in_turn):
        """CPU is that until nothing was left to do; that until the last batch was acknowledged is beside it."""
        found = values_of(in_turn, 1, "baseline")
        assert {metric for metric, _ in found if not metric.startswith("duel_")} == {"disk_bytes", "rss_peak_bytes"}
        load = record_of(in_turn, 1)["duel"]["load"]
        samples = sum(one["samples"] for one in load)
        for metric, clock in (("duel_load_cpu_us", "drained_cpu_ns"), ("duel_load_acknowledged_cpu_us", "cpu_ns")):
            of = [one[clock] for one in load]
            assert found[metric, ""] == pytest.approx(sum(one["baseline"] for one in of) / samples / 1e3)
            row = next(r for r in table(in_turn, "pairs") if (r["metric"], r["block"]) == (metric, "1"))
            assert row["sittings"] == "2"
            expected = np.mean([math.log(one["candidate"] / one["baseline"]) for one in of])
            assert float(row["log_ratio"]) == pytest.approx(expected)

    def test_work_of_a_load_is_of_so_many_samples_as_its_metric_says(self, in_turn):
        """Objects of a thousand samples, bytes of one."""
        found, load = values_of(in_turn, 1, "baseline"), record_of(in_turn, 1)["duel"]["load"]
        samples = sum(one["samples"] for one in load)
        for metric, counter, of in (
            ("duel_load_objects", "objects", 1000),
            ("duel_load_object_bytes", "object_bytes", 1),
        ):
            counted = sum(one["counters"]["baseline"][counter] for one in load)
            assert found[metric, ""] == pytest.approx(of * counted / samples)

    def test_the_large_load_is_there_to_be_drawn(self, in_turn):
        """Its course and its rate, of the warm-up block; nothing else of it is kept."""
        rates = [row for row in table(in_turn, "timeseries") if (row["metric"], row["phase"]) == ("load_rate", "load")]
        assert {(row["block"], row["variant"]) for row in rates} == {("0", "baseline"), ("0", "candidate")}
        found = values_of(in_turn, 0, "candidate")
        assert ("load_rate", "") in found
        assert ("disk_bytes", "") not in found


def test_nothing_depends_on_the_time_or_the_machine(tmp_path):
    """The same raw files give the same tables."""
    run = made(tmp_path)
    before = {path.name: path.read_bytes() for path in run.glob("tidy/*.csv")}
    tidy.main(run)
    assert before == {path.name: path.read_bytes() for path in run.glob("tidy/*.csv")}
