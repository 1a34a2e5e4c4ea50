"""The command line: one stage a call, `python -m tsduel STAGE RUN`. The Makefile calls these in order."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tsduel.core import files, runlog
from tsduel.core.errors import UserError
from tsduel.core.results import run_directory
from tsduel.core.rundir import open_run
from tsduel.stats import outcome

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Stage:
    """One command: what help says of it, what it does with a run's directory, and whether that must be a run already.

    `call` returns an exit code, or None for 0. It is given the exit code of what failed before, if it is to clean up.
    """

    help: str
    call: Callable[[Path, int], int | None]
    makes_run: bool = False
    logged: bool = True  # in run.log; what only looks is not


# Imports are late, since a stage needs only its own libraries.
def _plan(run_dir: Path, _failed: int) -> None:
    from tsduel.plan import resolve as plan

    plan.main(run_dir, os.environ)


def _import(run_dir: Path, _failed: int) -> None:
    from tsduel.importing import logs_to_run as importing

    importing.main(run_dir, os.environ)


def _provision(run_dir: Path, _failed: int) -> None:
    from tsduel.places import provision

    provision.main(run_dir)


def _build(run_dir: Path, _failed: int) -> int:
    from tsduel.build import ansible as build

    return build.main(run_dir)


def _run(run_dir: Path, _failed: int) -> int:
    from tsduel.rounds import run

    return run.main(run_dir)


def _give_back(run_dir: Path, failed: int) -> int:
    from tsduel.rounds import ending

    return ending.main(run_dir, os.environ, failed, forced=False)


def _destroy(run_dir: Path, failed: int) -> int:
    from tsduel.rounds import ending

    return ending.main(run_dir, os.environ, failed, forced=True)


def _tidy(run_dir: Path, _failed: int) -> None:
    from tsduel.tidy import tables as tidy

    tidy.main(run_dir)


def _compare(run_dir: Path, _failed: int) -> None:
    from tsduel.stats import compare

    compare.main(run_dir)


def _keep(run_dir: Path, _failed: int) -> None:
    from tsduel.stats import aa

    print(aa.keep(run_dir))


def _report(run_dir: Path, _failed: int) -> int:
    from plots import exports, report
    from plots.gobench import report as go_report

    of_kind = go_report if open_run(run_dir).kind == "gobench" else report
    of_kind.main(run_dir)
    exported = exports.main(run_dir)
    of_kind.print_summary(run_dir)
    print(exported)
    return outcome.tell(run_dir, os.environ.get("FAIL_ON", ""))


def _comment(run_dir: Path, _failed: int) -> None:
    from plots import comment
    from plots.gobench import comment as go_comment

    of_kind = go_comment if open_run(run_dir).kind == "gobench" else comment
    print(of_kind.main(run_dir), end="")


def _status(run_dir: Path, _failed: int) -> None:
    from tsduel.rounds import control

    control.status(run_dir)


def _follow(run_dir: Path, _failed: int) -> int:
    from tsduel.rounds import follow

    return follow.main(run_dir, os.environ)


def _stop(run_dir: Path, _failed: int) -> None:
    from tsduel.rounds import control

    control.stop(run_dir)


def _fetch(run_dir: Path, _failed: int) -> None:
    from tsduel.rounds import control

    control.fetch(run_dir)


def _ssh(run_dir: Path, _failed: int) -> None:
    from tsduel.rounds import control

    control.login(run_dir)


STAGES = {
    "plan": Stage("resolve the experiment and draw the order of rounds", _plan, makes_run=True),
    "import": Stage("two terminal logs of `make tsbs` -> a run directory", _import, makes_run=True),
    "provision": Stage("say where the rounds run", _provision),
    "build": Stage("install what is missing and build TSBS and the variants", _build),
    "run": Stage("run every round that has not been run yet", _run),
    "give-back": Stage("delete a rented machine once all is at home, or once the run has failed", _give_back),
    "tidy": Stage("raw files -> tidy/*.csv", _tidy),
    "compare": Stage("tidy/*.csv -> stats/comparison.{csv,json}", _compare),
    "keep": Stage("stats of an A/A run -> results/aa, what later plans and reports know of this machine", _keep),
    "report": Stage("stats -> report.md, report.html, plots/ and exports/, and the verdicts on the terminal", _report),
    "comment": Stage("stats -> comment.md, a Markdown block for a pull request, printed too", _comment, logged=False),
    "status": Stage("say what the rounds are doing", _status, logged=False),
    "follow": Stage("show what the rounds are doing, until they have ended", _follow, logged=False),
    "stop": Stage("end the rounds after the one that is running, or, asked again, at once", _stop),
    "fetch": Stage("bring home what is finished elsewhere", _fetch),
    "ssh": Stage("log in where the rounds run", _ssh, logged=False),
    "destroy": Stage("delete everything of a rented machine, and see that nothing is left", _destroy),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tsduel", description=__doc__)
    stages = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    for name, stage in STAGES.items():
        arguments = stages.add_parser(name, help=stage.help)
        arguments.add_argument("run", help="a directory in results/, or latest")
        arguments.add_argument("failed", nargs="?", type=int, default=0, help="exit code of the stage that failed")
    stages.add_parser("list", help="every run in results/, a line each")
    stages.add_parser("plot-load", help="one or two CSVs of loads -> a picture of their load rates")
    return parser


def main() -> int:
    """Parse the arguments, run the stage, and turn a user's mistake into a sentence."""
    given = _parser().parse_args()
    try:
        # Before the first round too, and not ten minutes later.
        outcome.fail_on(os.environ.get("FAIL_ON", ""))
        if given.stage == "plot-load":
            from plots import plot_load

            plot_load.main(os.environ)
            return outcome.DONE
        if given.stage == "list":
            from plots import listing

            # Whatever terminal or file it goes to.
            sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a text stream has it
            print(listing.text(os.environ, Path("results")))
            return outcome.DONE
        stage = STAGES[given.stage]
        run_dir = run_directory(given.run, must_exist=not stage.makes_run)
        with runlog.recording(run_dir, given.stage) if stage.logged else nullcontext():
            return stage.call(run_dir, given.failed) or outcome.DONE
    except UserError as error:
        print("\n".join(f"tsduel: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return outcome.USER
    except BrokenPipeError:
        return outcome.DONE
    except OSError as error:
        if not (said := files.sentence(error)):
            raise
        print(f"tsduel: {said}", file=sys.stderr)
        return outcome.USER


if __name__ == "__main__":
    sys.exit(main())
