"""`make yardstick`: the file of pairs, what its judges say, and the tables that are made of it."""

from types import SimpleNamespace

import pytest
import yaml

from bench import ledger, pace, pairs, quick, yardstick
from bench.pairs import TRUTH
from bench.yardstick import COLUMNS, JUDGES
from tsduel.calibrate.planted import PLANTS
from tsduel.core.errors import UserError
from tsduel.core.metrics import METRICS
from tsduel.question import read

BOOK = yardstick.truth()
PLACES = {"{victoriametrics}": pairs.VICTORIAMETRICS, "{planted}": "/planted", "{checkout}": "/checkout"}


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Keep lines, page and runs in a directory of the test; nothing is planted."""
    monkeypatch.setattr(yardstick, "LINES", tmp_path / "yardstick/runs.csv")
    monkeypatch.setattr(yardstick, "PAGE", tmp_path / "yardstick.md")
    monkeypatch.setattr(quick, "RESULTS", tmp_path)
    monkeypatch.delenv("SET", raising=False)
    yardstick.PAGE.write_text(f"before\n{yardstick.BEGIN}\nold\n{yardstick.END}\nafter\n")
    return tmp_path


def filled(text):
    """Return a source with its places."""
    for name, place in PLACES.items():
        text = text.replace(name, place)
    return text


def line(pair, judge, verdict, sign="", size="", **more):
    """Return a line of the results."""
    row = dict.fromkeys(COLUMNS, "") | {"pair": pair, "judge": JUDGES[judge][0], "protocol": str(yardstick.PROTOCOL)}
    row |= {"date": "2026-11-27", "machine": "AMD, 2 CPUs", "minutes": "3.0"}
    return row | {"verdict": verdict, "sign": sign, "size_pct": size} | more


def test_twelve_pairs_differ_and_twelve_do_not():
    """Each with the source of its truth, what is asked, and a row that answers it for every judge."""
    assert [bool(pair.sign) for pair in BOOK.pairs.values()].count(True) == 12
    assert len(BOOK.pairs) == 24
    for pair in BOOK.pairs.values():
        assert pair.source
        question = BOOK.questions[pair.asked]
        assert {words.split()[0] for words in (*question.ours, *question.work, question.tsbs)} <= set(METRICS)


@pytest.mark.parametrize("name", BOOK.pairs)
def test_every_judge_of_ours_can_ask_about_every_pair(name, monkeypatch):
    """What is planted is there, and the experiment that each of them runs is valid."""
    pair, planted = BOOK.pairs[name], {"base", *(plant.name for plant in PLANTS)}
    refs = [text.rpartition("@")[2] for text in (pair.baseline, pair.candidate) if "{planted}" in text]
    assert set(refs) <= planted
    sides = {"BASELINE": filled(pair.baseline), "CANDIDATE": filled(pair.candidate)}
    monkeypatch.setattr(yardstick, "sources", lambda _: sides)
    load = BOOK.loads[pair.load]
    for settings in (
        (load.quick,),
        (yardstick.GATE, load.gate),
        (yardstick.ALONE, "design.blocks=1", load.one),
        (yardstick.ALONE, "design.blocks=3", load.five),
    ):
        asked = read.read({"EXPERIMENT": load.experiment, **yardstick.knobs(pair, load, *settings)})
        assert len(asked.settings) == 1


def test_a_wrong_file_of_pairs_is_one_sentence(tmp_path, monkeypatch):
    """It names the field."""
    written = yaml.safe_load(TRUTH.read_text())
    written["pairs"]["slow-2"]["sign"] = "more"
    (tmp_path / "pairs.yaml").write_text(yaml.safe_dump(written))
    monkeypatch.setattr(pairs, "TRUTH", tmp_path / "pairs.yaml")
    with pytest.raises(UserError, match=r"pairs\.yaml: pairs\.slow-2\.sign: Input should be"):
        yardstick.truth()


def test_the_gate_sets_what_the_experiment_of_make_gate_has():
    """But for its data and its number of blocks, which are a load's, and for the limits of noise."""
    asked = read.read({"EXPERIMENT": "experiments/gate.yml"}).settings[0].asked
    same = read.read({"EXPERIMENT": "experiments/quick.yml", "SET": yardstick.GATE}).settings[0].asked
    assert same.duel == asked.duel
    assert same.settle == asked.settle
    own = {"blocks", "spare_blocks", "seed", "warmup_blocks"}
    assert same.design.model_dump(exclude=own) == asked.design.model_dump(exclude=own)


class TestJudges:
    """What judges say."""

    def test_the_last_line_of_a_command_is_its_verdict(self):
        """Minutes are measured unless it gives its own."""
        said = yardstick.said("x", 'words\n{"verdict": "differs", "sign": "-", "size_pct": -2}\n', 1.5)
        assert (said.verdict, said.sign, said.size_pct, said.minutes) == ("differs", "-", -2, 1.5)
        assert yardstick.said("x", '{"verdict": "same", "minutes": 3}', 1.5).minutes == 3

    @pytest.mark.parametrize("output", ["", "faster!", "[]", '{"verdict": "maybe"}', '{"verdict": "same", "p": 1}'])
    def test_what_is_no_verdict_is_refused_in_a_sentence(self, output):
        """It says what a judge has to print."""
        with pytest.raises(UserError, match=r"^JUDGE: sh x has to print one line like \{.*, and printed [^\n]*$"):
            yardstick.said("sh x", output, 1)

    @pytest.mark.usefixtures("kept")
    def test_a_command_gets_both_programs_and_its_minutes(self, kept, monkeypatch):
        """Built for it before its minutes begin; one that fails is named."""

        def built(*_):
            for side in ("baseline", "candidate"):
                path = kept / f"yardstick-slow-2-programs/build/{side}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f'{{"components": [{{"role": "server", "binary": "/{side}"}}]}}')

        monkeypatch.setattr(quick, "make", built)
        monkeypatch.setattr(yardstick, "sources", lambda _: {"BASELINE": "b", "CANDIDATE": "c"})
        seen = "$BASELINE_PROGRAM $CANDIDATE_PROGRAM $BASELINE $ASKED $MINUTES"
        say = f"""printf '{{"verdict": "same", "also": ["%s"]}}' "{seen}" """
        assert yardstick.by_command(say, "slow-2", BOOK).also == ("/baseline /candidate b time 5",)
        with pytest.raises(UserError, match="JUDGE: exit 3 ended with exit code 3"):
            yardstick.by_command("exit 3", "slow-2", BOOK)

    def test_values_of_tsbs_are_those_of_a_side_alone(self, kept):
        """Over all types their geometric mean, or their sum; nothing of the duel."""
        table = kept / "run/tidy/measurements.csv"
        table.parent.mkdir(parents=True)
        rows = [
            "1,baseline,solo,query,a,query_mean_ms,2,ms",
            "1,baseline,solo,query,b,query_mean_ms,8,ms",
            "1,baseline,duel,query,b,query_mean_ms,80,ms",
        ]
        table.write_text("\n".join(["block,variant,part,phase,query_type,metric,value,unit", *rows]) + "\n")
        for words, value in (("geomean", 4.0), ("all", 10.0), ("b", 8.0)):
            assert yardstick.alone("run", f"query_mean_ms {words}") == {(1, "baseline"): pytest.approx(value)}
        assert yardstick.alone("run", "load_cpu_seconds") == {}

    def test_judge_is_names_of_ours_or_one_command(self, monkeypatch):
        """All of ours, unless it is given; a command has the name of its file."""
        for given, judges in (("", list(JUDGES)), ("five gate", ["five", "gate"]), ("sh x.sh", ["sh x.sh"])):
            monkeypatch.setenv("JUDGE", given)
            assert yardstick.judges() == judges
        assert yardstick.title("sh far/x.sh") == "x"
        monkeypatch.setenv("JUDGE", "quik")
        with pytest.raises(UserError, match="JUDGE: quik is neither one of quick, gate, one, five nor a program"):
            yardstick.judges()

    def test_minutes_that_are_no_number_are_refused_in_a_sentence(self):
        """Of a proof as well."""
        with pytest.raises(UserError, match="MINUTES: 'soon' is no number of minutes"):
            ledger.deadline(["soon"])


class TestPace:
    """With which settings a judgement would have taken the minutes that are meant."""

    def run(self, path, seconds, *, duel, phases=()):
        """Return a run whose first block is a warm-up if it is a duel."""
        lines = [f"1,baseline,solo,{phase},,{begin},{end}" for phase, begin, end in phases]
        (path / "tidy").mkdir(parents=True)
        (path / pace.PHASES).write_text("\n".join(["block,variant,part,phase,query_type,begin,end", *lines]) + "\n")
        blocks = [SimpleNamespace(block=n, started=0.0, ended=took) for n, took in enumerate(seconds)]
        plan = SimpleNamespace(duel=SimpleNamespace(enabled=duel), queries=SimpleNamespace(count=1000))
        return SimpleNamespace(path=path, blocks=blocks, warmups={0} if duel else set(), plan=plan)

    def test_of_a_duel_it_is_the_number_of_blocks(self, tmp_path):
        """Behind the warm-up block, which takes longer."""
        assert pace.fitting([self.run(tmp_path, [40.0, 19.0, 21.0], duel=True)], 5) == "design.blocks=13"

    def test_of_sides_that_run_alone_it_is_the_number_of_queries(self, tmp_path):
        """What starts and loads take is not changed by it."""
        phases = [("load", 0, 30), ("query", 30, 40), ("query", 41, 51)]
        runs = [self.run(tmp_path / name, [60.0], duel=False, phases=phases) for name in "ab"]
        assert pace.fitting(runs, 4) == "queries.count=4000"
        assert pace.fitting(runs, 0.5) == "queries.count=1"


class TestTable:
    """What is made of the lines."""

    def cells(self, known):
        """Return the cells of all rows of the tables, by their first."""
        rows = [line.split("|")[1:-1] for line in yardstick.table(known, BOOK).splitlines()]
        return {row[0].strip(" `"): [cell.strip() for cell in row[1:]] for row in rows if row}

    def test_it_counts_what_was_found_and_false_alarms(self):
        """Another sign is not found; what was not asked is a false alarm where nothing differs; the rest is missing."""
        cells = self.cells([
            line("slow-2", "quick", "differs", "+", "2.5"),
            line("slow-1", "quick", "differs", "-", "-1.0"),
            line("slow-0.5", "quick", "same", "+", "0.1"),
            line("comments", "quick", "same", "+", "0.1", also="duel_load_cpu_us"),
            line("moved", "quick", "same", "-", "-0.1"),
        ])  # fmt: skip
        assert cells["ours (quick)"] == ["1 of 3", "1", "1 of 2", "0.5", "3.0", "19"]
        assert cells["ours (gate)"] == ["0 of 0", "0", "0 of 0", "", "", "24"]
        assert cells["slow-2"][:3] == ["time", "+2 %", "found +2.5 %"]
        assert [cells[name][2].split(" ")[0] for name in ("slow-1", "slow-0.5", "moved")] == [
            "wrong",
            "missed",
            "quiet",
        ]
        assert cells["comments"][2] == "FALSE ALARM in 1 other metric (asked: +0.1 %)"

    def test_our_misses_stand_first(self):
        """Before what others missed."""
        known = [line("slow-2", "one", "same"), line("type-5", "quick", "same"), line("links", "gate", "differs")]
        names = [name for name in self.cells(known) if name in BOOK.pairs]
        assert names[:2] == ["type-5", "links"]

    @pytest.mark.usefixtures("kept")
    def test_what_has_a_line_is_not_judged_again(self):
        """Pairs that differ and others come in turns; the page says when and where."""
        ledger.add(yardstick.LINES, COLUMNS, line("vm-buffers", "quick", "same"), yardstick.PROTOCOL)
        order = list(yardstick.missing(yardstick.lines(), yardstick.ordered(BOOK), ["quick", "five"]))
        assert order[:3] == [("vm-buffers", "five"), ("logs-written", "quick"), ("logs-written", "five")]
        yardstick.page()
        text = yardstick.PAGE.read_text()
        assert "Machines: AMD, 2 CPUs. Measured: 2026-11-27." in text
        assert "old" not in text
