"""The report of any run is made, says what it is worth, and looks the same for the same data."""

import gzip
import json
import re
import shutil

import pandas as pd
import pytest
import synthetic
from goldens import golden
from hypothesis import given
from hypothesis import strategies as st
from reports import NAME, compared, drawn, edit_plan, made, text

from plots import comment, markup, numbers, report, sections
from plots.sections.blocks import values_of
from plots.sentences import sentence
from plots.source import open_source
from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS, Metric
from tsduel.stats import compare
from tsduel.stats.verdict import VERDICTS
from tsduel.tidy.read import read_table


def test_report_summary_and_comment_are_as_recorded(tmp_path, capsys):
    """The whole report, the terminal's table and the comment, to be looked at in review."""
    run = made(tmp_path)
    golden("report.md", text(run))
    report.print_summary(run)
    golden("summary.txt", capsys.readouterr().out.replace(str(run), "RUN"))
    found = comment.main(run)
    assert (run / "comment.md").read_text() == found
    golden("comment.md", found)


def test_same_data_same_bytes(tmp_path):
    """The same data gives the same report, page and pictures, byte for byte, and no date is in them."""
    one, two = drawn(tmp_path / "a"), drawn(tmp_path / "b")
    files = sorted(path.relative_to(one) for path in one.glob("plots/*"))
    assert len(files) == 2 * 6
    for name in ("report.md", "report.html", *files):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert not any("<dc:date>" in path.read_text() for path in one.glob("plots/*.svg"))
    links = re.findall(r"\]\(([^)]+)\)", text(one))
    assert {one / link for link in links if link[0] != "#"} == {
        path for path in one.glob("plots/*") if "narrow" not in path.name
    }
    assert not re.search(r"\d\.\d{6}", text(one)), "no figure has digits that nobody needs"


SECTIONS = (
    "What differs", "What moved with it", "Queries, asked in turn", "Load",
    "The server's process and its database",
    "Queries of several workers", "Block by block", "Noise", "Checks", "How it was measured", "How to reproduce",
    "Limitations",
)  # fmt: skip


def test_the_first_screen_answers(tmp_path):
    """Question, answer, a line a subject with its values, the picture, answers compared; then the sections."""
    found = text(made(tmp_path))
    assert tuple(re.findall(r"^## (.*)$", found, re.MULTILINE)) == SECTIONS
    first = found.split("\n## ")[0]
    order = [
        "**Question.**",
        "**Answer.**",
        "(plots/change.svg)",
        "**Ingestion rate**",
        "Compared 1,440 of 1,440 answers",
    ]
    places = [first.index(part) for part in order]
    assert places == sorted(places)
    assert re.search(r"- ✗ \*\*Query time, all types\*\*: 0\.\d+ → 0\.\d+ ms; 5\.\d % slower", first)
    assert first.count("![") == 1


def two_clients(run):
    """Have two clients load as much each as one did."""
    edit_plan(run, lambda plan: plan.update(topology={"host1": ["client"], "host2": ["client"], "host3": ["server"]}))
    for path in run.glob("raw/*/*/block.json"):
        block = json.loads(path.read_text())
        for variant, solo in block["solo"].items():
            of = {"share": 0.93, "cpus": 4}
            solo["clients"] = [of | {"host": "host1", "began_ms": 4.0}, of | {"host": "host2", "began_ms": 7.5}]
            solo["skew_ms"] = 3.5
            for suffix in ("csv", "json"):
                alone = path.parent / variant / f"load.{suffix}"
                shutil.copy(alone, path.parent / variant / f"load-host1.{suffix}")
                alone.rename(path.parent / variant / f"load-host2.{suffix}")
        path.write_text(json.dumps(block))
    facts = json.loads((run / "raw/host1.json").read_text())
    why = {"link": {"round_trip_ms": 0.25}, "pin": {"reason": "its CPUs are of several kinds"}}
    (run / "raw/host3.json").write_text(json.dumps(facts | why))
    path = run / "raw/host1/workload.json"
    made = json.loads(path.read_text())
    path.write_text(json.dumps(made | {"data": [], "groups": [made["data"][0] | {"host": "host2"}]}))


def test_several_clients_that_loaded_are_added_and_named(tmp_path):
    """Twice the rate in the time of one; who loaded, how well they began together, and who was busy."""
    alone, run = made(tmp_path / "one"), made(tmp_path / "two", two_clients)
    once, twice = (
        table[table["metric"] == "load_rate"]["value"].to_numpy()
        for table in (read_table(of, "measurements") for of in (alone, run))
    )
    assert twice == pytest.approx(2 * once, rel=1e-3)
    found = text(run)
    for said in (
        "2 clients (host1, host2) loaded a part of the simulated hosts each and began within 3.5 ms of each other",
        "at most; their curves are added. The busiest used 93 % of its CPUs.",
        "The load client on host2 used up to 93 % of 4 CPUs: it may be the bottleneck.",
        "with 4 workers on each of 2 clients (mean rate",
        "Load: 4 workers on each of 2 clients, batches",
        "sha256 of the data (victoriametrics, host2)",
        " CPUs, 0.25 ms away, its CPUs are of several kinds)",
    ):
        assert said in found
        assert said not in text(alone)


def test_smoke_screen_and_aa_say_so(tmp_path, capsys):
    """A smoke run is no result, under 6 blocks is a screen, and the same binary twice has two names."""
    run = made(tmp_path / "smoke", blocks=2, smoke=True)
    assert "This is not a result" in text(run)
    assert "a first look, not a result:** 2 valid blocks" in text(run)
    assert "): ? a first look, no verdict: Query time, all types (" in comment.main(run).splitlines()[2]

    def same(run):
        def alike(plan):
            for variant in plan["variants"]:
                variant["label"] = "v1.132.0"
                variant["components"][0] |= {"version": "v1.132.0", "ref": "v1.132.0", "revision": "r" * 40}

        edit_plan(run, alike)
        shutil.copy(run / "build/baseline.json", run / "build/candidate.json")

    found = made(tmp_path / "aa", same, aa=True, factors={})
    assert "a first look, not a result" not in text(found)
    for said in (
        "the same binary",
        "v1.132.0 (baseline)",
        "v1.132.0 (candidate)",
        "The variants do not differ.",
        "A/A",
    ):
        assert said in text(found)
    report.print_summary(found)
    assert "**" not in capsys.readouterr().out


def test_what_differs_is_short_and_in_full_below(tmp_path):
    """Flags, environment and hashes stand side by side; what is the same is said once, in a fold."""

    def flagged(plan):
        plan["variants"][1]["components"][0] |= {"flags": ["-search.disableCache", "-x=a|b"], "env": {"GOGC": "50"}}
        plan["asked"]["knobs"] = {"BLOCKS": "6", "SET": "workload.scale=9 design.seed=2"}

    def changed(run):
        edit_plan(run, flagged)
        facts = json.loads((run / "raw/host1.json").read_text())
        facts["pin"]["reason"] = "8 of 16 CPUs are used: the fast cores of one NUMA node"
        (run / "raw/host1.json").write_text(json.dumps(facts))

    found = text(made(tmp_path, changed))
    above, below = found.split("## What differs")[1].split("<details>")[:2]
    assert re.search(r"\| flags +\| none +\| `-search\.disableCache", above)
    assert re.search(r"\| environment +\| none +\| `GOGC=50`", above)
    assert "| baseline0000… |" in above
    assert f"{'baseline':0<64}" in below
    assert re.search(r"\| Go +\| go1\.25\.5 +\|\n", below)
    pinned = r"server on CPU 2, 3, 4, 5, 6, 7, client on CPU 0, 1 \(8 of 16 CPUs are used: [^(|]+\)"
    assert re.search(rf"pins in the duel +\| {pinned} +\|", below)
    assert "make tsbs EXPERIMENT=experiments/local.yml BLOCKS=6 'SET=workload.scale=9 design.seed=2'\n" in found


def test_marks_follow_the_metrics_direction(tmp_path):
    """More of what should be less is worse; below the threshold it is negligible; digits follow the interval."""
    factors = {"candidate": {"rate": 1.2, "service": 1.25, "bytes": 1.02, "rss": 1.3}}
    found = text(made(tmp_path, factors=factors, noise=0.0, between=0.0, within=0.001))
    assert re.search(r"cpu-max-all-1 .*0\.2\d+ → 0\.2\d+ \(\+2[45]\.\d %\) ✗", found)
    assert re.search(r"Peak memory .*\+30\.0 \|.*\| ✗ clearly worse", found)
    assert re.search(r"Bytes on disk .*\+2\.0 \|.*\| ≈ negligible", found)
    assert "I.e. v1.133.0 was 20.0 % faster" in found


def test_failures_are_sentences(tmp_path):
    """A crash, a failed check, an answer that differed and a spoilt block are told; the report is made all the same."""
    run = made(
        tmp_path,
        blocks=9,
        failed={2: ("candidate", "solo", "the server was killed by signal 9 <html>")},
        spoilt={4: "steal of 12 % in the load"},
        wrong={3: ("exchanges_same", "", "cpu-max-all-1", "3 of 120 answers differ, the first is exchange 7")},
    )
    found = text(run)
    assert "killed by signal 9 &lt;html&gt;" in found
    assert "Block 2 does not count" in found
    assert "Block 4 does not count: spoilt from outside: steal of 12 % in the load" in found
    assert re.search(r"\*\*Query time, all types\*\*: .*\*\*failed\*\*", found)
    assert "Block 3 cpu-max-all-1: 3 of 120 answers differ, the first is exchange 7" in found
    assert "of them differ**" in found
    assert "FAILED" in found
    assert comment.main(run).splitlines()[2].split("): ")[1].startswith("**✗ a check failed**: ")


def test_blocks_that_failed_at_their_first_query_type_leave_the_picture_of_the_others(tmp_path):
    """Of two such, whose first types differ, no type is in every block: means are drawn of the whole blocks."""

    def died(run):
        for block, kept in ((1, "cpu-max-all-1"), (2, "double-groupby-1")):
            path = run / f"raw/host1/{block:03}/duel/exchanges.csv.gz"
            head, *rows = gzip.decompress(path.read_bytes()).decode().splitlines()
            rows = [row for row in rows if row.startswith(kept)][:1]
            path.write_bytes(gzip.compress("\n".join([head, *rows, ""]).encode()))
            failure = {
                "variant": "candidate",
                "part": "duel",
                "phase": "exchange",
                "query_type": kept,
                "message": "gone",
            }
            synthetic.edit(path.parents[1] / "block.json", status="failed", failures=[failure])

    run = made(tmp_path, died, blocks=8)
    assert "over 6 valid blocks of 8" in text(run)
    values = values_of(open_source(run), "duel_typical_ms", "geomean", "")
    assert set(values["block"]) == {0, 3, 4, 5, 6, 7, 8}


def test_that_all_blocks_failed_is_an_answer(tmp_path):
    """The first screen and the comment say of what."""
    died = dict.fromkeys((1, 2), ("candidate", "solo", "it died <x>"))
    run = made(tmp_path, blocks=2, failed=died)
    for said in (text(run), comment.main(run)):
        assert ": ? nothing was measured (block 1: candidate failed: it died &lt;x&gt;)" in said


def test_counters_that_do_not_scatter_have_moved_as_well(tmp_path):
    """From none to some, which is no percent, and by the same in every block, which has no interval."""

    def counted(run):
        for path in run.glob("raw/host1/0*/block.json"):
            duel = json.loads(path.read_text())["duel"]
            for one in duel["types"]:
                one["counters"]["candidate"] |= {
                    "cache_misses": one["exchanges"] * 5,
                    "index_searches": one["exchanges"] * 6,
                }
            synthetic.edit(path, duel=duel)

    moved = text(made(tmp_path, counted)).split("## What moved with it")[1].split("\n## ")[0]
    assert "Cache misses a query 0 → 5 misses;" in moved
    assert "Index searches a query 3 → 6 searches (+100 %)" in moved


def test_an_estimate_of_nothing_is_a_sentence(tmp_path):
    """Both loads take the same time: nobody says that one was slower."""

    def same(run):
        for path in run.glob("raw/host1/*/candidate/load.json"):
            shutil.copy(path.parents[1] / "baseline/load.json", path)

    found = text(made(tmp_path, same))
    assert re.search(r"\*\*Ingestion rate\*\*: .*identical in every block \(equivalent\)", found)
    assert "I.e." not in found


def test_a_terminal_shows_what_markdown_means():
    """Marks are left out, and so is what keeps other letters from being marks."""
    said = f"**{markup.text('a*b_c [::1] <nil> & $5')}** is `x`"
    assert report.plain(said) == "a*b_c [::1] <nil> & $5 is x"


def test_a_killed_run_has_a_report(tmp_path, capsys):
    """After one block there is a report that says how far it came."""

    def killed(run):
        for block in range(2, 7):
            shutil.rmtree(run / f"raw/host1/{block:03}")

    run = made(tmp_path, killed)
    assert "over 1 valid block of 6" in text(run)
    assert re.search(r"samples sent = .*\| checked 4 of 14 +\| ✓, 10 not made", text(run))
    report.print_summary(run)
    assert "1 valid of 6" in capsys.readouterr().out


def test_blocks_on_kept_data_lack_no_check_of_a_load(tmp_path):
    """With `reload: once` the first block loads, and one before which the data were lost: no other owes its checks."""

    def keep(run, *loads):
        for number in {1, 2, 3, 4, 5, 6} - set(loads):
            path = run / f"raw/host1/{number:03}/block.json"
            checks = json.loads(path.read_text())["checks"]
            synthetic.edit(
                path, checks=[check for check in checks if not check["check"].startswith(("samples", "load"))]
            )

    said = text(made(tmp_path, lambda run: keep(run, 4), reload="once"))
    assert re.search(r"samples sent = .*\| checked 4 of 4 +\| ✓ +\|", said)
    assert "not made" not in said

    def killed(run):
        keep(run)
        shutil.rmtree(run / "raw/host1/006")

    said = text(made(tmp_path / "b", killed, reload="once"))
    assert re.search(r"samples sent = .*\| checked 2 of 2 +\| ✓ +\|", said)
    assert "The missing checks belong to 1 block of the plan that did not run to the end." in said


def test_only_a_warmup_block(tmp_path):
    """Without a measured block nothing is drawn, and the report says so."""

    def nothing(run):
        for block in range(1, 7):
            shutil.rmtree(run / f"raw/host1/{block:03}")

    found = text(made(tmp_path, nothing))
    assert "? nothing was measured" in found
    assert "Left out, since" in found
    assert "![" not in found


def test_missing_host_and_builds_are_left_out(tmp_path):
    """What was not recorded is not invented."""

    def bare(run):
        for path in [run / "raw/host1.json", run / "raw/host1/workload.json", *run.glob("build/*.json")]:
            path.unlink()

    assert "| kernel" not in text(made(tmp_path, bare))


def test_report_before_compare_is_a_sentence(tmp_path):
    """What to do first is said."""
    run = synthetic.write_run(tmp_path / NAME, synthetic.Spec(blocks=1, exchanges=20))
    with pytest.raises(UserError, match="make compare"):
        report.main(run)


def test_a_spare_block_that_was_not_needed_lacks_nothing(tmp_path):
    """It is in the plan, was not run, and no check of it is missing."""
    found = text(made(tmp_path, blocks=8, spare_blocks=2))
    assert re.search(r"Checked (\d+) of \1, none failed", found)


def test_where_the_noise_is_has_advice(tmp_path):
    """An inconclusive row says whether longer phases or more blocks help, and what that costs."""
    found = text(made(tmp_path, exchanges=40, within=0.15, between=0.0, noise=0.03, factors={}))
    table = found.split("Where the noise is")[1].split("\n\n")[0]
    assert re.search(r"Query time, double-groupby-1 +\|.*phases \d\.\d times as long \(about \d+ s more\)", table)
    assert re.search(r"Ingestion rate .*BLOCKS=\d+", table)


def test_sittings_that_scatter_ask_for_more_of_them(tmp_path):
    """The spread has three levels, and what would help most is the largest of them."""
    found = text(made(tmp_path, exchanges=200, within=0.01, sitting=0.08, between=0.0, factors={}))
    table = found.split("Where the noise is")[1].split("\n\n")[0]
    assert re.search(r"Query time, double-groupby-1 .*\| more sittings", table)
    assert "between the exchanges of a block, between its sittings, and between blocks" in found


def test_loads_in_turn_have_one_load_alone_that_is_not_judged(tmp_path):
    """design.load: duel: ingestion in turn answers, and the large load is told with its rate."""
    found = text(made(tmp_path, load="duel", alone_s=20.0))
    section = found.split("\n## Load\n")[1].split("\n## ")[0]
    assert "Ingestion time of a batch" in section
    assert "CPU of an ingested sample, until acknowledged" in section
    assert "loaded 21,600,000 samples of 1,500 hosts alone on the machine" in section
    assert "That is one load of each, for the picture: it is not judged." in section
    assert re.search(r"v1.133.0: 2\d\.\d+ s \(mean rate [\d,]+ samples/s\)", section)
    assert "**Ingestion time of a batch**" in found
    assert re.search(r"Checked ([\d,]+) of \1, none failed", found)
    assert "load rate over time" not in text(made(tmp_path / "other", load="duel")).split("Left out, since")[-1]


def test_places_and_the_environment_are_told(tmp_path):
    """In a sentence each; where nobody can read frames, that is said."""

    def unknown(run):
        for path in run.glob("raw/host1/0*/block.json"):
            duel = json.loads(path.read_text())["duel"]
            places = [place | {"frames": -1} for place in duel["places"]]
            synthetic.edit(path, duel=duel | {"places": places})

    found = text(made(tmp_path))
    assert "in memory each copy lay in 40 to 41 pieces." in found
    assert "the environment of servers: `HOME`, `LANG`, `PATH`" in found
    assert "where it lay in memory cannot be read here." in text(made(tmp_path / "unknown", unknown))


def test_many_candidates_have_a_table_each(tmp_path):
    """With its evidence; few candidates have an answer each, many share one."""
    for count, answers in ((2, 2), (4, 1)):
        names = ("baseline", "candidate", *(f"d{i}" for i in range(count - 1)))
        found = text(made(tmp_path / str(count), blocks=2, variants=names, load_s=5.0))
        assert found.count("| Bytes on disk  ") == count
        assert found.count("**Answer.**") == answers


NEW = {
    Metric("compactions", "settle", "runs", "lower", 5.0, "secondary", "Compactions", counter="runs"): ("",),
    Metric(
        "duel_p75_ms", "exchange", "ms", "lower", 5.0, "shown", "", per_type=True, column="p75"
    ): synthetic.TWO_TYPES,
}


def test_a_metric_is_in_the_report_once_the_registry_has_it(tmp_path, monkeypatch):
    """A row of its phase, a column of query types, a counter beside what a verdict confirms: a line in the registry."""
    run = compared(tmp_path)
    table = read_table(run, "measurements")
    sides = table[table["metric"] == "disk_bytes"]
    for metric, types in NEW.items():
        monkeypatch.setitem(METRICS, metric.name, metric)
        values = 4.0 + (sides["variant"] == "candidate") + sides["block"] / 1000
        rows = sides.assign(metric=metric.name, part=metric.part, phase=metric.phase, unit=metric.unit, value=values)
        table = pd.concat([table, *(rows.assign(query_type=name) for name in types)])
    table.to_csv(run / "tidy/measurements.csv", index=False)
    compare.main(run)
    report.main(run)
    parts = dict(part.split("\n", 1) for part in text(run).split("\n## ")[1:])
    assert re.search(r"\| Compactions +\|.*\| +4\.\d+ +\| +5\.\d+ \|", parts["The server's process and its database"])
    assert "**p75**" in parts["Queries, asked in turn"]
    assert "shift at p75, ms (95 % CI)" in parts["Queries, asked in turn"]
    assert "Compactions 4.00" in parts["What moved with it"]


SECTION = """
from plots.sections import heading, tables

@heading("Settling", 61, "tsbs")
def settling(source, pictures):
    return tables.by_metric(source, tables.measured(source, "solo", "settle"))

@heading("Of other runs", 62, "gobench")
def of_others(source, pictures):
    return "It is not here."
"""


def test_a_section_is_in_the_report_once_a_module_has_it(tmp_path, monkeypatch):
    """It stands where it says, with tables of the registry, and in the reports that it names."""
    run = made(tmp_path)
    (tmp_path / "more").mkdir()
    (tmp_path / "more/settling.py").write_text(SECTION)
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(tmp_path / "more")])
    monkeypatch.setattr(sections, "_SECTIONS", list(sections._SECTIONS))
    report.main(run)
    titles = re.findall(r"^## (.*)$", text(run), re.MULTILINE)
    assert titles == [*SECTIONS[:5], "Settling", *SECTIONS[5:]]
    assert "| Drain time after the load " in text(run).partition("## Settling")[2].partition("\n## ")[0]


def test_without_a_duel_the_closed_loop_has_the_shift(tmp_path):
    """One build with other flags, alone only: the shift at each percentile in ms, the difference within blocks."""

    def same_build(plan):
        first, second = (variant["components"][0] for variant in plan["variants"])
        second |= {"build_key": first["build_key"], "flags": ["-search.disableCache"]}

    factors = {"candidate": {"solo": 2.0}}
    run = made(tmp_path, lambda run: edit_plan(run, same_build), duel=False, noise=0.0, factors=factors)
    section = text(run).split("## Queries of several workers")[1].split("\n## ")[0]
    # 4 workers at 3,000 queries/s take 1.33 ms in the mean, the p99 of the synthetic run is three times that.
    assert re.search(r"\| cpu-max-all-1, shift \(95 % CI\) +\| +\+1\.34.*\+1\.20.*\+2\.67 .*\+4 ", section)
    assert re.search(r"\| cpu-max-all-1, change \(95 % CI\) +\| +\+\d+ % ", section)
    assert "No duel: each variant was measured alone only." in text(run)
    assert "asked of both" not in text(run)


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (1716771.07, "1,717,000"),
        (42190959504, "42,190,000,000"),
        (4009.0, "4,009"),
        (815.43, "815.4"),
        (1.38, "1.380"),
        (0.0123456, "0.01235"),
        (0.304, "0.3040"),
        (999.96, "1,000"),
        (0, "0"),
        (10.0, "10"),
        (None, "–"),  # noqa: RUF001 - numbers.MISSING
        (-3.14159, "-3.142"),
    ],
)
def test_numbers(value, printed):
    """Four significant digits, thousands readable."""
    assert numbers.number(value) == printed


@given(st.floats(-1e15, 1e15))
def test_printed_numbers_are_close(value):
    """What is printed is within half a unit of the fourth digit."""
    assert float(numbers.number(value).replace(",", "")) == pytest.approx(value, rel=6e-4)


@pytest.mark.parametrize(
    ("value", "printed"),
    [(8.1234, "+8.1"), (-0.04, "0.0"), (142.3, "+142"), (99.97, "+100"), (9340.2, "+9,340"), (-12.35, "-12.3")],
)
def test_changes(value, printed):
    """A sign always, but for nothing."""
    assert numbers.change(value) == printed


@pytest.mark.parametrize(
    ("p", "printed"),
    [(1, "1"), (0.0497, "0.05"), (0.001953125, "0.002"), (0.0001, "1e-04"), (None, numbers.MISSING)],
)
def test_probabilities(p, printed):
    """Two digits."""
    assert numbers.probability(p) == printed


ROW = {
    "baseline_pseudomedian": 0.238712, "candidate_pseudomedian": 0.243581,
    "change_pct": 2.0412, "lo_pct": 1.84, "hi_pct": 2.24,
    "p_adj": 0.002, "blocks": 10, "mde_pct": 3.2, "blocks_needed": 24, "verdict": "regression", "clear": False,
    "threshold_pct": 2.0, "warnings": "", "unit": "ms", "range_pct": None, "lo90_pct": -0.6, "hi90_pct": 1.9,
}  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "sides", "change", "interval"),
    [
        (1.84, 2.24, ["0.2387", "0.2436"], "+2.0", "+1.8 to +2.2"),
        (0.6, 3.5, ["0.239", "0.244"], "+2.0", "+0.6 to +3.5"),
        (-12.0, 18.0, ["0.239", "0.244"], "+2.0", "-12.0 to +18.0"),
        (None, None, ["0.2387", "0.2436"], "+2.0", "–"),  # noqa: RUF001 - numbers.MISSING
    ],
)
def test_digits_follow_the_interval(low, high, sides, change, interval):
    """What the next session would change is not printed."""
    row = ROW | {"lo_pct": low, "hi_pct": high}
    assert numbers.sides(row) == ("ms", sides)
    assert (numbers.changed(row), numbers.interval(row)) == (change, interval)


@pytest.mark.parametrize(
    ("unit", "values", "printed"),
    [
        ("B", (950e6, 1440911360.0), ("GB", ["0.9500", "1.441"])),
        ("sec/op", (745.1e-6, 9e-5), ("µs/op", ["745.1", "90.00"])),
        ("B/op", (5985272.0, None), ("MiB/op", ["5.708", "–"])),  # noqa: RUF001 - numbers.MISSING
        ("allocs/op", (11450.0, 900.0), ("k allocs/op", ["11.45", "0.9000"])),
        ("us", (12.5, 13.0), ("µs", ["12.50", "13.00"])),
    ],
)
def test_both_sides_share_a_unit(unit, values, printed):
    """That of the larger; time, bytes and counts of Go benchmarks as benchstat prints them."""
    sides = dict(zip(("baseline_pseudomedian", "candidate_pseudomedian"), values, strict=True))
    row = {"unit": unit, "lo_pct": None, "hi_pct": None, **sides}
    assert numbers.sides(row) == printed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "2.0 % slower (95 % CI 1.8 to 2.2 %, adjusted p 0.002, 10 blocks): regression"),
        (
            {"verdict": "improvement", "clear": True, "change_pct": -9.0, "lo_pct": -12.0, "hi_pct": -6.0},
            "within blocks 9.0 % faster (95 % CI 6.0 to 12.0 %, adjusted p 0.002, 10 blocks): clear improvement",
        ),
        (
            {"lo_pct": None, "hi_pct": None, "p_adj": None, "clear": True},
            "2.0 % slower (the same in each of 10 blocks): clear regression",
        ),
        (
            {"verdict": "negligible", "blocks": 9, "p_adj": 0.5},
            (
                "2.0 % slower (95 % CI 1.8 to 2.2 %, adjusted p 0.5, 9 blocks): "
                "real, but below the 2 % that matter (negligible)"
            ),
        ),
        (
            {"verdict": "equivalent", "change_pct": 0.001, "lo_pct": -0.4, "hi_pct": 0.4},
            "estimate 0.0 % (95 % CI -0.4 to +0.4 %): no difference larger than 2 % (equivalent)",
        ),
        (
            {"verdict": "equivalent", "change_pct": 0.7, "lo_pct": -0.9, "hi_pct": 2.2},
            "0.7 % slower (90 % CI -0.6 to +1.9 %): no difference larger than 2 % (equivalent)",
        ),
        ({"verdict": "equivalent", "warnings": "identical in every block"}, "identical in every block (equivalent)"),
        (
            {"verdict": "inconclusive", "lo_pct": -2.0, "hi_pct": 9.0, "p_adj": 0.4},
            "inconclusive, could be -2.0 % to +9.0 %; 24 blocks would settle 2 %",
        ),
        (
            {"verdict": "inconclusive", "lo_pct": -2.0, "hi_pct": 9.0, "p_adj": 0.4, "blocks_needed": 9},
            "inconclusive, could be -2.0 % to +9.0 %; 10 blocks see changes of 3.2 % and more",
        ),
        (
            {"verdict": "inconclusive", "lo_pct": -90.0, "hi_pct": 900.0, "p_adj": 0.4, "blocks_needed": None},
            "inconclusive, could be -90.0 % to +900 %; 9,999 blocks would not settle 2 %",
        ),
        (
            {"verdict": "inconclusive", "p_adj": 0.055, "lo_pct": 0.3, "hi_pct": 3.8},
            (
                "2.0 % slower, not confirmed (95 % CI 0.3 to 3.8 %, adjusted p 0.055, 10 blocks); "
                "24 blocks would settle 2 %"
            ),
        ),
        (
            {"verdict": "inconclusive", "p_adj": None, "warnings": "3 of 10 blocks lack a value"},
            "inconclusive, 3 of 10 blocks lack a value",
        ),
        ({"verdict": "inconclusive (n < 6)", "blocks": 1}, "2.0 % slower, one run each: no verdict"),
        (
            {"verdict": "inconclusive (n < 6)", "blocks": 2},
            "2.0 % slower in 2 blocks: a first look, no verdict",
        ),
        (
            {"verdict": "not comparable", "warnings": "not comparable: candidate never has it"},
            "not comparable, candidate never has it",
        ),
        ({"verdict": "failed"}, "**failed**, see Checks"),
    ],
)
def test_sentences(changes, said):
    """What a person would say, with the numbers that it stands on."""
    assert sentence(ROW | changes, METRICS["duel_typical_ms"]) == said


def test_the_interval_that_decided_is_the_one_shown():
    """An equivalence that only the 90 % interval shows says so; others have that of 95 %."""
    wide = ROW | {"verdict": "equivalent", "lo_pct": -0.9, "hi_pct": 2.2}
    assert numbers.interval(wide) == "-0.6 to +1.9 (90 %)"
    assert numbers.interval(wide | {"hi_pct": 1.9}) == "-0.9 to +1.9"
    assert numbers.interval(wide | {"verdict": "regression"}) == "-0.9 to +2.2"


def test_what_leaves_zero_without_a_verdict_is_not_confirmed(tmp_path):
    """By its adjusted p: in the table, the sentence and the first line; and nobody says that it was slower."""
    run = compared(tmp_path)
    path = run / "stats/comparison.json"
    found = json.loads(path.read_text())
    for row in found["rows"]:
        if row["metric"] == "load_rate":
            row |= {"verdict": "inconclusive", "p_adj": 0.055, "lo_pct": -9.0, "hi_pct": -0.1, "change_pct": -4.0}
    path.write_text(json.dumps(found))
    report.main(run)
    first, rest = text(run).split("\n## ", 1)
    assert "? not confirmed: Ingestion rate (4.0 % slower; adjusted p 0.055)" in first
    assert "4.0 % slower, not confirmed (95 % CI 0.1 to 9.0 %, adjusted p 0.055, 6 blocks)" in first
    assert "? not confirmed (adjusted p 0.055)" in rest
    assert "I.e." not in rest


def test_rows_have_one_order_and_one_name(tmp_path, capsys):
    """Those of the terminal's table, of the picture, of the lines below the answer, and of the tables further down."""
    run = drawn(tmp_path)
    report.print_summary(run)
    table, lines = capsys.readouterr().out.split("──\n")[1].split("\n\n")[:2]
    first, rest = text(run).split("\n## ", 1)
    named = re.findall(r"^- . \*\*(.*?)\*\*", first, re.MULTILINE)
    assert named[0] == "Query time, all types"
    assert [line[2:].split(":")[0] for line in lines.splitlines() if line[1] == " "] == named
    assert [line.split("  ")[0] for line in table.splitlines()][: len(named)] == named
    picture = (run / "plots/change.svg").read_text()
    places = [picture.index(f"<!-- {name} -->") for name in named]
    assert sorted(places) == places
    assert all(f"| {name} " in rest or "all types" in name for name in named)


def test_warnings_are_counted_on_the_first_screen(tmp_path):
    """With a link to them; effects of an order are counted among them."""
    run = compared(tmp_path)
    path = run / "stats/comparison.json"
    found = json.loads(path.read_text())
    row = next(row for row in found["rows"] if row["metric"] == "load_rate")
    row["warnings"] = "order effect +3.1 % (p 0.01)"
    path.write_text(json.dumps(found))
    report.main(run)
    first, rest = text(run).split("\n## ", 1)
    (count,) = re.findall(r"\*\*\[(\d+) warnings?\]\(#checks\)\*\*, 1 order effect among them", first)
    assert len(re.findall("^- ", rest.split("Warnings:")[1].split("\n\n")[1], re.MULTILINE)) == int(count)
    page = (run / "report.html").read_text()
    assert '<a href="#checks">' in page
    assert '<h2 id="checks">' in page


HASHES = {"d1": "master@0123456789ab", "d2": "v1.9.1-0.20260101000000-0123456789ab", "d3": "0123456789ab+01234567"}


def test_many_variants_share_a_matrix(tmp_path, capsys):
    """A row a variant by a name without hashes, the rest folded; the same in the terminal and in the comment."""
    variants = ("baseline", "candidate", *HASHES)
    factors = {"candidate": {"service": 1.05}, "d1": {"service": 0.95}}

    def hashed(plan):
        for variant in plan["variants"]:
            variant["label"] = HASHES.get(variant["name"], variant["label"])

    many = {"variants": variants, "factors": factors, "load_s": 5.0, "exchanges": 60}
    run = made(tmp_path, lambda run: edit_plan(run, hashed), **many)
    first = text(run).split("\n## ", 1)[0]
    assert first.startswith("# synthetic: 4 candidates against v1.132.0\n")
    above = first.split("<details>")[0]
    rows = re.findall(r"^\| (\S+) +\| +(\S+ \S+)", above, re.MULTILINE)
    assert [name for name, _ in rows[-4:]] == ["v1.133.0", "master", "v1.9.1", "d3"]
    assert [cell[-1] for _, cell in rows[-4:]][:2] == ["✗", "✓"]
    assert "**✗ worse** in something: v1.133.0; **✓ better** in something, worse in nothing: master" in above
    assert "0123456789ab" not in above
    assert above.count("**Answer.**") == 1
    assert "![" not in above
    report.print_summary(run)
    said = capsys.readouterr().out
    assert re.search(r"^master +-\d\.\d ✓", said, re.MULTILINE)
    assert "95 % CI" not in said
    assert "| master " in comment.main(run).split("<details>")[0]


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("change", [-4.1, 0.0, 7.0, None])
def test_there_is_always_a_sentence(verdict, change):
    """And "no change" is in none of them."""
    said = sentence(ROW | {"verdict": verdict, "change_pct": change}, METRICS["load_rate"])
    assert said
    assert "no change" not in said
