"""What a query and a sample cost on each type of rented machine, and on which one the candidate loses most."""

import json
from dataclasses import replace

import pytest
import synthetic
import synthetic_fleet as fleets
from reports import analysed

from plots import cost
from plots.numbers import MISSING
from plots.study import open_settings
from tsduel.studies import compare
from tsduel.studies import settings as studies

E2, N2, C3 = "e2-standard-8", "n2-standard-8", "c3-standard-8"
QUERY, SAMPLE = ("duel_cpu_us", "all"), ("load_cpu_seconds", "")


def on(path, kinds, edit=None, **spec):
    """Return a compared study of types of machines, opened; kinds: see synthetic_fleet."""
    directory = fleets.write(path, kinds, replace(fleets.SPEC, **spec))
    runs = dict(zip(kinds, (run.path for _, run in studies.runs(directory)), strict=True))
    if edit:
        edit(runs)
    for run in runs.values():
        analysed(run)
    compare.main(directory)
    return open_settings(directory)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Three types of three hosts each: the candidate loses 5 % on two, and 3 % on a third, whose hosts have 4 CPUs."""

    def halve(runs):
        for path in runs[N2].glob("raw/host?.json"):
            synthetic.edit(path, cpus=4)

    kinds = {
        E2: fleets.service(1.050, 1.052, 1.051), N2: fleets.service(1.030, 1.031, 1.029),
        C3: fleets.service(1.050, 1.051, 1.049),
    }  # fmt: skip
    return on(tmp_path_factory.mktemp("cost"), kinds, halve)


def costs(study, figure):
    """Return the costs of a figure by type of machine."""
    names = [name for names in cost.machines_of(study) for name in names]
    found = cost.costs_of(study, "candidate", names, figure)
    return {name.removeprefix("machine="): one for name, one in found.items()}


def test_a_cost_is_cpu_time_by_the_cpus_of_the_host_and_the_price_of_one_machine(study):
    """The CPUs are those that the host described; the price of the list is that of one of three machines, alone."""
    found = costs(study, QUERY)
    for machine, cpus, hour in ((E2, 8, 0.268024), (N2, 4, 0.388472), (C3, 8, 0.403216)):
        one = found[machine]
        micros = [one.row[f"{side}_pseudomedian"] for side in ("baseline", "candidate")]
        assert [one.of(0), one.of(1)] == pytest.approx([each / cpus * hour / 3600 for each in micros])
    for one in costs(study, SAMPLE).values():
        micros = 1e6 * one.row["baseline_pseudomedian"] / study.plan.workload.samples
        of_query = found[one.side.setting.removeprefix("machine=")]
        assert one.of(0) == pytest.approx(micros * of_query.usd)


def test_the_table_has_a_row_a_machine_and_says_how_it_was_made(study):
    """CPUs, price, and both costs with the change and the mark of the CPU time; samples in a unit that is read."""
    text = cost.section(study)
    row = next(line for line in text.splitlines() if line.startswith(f"| {N2}"))
    assert [cell.strip() for cell in row.split("|")][2:4] == ["4", "0.3885"]
    assert row.count("%)") == 2
    assert "✗" in row
    assert "a million queries, USD" in text
    assert "a million samples, millionths of a USD" in text
    assert "the machine is taken as fully used" in text
    assert "list price of 2026-11, of the machine alone: disk, address and traffic are out." in text


def test_the_machine_is_named_on_which_the_candidate_loses_most(study):
    """With what is shown of the others: more than on one, not of the other, and where the work is cheapest."""
    query, cheapest, *_ = (line for line in cost.answers(study).splitlines() if line.startswith("- A million queries"))
    assert query.startswith(f"- A million queries: the candidate loses most on **{E2}**, +5.1 % (+")
    assert f"; more than on {N2} (+" in query
    assert f"; not shown to be more than on {C3} (-" in query
    assert cheapest.startswith(f"- A million queries: the candidate is cheapest on **{E2}**, 0.00599 USD; {C3} +")
    assert "not told apart" not in cheapest


def test_what_is_not_shown_is_not_said(tmp_path):
    """No loss, one host of each type, and one price for all: blocks that overlap are not told apart."""

    def price(runs):
        for run in runs.values():
            path = run / "plan/experiment.json"
            place = json.loads(path.read_text())["place"]
            synthetic.edit(path, place=place | {"price": place["price"] | {"machine_h": 1.0, "as_of": "as given"}})

    kinds = {E2: fleets.service(1.0), N2: fleets.service(1.0)}
    study = on(tmp_path, kinds, price, blocks=6)
    query, cheapest, *_ = (line for line in cost.answers(study).splitlines() if line.startswith("- A million queries"))
    assert "A million queries: no loss is shown; the candidate does worst on " in query
    assert "; not shown to be more than on " in query
    assert query.endswith("; one host each, so it may be the host")
    assert "; not told apart from " in cheapest
    assert "The price is `gcp.price_h`, the same for each machine" in cost.section(study)


def test_of_queries_that_were_asked_alone_each_type_has_its_cost(tmp_path):
    """CPU of the phase by its queries; a machine that was not described has no cost."""

    def forget(runs):
        (runs[N2] / "raw/host1.json").unlink()

    kinds = {E2: fleets.service(1.0), N2: fleets.service(1.0)}
    study = on(tmp_path, kinds, forget, blocks=6, duel=False, solo_s=0.5)
    assert list(cost.figures_of(study).values()) == ["queries, cpu-max-all-1", "queries, double-groupby-1", "samples"]
    (one,) = costs(study, ("query_cpu_seconds", "cpu-max-all-1")).values()
    queries = one.side.row("query_count", "cpu-max-all-1")["baseline_median"]
    seconds = one.row["baseline_pseudomedian"]
    assert one.of(0) == pytest.approx(1e6 * seconds / queries / 8 * 0.268024 / 3600)
    row = next(line for line in cost.section(study).splitlines() if line.startswith(f"| {N2}"))
    assert [cell.strip() for cell in row.split("|")][2:-1] == [MISSING, "0.3885", MISSING, MISSING, MISSING]
    assert cost.answers(study) == ""
