"""Several hosts: the estimate over them, their differences, types of machines, and the report."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import synthetic
import synthetic_fleet as fleets
from reports import analysed, reported
from scipy import stats

from plots.pictures import Pictures
from plots.sections.hosts import section, standing
from plots.source import open_source
from tsduel.core.metrics import METRICS
from tsduel.stats.estimate import signed_rank_p
from tsduel.stats.findings import Sample
from tsduel.stats.hosts import interval_of_difference, over_hosts
from tsduel.stats.power import effect_seen
from tsduel.stats.verdict import judge
from tsduel.studies import compare


def drawn(rng, blocks, between, within=1.0, truth=0.0):
    """Return differences of blocks and their hosts; `blocks` has each host's number of blocks."""
    d, hosts = [], []
    for host, count in enumerate(blocks):
        at = truth + rng.normal(0, between)
        d += rng.normal(at, within, count).tolist()
        hosts += [f"host{host + 1}"] * count
    return d, hosts


class TestEstimate:
    """Blocks within hosts."""

    def test_of_as_many_blocks_each_it_is_the_t_interval_over_the_hosts_means(self):
        """If hosts differ more than their blocks."""
        d = [0.010, 0.012, 0.020, 0.022, 0.031, 0.029, 0.041, 0.040]
        found = over_hosts(d, [f"host{1 + i // 2}" for i in range(8)])
        means = [0.011, 0.021, 0.030, 0.0405]
        reach = stats.t.ppf(0.975, 3) * np.std(means, ddof=1) / 2
        assert found.estimate == pytest.approx(np.mean(means))
        ci = found.interval(0.95)
        assert (ci.low, ci.high) == pytest.approx((np.mean(means) - reach, np.mean(means) + reach))
        assert found.p == pytest.approx(stats.ttest_1samp(means, 0).pvalue)
        assert found.within**2 == pytest.approx(np.mean([np.var(d[i : i + 2], ddof=1) for i in (0, 2, 4, 6)]))
        assert found.between**2 == pytest.approx(np.var(means, ddof=1) - found.within**2 / 2)
        assert found.p_differ == pytest.approx(stats.f_oneway(d[:2], d[2:4], d[4:6], d[6:]).pvalue)

    def test_hosts_that_happen_to_agree_make_no_narrow_interval(self):
        """The spread of the blocks is the lower limit."""
        d = [-0.01, 0.01, -0.0101, 0.0101, -0.0099, 0.0099]
        found = over_hosts(d, ["a", "a", "b", "b", "c", "c"])
        assert found.between == 0
        assert found.error == pytest.approx(found.within / math.sqrt(6))

    def test_a_host_with_fewer_blocks_weighs_less(self):
        """By Paule and Mandel's equation: the weighted sum of squares is hosts less one."""
        d, hosts = drawn(np.random.default_rng(3), (4, 1, 2, 3), between=2.0)
        found = over_hosts(d, hosts)
        weights = {h: 1 / (found.between**2 + found.within**2 / n) for h, n in found.blocks.items()}
        assert sum(w * (found.means[h] - found.estimate) ** 2 for h, w in weights.items()) == pytest.approx(3, rel=1e-6)
        assert weights["host1"] > weights["host4"] > weights["host3"] > weights["host2"]

    @pytest.mark.parametrize("hosts", [["a"] * 4, ["a", "b", "c", "d"]])
    def test_one_host_or_one_block_each_is_no_fleet(self, hosts):
        """With one block each, the estimate over blocks is the one over hosts."""
        assert over_hosts([0.1, 0.2, 0.3, 0.1], hosts) is None

    def test_more_blocks_than_anybody_runs_are_no_advice(self):
        """If the hosts' error alone is almost too large, only more hosts help."""
        found = over_hosts(*drawn(np.random.default_rng(5), (3,) * 4, between=5.0))
        assert found.blocks_needed(effect_seen(4) * math.hypot(found.between, found.within / 100)) is None
        assert found.blocks_needed(effect_seen(4) * math.hypot(found.between, found.within / 10)) in {4 * 100, 4 * 101}

    def test_what_would_settle_it(self):
        """More blocks help if hosts agree; if hosts differ, only more hosts help."""
        rng = np.random.default_rng(5)
        agreeing = over_hosts(*drawn(rng, (3,) * 4, between=0.0))
        effect = 1.0001 * effect_seen(4) * math.hypot(agreeing.between, agreeing.within / math.sqrt(8))
        assert agreeing.blocks_needed(effect) == 4 * 8
        differing = over_hosts(*drawn(rng, (3,) * 4, between=5.0))
        assert differing.blocks_needed(0.5 * differing.between) is None
        assert differing.hosts_needed(0.5 * differing.between) > 20


class TestCoverage:
    """Simulated: how often the 95 % interval holds the truth. 400 sessions are good to about 2.2 points."""

    @pytest.mark.parametrize("between", [0.0, 1.0, 3.0])
    @pytest.mark.parametrize("blocks", [(2,) * 3, (2,) * 4, (4, 1, 2, 1)])
    def test_of_the_estimate_over_hosts(self, blocks, between):
        """At least 95 %, for any difference between hosts; few blocks make it wide."""
        rng = np.random.default_rng([1, *blocks, int(between)])
        found = [over_hosts(*drawn(rng, blocks, between)).interval(0.95) for _ in range(400)]
        assert np.mean([one.low <= 0 <= one.high for one in found]) >= 0.93

    def test_blocks_taken_for_replicates_are_wrong_where_hosts_differ(self):
        """Over blocks, three sessions of ten show a difference that does not exist; over hosts 5 %."""
        rng = np.random.default_rng(2)
        sessions = [drawn(rng, (4,) * 4, between=1.5) for _ in range(300)]
        assert np.mean([signed_rank_p(d) <= 0.05 for d, _ in sessions]) > 0.25
        assert np.mean([over_hosts(*one).p <= 0.05 for one in sessions]) < 0.08

    @pytest.mark.parametrize(("blocks", "between"), [((2,) * 3, 1.0), ((2,) * 4, 0.0), ((3,) * 4, 3.0)])
    def test_of_the_difference_between_types(self, blocks, between):
        """Also for two fleets that differ by 1."""
        rng = np.random.default_rng([3, *blocks])
        held = []
        for _ in range(300):
            one, other = (over_hosts(*drawn(rng, blocks, between, truth=at)) for at in (1.0, 0.0))
            ci = interval_of_difference(one.interval(0.95), one.estimate, other.interval(0.95), other.estimate)
            held.append(ci.low <= 1.0 <= ci.high)
        assert np.mean(held) >= 0.93


class TestVerdict:
    """Verdicts over hosts."""

    def sample(self, d, hosts):
        """Return a metric with these log ratios."""
        pairs = [(1.0, math.exp(one)) for one in d]
        metric, second = METRICS["load_cpu_seconds"], [i % 2 == 0 for i in range(len(d))]
        return Sample(metric, pairs, {"order": second}, "primary", 2.0, hosts=hosts)

    def test_a_difference_that_all_hosts_have(self):
        """It is a regression, with the interval over hosts; p is the larger of those over hosts and over blocks."""
        d = [0.050, 0.054, 0.049, 0.053, 0.052, 0.048, 0.051, 0.055]
        (found,) = judge([self.sample(d, [f"host{1 + i % 4}" for i in range(8)])], 1)
        assert found.verdict == "regression"
        assert found.findings.ci95.level == 0.95
        assert found.p_adj == max(2**-7, found.findings.p)
        assert "disagree" not in " ".join(found.notes)

    def test_p_over_hosts_is_adjusted_for_the_family(self):
        """Of four metrics, one of which happens to agree on all hosts: its p is four times as large."""
        draw, hosts = np.random.default_rng(7), [f"host{1 + i % 4}" for i in range(8)]
        lucky = self.sample([0.010, 0.012, 0.016, 0.020] * 2, hosts)
        names = ("duel_typical_ms", "duel_cpu_us", "load_rate")
        noise = [replace(self.sample(draw.normal(0, 0.02, 8), hosts), metric=METRICS[name]) for name in names]
        found, *_ = judge([lucky, *noise], 1)
        assert found.p_adj == pytest.approx(4 * found.findings.over.p)

    def test_hosts_that_disagree(self):
        """A difference on one host gives no verdict, but a warning with the hosts and a remedy."""
        d = [0.001, 0.002, -0.001, 0.001, 0.002, -0.002, 0.080, 0.081]
        (found,) = judge([self.sample(d, [f"host{1 + i // 2}" for i in range(8)])], 1)
        assert found.verdict == "inconclusive"
        assert "the hosts disagree: +0.0 % on host2, +8.4 % on host4 (p " in " ".join(found.notes)
        assert "more hosts narrow this, more blocks do not" in " ".join(found.notes)

    def test_two_hosts_are_told_apart_but_not_taken_for_all(self):
        """Intervals are those of blocks; a test decides whether the hosts differ."""
        d = [0.010, 0.011, 0.009, 0.010, 0.050, 0.051, 0.049, 0.050]
        (found,) = judge([self.sample(d, ["host1"] * 4 + ["host2"] * 4)], 1)
        assert found.findings.over is None
        assert found.findings.ci95.level != 0.95
        assert "the hosts disagree" in " ".join(found.notes)
        assert "the interval is of these alone" in " ".join(found.notes)


E2, N2 = "e2-standard-8", "n2-standard-8"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Return a compared run of two types with three hosts each; one of the first has another CPU."""
    path = tmp_path_factory.mktemp("fleet")
    e2 = [*fleets.service(1.050, 1.052), *fleets.service(1.051, cpu=fleets.AMD)]
    return reported(fleets.write(path, {E2: e2, N2: fleets.service(1.030, 1.031, 1.029)}))


def of_type(fleet, at):
    """Return the run on the first or second type of machine."""
    return fleet.with_name(f"{fleet.name}-{at:02d}")


class TestFleet:
    """From raw files to the report."""

    def test_tables_know_the_host(self, fleet):
        """Each block has its host, and each row the number of hosts and their difference."""
        with (of_type(fleet, 1) / "tidy/blocks.csv").open(newline="") as stream:
            assert {row["host"] for row in csv.DictReader(stream)} == {"host1", "host2", "host3"}
        with (fleet / "stats/comparison.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        typical = [r for r in rows if (r["metric"], r["query_type"]) == ("duel_typical_ms", "geomean")]
        assert [(r["setting"], r["hosts"], r["verdict"]) for r in typical] == [
            (f"machine={E2}", "3", "regression"), (f"machine={N2}", "3", "regression"),
        ]  # fmt: skip
        assert all(float(r["hosts_pct"]) < 1 for r in typical)

    def test_types_beside_each_other(self, fleet):
        """The difference between types in points, with its interval."""
        document = json.loads((fleet / "stats/comparison.json").read_text())
        (one,) = [d for d in document["machines"] if (d["metric"], d["query_type"]) == ("duel_typical_ms", "geomean")]
        assert (one["setting"], one["than"], one["one_host"]) == (f"machine={E2}", f"machine={N2}", False)
        assert one["lo"] < 2.1 < one["hi"]
        changes = [
            r["change_pct"]
            for r in document["rows"]
            if (r["metric"], r["query_type"]) == ("duel_typical_ms", "geomean")
        ]
        assert one["points"] == pytest.approx(changes[0] - changes[1])

    def test_the_report(self, fleet):
        """That of the study has the difference between types; that of a run its hosts, their CPUs, and the picture."""
        text = (fleet / "report.md").read_text()
        assert "points worse than on n2-standard-8 (" in text
        assert f"**The hosts differ in their CPU**, and verdicts are joined over them: {fleets.INTEL}" in text.replace(
            "\\", ""
        )
        own = (of_type(fleet, 1) / "report.md").read_text()
        assert f"{fleets.AMD} (host3)" in own
        assert "## Host by host" in own
        assert (of_type(fleet, 1) / "plots/hosts.svg").exists()
        assert "| host3" in own

    def test_settings_of_the_kernel_that_differ(self, fleet):
        """A setting that some hosts have otherwise is named with its values; one that all have is not."""
        run = of_type(fleet, 1)
        for number in range(1, 4):
            value = "1" if number == 2 else "0"
            settings = {"vm.overcommit_memory": value, "vm.swappiness": "60"}
            synthetic.edit(run / f"raw/host{number}.json", sysctls=settings)
        lines = "\n".join(standing(open_source(run)))
        assert "The hosts differ in `vm.overcommit_memory`, a setting of their kernels: 0 (host1, host3)" in lines
        assert "; 1 (host2)." in lines
        assert "swappiness" not in lines

    def test_settings_that_differ_in_more_than_the_machine_are_not_held_against_each_other(self):
        """Compared settings differ only in the machine."""
        found = {f"{scale} {of}": {"workload.scale": scale, "gcp.machine": of} for scale in (1, 2) for of in (E2, N2)}
        assert compare.pairs(found) == [(f"1 {E2}", f"1 {N2}"), (f"2 {E2}", f"2 {N2}")]
        assert compare.pairs({"a": {"x": 1}, "b": {"x": 2}}) == []


def test_a_shift_is_over_hosts_as_the_change_beside_it_is(tmp_path):
    """Three hosts that differ by more than their blocks do: neither interval leaves zero, as both would over blocks."""
    run = analysed(fleets.write(tmp_path, {E2: fleets.service(0.96, 1.06, 1.07)}))
    rows = json.loads((run / "stats/comparison.json").read_text())["rows"]
    (row,) = [row for row in rows if (row["metric"], row["query_type"]) == ("duel_typical_ms", "cpu-max-all-1")]
    assert row["over_hosts"]
    assert row["lo_pct"] < 0 < row["hi_pct"]
    assert row["shift"]["lo"] < 0 < row["shift"]["hi"]


def test_hosts_with_one_block_each_are_as_many_as_they_are(tmp_path):
    """Differences between hosts cannot be told from those between blocks; the rows have three hosts."""
    run = analysed(fleets.write(tmp_path, {E2: fleets.service(1.05, 1.06, 1.04)}, replace(fleets.SPEC, blocks=1)))
    rows = json.loads((run / "stats/comparison.json").read_text())["rows"]
    assert {row["hosts"] for row in rows if row["blocks"]} == {3}
    source = open_source(run)
    assert section(source, Pictures(run)).startswith(
        "v1.133.0 against v1.132.0: 3 hosts with a block that counts. How far hosts differ is known from two"
    )
