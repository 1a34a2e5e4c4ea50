"""The forecast after each block: it has compare's figures, does not depend on differences, and says what is unknown."""

from __future__ import annotations

import functools
import math
import random
import re
import statistics
from dataclasses import replace

import pytest
from asking import planned

from tsduel.plan.forecast.spread import Ended, Forecast, counting, reach
from tsduel.stats.estimate import percent
from tsduel.stats.power import blocks_needed, mde

BLOCK_S = 60.0


METRICS = (("duel_typical_ms", "geomean"), ("load_rate", ""))


@functools.cache
def plan():
    """Return the plan of a small experiment."""
    return planned(design={"blocks": 8})


def expected(blocks=8, spares=2, thresholds=(2, 3), before=None):
    """Return a forecast that goes by service time and load rate; ``before``: their spreads in an A/A run."""
    limits = dict(zip((name for name, _ in METRICS), thresholds, strict=True))
    design = plan().design.model_copy(update={"blocks": blocks, "spare_blocks": spares, "thresholds": limits})
    known = [
        {"metric": name, "query_type": query_type, "s_d": s_d}
        for (name, query_type), s_d in zip(METRICS, before or (), strict=False)
    ]
    return Forecast(
        plan().model_copy(update={"run": "r", "design": design}),
        known,
        {"run": "20261101T000000Z-local", "what": "the last run"},
    )


class Told:
    """The blocks of a run that have ended, and the sentence after the last one."""

    def __init__(self, blocks=8, **more):
        self.planned, self.forecast = blocks, expected(blocks, **more)
        self.blocks = []

    def block(self, number, kind="measured", *, ok=True, causes=(), **ratios):
        """Append a block of one minute; ``ratios``: candidate -> the log ratios of load rate and service time."""
        of = {name: dict(zip(("load_rate", "duel_typical_ms"), pair, strict=False)) for name, pair in ratios.items()}
        of = {name: {metric: log for metric, log in logs.items() if log is not None} for name, logs in of.items()}
        self.blocks.append(
            Ended(number=number, kind=kind, at=0.0, ok=ok, seconds=BLOCK_S, load_rate=0.0, exchanges=0.0,
                  why=", ".join(causes), causes=tuple(causes), ratios=of)
        )  # fmt: skip
        return self

    def noisy(self, blocks, deviation=0.03, shift=0.0, seed=1):
        """Append the warm-up and so many blocks."""
        draw = random.Random(seed)  # noqa: S311 - figures, no secret
        self.block(0, "warmup", candidate=(9.0, 9.0))
        for number in range(1, blocks + 1):
            self.block(number, candidate=(shift + draw.gauss(0, deviation), shift + draw.gauss(0, deviation / 5)))
        return self

    def outlook(self):
        """Return what is foreseen after the last block."""
        return self.forecast.after_block(self.blocks, goes_on=self.blocks[-1].number < self.planned)

    def say(self):
        """Return the sentence."""
        return self.outlook().text

    def spread(self, metric):
        """Return the standard deviation of a metric over the measured blocks."""
        return statistics.stdev(b.ratios["candidate"][metric] for b in self.blocks if b.kind == "measured")


def shown(message):
    """Return the percent that a message says the run can show, by metric."""
    return dict(reversed(pair) for pair in re.findall(r"([0-9.]+) % in ([\w, ]+?)(?: of \S+)? \(you asked", message))


class TestAsCompare:
    """The forecast has the same digits as the report for the same blocks."""

    @pytest.mark.parametrize("last", [3, 5, 8])
    def test_it_is_the_mde_of_the_planned_blocks_at_the_spread_so_far(self, last):
        """Rough from few blocks, and without the warm-up."""
        told = Told().noisy(last)
        said = told.say()
        assert said.startswith(f"after block {last} of 8: at this noise 8 blocks can show ")
        for title, metric in (("ingestion rate", "load_rate"), ("query time", "duel_typical_ms")):
            assert shown(said)[title] == f"{percent(mde(told.spread(metric), 8)):.1f}"
        low, high = reach(last)
        rough = f"roughly, since it is from {last} blocks: {low:.1f} to {high:.1f} times that"
        assert (rough in said) == (last < 6)

    def test_of_several_candidates_the_one_that_scatters_most(self):
        """Its name is in the sentence."""
        told = Told()
        for number, noise in enumerate((1, -2, 2, -1, 1, -1), start=1):
            told.block(number, candidate=(noise / 1000, 0.01 * noise), other=(noise / 100, 0.001 * noise))
        said = told.say()
        assert " % in ingestion rate of other (you asked for 3 %)" in said
        assert " % in query time of candidate (you asked for 2 %)" in said

    def test_how_many_blocks_would_be_needed_is_compare_s_number(self):
        """If the planned blocks are too few."""
        told = Told(thresholds=(50, 3)).noisy(8, deviation=0.05)
        needed = blocks_needed(math.log1p(0.03), told.spread("load_rate"))
        assert needed > 8
        assert f"; for 3 % in ingestion rate {needed} blocks would be needed" in told.say()


class TestBlocksThatCount:
    """Not the warm-up, not a spoilt or void one; a candidate that has failed has no ratios."""

    def test_a_spare_block_stands_in_for_one_that_is_spoilt_and_for_no_other(self):
        """A replacement shows later that a block is spoilt; it counts, too."""
        told = Told(blocks=6).noisy(6)
        told.block(7, "spare", candidate=(0.0, 0.0))
        assert said_blocks(told) == 6
        told = Told(blocks=6).block(0, "warmup")
        for number in range(1, 7):
            ratios = {} if number == 2 else {"candidate": (number / 100, number / 1000)}
            told.block(number, ok=number != 2, causes=["steal 9 %"] if number == 4 else (), **ratios)
        assert said_blocks(told) == 4
        told.blocks[-1] = replace(told.blocks[-1], causes=("canary 30 %",))
        told.block(7, "spare", candidate=(0.0, 0.0)).block(8, "spare", candidate=(0.0, 0.0))
        said = told.say()
        assert said_blocks(told) == 5
        assert said.startswith("after spare block 8 (5 blocks count): 2 blocks do not count so far (canary 30 %); at ")

    def test_a_ratio_that_nobody_could_make_is_none(self):
        """A load of no time has no rate."""
        told = Told().noisy(3).block(4, candidate=(None, 0.0))
        said = told.say()
        assert "ingestion rate" in said
        assert said.startswith("after block 4 of 8 (3 blocks count): ")

    def test_a_void_block_does_not_count_whatever_it_shows(self):
        """Its reason is told."""
        told = Told().noisy(3).block(4, causes=["baseline started warmer"], candidate=(0.5, 0.5))
        assert said_blocks(told) == 3
        assert "1 block does not count so far (baseline started warmer)" in told.say()

    def test_more_spoilt_blocks_than_spare_ones_are_a_warning(self):
        """The run cannot have a verdict then."""
        told = Told(spares=2)
        for number in range(1, 4):
            told.block(number, causes=[f"foreign CPU {number}0 %"])
        said = (
            "3 blocks do not count so far (foreign CPU 30 %), and 2 can be replaced: see what else runs (make doctor)"
        )
        assert f": {said}, or make stop RUN=r; " in told.say()


def said_blocks(told):
    """Return from how many blocks the forecast is."""
    return len(counting(told.blocks))


class TestBlind:
    """It uses the spread only, so that nobody can stop a run because of its result."""

    def test_it_says_the_same_whoever_is_faster_and_by_how_much(self):
        """Half as fast, equal, twice as fast: the same line to the letter, without a sign and without a judgement."""
        said = {Told().noisy(8, shift=shift).say() for shift in (-0.7, 0.0, 0.7)}
        assert len(said) == 1
        assert not re.search(r"[+-][0-9]|faster|slower|better|worse|regress|improv", said.pop())


class TestWords:
    """The words if little is known, and if a run is hopeless."""

    def test_before_three_blocks_it_is_what_is_not_known_yet(self):
        """Without an earlier run."""
        assert Told().noisy(0).say() == "after the warm-up: what 8 blocks can show is seen from 3 blocks on"

    def test_an_earlier_run_is_what_is_known_before(self):
        """Its spreads, its name, what it is (an A/A run only if it is one), and how many blocks they would take."""
        told = Told(before=(0.005, 0.05)).noisy(0)
        shows = [percent(mde(s_d, 8)) for s_d in (0.005, 0.05)]
        needed = blocks_needed(math.log1p(0.03), 0.05)
        assert told.say().startswith(
            "after the warm-up: if it scatters as 20261101T000000Z-local did, the last run, 8 blocks can show "
            f"{shows[0]:.1f} % in query time (you asked for 2 %) and {shows[1]:.1f} % in ingestion rate (you "
            f"asked for 3 %); for 3 % in ingestion rate {needed} blocks would be needed"
        )

    def test_a_hopeless_run_says_what_to_do_while_there_is_something_to_stop(self):
        """Hopeless: for every metric, even the smallest plausible spread is too large."""
        said = Told(thresholds=(1, 1)).noisy(4, deviation=0.3).say()
        assert "; this run cannot answer that: make stop RUN=r finishes the block and ends it; " in said
        assert re.search(r"a new one could with BLOCKS=\d+, with longer|longer phases or a quieter machine could", said)
        whole = Told(thresholds=(1, 1)).noisy(8, deviation=0.3).say()
        assert "make stop" not in whole
        assert "blocks would be needed" in whole
        # One that is not hopeless is still worth its blocks.
        assert "make stop" not in Told(thresholds=(50, 0.1)).noisy(4).say()

    def test_a_screen_never_promises_a_verdict(self):
        """Five blocks give none, whatever they show."""
        said = "no verdict is possible with fewer than 6 blocks: this is a first look"
        assert Told(blocks=5).noisy(5).say() == f"after block 5 of 5: {said}"

    def test_nothing_to_go_by_is_nothing_said(self):
        """A smoke run's figures mean nothing, and hosts of a fleet differ by more than noise."""
        told = Told().noisy(8)
        for changed in ({"smoke": True}, {"hosts": ("host1", "host2")}):
            told.forecast = Forecast(plan().model_copy(update=changed), (), {})
            assert told.outlook() is None

    def test_values_that_never_vary(self):
        """No spread at all is a spread of nothing."""
        assert shown(Told().noisy(8, deviation=0.0).say()) == {"ingestion rate": "0.0", "query time": "0.0"}


class TestNews:
    """A forecast is repeated where it changes."""

    def test_blocks_that_scatter_like_the_ones_before_are_no_news(self):
        """Of 33 blocks: with the third there is a spread, with the sixth it is no rough one any more."""
        told, said, news = Told(blocks=33).block(0, "warmup"), None, []
        for number in range(1, 34):
            told.block(number, candidate=(0.01 * (-1) ** number, 0.002 * (-1) ** number))
            if told.outlook().is_news(said):
                said = told.outlook()
                news.append(number)
        assert news == [1, 3, 6]

    def test_a_block_that_does_not_count_and_more_noise_are_news(self):
        """More: by a quarter."""
        told = Told().noisy(6)
        said = told.outlook()
        told.block(7, causes=["steal 9 %"], candidate=(0.0, 0.0))
        assert told.outlook().is_news(said)
        told = Told().noisy(6).block(7, candidate=(0.2, 0.0))
        assert told.outlook().is_news(said)
