"""The plan: the order of blocks, what is counted beforehand, what a key stands for, and that it stays as it is."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from typing import ClassVar

import asking
import numpy as np
import pytest
import yaml
from asking import asked, planned, written
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tsduel.core import tables
from tsduel.core.errors import UserError
from tsduel.core.plan import VERSION, Plan
from tsduel.core.rundir import open_run
from tsduel.core.sections import Design
from tsduel.plan import order, resolve
from tsduel.workloads import WORKLOADS, primary
from tsduel.workloads.tsbs import plan as tsbs_plan
from tsduel.workloads.tsbs import queries as tsbs_queries

designs = st.builds(
    lambda blocks, seed: Design(blocks=blocks, seed=seed, spare_blocks=blocks // 4),
    st.integers(1, 40),
    st.integers(0, 2**32),
)
names = st.lists(st.sampled_from(["baseline", "candidate", "a", "b", "c"]), min_size=2, unique=True)
SIDES = ["baseline", "candidate"]


def drawn(variants, design, types=("cpu-max-all-1",)):
    """Return the order of the blocks."""
    return order.draw(variants, types, design, ["host1"])


class TestOrderOfAFleet:
    """Several hosts share the same blocks."""

    @settings(deadline=None)
    @given(design=designs, count=st.integers(1, 5))
    def test_hosts_share_the_blocks_evenly(self, design, count):
        """Each host has its own warm-up and is balanced; a spare host has blocks for any other host."""
        hosts = tuple(f"host{number + 1}" for number in range(count))
        rows = order.draw(SIDES, ("t", "u"), design, hosts, ("spare",))
        assert [row.block for row in rows] == list(range(len(rows)))
        counts = Counter((row.host, row.kind) for row in rows)
        shares = [counts[host, "measured"] for host in hosts]
        assert sum(shares) == design.blocks
        assert max(shares) - min(shares) <= 1
        assert counts["spare", "spare"] == max(shares)
        assert all(counts[host, "warmup"] == 1 for host in (*hosts, "spare"))
        for host in hosts:
            mine = [row.order for row in rows if (row.host, row.kind) == (host, "measured")]
            assert set(Counter(mine[: len(mine) // 2 * 2]).values()) <= {len(mine) // 2}
        each = Counter(row.host for row in rows)
        busiest = order.share_of_busiest(design, len(hosts)) * design.planned
        assert max(each[host] for host in hosts) <= round(busiest) <= max(each[host] for host in hosts) + 1


class TestOrder:
    """The order of the blocks, and of the variants in each."""

    @settings(deadline=None)
    @given(design=designs, variants=names)
    def test_a_block_has_each_variant_once(self, design, variants):
        """Blocks count from the warm-up block 0, spare ones come last."""
        rows = drawn(variants, design)
        assert [row.block for row in rows] == list(range(design.blocks + design.spare_blocks + 1))
        assert [row.kind for row in rows] == (
            ["warmup", *["measured"] * design.blocks, *["spare"] * design.spare_blocks]
        )
        for row in rows:
            coins = [getattr(row, name) for name in tables.COINS]
            assert all(sorted(coin) == ([] if row.kind == "spare" else sorted(variants)) for coin in coins)

    @settings(deadline=None)
    @given(design=designs, variants=names)
    def test_positions_are_balanced(self, design, variants):
        """After every group of as many blocks as variants, each stood equally often at each position of each coin."""
        rows = drawn(variants, design)[1:]
        whole = design.blocks // len(variants) * len(variants)
        for coin in tables.COINS:
            drew = [getattr(row, coin) for row in rows[:whole]]
            assert set(Counter(place for row in drew for place in enumerate(row)).values()) <= {whole // len(variants)}
            for first in range(0, whole, len(variants)):
                group = [place for row in drew[first : first + len(variants)] for place in enumerate(row)]
                assert len(set(group)) == len(group)

    @settings(deadline=None)
    @given(seed=st.integers(0, 2**32))
    def test_coins_of_eight_blocks_are_independent(self, seed):
        """Every two blocks are mirror images; over eight blocks no coin depends on another coin, or on two."""
        rows = drawn(SIDES, Design(seed=seed, blocks=16, spare_blocks=0))[1:]
        signs = np.array([[1 if getattr(row, coin)[0] == SIDES[0] else -1 for coin in tables.COINS] for row in rows])
        assert (signs[::2] == -signs[1::2]).all()
        for eight in (signs[:8], signs[8:]):
            assert (eight.T @ eight == 8 * np.eye(4)).all()
            assert not any(eight[:, trio].prod(axis=1).sum() for trio in combinations(range(4), 3))

    def test_a_spare_block_takes_the_coins_of_another(self, tmp_path):
        """Its coins are empty in the table, and read as ()."""
        plan = planned(design={"blocks": 4}, duel={"enabled": True})
        resolve.write(tmp_path, plan, cache=tmp_path)
        lines = (tmp_path / "plan/blocks.tsv").read_text().splitlines()
        assert lines[0] == "block\thost\tkind\torder\tstart\tread\task\tquery_types"
        assert lines[-1].startswith("5\thost1\tspare\t\t\t\t\t")
        *_, measured, spare = open_run(tmp_path).planned
        assert (spare.order, spare.ask, len(measured.start)) == ((), (), 2)

    @settings(deadline=None)
    @given(design=designs)
    def test_a_seed_is_an_order_and_spares_change_nothing_before(self, design):
        """The same design gives the same order, with or without spare blocks behind it."""
        rows = drawn(SIDES, design)
        assert rows == drawn(SIDES, design)
        assert rows[: design.blocks + 1] == drawn(SIDES, design.model_copy(update={"spare_blocks": 0}))

    @pytest.mark.parametrize(("blocks", "spares"), [(3, 0), (4, 1), (99, 24)])
    def test_how_many_spares(self, blocks, spares):
        """At most 25 % extra, or as many as are asked for."""
        assert planned(design={"blocks": blocks}).design.spare_blocks == spares
        assert planned(design={"blocks": blocks, "spare_blocks": 0}).design.spare_blocks == 0

    def test_seeds_differ_and_both_orders_come_first(self):
        """Over many seeds each variant begins about half of the runs, and query types change places."""
        types = tsbs_queries.PARTITION_INDEX_TYPES
        runs = [drawn(SIDES, Design(seed=seed, blocks=4, spare_blocks=0), types) for seed in range(200)]
        assert min(Counter(run[1].order[0] for run in runs).values()) > 60
        assert len({run[0].query_types for run in runs}) > 190
        for run in runs[:20]:
            assert any(row.query_types != following.query_types for row, following in pairwise(run))
            assert {tuple(sorted(row.query_types)) for row in run} == {tuple(sorted(types))}


class TestCounts:
    """Counts of the plan."""

    def test_lines_and_samples(self):
        """Points are whole intervals in the window x hosts; ten samples a line of cpu-only."""
        window = {"start": "2025-06-10T00:00:00Z", "end": "2025-06-11T00:00:00Z", "interval": "80s", "scale": 100_000}
        workload = planned(workload=window).workload
        assert (workload.samples, workload.lines) == (1_080_000_000, 108_000_000)
        assert planned(workload=window | {"interval": "7h"}).workload.lines == 3 * 100_000

    def test_the_estimate_covers_the_whole_run(self):
        """Disk for data, queries, databases and results grows with what they hold; a duel keeps every directory."""
        small = planned().estimate
        large = planned(
            queries={"types": asking.TYPES, "max_count": 20_000}, workload={"scale": 100_000}, design={"blocks": 9}
        ).estimate
        assert all(0 < less < more for (_, less), (_, more) in zip(small, large, strict=True))
        assert planned(duel={"enabled": False}).estimate.database_bytes * 2 == small.database_bytes

    def test_a_file_holds_the_queries_of_loop_and_duel(self):
        """The count of the closed loop is no limit for the exchanges beside it."""
        shape = {"solo": True, "count": 30, "max_count": 900}
        assert tsbs_plan._query_count(asked(queries=shape)) == 900
        assert tsbs_plan._query_count(asked(queries=shape, duel={"enabled": False})) == 30

    def test_aa_is_the_baseline_against_itself(self):
        """Both variants have the same revision and build."""
        baseline, candidate = resolve.resolve(asked(), run="r", aa=True).variants
        assert baseline.model_copy(update={"name": candidate.name}) == candidate

    def test_too_few_blocks_are_a_screen(self):
        """Fewer than six blocks are marked."""
        assert [planned(design={"blocks": n}).screen for n in (5, 6)] == [True, False]

    def test_a_seed_for_each_type_unless_shared(self):
        """With one seed all types would ask for the same hosts."""
        types = {"types": ["cpu-max-all-1", "cpu-max-all-8", "double-groupby-1"]}
        own, shared = (planned(queries=types | more).queries.types for more in ({}, {"shared_seed": True}))
        assert (len({t.seed for t in own}), len({t.seed for t in shared})) == (3, 1)


class TestLoadInTurn:
    """All data is loaded in turn, and a large load of each variant alone is only for a picture."""

    IN_TURN: ClassVar = {"design": {"load": "in_turn", "warmup_blocks": 1}}

    def test_it_is_exchanged_ingestion_of_all_of_the_data(self):
        """The plan says so; no variant loads alone in measured blocks."""
        found = planned(**self.IN_TURN)
        assert (found.duel.batches, found.duel.load_s, found.exchanges_load, found.measures("solo")) == (
            True, None, True, False,
        )  # fmt: skip
        assert {metric.name for metric, _ in primary(found)} == {
            *("duel_typical_ms", "duel_cpu_us", "duel_load_typical_ms", "duel_load_cpu_us")
        }

    def test_the_large_load_has_data_of_its_own(self):
        """The same window and more hosts; the estimate counts them."""
        day = {"interval": "80s"}
        small, large = (planned(**self.IN_TURN, workload=day | more) for more in ({}, {"solo_scale": 3000}))
        alone = large.workload.alone
        assert (small.workload.alone, alone.scale, alone.samples) == (None, 3000, 3000 * 1080 * 10)
        assert alone.data[0].key == planned(workload=day | {"scale": 3000}).workload.data[0].key
        assert large.workload.data == small.workload.data
        assert large.estimate.data_bytes > small.estimate.data_bytes + alone.estimated_bytes - 1
        assert large.estimate.database_bytes > small.estimate.database_bytes
        assert large.duration.total_s > small.duration.total_s
        assert large.duration.block_s == small.duration.block_s

    def test_each_sitting_takes_time(self):
        """Each restarts all servers."""
        few, many = (planned(duel={"sittings": n}).duration.block_s for n in (1, 21))
        assert many - few == 12

    @pytest.mark.parametrize(
        ("queries", "duel", "counters"),
        [({}, {}, "duel"), ({"cache": "cold"}, {}, "type"), ({}, {"counters": "type"}, "type")],
    )
    def test_counters_are_read_once_a_sitting_where_that_tells_enough(self, queries, duel, counters):
        """Unless the experiment says otherwise."""
        assert planned(queries=queries, duel=duel).duel.counters == counters

    def test_the_first_lines_of_the_plan_say_so(self):
        """One line about the block, one about the warm-up."""
        duel = {"sittings": 2, "load_sittings": 1, "seconds": 0.6}
        found = planned(**self.IN_TURN, duel=duel, workload={"solo_scale": 3000, "interval": "80s"})
        exchanges = "0.6 s of exchanges a type in 2 sittings"
        assert WORKLOADS["tsbs"].described(found)[1:] == [
            f"block     side by side: all data in batches of 10,000 lines in 1 sitting, {exchanges}",
            "warm-up   each alone: one load of 32,400,000 samples, not judged",
        ]


class TestDuration:
    """How long a run takes, roughly: for deadlines and prices."""

    @staticmethod
    def of(experiment, variants=2):
        """Return the duration of an experiment."""
        workload = WORKLOADS[experiment.kind]
        return workload.duration(workload.sections(experiment, variants), experiment, variants)

    def test_the_partition_index_experiment(self):
        """By the published rates: 2 x 720 s of load and 750 s of double-groupby-1, and the exchanges, a block."""
        from tsduel.question import read  # noqa: PLC0415 - for this test only

        found = self.of(read.validate(read.read_file(Path("experiments/partition-index.yml")), "test"))
        assert 2900 < found.block_s < 3400
        assert 9 < found.total_s / 3600 < 11

    def test_it_grows_with_what_is_asked(self):
        """Blocks, variants, samples, query phases and warm caches cost time; loading once spares it."""
        least = self.of(asked()).total_s
        for more in (
            {"design": {"blocks": 4}},
            {"workload": {"scale": 100_000, "interval": "80s"}},
            {"queries": {"solo": True, "count": 20_000}},
            {"queries": {"cache": "warm"}, "duel": {"seconds": 9.0}},
            {"duel": {"seconds": 9.0}},
        ):
            assert self.of(asked(**more)).total_s > least
        assert self.of(asked(), 3).block_s > self.of(asked()).block_s
        often, once = (self.of(asked(design={"blocks": 8, "reload": how})) for how in ("every", "once"))
        assert once.total_s < often.total_s
        assert once.block_s < often.block_s


CHURN = {"pct": 50.0, "every_s": 60}


class TestKeys:
    """A key changes when anything that shapes the data changes, and only then."""

    @pytest.mark.parametrize(
        ("field", "value", "data", "queries"),
        [
            ("workload.scale", 3, True, True),
            ("workload.start", "2025-06-09T00:00:00Z", True, True),
            ("workload.end", "2025-06-12T00:00:00Z", True, True),
            ("workload.interval", "30m", True, False),
            ("workload.seed", 1, True, False),
            ("workload.workers", 9, False, False),
            ("workload.batch_size", 9, False, False),
            ("queries.max_count", 21, False, True),
            ("queries.seed", 1, False, True),
            ("queries.cache", "cold", False, False),
        ],
    )
    def test_what_changes_a_key(self, field, value, data, queries):
        """The key of the data, and the key of a type's queries."""
        section, name = field.split(".")
        before, after = planned(), planned(**{section: {name: value}})
        assert (before.workload.data != after.workload.data) == data
        assert (before.queries.types[0].keys != after.queries.types[0].keys) == queries

    @pytest.mark.parametrize("part", ["loaded", "continued", "mixed", "alone"])
    def test_every_setting_of_the_data_is_in_every_key(self, part):
        """All settings of `workload`, also those that come later, but for those that change no byte of this file."""
        parts = {
            "continued": {"design": {"start_from": "baseline"}},
            "mixed": {"mixed": {"seconds": 1, "ingest": 20, "queries": 5}, "workload": {"churn": CHURN}},
            "alone": {"design": {"load": "in_turn", "warmup_blocks": 1}, "workload": {"solo_scale": 8}},
        }

        def key(**workload):
            sections = {name: dict(of) for name, of in parts.get(part, {}).items()}
            found = planned(**sections | {"workload": sections.get("workload", {}) | workload})
            at = {"loaded": found.workload, "mixed": found.mixed}.get(part) or getattr(found.workload, part)
            return at.data[0].key

        others = {
            "start": "2025-06-09T00:00:00Z", "end": "2025-06-12T00:00:00Z", "interval": "30m", "scale": 4, "seed": 1,
            "data_kind": "irregular", "churn": CHURN | {"pct": 20}, "solo_scale": 6, "workers": 9, "batch_size": 9,
        }  # fmt: skip
        # There is no other use case with a known number of samples a line, and only a cluster has tenants.
        assert set(others) == set(tsbs_plan.WorkloadAsked.model_fields) - {"use_case", "file", "shape", "tenants"}
        without = {"workers", "batch_size", "churn", "solo_scale"}
        without -= {"mixed": {"churn"}, "alone": {"solo_scale"}}.get(part, set())
        without |= {"mixed": {"start"}, "alone": {"scale"}}.get(part, set())  # it begins where the loaded data end
        if part != "mixed":
            del others["churn"]  # refused without mixed
        if part != "alone":
            del others["solo_scale"]
        same = {name for name, value in others.items() if key(**{name: value}) == key()}
        assert same == without & set(others)

    def test_a_translated_file_is_another_one(self):
        """Prometheus is asked VictoriaMetrics' queries in another form; its data is another file, and a larger one."""
        side = {"target": "prometheus", "source": "binary", "path": str(asking.FAKES / "database")}
        sides = dict.fromkeys(("baseline", "candidate"), side)
        plain, found = planned(), planned(variants=sides)
        (name,), (key,) = found.queries.types[0].keys, found.queries.types[0].keys.values()
        assert name == "victoriametrics:prometheus"
        assert key not in plain.queries.types[0].keys.values()
        assert [data.format for data in found.workload.data] == ["prometheus"]
        assert found.estimate.data_bytes > plain.estimate.data_bytes
        assert found.estimate.query_bytes > plain.estimate.query_bytes

    def test_the_version_of_tsbs_changes_every_key(self, monkeypatch):
        """Another generator may write other bytes."""
        before = planned()
        monkeypatch.setattr(tsbs_plan, "TSBS_VERSION", "v1")
        after = planned()
        assert before.workload.data != after.workload.data
        assert before.queries.types[0].keys != after.queries.types[0].keys

    def test_keys_are_stable(self):
        """What lies in a cache is found again by the next release, or this line says that it is not."""
        (data,) = planned().workload.data
        assert (data.format, data.key) == ("victoriametrics", "02c6d6dc07037ee7")


class TestKept:
    """A plan is fixed before the first block."""

    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        """Return a function that plans with knobs in a directory of its own."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "x.yml").write_text(yaml.safe_dump(written()))
        run_dir = Path("results/r")

        def make(**environment):
            resolve.main(run_dir, {"EXPERIMENT": "x.yml", "TSDUEL_CACHE": str(tmp_path / "cache")} | environment)
            return Plan.load(run_dir)

        return make

    def test_the_same_command_keeps_the_plan(self, run, capsys):
        """Nothing is written a second time, and it is said again what will run."""
        first = run(BLOCKS="3", SET="workload.scale=5")
        before = Path("results/r/plan/blocks.tsv").stat()
        assert run(BLOCKS="3", SET="workload.scale=5") == first
        assert run(EXPERIMENT="") == first
        assert Path("results/r/plan/blocks.tsv").stat() == before
        assert capsys.readouterr().out.count("design    3 blocks, 0 warm-up, 0 spare for what outside causes") == 3
        assert first.asked.knobs == {"BLOCKS": "3", "SET": "workload.scale=5"}

    @pytest.mark.parametrize(
        ("changed", "named"),
        [
            ({"BLOCKS": "4"}, "BLOCKS"),
            ({"SET": "workload.scale=6"}, "SET"),
            ({"BASELINE": "v9"}, "BASELINE"),
            ({"AA": "1", "BLOCKS": "9"}, "BLOCKS, AA"),
            ({"EXPERIMENT": "y.yml"}, "EXPERIMENT"),
        ],
    )
    def test_another_command_is_refused(self, run, changed, named):
        """The sentence names what would change and says what to do."""
        run(BLOCKS="3", SET="workload.scale=5")
        with pytest.raises(UserError) as caught:
            run(**changed)
        assert f"and {named} would change it; start a new run" in str(caught.value)

    def test_a_file_that_was_edited_is_another_question(self, run):
        """It is not passed over in silence."""
        first = run(BLOCKS="3")
        path = Path(first.asked.experiment)
        run(EXPERIMENT=str(path))
        path.write_text(path.read_text() + "\n# a comment changes nothing\n")
        run(EXPERIMENT=str(path))
        path.write_text(path.read_text() + "screen: true\n")
        with pytest.raises(UserError, match=r"and EXPERIMENT \(its file has changed\) would change it"):
            run(EXPERIMENT=str(path))

    def test_what_the_next_stages_read(self, run):
        """blocks.tsv has the order, ansible-vars.json has absolute paths, and nothing half-written is left."""
        run(TSDUEL_CACHE="here")
        found = open_run(Path("results/r"))
        assert [(row.name, row.kind, sorted(row.order)) for row in found.planned] == [("001", "measured", SIDES)]
        variables = json.loads(Path("results/r/plan/ansible-vars.json").read_text())
        assert variables["cache_dir"] == str(Path("here").absolute())
        assert variables["run_dir"] == str(Path("results/r").absolute())
        assert [v["name"] for v in variables["variants"]] == SIDES
        (component,) = variables["variants"][0]["components"]
        assert (component["role"], component["program"]) == ("server", "victoria-metrics")
        assert (component["build_command"], component["build_key"]) == ([], found.plan.variants[0].server.build_key)
        made = {"ansible-vars.json", "blocks.tsv", "experiment.json", "forecast.json"}
        assert {path.name for path in Path("results/r/plan").iterdir()} == made


class TestTyped:
    """plan/experiment.json is what it says it is, or it is refused."""

    def test_it_is_read_as_it_was_written(self, tmp_path):
        """Every section, of both kinds of experiment; and nobody changes it."""
        (tmp_path / "plan").mkdir()
        plan = planned(host={"pin": {"server": [0], "client": [1]}})
        plan.write(tmp_path)
        assert Plan.load(tmp_path) == plan
        with pytest.raises(ValidationError, match="frozen"):
            plan.run = "x"

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"plan_version": None}, "was made by another tsduel"),
            ({"plan_version": 1}, f"was made by an older tsduel (its plan has version 1, this one reads {VERSION})"),
            ({"schema": 1, "plan_version": ...}, "was made by an older tsduel (its plan has version 1, "),
            ({"imported": None}, "experiment.json: imported: Extra inputs are not permitted; a plan is never edited"),
            ({"plan_version": VERSION + 1}, f"was made by another tsduel (its plan has version {VERSION + 1}"),
            ({"hosts": 3}, "experiment.json: hosts: Input should be a valid array; a plan is never edited"),
            ({"surprise": 3}, "experiment.json: surprise: Extra inputs are not permitted"),
        ],
    )
    def test_another_plan_is_refused_in_a_sentence(self, tmp_path, change, sentence):
        """Of another version, without a version, edited, or cut short."""
        (tmp_path / "plan").mkdir()
        file = tmp_path / "plan/experiment.json"
        plan = json.loads(planned().model_dump_json()) | change
        file.write_text(json.dumps({key: value for key, value in plan.items() if value is not ...}))
        with pytest.raises(UserError) as caught:
            Plan.load(tmp_path)
        assert sentence in str(caught.value)
        file.write_text("{")
        with pytest.raises(UserError, match=r"experiment\.json:1: not JSON"):
            Plan.load(tmp_path)
