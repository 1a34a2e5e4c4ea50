"""The report of any run is made, says what it is worth, and looks the same for the same data."""

import gzip
import re
import shutil

import pandas as pd
import pytest
import synthetic
from goldens import golden
from hypothesis import given
from hypothesis import strategies as st
from reports import NAME, compared, drawn, edit_json, edit_plan, made, section, text

from plots import comment, exports, markup, numbers, report, sections
from plots.sections.blocks import _of_mean, values_of
from plots.sentences import sentence
from plots.source import open_source
from tsduel.cli import next_steps
from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS, Metric
from tsduel.stats import compare
from tsduel.stats.verdict import VERDICTS, WIDE
from tsduel.tidy.read import read_table

BLOCKS = "raw/*/*/block.json"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Make the report of a run, with its pictures."""
    return drawn(tmp_path_factory.mktemp("run"))


def test_report_summary_and_comment_are_as_recorded(run, capsys):
    """The whole report, the terminal's table and the comment, to be looked at in review.

    The first screen has question, answer, one picture, a line a subject, and the answers compared; then the sections.
    """
    golden("report.md", text(run))
    report.print_summary(run)
    golden("summary.txt", capsys.readouterr().out.replace(str(run), "RUN"))
    found = comment.main(run)
    assert (run / "comment.md").read_text() == found
    golden("comment.md", found)


@pytest.mark.parametrize(("blocks", "more"), [(1, 6), (4, 8)])
def test_more_blocks_are_named_only_where_they_can_settle_something(tmp_path, blocks, more):
    """Twice as many, and never fewer than a verdict takes."""
    run = compared(tmp_path, blocks=blocks)
    assert f"with BLOCKS={more} settles more of what is inconclusive" in next_steps.text(run)


def test_same_data_same_bytes(run, tmp_path):
    """The same data gives the same report, page and pictures, byte for byte, and no date is in them."""
    one, two = run, drawn(tmp_path)
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


def same_binary(run):
    """Have both sides be the same."""

    def alike(plan):
        for variant in plan["variants"]:
            variant["label"] = "v1.132.0"
            variant["components"][0] |= {"version": "v1.132.0", "ref": "v1.132.0", "revision": "r" * 40}

    edit_plan(run, alike)
    shutil.copy(run / "build/baseline.json", run / "build/candidate.json")


def same_build(run):
    """Have both sides be one build with other flags."""

    def alike(plan):
        first, second = (variant["components"][0] for variant in plan["variants"])
        second |= {"build_key": first["build_key"], "flags": ["-search.disableCache"]}

    edit_plan(run, alike)


def same_loads(run):
    """Have both loads take the same time."""
    for path in run.glob("raw/host1/*/candidate/load.json"):
        shutil.copy(path.parents[1] / "baseline/load.json", path)


def unread_places(run):
    """Have nobody read where an executable lies in memory."""

    def unread(block):
        for place in block["duel"]["places"]:
            place["frames"] = -1

    edit_json(run, BLOCKS, unread)


def more_counted(run):
    """Have a counter begin from none, and another one grow by the same in every block."""

    def counted(block):
        for one in block["duel"]["types"]:
            more = {"cache_misses": one["exchanges"] * 5, "index_searches": one["exchanges"] * 6}
            one["counters"]["candidate"] |= more

    edit_json(run, BLOCKS, counted)


def unrecorded(run):
    """Take away what a host and builds say of themselves."""
    for path in [run / "raw/host1.json", run / "raw/host1/workload.json", *run.glob("build/*.json")]:
        path.unlink()


def killed(run, *blocks):
    """Take these blocks away."""
    for block in blocks:
        shutil.rmtree(run / f"raw/host1/{block:03}")


def loaded_once(run, *again):
    """Leave the checks of a load to the warm-up and these blocks."""

    def checked(block):
        if block["block"] not in {0, *again}:
            block["checks"] = [one for one in block["checks"] if not one["check"].startswith(("samples", "load"))]

    edit_json(run, BLOCKS, checked)


DIED = {"failed": dict.fromkeys((1, 2), ("candidate", "solo", "it died <x>"))}
ONE_LOAD = "That is one load of each, for the picture: it is not judged."
# What befell a run, how it is made, what its report, summary or comment says of it (patterns), what none of them says.
SAID = {
    "a smoke run is no result, and under six blocks is a screen": (
        None, {"blocks": 2, "smoke": True},
        [r"This is not a result", r"a first look, not a result:\*\* 2 valid blocks",
         r"\*\* \? a first look, no verdict: Query time, all types \("], [],
    ),
    "the same binary twice has two names": (
        same_binary, {"aa": True, "factors": {}},
        ["the same binary", r"v1\.132\.0 \(baseline\)", r"v1\.132\.0 \(candidate\)", r"The variants do not differ\.",
         r"A/A: (passed|failed)"], ["a first look, not a result"],
    ),
    "a crash, a failed check, an answer that differed and a spoilt block are told": (
        None,
        {"blocks": 9, "failed": {2: ("candidate", "solo", "the server was killed by signal 9 <html>")},
         "spoilt": {4: "steal of 12 % in the load"},
         "wrong": {3: ("exchanges_same", "", "cpu-max-all-1", "3 of 120 answers differ, the first is exchange 7")}},
        ["killed by signal 9 &lt;html&gt;", "Block 2 does not count",
         "Block 4 does not count: spoilt from outside: steal of 12 % in the load",
         r"\*\*Query time, all types\*\*: .*\*\*failed\*\*", "of them differ\\*\\*", "FAILED",
         "Block 3 cpu-max-all-1: 3 of 120 answers differ, the first is exchange 7",
         r"(?m)^\*\*.*\*\*: \*\*✗ a check failed\*\*: "], [],
    ),
    "that all blocks failed is an answer, and of what, in the report and in the comment": (
        None, {"blocks": 2} | DIED,
        [r"(?s)([:*] \? nothing was measured \(block 1: candidate failed: it died &lt;x&gt;\).*){2}"], [],
    ),
    "answers without data are no evidence, and are counted": (
        None, {"blocks": 6, "empty": 7},
        [r"Compared ([\d,]+) of \1 answers, all the same; 168 of them without data, as they may be\."], [],
    ),
    "counters that do not scatter have moved as well: from none to some, and by the same in every block": (
        more_counted, {},
        [r"Cache misses a query 0 → 5 misses;", r"Index searches a query 3 → 6 searches \(\+100 %\)"], [],
    ),
    "an estimate of nothing is a sentence: nobody says that one was slower": (
        same_loads, {}, [r"\*\*Ingestion rate\*\*: .*identical in every block \(equivalent\)"], [r"I\.e\."],
    ),
    "a killed run says how far it came": (
        lambda run: killed(run, *range(2, 7)), {},
        ["1 block of 6", r"samples sent = .*\| checked 4 of 14 +\| ✓, 10 not made", "1 valid of 6"], [],
    ),
    "blocks on kept data lack no check of a load, but where the data were lost": (
        lambda run: loaded_once(run, 4), {"reload": "once"}, [r"samples sent = .*\| checked 4 of 4 +\| ✓ +\|"],
        ["not made"],
    ),
    "a killed run on kept data lacks the checks of its last block": (
        lambda run: (loaded_once(run), killed(run, 6)), {"reload": "once"},
        [r"samples sent = .*\| checked 2 of 2 +\| ✓ +\|",
         r"The missing checks belong to 1 block of the plan that did not run to the end\."], [],
    ),
    "without a measured block nothing is drawn": (
        lambda run: killed(run, *range(1, 7)), {}, [r"\? nothing was measured", "Left out, since"], [r"!\["],
    ),
    "what was not recorded is not invented": (unrecorded, {}, [], [r"\| kernel"]),
    "a spare block that was not needed lacks nothing": (
        None, {"blocks": 8, "spare_blocks": 2}, [r"Checked (\d+) of \1, none failed"], [],
    ),
    "an inconclusive row says whether longer phases or more blocks help, and what that costs": (
        None, {"exchanges": 40, "within": 0.15, "between": 0.0, "noise": 0.03, "factors": {}},
        [r"\| Query time, double-groupby-1 +\|.*phases \d\.\d times as long \(about \d+ s more\)",
         r"\| Ingestion rate .*BLOCKS=\d+"], [],
    ),
    "sittings that scatter ask for more of them": (
        None, {"exchanges": 200, "within": 0.01, "sitting": 0.08, "between": 0.0, "factors": {}},
        [r"\| Query time, double-groupby-1 .*\| more sittings",
         "a block's ratio is the mean of n sittings and has 1/√n of it"], [],
    ),
    "loads in turn are judged, and the large load alone is told with its rate": (
        None, {"load": "in_turn", "alone_s": 20.0},
        [r"\| Ingestion time of a batch", "CPU of an ingested sample, until acknowledged", re.escape(ONE_LOAD),
         "loaded 21,600,000 samples of 1,500 hosts alone on the machine",
         r"v1\.133\.0: 2\d\.\d+ s \(mean rate [\d,]+ samples/s\)", r"\*\*Ingestion time of a batch\*\*",
         r"Checked ([\d,]+) of \1, none failed"], [],
    ),
    "without a large load its picture is not missed": (
        None, {"load": "in_turn"}, [r"\| Ingestion time of a batch"], ["Left out, since.*load rate over time"],
    ),
    "where nobody can read places, that is said": (
        unread_places, {}, [r"where it lay in memory cannot be read here\."], ["pieces"],
    ),
    # 4 workers at 3,000 queries/s take 1.33 ms in the mean, the p99 of the synthetic run is three times that.
    "without a duel the closed loop of one build has the shift at each percentile in ms": (
        same_build, {"duel": False, "noise": 0.0, "factors": {"candidate": {"solo": 2.0}}},
        [r"\| cpu-max-all-1, shift \(95 % CI\) +\| +\+1\.34.*\+1\.20.*\+2\.67 .*\+4 ",
         r"\| cpu-max-all-1, change \(95 % CI\) +\| +\+\d+ % ", r"No duel: each variant was measured alone only\."],
        ["asked of both"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_what_a_run_says(tmp_path, capsys, case):
    """A report is made of any run, and says what befell it; a terminal shows no marks of Markdown."""
    edit, spec, said, unsaid = SAID[case]
    run = made(tmp_path, edit, **spec)
    report.print_summary(run)
    summary = capsys.readouterr().out
    assert "**" not in summary
    found = "\n".join([text(run), summary, comment.main(run)])
    assert [pattern for pattern in said if not re.search(pattern, found)] == []
    assert [pattern for pattern in unsaid if re.search(pattern, found)] == []


def test_what_differs_is_short_and_in_full_below(tmp_path):
    """Flags, environment and hashes stand side by side; what is the same is said once, in a fold."""

    def flagged(plan):
        plan["variants"][1]["components"][0] |= {"flags": ["-search.disableCache", "-x=a|b"], "env": {"GOGC": "50"}}
        plan["asked"]["knobs"] = {"BLOCKS": "6", "SET": "workload.scale=9 design.seed=2"}

    def changed(run):
        edit_plan(run, flagged)
        why = "8 of 16 CPUs are used: the fast cores of one NUMA node"
        edit_json(run, "raw/host1.json", lambda facts: facts["pin"].update(reason=why))

    run = made(tmp_path, changed)
    above, below = section(run, "What differs").split("<details>")[:2]
    assert re.search(r"\| flags +\| none +\| `-search\.disableCache", above)
    assert re.search(r"\| environment +\| none +\| `GOGC=50`", above)
    assert "| baseline0000… |" in above
    assert f"{'baseline':0<64}" in below
    assert re.search(r"\| Go +\| go1\.25\.5 +\|\n", below)
    pinned = r"server on CPU 2, 3, 4, 5, 6, 7, client on CPU 0, 1 \(8 of 16 CPUs are used: [^(|]+\)"
    assert re.search(rf"pins in the duel +\| {pinned} +\|", below)
    command = "make tsbs EXPERIMENT=experiments/local.yml BLOCKS=6 'SET=workload.scale=9 design.seed=2'\n"
    assert command in text(run)


def test_blocks_that_failed_at_their_first_query_type_leave_the_picture_of_the_others(tmp_path):
    """Of two such, whose first types differ, no type is in every block: means are drawn of the whole blocks."""

    def died(run):
        for block, kept in ((1, "cpu-max-all-1"), (2, "double-groupby-1")):
            path = run / f"raw/host1/{block:03}/duel/exchanges.csv.gz"
            head, *rows = gzip.decompress(path.read_bytes()).decode().splitlines()
            rows = [row for row in rows if row.startswith(kept)][:1]
            path.write_bytes(gzip.compress("\n".join([head, *rows, ""]).encode()))
            where = {"variant": "candidate", "part": "duel", "phase": "exchange", "query_type": kept}
            synthetic.edit(path.parents[1] / "block.json", status="failed", failures=[where | {"message": "gone"}])

    run = made(tmp_path, died, blocks=8)
    assert "6 blocks of 8" in text(run)
    values = values_of(open_source(run), "duel_typical_ms", "geomean")
    assert set(values["block"]) == {0, 3, 4, 5, 6, 7, 8}


def test_a_terminal_shows_what_markdown_means(capsys):
    """Marks are left out, and so is what keeps other letters from being marks; it obeys nothing."""
    said = f"**{markup.text('a*b_c [::1] <nil> & $5')}** is `x`"
    assert report.plain(said) == "a*b_c [::1] <nil> & $5 is x"
    assert report.plain(markup.text("a\x1b[2Jb")) == "a [2Jb"
    report.print_table(["metric", "a\x1b[2J"], [["\x1b]0;b\x07", "\x9b31m"]])
    assert not set("\x1b\x07\x9b") & set(capsys.readouterr().out)


@pytest.mark.parametrize("stage", [report, comment, exports])
def test_a_report_before_compare_is_a_sentence(tmp_path, stage):
    """What to do first is said."""
    run = synthetic.write_run(tmp_path / NAME, synthetic.Spec(blocks=1, exchanges=20))
    with pytest.raises(UserError, match=f"make compare RUN={NAME}"):
        stage.main(run)


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
    process = section(run, "The server's process and its database")
    assert re.search(r"\| Compactions +\|.*\| +4\.\d+ +\| +5\.\d+ \|", process)
    assert "**p75**" in section(run, "Queries, asked in turn")
    assert "shift at p75, ms (95 % CI)" in section(run, "Queries, asked in turn")
    assert "Compactions 4.00" in section(run, "What moved with it")


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
    before = re.findall(r"^## (.*)$", text(run), re.MULTILINE)
    (tmp_path / "more").mkdir()
    (tmp_path / "more/settling.py").write_text(SECTION)
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(tmp_path / "more")])
    monkeypatch.setattr(sections, "_SECTIONS", list(sections._SECTIONS))
    report.main(run)
    at = before.index("The server's process and its database") + 1
    assert re.findall(r"^## (.*)$", text(run), re.MULTILINE) == [*before[:at], "Settling", *before[at:]]
    assert "| Drain time after the load " in section(run, "Settling")


@pytest.mark.parametrize(
    ("printer", "values"),
    [
        (
            numbers.number,
            {1716771.07: "1,717,000", 42190959504: "42,190,000,000", 4009.0: "4,009", 815.43: "815.4", 1.38: "1.380",
             0.0123456: "0.01235", 0.304: "0.3040", 999.96: "1,000", 0: "0", 10.0: "10", -3.14159: "-3.142"},
        ),
        (
            numbers.change,
            {8.1234: "+8.1", -0.04: "0.0", 142.3: "+142", 99.97: "+100", 9340.2: "+9,340", -12.35: "-12.3"},
        ),
        (numbers.probability, {0.0497: "0.05", 0.0503: "0.0503", 0.05000003: "0.05000003"}),
        (numbers.probability, {1: "1", 0.001953125: "0.002", 0.00023: "0.0002", 7e-06: "<0.0001"}),
    ],
)  # fmt: skip
def test_numbers(printer, values):
    """Four significant digits, and thousands readable; a change has a sign unless it is nothing; a p has two digits."""
    assert {value: printer(value) for value in values} == values
    assert printer(None) == numbers.MISSING


@given(st.floats(-1e15, 1e15))
def test_printed_numbers_are_close(value):
    """What is printed is within half a unit of the fourth digit."""
    assert float(numbers.number(value).replace(",", "")) == pytest.approx(value, rel=6e-4)


ROW = {
    "baseline_pseudomedian": 0.238712, "candidate_pseudomedian": 0.243581,
    "change_pct": 2.0412, "lo_pct": 1.84, "hi_pct": 2.24,
    "p_adj": 0.002, "blocks": 10, "mde_pct": 3.2, "blocks_needed": 24, "verdict": "regression", "clear": False,
    "threshold_pct": 2.0, "warnings": "", "unit": "ms", "range_pct": None, "lo90_pct": -0.6, "hi90_pct": 1.9,
}  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "verdict", "sides", "interval"),
    [
        (1.84, 2.24, "regression", ["0.2387", "0.2436"], "+1.8 to +2.2"),
        (0.6, 3.5, "regression", ["0.239", "0.244"], "+0.6 to +3.5"),
        (-12.0, 18.0, "inconclusive", ["0.239", "0.244"], "-12.0 to +18.0"),
        (None, None, "regression", ["0.2387", "0.2436"], numbers.MISSING),
        (-0.9, 2.2, "equivalent", ["0.239", "0.244"], "-0.6 to +1.9 (90 %)"),
        (-0.9, 1.9, "equivalent", ["0.239", "0.244"], "-0.9 to +1.9"),
        (-2.9, -0.0027, "inconclusive", ["0.239", "0.244"], "-2.9 to -0.003"),
        (-2.9, 0.0027, "inconclusive", ["0.239", "0.244"], "-2.9 to 0.0"),
    ],
)
def test_digits_follow_the_interval_and_it_is_the_one_that_decided(low, high, verdict, sides, interval):
    """What the next session would change is not printed; an equivalence that only the 90 % interval shows says so."""
    row = ROW | {"lo_pct": low, "hi_pct": high, "verdict": verdict}
    assert numbers.sides(row) == ("ms", sides)
    assert (numbers.changed(row), numbers.interval(row)) == ("+2.0", interval)


@pytest.mark.parametrize(
    ("unit", "values", "printed"),
    [
        ("B", (950e6, 1440911360.0), ("GB", ["0.9500", "1.441"])),
        ("sec/op", (745.1e-6, 9e-5), ("µs/op", ["745.1", "90.00"])),
        ("B/op", (5985272.0, None), ("MiB/op", ["5.708", numbers.MISSING])),
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
    ("change", "apart"),
    [
        ({}, False),  # of +2.04 %, as the change
        ({"change_pct": 2.9, "lo_pct": 2.5, "hi_pct": 3.3}, True),
        ({"change_pct": 2.08, "lo_pct": 2.06, "hi_pct": 2.1}, False),  # nobody sees that
        ({"change_pct": 2.9, "lo_pct": 1.0, "hi_pct": 4.9}, False),  # little beside what chance does
        ({"change_pct": -2.0, "lo_pct": -3.0, "hi_pct": 3.0}, True),  # the other way
        ({"change_pct": 2.9, "lo_pct": 2.5, "hi_pct": 3.3, "threshold_pct": 0.0}, False),  # of databases
    ],
)
def test_two_values_whose_quotient_is_another_change_are_told(change, apart):
    """Each is estimated for its side; the change is of the blocks."""
    assert numbers.apart(ROW | change) is apart


OPEN = {"verdict": "inconclusive", "lo_pct": -2.0, "hi_pct": 9.0, "p_adj": 0.4}
SCREEN = {"verdict": "inconclusive (n < 6)"}
DECIDES = "9.0 % faster block by block, which decides"
BETTER = {"verdict": "improvement", "clear": True, "change_pct": -9.0, "lo_pct": -12.0, "hi_pct": -6.0}
SAME = {"verdict": "equivalent"}
P, BELOW = "adjusted p 0.002", "real, but below the 0.2 % that matter"
COUNTED = {"threshold_pct": 0.2, "change_pct": 0.24, "lo_pct": 0.21, "hi_pct": 0.27}
LOW = "real; its estimate is below the 2 % that matter, and up to 2.2 % is possible"
FOUND = "2.0 % slower (95 % CI 1.8 to 2.2 %, adjusted p {} blocks)"
UNSURE = "2.0 % slower, not confirmed (95 % CI 0.3 to 3.8 %, adjusted p 0.055, 10 blocks)"
NEVER = {"verdict": "not comparable", "warnings": "not comparable: candidate never has it"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, f"{FOUND.format('0.002, 10')}: regression"),
        (BETTER, f"{DECIDES} (95 % CI 6.0 to 12.0 %, adjusted p 0.002, 10 blocks): clear improvement"),
        (
            {"lo_pct": None, "hi_pct": None, "p_adj": None, "clear": True},
            "2.0 % slower (the same in each of 10 blocks): clear regression",
        ),
        (
            {"verdict": "negligible", "blocks": 9, "p_adj": 0.5},
            f"{FOUND.format('0.5, 9')}: real, but below the 2 % that matter (negligible)",
        ),
        (
            {"lo_pct": 0.0027},
            "2.0 % slower (95 % CI 0.003 to 2.2 %, adjusted p 0.002, 10 blocks): regression",
        ),
        (
            COUNTED | {"verdict": "regression"},
            "0.24 % slower (95 % CI 0.21 to 0.27 %, adjusted p 0.002, 10 blocks): regression",
        ),
        (
            COUNTED | {"verdict": "negligible", "change_pct": 0.004, "lo_pct": 0.002, "hi_pct": 0.06},
            f"0.004 % slower (95 % CI 0.002 to 0.060 %, {P}, 10 blocks): {BELOW} (negligible)",
        ),
        (
            {"verdict": "negligible", "warnings": f"x; {WIDE}"},
            f"{FOUND.format('0.002, 10')}: {LOW} (negligible)",
        ),
        (
            SAME | {"change_pct": 0.001, "lo_pct": -0.4, "hi_pct": 0.4},
            "estimate 0.0 % (95 % CI -0.4 to +0.4 %): no difference larger than 2 % (equivalent)",
        ),
        (
            SAME | {"change_pct": 0.7, "lo_pct": -0.9, "hi_pct": 2.2},
            "0.7 % slower (90 % CI -0.6 to +1.9 %): no difference larger than 2 % (equivalent)",
        ),
        (SAME | {"warnings": "identical in every block"}, "identical in every block (equivalent)"),
        (OPEN, "inconclusive, could be -2.0 % to +9.0 %; 24 blocks would settle 2 %"),
        (
            OPEN | {"blocks_needed": 9},
            "inconclusive, could be -2.0 % to +9.0 %; 10 blocks see changes of 3.2 % and more",
        ),
        (
            OPEN | {"lo_pct": -90.0, "hi_pct": 900.0, "blocks_needed": None},
            "inconclusive, could be -90.0 % to +900 %; 9,999 blocks would not settle 2 %",
        ),
        (
            OPEN | {"p_adj": 0.055, "lo_pct": 0.3, "hi_pct": 3.8},
            f"{UNSURE}; p is adjusted for all metrics of its family: more blocks decide",
        ),
        (OPEN | {"p_adj": None, "warnings": "3 blocks lack a value"}, "inconclusive, 3 blocks lack a value"),
        (SCREEN | {"blocks": 1}, "2.0 % slower, one run each: no verdict"),
        (SCREEN | {"blocks": 2}, "2.0 % slower in 2 blocks: a first look, no verdict"),
        (NEVER, "not comparable, candidate never has it"),
        ({"verdict": "failed"}, "**failed**, see Checks"),
    ],
)  # fmt: skip
def test_sentences(changes, said):
    """What a person would say, with the numbers that it stands on."""
    assert sentence(ROW | changes, METRICS["duel_typical_ms"]) == said


@pytest.fixture
def with_a_row(run, tmp_path):
    """Return a function that makes a report with another row of the ingestion rate, its first screen and the rest."""

    def said(**changes):
        other = shutil.copytree(run, tmp_path / NAME)
        edit_json(other, "stats/comparison.json", lambda document: next(
            row for row in document["rows"] if row["metric"] == "load_rate"
        ).update(changes))  # fmt: skip
        report.main(other)
        return text(other).split("\n## ", 1)

    return said


def test_what_leaves_zero_without_a_verdict_is_not_confirmed(with_a_row):
    """By its adjusted p: in the table, the sentence and the first line; and nobody says that it was slower."""
    edges = {"lo_pct": -9.0, "hi_pct": -0.1, "change_pct": -4.0}
    first, rest = with_a_row(verdict="inconclusive", p_adj=0.055, **edges)
    assert "? not confirmed: Ingestion rate (4.0 % slower; adjusted p 0.055)" in first
    assert "4.0 % slower, not confirmed (95 % CI 0.1 to 9.0 %, adjusted p 0.055, 6 blocks)" in first
    assert "? not confirmed (adjusted p 0.055)" in rest
    assert "I.e." not in rest


def test_what_got_worse_far_below_stands_in_the_first_line(tmp_path):
    """FAIL_ON=regression sees it, too. A metric is named once, by its mean where that is worse."""
    other = made(tmp_path, None, factors={})

    def worse(document):
        for row in document["rows"]:
            if row["metric"] == "duel_total_ms":
                row.update(verdict="regression", change_pct=5.0, lo_pct=4.0, hi_pct=6.0, p_adj=0.01)

    edit_json(other, "stats/comparison.json", worse)
    report.main(other)
    first, _ = text(other).split("\n|", 1)
    assert "Also **✗ worse**: Total query time, all types (+5.0 %)." in first


def test_what_got_worse_in_a_calm_mean_stands_in_the_first_line(tmp_path):
    """Also where something else is better."""
    other = made(tmp_path, None, factors={})
    worse = {"verdict": "regression", "change_pct": 5.0, "lo_pct": 4.0, "hi_pct": 6.0, "p_adj": 0.01}

    def change(document):
        of_type = [row for row in document["rows"] if row["metric"] == "duel_typical_ms"]
        of_type[0].update(worse)
        next(row for row in document["rows"] if row["metric"] == "load_rate").update(worse | {"verdict": "improvement"})

    edit_json(other, "stats/comparison.json", change)
    report.main(other)
    first, _ = text(other).split("\n|", 1)
    assert "**✓ better**: Ingestion rate" in first
    assert re.search(r"Query time, all types \(.*1 of \d+ worse, largest ", first)


def test_rows_have_one_order_and_one_name(run, capsys):
    """Those of the terminal's table, of the picture, of the lines below the answer, and of the tables further down."""
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


def test_all_of_the_users_queries_are_the_mix_in_the_first_line_too(run, tmp_path):
    """As in the table, once their mix was asked."""
    other = shutil.copytree(run, tmp_path / NAME)
    edit_json(other, "stats/comparison.json", lambda document: document["rows"].append(
        next(row for row in document["rows"] if row["metric"] == "duel_typical_ms") | {"query_type": "mix"}
    ))  # fmt: skip
    report.main(other)
    first = text(other).split("\n|", 1)[0]
    assert "Query time, the mix" in first
    assert "all types" not in first


def test_a_mean_is_that_of_the_mix_where_there_is_one():
    """As tsduel/stats/compare.py makes it; all types together are in none."""
    types = pd.DataFrame({"query_type": ["all", "geomean", "a", "b", "mix"]})
    assert _of_mean(types)["query_type"].tolist() == ["mix"]
    assert _of_mean(types[:4])["query_type"].tolist() == ["a", "b"]


def test_warnings_are_counted_on_the_first_screen(with_a_row, tmp_path):
    """With a link to them; effects of an order are counted among them."""
    first, rest = with_a_row(warnings="order effect +3.1 % (p 0.01)")
    (count,) = re.findall(r"\*\*\[(\d+) warnings?\]\(#checks\)\*\*, 1 order effect among them", first)
    assert len(re.findall("^- ", rest.split("Warnings:")[1].split("\n\n")[1], re.MULTILINE)) == int(count)
    page = (tmp_path / NAME / "report.html").read_text()
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
    worse, better = "**✗ worse** in something", "**✓ better** in something, shown to be worse in nothing"
    assert f"{worse}: v1.133.0; {better}: master" in above
    assert "0123456789ab" not in above
    assert above.count("**Answer.**") == 1
    assert text(run).count("| Bytes on disk  ") == len(variants) - 1
    assert "![" not in above
    report.print_summary(run)
    said = capsys.readouterr().out
    assert re.search(r"^master +-\d\.\d ✓", said, re.MULTILINE)
    assert "95 % CI" not in said
    assert "| master " in comment.main(run).split("<details>")[0]
    edit_json(run, "stats/comparison.json", lambda document: next(
        row for row in document["rows"] if (row["candidate"], row["metric"]) == ("d1", "duel_total_ms")
    ).update(verdict="regression"))  # fmt: skip
    assert "**✗ worse** in something: v1.133.0, master" in comment.main(run)

    def spoil(document):
        for row in document["rows"]:
            if row["candidate"] == "d2":
                row["verdict"] = "failed"
            if row["candidate"] == "d3":
                row.update(baseline_median=None, candidate_median=None, verdict="inconclusive (n < 6)")

    edit_json(run, "stats/comparison.json", spoil)
    said = comment.main(run)
    assert f"✗ a check failed: v1.9.1; {worse}: v1.133.0, master; ? nothing was measured: d3." in said


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("change", [-4.1, 0.0, 7.0, None])
def test_there_is_always_a_sentence(verdict, change):
    """And "no change" is in none of them."""
    said = sentence(ROW | {"verdict": verdict, "change_pct": change}, METRICS["load_rate"])
    assert said
    assert "no change" not in said
