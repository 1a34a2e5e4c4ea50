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
from typing import Any

from tsduel.core import files, runlog
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.results import run_directory
from tsduel.stats import outcome


@dataclass(frozen=True)
class Stage:
    """One command: what help says of it, the module that does it, and whether it makes the run.

    `call` gets that module, the directory, and the exit code of what failed before, for who cleans up. It returns an
    exit code, or None for 0. Modules are loaded late, since a stage needs only its own libraries.
    """

    help: str
    module: str
    call: Callable[[Any, Path, int], int | None] = lambda stage, run_dir, _failed: stage.main(run_dir)
    makes_run: bool = False
    logged: bool = True  # in run.log; what only looks is not


def _with_environment(stage: Any, run_dir: Path, _failed: int) -> int | None:
    code: int | None = stage.main(run_dir, os.environ)
    return code


def _named(function: str) -> Callable[[Any, Path, int], int | None]:
    return lambda stage, run_dir, _failed: getattr(stage, function)(run_dir)


def _report(report: Any, run_dir: Path, _failed: int) -> int:
    report.main(run_dir)
    exported = importlib.import_module("plots.exports").main(run_dir)
    report.print_summary(run_dir)
    print(exported)
    return outcome.tell(run_dir, os.environ.get("FAIL_ON", ""))


STAGES = {
    "plan": Stage(
        "resolve the experiment and draw the order of blocks", "tsduel.plan.resolve", _with_environment, makes_run=True
    ),
    "import": Stage(
        "two terminal logs of `make tsbs` -> a run directory",
        "tsduel.importing.logs_to_run",
        _with_environment,
        makes_run=True,
    ),
    "provision": Stage("say where the blocks run", "tsduel.places.provision"),
    "build": Stage("install what is missing and build TSBS and the variants", "tsduel.build.ansible"),
    "run": Stage("run every block that has not been run yet", "tsduel.rounds.run"),
    "give-back": Stage(
        "delete a rented machine once all is at home, or once the run has failed",
        "tsduel.rounds.ending",
        lambda ending, run_dir, failed: ending.main(run_dir, os.environ, failed, forced=False),
    ),
    "tidy": Stage("raw files -> tidy/*.csv", "tsduel.tidy.tables"),
    "compare": Stage("tidy/*.csv -> stats/comparison.{csv,json}", "tsduel.stats.compare"),
    "keep": Stage(
        "stats of an A/A run -> results/aa, what later plans and reports know of this machine",
        "tsduel.stats.aa",
        lambda aa, run_dir, _failed: print(aa.keep(run_dir)),
    ),
    "report": Stage(
        "stats -> report.md, report.html, plots/ and exports/, and the verdicts on the terminal",
        "plots.report",
        _report,
    ),
    "comment": Stage(
        "stats -> comment.md, a Markdown block for a pull request, printed too",
        "plots.comment",
        lambda comment, run_dir, _failed: print(comment.main(run_dir), end=""),
        logged=False,
    ),
    "history": Stage("METRIC over the versions of a run, as a table and a picture", "plots.history", _with_environment),
    "status": Stage("say what the blocks are doing", "tsduel.rounds.control", _named("status"), logged=False),
    "follow": Stage(
        "show what the blocks are doing, until they have ended", "tsduel.rounds.follow", _with_environment, logged=False
    ),
    "stop": Stage(
        "end the run after the block that is running, or, asked again, at once", "tsduel.rounds.control", _named("stop")
    ),
    "fetch": Stage("bring home what is finished elsewhere", "tsduel.rounds.control", _named("fetch")),
    "ssh": Stage(
        "log in where the blocks run",
        "tsduel.rounds.control",
        lambda control, run_dir, _failed: control.login(run_dir, os.environ),
        logged=False,
    ),
    "destroy": Stage(
        "delete everything of a rented machine, and see that nothing is left",
        "tsduel.rounds.ending",
        lambda ending, run_dir, failed: ending.main(run_dir, os.environ, failed, forced=True),
    ),
}


@dataclass(frozen=True)
class Look:
    """One command that is of no single run."""

    help: str
    module: str
    call: Callable[[Any], None]


RESULTS = Path("results")
LOOKS = {
    "list": Look("every run in results/, a line each", "plots.listing", lambda m: print(m.text(os.environ, RESULTS))),
    "compare-runs": Look(
        "RUNS side by side, where they are comparable", "plots.runs", lambda m: print(m.compare(os.environ), end="")
    ),
    "trend": Look(
        "METRIC over the stored runs that are comparable",
        "plots.runs",
        lambda m: print(m.trend(os.environ, RESULTS), end=""),
    ),
    "bisect": Look(
        "decide which run a bisection makes next, and print the words of its make",
        "tsduel.bisect.steps",
        lambda m: m.main(os.environ, RESULTS),
    ),
    "bisection": Look(
        "what a bisection has found, as a report and a picture",
        "plots.bisection",
        lambda m: print(m.main(os.environ, RESULTS), end=""),
    ),
    "plot-load": Look(
        "one or two CSVs of loads -> a picture of their load rates", "plots.plot_load", lambda m: m.main(os.environ)
    ),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tsduel", description=__doc__)
    stages = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    for name, stage in STAGES.items():
        arguments = stages.add_parser(name, help=stage.help)
        arguments.add_argument("run", help="a directory in results/, or latest")
        arguments.add_argument("failed", nargs="?", type=int, default=0, help="exit code of the stage that failed")
    for name, look in LOOKS.items():
        stages.add_parser(name, help=look.help)
    return parser


def main() -> int:
    """Parse the arguments, run the stage, and turn a user's mistake into a sentence."""
    given = _parser().parse_args()
    try:
        # Before the first block too, and not ten minutes later.
        outcome.fail_on(os.environ.get("FAIL_ON", ""))
        if look := LOOKS.get(given.stage):
            # Whatever terminal or file it goes to.
            sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a text stream has it
            look.call(importlib.import_module(look.module))
            return outcome.DONE
        stage = STAGES[given.stage]
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
    except Exception as error:  # noqa: BLE001 - a stack helps only who wrote it; run.log has it
        said = files.sentence(error) if isinstance(error, OSError) else ""
        print(f"tsduel: {said or _defect(error, given)}", file=sys.stderr)
        return outcome.USER if said else outcome.DEFECT


def _defect(error: Exception, given: argparse.Namespace) -> str:
    """Return what nobody has foreseen as a sentence: what, where in our files, and what we need to mend it."""
    ours = tuple(str(PROJECT / room) for room in ("tsduel", "plots"))
    stack = traceback.extract_tb(error.__traceback__)
    at = next((frame for frame in reversed(stack) if frame.filename.startswith(ours)), stack[-1])
    what = f"{' '.join(repr(error).split())[:300]} in {Path(at.filename).name}, line {at.lineno}"
    logged = given.stage in STAGES and STAGES[given.stage].logged
    log = f", with run.log of {given.run}, which has all of it" if logged else ""
    return f"a defect of ours in `{given.stage}` ({what}); nothing that was measured is lost. Please report it{log}"


if __name__ == "__main__":
    sys.exit(main())
