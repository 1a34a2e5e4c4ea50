"""The plan: the order of rounds, what is counted beforehand, what a key stands for, and that it stays as it is."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from fakeproject import FAKES, written
from hypothesis import given, settings
from hypothesis import strategies as st

from tsduel.core.errors import UserError
from tsduel.plan import order
from tsduel.plan import resolve as plan
from tsduel.question import experiment
from tsduel.workloads.tsbs import queries as tsbs_queries


def asked(**parts):
    """Return a validated experiment whose variants are a ready binary."""
    return experiment.validate(written(FAKES / "database", **parts), "test")


def resolved(**parts):
    """Return the plan of such an experiment."""
    return plan.resolve(asked(**parts), run="r")


designs = st.fixed_dictionaries(
    {
        "blocks": st.integers(1, 40),
        "warmup_blocks": st.just(1),
        "seed": st.integers(0, 2**32),
    }
)
names = st.lists(st.sampled_from(["baseline", "candidate", "a", "b", "c"]), min_size=2, unique=True)


class TestOrder:
    """The order of the rounds."""

    @settings(deadline=None)
    @given(design=designs, variants=names)
    def test_a_block_has_each_variant_once(self, design, variants):
        """Blocks count from the warm-up block 0; positions from 1."""
        drawn = order.rounds(variants, asked(design=design))
        last = design["blocks"] + design["blocks"] // 4
        assert drawn[-1]["block"] == last
        for block in range(last + 1):
            rows = [row for row in drawn if row["block"] == block]
            assert sorted(row["variant"] for row in rows) == sorted(variants)
            assert [row["position"] for row in rows] == list(range(1, len(variants) + 1))
            kind = "warmup" if block == 0 else "measured" if block <= design["blocks"] else "spare"
            assert {row["kind"] for row in rows} == {kind}
            assert len({row["query_types"] for row in rows}) == 1
        assert [row["block"] for row in drawn] == sorted(row["block"] for row in drawn)

    @settings(deadline=None)
    @given(design=designs, variants=names)
    def test_positions_are_balanced(self, design, variants):
        """After every group of as many blocks as variants, each variant stood equally often at each position."""
        drawn = order.rounds(variants, asked(design=design))
        whole = design["blocks"] // len(variants) * len(variants)
        seen = Counter((row["variant"], row["position"]) for row in drawn if 1 <= row["block"] <= whole)
        assert set(seen.values()) <= {whole // len(variants)}
        for first in range(1, whole, len(variants)):
            group = [row for row in drawn if first <= row["block"] < first + len(variants)]
            assert len({(row["variant"], row["position"]) for row in group}) == len(group)

    @settings(deadline=None)
    @given(design=designs)
    def test_a_seed_is_an_order(self, design):
        """The same experiment gives the same order."""
        sides = ["baseline", "candidate"]
        assert order.rounds(sides, asked(design=design)) == order.rounds(sides, asked(design=design))

    @settings(deadline=None)
    @given(design=designs)
    def test_spare_blocks_are_drawn_last_and_change_nothing_before(self, design):
        """A quarter as many as there are blocks, behind what would have been drawn anyway."""
        sides = ["baseline", "candidate"]
        drawn = order.rounds(sides, asked(design=design))
        planned = order.rounds(sides, asked(design=design, noise={"spare_pct": 0}))
        assert drawn[: len(planned)] == planned
        assert {row["kind"] for row in drawn[len(planned) :]} <= {"spare"}
        assert len(drawn) - len(planned) == design["blocks"] // 4 * 2

    @pytest.mark.parametrize(("blocks", "spares"), [(1, 0), (2, 0), (3, 0), (4, 1), (6, 1), (10, 2), (99, 24)])
    def test_how_many_spares(self, blocks, spares):
        """At most 25 % extra."""
        assert resolved(design={"blocks": blocks})["noise"]["spare_blocks"] == spares

    def test_seeds_differ_and_both_orders_come_first(self):
        """Over many seeds each variant begins about half of the runs, and query types change places."""
        types = {"types": list(tsbs_queries.PARTITION_INDEX_TYPES)}
        runs = [
            order.rounds(["baseline", "candidate"], asked(design={"seed": seed, "blocks": 4}, queries=types))
            for seed in range(200)
        ]
        first = Counter(run[0]["variant"] for run in runs)
        assert min(first.values()) > 60
        orders = {run[0]["query_types"] for run in runs}
        assert len(orders) > 190
        for run in runs[:20]:
            blocks = [row["query_types"] for row in run if row["position"] == 1]
            assert any(one != other for one, other in pairwise(blocks))
            assert {tuple(sorted(block.split(","))) for block in blocks} == {tuple(sorted(types["types"]))}


class TestCounts:
    """What is known before anything runs."""

    def test_lines_and_samples(self):
        """Points are whole intervals in the window x hosts; ten samples a line of cpu-only."""
        window = {"start": "2025-06-10T00:00:00Z", "end": "2025-06-11T00:00:00Z", "interval": "80s", "scale": 100_000}
        workload = resolved(workload=window)["workload"]
        assert workload["samples"] == 1_080_000_000
        assert workload["lines"] == 108_000_000
        assert resolved(workload=window | {"interval": "7h"})["workload"]["lines"] == 3 * 100_000

    def test_the_estimate_covers_the_whole_run(self):
        """Disk for data, queries, database and results grows with what they hold."""
        small = resolved(queries={"types": ["cpu-max-all-1"], "count": 20})["estimate"]
        large = resolved(
            queries={"types": ["cpu-max-all-1", "cpu-max-all-8"], "count": 20_000},
            workload={"scale": 100_000},
            design={"blocks": 9},
        )["estimate"]
        assert set(small) == {"data_bytes", "query_bytes", "database_bytes", "results_bytes"}
        assert all(0 < small[name] < large[name] for name in small)

    def test_aa_is_the_baseline_against_itself(self):
        """Both variants have the same revision and build."""
        one, other = plan.resolve(asked(), run="r", aa=True)["variants"]
        assert one | {"name": ""} == other | {"name": ""}

    def test_too_few_blocks_are_a_screen(self):
        """Fewer than six blocks are marked."""
        assert [resolved(design={"blocks": n})["screen"] for n in (5, 6)] == [True, False]

    def test_a_seed_for_each_type_unless_shared(self):
        """With one seed all types would ask for the same hosts; the responses sample asks for others again."""
        types = {"types": ["cpu-max-all-1", "cpu-max-all-8", "double-groupby-1"]}
        own = resolved(queries=types)["queries"]["types"]
        shared = resolved(queries=types | {"shared_seed": True})["queries"]["types"]
        assert len({t["seed"] for t in own} | {t["responses_seed"] for t in own}) == 6
        assert len({t["seed"] for t in shared}) == 1


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
            ("queries.count", 21, False, True),
            ("queries.seed", 1, False, True),
            ("queries.responses", 3, False, True),
            ("queries.workers", 9, False, False),
            ("queries.cache", "cold", False, False),
            ("queries.seconds", 3.0, False, False),
            ("design.blocks", 9, False, False),
            ("design.seed", 9, False, False),
            ("host.port", 9999, False, False),
        ],
    )
    def test_what_changes_a_key(self, field, value, data, queries):
        """The key of the data, and the key of a type's queries."""
        section, name = field.split(".")
        before, after = resolved(), resolved(**{section: {name: value}})
        assert (before["workload"]["data_key"] != after["workload"]["data_key"]) == data
        assert (before["queries"]["types"][0]["key"] != after["queries"]["types"][0]["key"]) == queries

    def test_the_version_of_tsbs_changes_every_key(self, monkeypatch):
        """Another generator may write other bytes."""
        before = resolved()
        monkeypatch.setattr(plan, "TSBS_VERSION", "v1")
        after = resolved()
        assert before["workload"]["data_key"] != after["workload"]["data_key"]
        assert before["queries"]["types"][0]["key"] != after["queries"]["types"][0]["key"]

    def test_keys_are_stable(self):
        """What lies in a cache is found again by the next release, or this line says that it is not."""
        assert resolved()["workload"]["data_key"] == "02c6d6dc07037ee7"


class TestKept:
    """A plan is fixed before the first round."""

    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        """Return a function that plans with knobs in a directory of its own."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "x.yml").write_text(yaml.safe_dump(written(FAKES / "database")))
        run_dir = Path("results/r")

        def make(**environment):
            plan.main(run_dir, {"EXPERIMENT": "x.yml"} | environment)
            return json.loads((run_dir / "plan/experiment.json").read_text())

        return make

    def test_the_same_command_keeps_the_plan(self, run, capsys):
        """Nothing is written a second time, and it is said again what will run."""
        first = run(BLOCKS="3", SET="workload.scale=5")
        before = Path("results/r/plan/rounds.tsv").stat()
        assert run(BLOCKS="3", SET="workload.scale=5") == first
        assert run(EXPERIMENT="") == first
        assert Path("results/r/plan/rounds.tsv").stat() == before
        assert capsys.readouterr().out.count("design    3 blocks of 2 rounds, 0 warm-up") == 3
        assert Path("results/latest").resolve() == Path("results/r").resolve()
        assert first["asked"]["knobs"] == {"BLOCKS": "3", "SET": "workload.scale=5"}

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

    def test_what_the_next_stages_read(self, run):
        """rounds.tsv has the order, ansible-vars.json has absolute paths, and nothing half-written is left."""
        run(TSDUEL_CACHE="here")
        lines = Path("results/r/plan/rounds.tsv").read_text().splitlines()
        assert lines[0].split("\t") == ["block", "position", "variant", "kind", "query_types"]
        assert len(lines) == 3
        variables = json.loads(Path("results/r/plan/ansible-vars.json").read_text())
        assert variables["cache_dir"] == str(Path("here").absolute())
        assert variables["run_dir"] == str(Path("results/r").absolute())
        assert [v["name"] for v in variables["variants"]] == ["baseline", "candidate"]
        assert sorted(p.name for p in Path("results/r/plan").iterdir()) == [
            "ansible-vars.json",
            "experiment.json",
            "forecast.json",
            "rounds.tsv",
        ]
