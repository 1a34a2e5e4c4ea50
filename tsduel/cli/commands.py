"""Every command: its topic, its sentence, the module that does it, and the knobs that it takes. No library is needed.

`python -m tsduel.cli.commands` prints what `make help` says, also on a fresh clone; with a word that is no target of
make, the nearest one.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsduel.cli.knobs import KNOBS
from tsduel.core import results
from tsduel.core.errors import UserError
from tsduel.core.wording import did_you_mean
from tsduel.question import experiments

Call = Callable[[Any, Path], int | None]
RUN, RESULTS = "of one run", "of all runs"


@dataclass(frozen=True)
class Command:
    """One command. ``scope``: RUN or RESULTS; ``groups``: the groups of its knobs.

    ``call`` gets the module and the run's directory (that of all runs unless the scope is RUN). It returns an exit
    code, or None for 0. Modules are loaded late, and so are their libraries.
    """

    topic: str
    help: str
    module: str
    call: Call = lambda module, run_dir: module.main(run_dir)
    scope: str = RUN
    groups: tuple[str, ...] = ("run",)
    makes_run: bool = False
    logged: bool = False  # in run.log
    alone: bool = False  # it writes into the run, as one command at a time may
    of_study: bool = False  # the module knows a study as well

    @property
    def knobs(self) -> Iterator[str]:
        """The knobs that the command takes, in the order of its groups."""
        return (name for group in self.groups for name, knob in KNOBS.items() if knob.group == group)


def _report(report: Any, run_dir: Path) -> Any:
    is_study = (run_dir / results.STUDY).exists()
    report = importlib.import_module("plots.sweep") if is_study else report
    report.main(run_dir)
    exported = "" if is_study else importlib.import_module("plots.exports").main(run_dir)
    code = importlib.import_module("tsduel.stats.outcome").exit_code(run_dir, os.environ.get("FAIL_ON", ""))
    if os.environ.get("TSDUEL_JSON"):
        print((run_dir / "stats/comparison.json").read_text(encoding="utf-8"), end="")
        return code
    report.print_summary(run_dir)
    if not is_study:
        print(exported, importlib.import_module("tsduel.cli.next_steps").text(run_dir), sep="\n")
    return code


def _reap(*_: object) -> Any:
    place = "k8s" if _ENV.get("TARGET", "").strip() == "k8s" else "gcp"
    return importlib.import_module(f"tsduel.places.{place}.reap").main()


_CONTROL, _ENDING, _ENV = "tsduel.rounds.control", "tsduel.rounds.ending", os.environ
_ASKED = ("question", "code", "tsbs", "place", "rented", "run", "view", "cache")
_COMPARE, _STAGES, WHILE = "Compare", "Stages (each reads what the one before wrote)", "While the blocks run"
_RENTED, _SHARE, _LOGS, _HOUSE = "Rented machines and pods", "Share", "Your own logs", "Housekeeping"


def _whole(topic: str, text: str, name: str, *groups: str) -> Command:
    # What a command is about comes before what it shares with others.
    return Command(topic, text, "tsduel.cli.pipeline", lambda m, *_: getattr(m, name)(), RESULTS, (*groups, *_ASKED))


SIDES = ("BASELINE", "CANDIDATE", "VERSIONS")
"""Knobs in whose place `tsduel here` and `tsduel watch` take words."""
WORDS = {"museum": "EXHIBIT", "queries-check": "QUERIES"}
"""Commands whose words are the values of a knob."""
COMMANDS = {
    "doctor": Command(
        "Before anything", "is all here, or with TARGET= there, that a run needs? It changes nothing",
        "tsduel.doctor.__main__", lambda m, *_: m.main("full"), RESULTS, _ASKED,
    ),
    "tsbs": _whole(_COMPARE, "compare two versions: all the stages below", "tsbs"),
    "gate": _whole(
        _COMPARE, "does CANDIDATE do more for an answer? Objects and bytes, counted: a minute and a half, any machine",
        "gate",
    ),
    "gobench": _whole(_COMPARE, "compare Go benchmarks of two revisions of a module, in the same way", "gobench"),
    "bisect": _whole(
        _COMPARE, "since when? GOOD= BAD= METRIC=cpu: the first bad (or better) version or commit, found by duels",
        "bisect", "search",
    ),
    "worst": _whole(
        _COMPARE, "in which load does CANDIDATE lose most? Searched for MINUTES=60, then measured anew",
        "worst", "search", "worst",
    ),
    "history": _whole(
        _COMPARE, 'METRIC= over VERSIONS="v1.128.0 v1.129.0 ...", all in one run, as a table and a picture',
        "history", "search",
    ),
    "museum": Command(
        _COMPARE, "regressions that people reported: list them, or run EXHIBIT=vm-gogc, several with spaces, or all",
        "plots.museum", lambda m, results: m.main(_ENV.get("EXHIBIT", "").split(), _ENV, results),
        RESULTS, ("museum", *_ASKED),
    ),
    "queries-check": Command(
        _COMPARE, "try your own queries of a file on a small load: series, points, time; do both sides agree?",
        "tsduel.doctor.queries", lambda m, results: m.main(_ENV, results), RESULTS, ("queries", *_ASKED),
    ),
    "calibrate": _whole(
        _COMPARE, "what this machine can tell apart, and in what time: three quick runs of a version that we know",
        "calibrate",
    ),
    "plan": Command(
        _STAGES, "resolve the experiment and draw the order of blocks", "tsduel.studies.settings",
        lambda m, run: m.plan(run, _ENV), groups=_ASKED, makes_run=True, logged=True, of_study=True,
    ),
    "provision": Command(
        _STAGES, "say where the blocks run; with TARGET=gcp or k8s, make that", "tsduel.places.provision",
        groups=("run", "rented"), logged=True, alone=True,
    ),
    "build": Command(
        _STAGES, "Ansible: install what is missing, and build tsduel-host, TSBS and the variants",
        "tsduel.build.ansible", groups=("run", "view", "cache"), logged=True, alone=True,
    ),
    "run": Command(
        _STAGES, "tsduel-host: every block that has not been run yet", "tsduel.rounds.run",
        groups=("run", "view", "cache"), logged=True, alone=True,
    ),
    "give-back": Command(
        _STAGES, "TARGET=gcp or k8s: destroy, once all blocks are at home (KEEP=1: not)", _ENDING,
        lambda m, run: m.main(run, _ENV, int(_ENV.get("TSDUEL_FAILED", 0)), forced=False),
        groups=("run", "rented"), logged=True, alone=True,
    ),
    "tidy": Command(_STAGES, "raw files -> tidy/*.csv", "tsduel.tidy.tables", logged=True, alone=True),
    "compare": Command(
        _STAGES, "tidy/*.csv -> stats/comparison.{csv,json}, stats/*.bench.txt", "tsduel.studies.compare", logged=True,
        alone=True, of_study=True,
    ),
    "keep": Command(
        _STAGES, "after AA=1: keep in results/aa what it says of this kind of machine, for later plans and reports",
        "tsduel.stats.aa", lambda m, run: print(m.keep(run)), logged=True, alone=True,
    ),
    "report": Command(
        _STAGES, "stats -> report.md, report.html and plots/, and the verdict table on the terminal",
        "plots.report", _report, groups=("run", "code"), logged=True, alone=True, of_study=True,
    ),
    "follow": Command(
        WHILE, "watch a run from another terminal, wherever it runs; Ctrl-C leaves it alone",
        "tsduel.rounds.follow", lambda m, run: m.main(run, _ENV), groups=("run", "view"),
    ),
    "status": Command(
        WHILE, "what the run is doing, and how many blocks are finished", _CONTROL,
        lambda m, run: m.status(run, as_json=bool(_ENV.get("TSDUEL_JSON"))),
    ),
    "stop": Command(
        WHILE, "end after the block that is running, wherever that is; twice: now; finished blocks are kept", _CONTROL,
        lambda m, run: m.stop(run), logged=True,
    ),
    "fetch": Command(
        WHILE, "from another machine: bring home what is finished by now", _CONTROL,
        lambda m, run: m.fetch(run), logged=True, alone=True,
    ),
    "ssh": Command(
        WHILE, "to another machine: log in where the blocks run", _CONTROL,
        lambda m, run: m.login(run, _ENV), groups=("run", "on"),
    ),
    "destroy": Command(
        _RENTED, "TARGET=gcp or k8s: delete everything of this run, and see that nothing is left", _ENDING,
        lambda m, run: m.main(run, _ENV, 0, forced=True), groups=("run", "rented"), logged=True, alone=True,
    ),
    "reap": Command(
        _RENTED, "list what is past its deadline in GCP_PROJECT, or with TARGET=k8s in a namespace; YES=1 deletes it",
        "tsduel.places", _reap, RESULTS, ("place", "rented"),
    ),
    "gcp-report": Command(
        _RENTED, "what a run asked of Google and was answered, without secrets, to send to who maintains this",
        "tsduel.places.gcp.report", lambda m, run: print(m.main(run)),
    ),
    "comment": Command(
        _SHARE, "a Markdown block for a pull request: the verdict, the figures folded, how to reproduce it",
        "plots.comment", lambda m, run: print(m.main(run), end=""), alone=True, of_study=True,
    ),
    "compare-runs": Command(
        _SHARE, 'RUNS="a b c" side by side, with the reason where they cannot be put into one table',
        "plots.runs", lambda m, *_: print(m.compare(_ENV), end=""), RESULTS, ("runs",),
    ),
    "trend": Command(
        _SHARE, "METRIC= over all stored runs on the same machine with the same data, as a table and a picture",
        "plots.runs", lambda m, results: print(m.trend(_ENV, results), end=""), RESULTS, ("search",),
    ),
    "import": Command(
        _LOGS, "two logs of VictoriaMetrics' `make tsbs` -> a table and a picture in results/imported",
        "plots.imported", lambda m, results: m.main(_ENV, results), RESULTS, ("logs", "question", "run"),
    ),
    "tsbs-plot-load": Command(
        _LOGS, "draw the load rate of one or two CSVs: TSBS_LOAD_RESULT_CSV_FILE= TSBS_LOAD_RESULT_CSV_FILE_COMPARE=",
        "plots.plot_load", lambda m, *_: m.main(_ENV), RESULTS, ("logs",),
    ),
    "benchstat": _whole(
        "Second opinion", "benchstat's own table of a run: medians and Mann-Whitney, unpaired", "benchstat"
    ),
    "list": Command(
        _HOUSE, "every run in results/, newest first: what it compares, how far it is, what came of it",
        "plots.listing", lambda m, results: print((m.as_json if _ENV.get("TSDUEL_JSON") else m.text)(_ENV, results)),
        RESULTS, (),
    ),
    "clean-cache": _whole(
        _HOUSE, "say what the cache holds, part by part, and remove it; DRY=1 only says", "clean_cache", "remove"
    ),
    "uninstall": _whole(
        _HOUSE, "leave this machine as it was, but for results/; TARGET=ssh SSH_HOST=...: the other one",
        "uninstall", "remove",
    ),
}  # fmt: skip
PARTS = {
    "look": Command(
        "", "the part of doctor that takes less than a second", "tsduel.doctor.__main__", lambda m, *_: m.main("fast"),
        RESULTS,
    ),
    "history-of": Command(
        "", "METRIC over the versions of a run", "plots.history", lambda m, run: m.main(run, _ENV), logged=True,
        alone=True,
    ),
    "worst-of": Command(
        "", "what a search for the worst load has found", "plots.worst",
        lambda m, results: print(m.main(_ENV, results), end=""), RESULTS,
    ),
    "bisection": Command(
        "", "what a bisection has found", "plots.bisection",
        lambda m, results: print(m.main(_ENV, results), end=""), RESULTS,
    ),
}  # fmt: skip
"""Parts of whole commands, which nobody types."""


EVERYWHERE = {"PYTHON", "TSDUEL_CACHE", "VIEW"}
"""Knobs of make itself and of this machine, which every command may be given."""
MOST_READERS = 5


def refuse_unread(names: Sequence[str], typed: Iterable[str]) -> None:
    """Raise for the first knob that a command does not read, with those that do; `make a b` gives its knobs to both."""
    commands = COMMANDS | PARTS
    read = EVERYWHERE.union(*(commands[name].knobs for name in names if name in commands))
    unread = [knob for knob in typed if knob not in read]
    if unread:
        readers = [other for other, command in COMMANDS.items() if unread[0] in command.knobs]
        more = f"; these read it: {', '.join(readers[:MOST_READERS])}" if readers else ""
        raise UserError(f"{unread[0]}: `{names[0]}` does not read it{more}")


def by_topic() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each topic with the names and sentences of its commands."""
    for topic in dict.fromkeys(command.topic for command in COMMANDS.values()):
        yield topic, [(name, command.help) for name, command in COMMANDS.items() if command.topic == topic]


FIRST = {
    "make doctor": "is all here that a run needs?",
    "make tsbs": "VictoriaMetrics v1.132.0 against v1.133.0, the first answer",
    "make tsbs CANDIDATE=path:../VictoriaMetrics": "your checkout against where it left the main branch",
    "make tsbs EXPERIMENT=quick CANDIDATE=path:../VictoriaMetrics": "the same between two edits",
    "make gate CANDIDATE=path:../VictoriaMetrics": "does it allocate more for an answer? On any machine",
    "make gobench PACKAGE=./lib/storage BENCH=. CANDIDATE=path:../VictoriaMetrics": "Go benchmarks, in the same way",
    "make bisect GOOD=v1.131.0 BAD=v1.133.0 METRIC=cpu": "since when?",
    "make comment": "the newest run, as a block for a pull request",
    "make list": "every run, and what came of it",
    "make stop": "end after the block that is running; finished blocks are kept",
}
"""The commands that people type first, each with what it does."""


def example(name: str) -> str:
    """Return how a command is typed, in the words of `tsduel`; empty if it is not among the first."""
    typed = next((typed for typed in FIRST if typed.split()[1] == name and "=" in typed), "")
    return f"Example: {typed.replace('make', 'tsduel', 1)}\n\n" if typed else ""


PROJECT = """
Project
  make test           checkers, all tests on fakes, one real run; FAST=1: what takes under a minute
  make test-all       what make test leaves out: all other real runs
  make proof          the long measurements of docs/validation.md that are missing, for MINUTES=60
  make yardstick      pairs whose truth is known, before four judges or your JUDGE, for MINUTES=60
  make bench          our own speed, side by side with the pipeline of VictoriaMetrics' Makefile
"""


def about(topic: str) -> str:
    """Return what `make help` says: the first commands; of a command its knobs; all commands, knobs or experiments."""
    if topic == "commands":
        each = (f"\n{heading}\n" + "".join(map(_line, listed)) for heading, listed in by_topic())
        return "".join(each) + PROJECT
    if topic == "knobs":
        return "".join(f"  {name:12} {knob.help}\n" for name, knob in KNOBS.items())
    if topic in COMMANDS:
        knobs = "".join(f"  {name:12} {KNOBS[name].help}\n" for name in COMMANDS[topic].knobs)
        return f"make {topic}: {COMMANDS[topic].help}\n{knobs}"
    if topic == "experiments":
        return "".join(f"  {name:32} {said}\n" for name, said in experiments.listed())
    if topic:
        near = did_you_mean(topic, ["commands", "knobs", "experiments", *COMMANDS])
        raise UserError(f"TOPIC: {topic!r} is none; allowed: commands, knobs, experiments, or a command{near}")
    first = "".join(f"  {typed}\n      {said}\n" for typed, said in FIRST.items())
    return (
        f"{first}\n  make help TOPIC=commands, knobs, experiments, or a command: TOPIC=bisect\n"
        "  make test, make test-all: for who changes tsduel\n"
    )


def _line(command: tuple[str, str]) -> str:
    name, text = command
    return f"  make {name:14} {text}\n"


if __name__ == "__main__":
    for word in sys.argv[1:]:
        near = did_you_mean(word, [*COMMANDS, "test", "test-all", "bench", "help"])
        sys.exit(f"tsduel: {word!r} is no target{near or '; `make help TOPIC=commands` lists them'}")
    try:
        sys.stdout.write(about(os.environ.get("TOPIC", "").strip()))
    except UserError as error:
        sys.exit(f"tsduel: {error}")
