"""The command line: one stage a call, `python -m tsduel STAGE RUN`. The Makefile calls these in order."""

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tsduel.core import files, runlog
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.results import run_directory
from tsduel.stats import outcome

RESULTS = Path("results")
Call = Callable[[Any, Path, int], int | None]


@dataclass(frozen=True)
class Stage:
    """One command: its help, the module that does it, and what is called of that module.

    `call` gets the module, the run directory (results/ unless `of_run`), and the exit code of the stage that failed
    before. It returns an exit code, or None for 0. Modules are loaded late: a stage needs only its own libraries.
    """

    help: str
    module: str
    call: Call = lambda stage, run_dir, _: stage.main(run_dir)
    makes_run: bool = False
    logged: bool = True  # in run.log; a command that only looks is not
    of_run: bool = True


def _look(text: str, module: str, call: Call) -> Stage:
    return Stage(text, module, call, logged=False, of_run=False)


def _report(report: Any, run_dir: Path, _: int) -> int:
    report.main(run_dir)
    exported = importlib.import_module("plots.exports").main(run_dir)
    report.print_summary(run_dir)
    print(exported)
    return outcome.tell(run_dir, os.environ.get("FAIL_ON", ""))


def _with_environment(stage: Any, run_dir: Path, _: int) -> int | None:
    return cast("int | None", stage.main(run_dir, os.environ))


def _with_results(stage: Any, results: Path, _: int) -> int | None:
    return cast("int | None", stage.main(os.environ, results))


_CONTROL, _ENDING, _ENV = "tsduel.rounds.control", "tsduel.rounds.ending", os.environ
STAGES = {
    "plan": Stage(
        "resolve the experiment and draw the order of blocks", "tsduel.plan.resolve", _with_environment, makes_run=True
    ),
    "provision": Stage("say where the blocks run", "tsduel.places.provision"),
    "build": Stage("install what is missing and build TSBS and the variants", "tsduel.build.ansible"),
    "run": Stage("run every block that has not been run yet", "tsduel.rounds.run"),
    "give-back": Stage(
        "delete a rented machine once all is at home, or once the run has failed",
        _ENDING,
        lambda m, run, failed: m.main(run, _ENV, failed, forced=False),
    ),
    "tidy": Stage("raw files -> tidy/*.csv", "tsduel.tidy.tables"),
    "compare": Stage("tidy/*.csv -> stats/comparison.{csv,json}", "tsduel.stats.compare"),
    "keep": Stage(
        "stats of an A/A run -> results/aa, what later plans and reports know of this machine",
        "tsduel.stats.aa",
        lambda m, run, _: print(m.keep(run)),
    ),
    "report": Stage(
        "stats -> report.md, report.html, plots/ and exports/, and the verdicts on the terminal",
        "plots.report",
        _report,
    ),
    "comment": Stage(
        "stats -> comment.md, a Markdown block for a pull request, printed too",
        "plots.comment",
        lambda m, run, _: print(m.main(run), end=""),
        logged=False,
    ),
    "history": Stage("METRIC over the versions of a run, as a table and a picture", "plots.history", _with_environment),
    "status": Stage("say what the blocks are doing", _CONTROL, lambda m, run, _: m.status(run), logged=False),
    "follow": Stage(
        "show what the blocks are doing, until they have ended", "tsduel.rounds.follow", _with_environment, logged=False
    ),
    "stop": Stage(
        "end the run after the block that is running, or, asked again, at once", _CONTROL, lambda m, run, _: m.stop(run)
    ),
    "fetch": Stage("bring home what is finished elsewhere", _CONTROL, lambda m, run, _: m.fetch(run)),
    "ssh": Stage("log in where the blocks run", _CONTROL, lambda m, run, _: m.login(run, _ENV), logged=False),
    "destroy": Stage(
        "delete everything of a rented machine, and see that nothing is left",
        _ENDING,
        lambda m, run, failed: m.main(run, _ENV, failed, forced=True),
    ),
    "list": _look(
        "every run in results/, a line each", "plots.listing", lambda m, results, _: print(m.text(_ENV, results))
    ),
    "compare-runs": _look(
        "RUNS side by side, where they are comparable", "plots.runs", lambda m, *_: print(m.compare(_ENV), end="")
    ),
    "trend": _look(
        "METRIC over the stored runs that are comparable",
        "plots.runs",
        lambda m, results, _: print(m.trend(_ENV, results), end=""),
    ),
    "bisect": _look(
        "decide which run a bisection makes next, and print the words of its make", "tsduel.bisect.steps", _with_results
    ),
    "bisection": _look(
        "what a bisection has found, as a report and a picture",
        "plots.bisection",
        lambda m, results, _: print(m.main(_ENV, results), end=""),
    ),
    "import": _look(
        "two terminal logs of `make tsbs` -> results/imported/RUN, a report with a table and a picture",
        "plots.imported",
        _with_results,
    ),
    "queries-check": _look(
        "try every query of QUERIES against a small load: series, points, time, and whether both sides agree",
        "tsduel.doctor.queries",
        _with_results,
    ),
    "plot-load": _look(
        "one or two CSVs of loads -> a picture of their load rates", "plots.plot_load", lambda m, *_: m.main(_ENV)
    ),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tsduel", description=__doc__)
    stages = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    for name, stage in STAGES.items():
        arguments = stages.add_parser(name, help=stage.help)
        if stage.of_run:
            arguments.add_argument("run", help="a directory in results/, or latest")
            arguments.add_argument("failed", nargs="?", type=int, default=0, help="exit code of the stage that failed")
    return parser


def main() -> int:
    """Parse the arguments, run the stage, and turn a user's mistake into a sentence."""
    given = _parser().parse_args()
    stage = STAGES[given.stage]
    try:
        # A wrong FAIL_ON is refused before the first block, not after the last one.
        outcome.fail_on(os.environ.get("FAIL_ON", ""))
        if not stage.of_run:
            # The terminal or file may not have every character.
            sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a text stream has it
            return stage.call(importlib.import_module(stage.module), RESULTS, 0) or outcome.DONE
        run_dir = run_directory(given.run, must_exist=not stage.makes_run)
        with runlog.recording(run_dir, given.stage) if stage.logged else nullcontext():
            return stage.call(importlib.import_module(stage.module), run_dir, given.failed) or outcome.DONE
    except UserError as error:
        print("\n".join(f"tsduel: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return outcome.USER
    except BrokenPipeError:
        return outcome.DONE
    except KeyboardInterrupt:
        print("tsduel: interrupted", file=sys.stderr)
        return outcome.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a stack trace helps only developers; run.log has it
        sentence = files.sentence(error) if isinstance(error, OSError) else ""
        print(f"tsduel: {sentence or _defect(error, given)}", file=sys.stderr)
        return outcome.USER if sentence else outcome.DEFECT


def _defect(error: Exception, given: argparse.Namespace) -> str:
    """Describe an unexpected error in a sentence: what, in which line of our files, and what to send us."""
    ours = tuple(str(PROJECT / room) for room in ("tsduel", "plots"))
    stack = traceback.extract_tb(error.__traceback__)
    at = next((frame for frame in reversed(stack) if frame.filename.startswith(ours)), stack[-1])
    what = f"{' '.join(repr(error).split())[:300]} in {Path(at.filename).name}, line {at.lineno}"
    log = f", with run.log of {given.run}, which has all of it" if STAGES[given.stage].logged else ""
    return f"a defect of ours in `{given.stage}` ({what}); nothing that was measured is lost. Please report it{log}"


if __name__ == "__main__":
    sys.exit(main())
