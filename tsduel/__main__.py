"""The command line: one stage a call, `python -m tsduel STAGE RUN`. The Makefile calls these in order."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from tsduel import outcome
from tsduel.errors import UserError
from tsduel.rundir import open_run

# A run's name is a directory's and stands in commands that a user copies.
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
STAGES = {
    "plan": "resolve the experiment and draw the order of rounds",
    "provision": "say where the rounds run",
    "import": "two terminal logs of `make tsbs` -> a run directory",
    "tidy": "raw files -> tidy/*.csv",
    "compare": "tidy/*.csv -> stats/comparison.{csv,json}",
    "report": "stats -> report.md, report.html, plots/ and exports/, and the verdict table on the terminal",
    "comment": "stats -> comment.md, a Markdown block for a pull request, printed too",
}


def run_directory(name: str, *, must_exist: bool) -> Path:
    """Return results/RUN for a run's name, `latest`, or a path that ends in one."""
    run_dir = Path("results") / Path(name).name
    if not RUN_NAME.fullmatch(run_dir.name):
        raise UserError(f"RUN: {name!r} is no name of a run; use letters, digits, dots, dashes and underscores")
    if (must_exist or run_dir.name == "latest") and not (run_dir / "plan" / "experiment.json").exists():
        known = sorted(p.parent.parent.name for p in Path("results").glob("*/plan/experiment.json"))
        there = [k for k in known if k != "latest"]
        raise UserError(f"{run_dir}: no such run; there are: {', '.join(there[-5:]) or 'none yet (make tsbs)'}")
    return run_dir.resolve() if run_dir.name == "latest" else run_dir


def stage(name: str, run: str) -> int:
    """Run one stage and return its exit code. Imports are late, since a stage needs only its own libraries."""
    # Before the first round too, and not ten minutes later.
    fail_on = outcome.fail_on(os.environ.get("FAIL_ON", ""))
    run_dir = run_directory(run, must_exist=name not in {"plan", "import"})
    if name == "plan":
        from tsduel import plan

        plan.main(run_dir, os.environ)
    elif name == "provision":
        from tsduel import provision

        provision.main(run_dir)
    elif name == "import":
        from tsduel import importing

        importing.main(run_dir, os.environ)
    elif name == "tidy":
        from tsduel import tidy

        tidy.main(run_dir)
    elif name == "compare":
        from tsduel import compare

        compare.main(run_dir)
    elif name == "comment":
        if open_run(run_dir).kind == "gobench":
            raise UserError(
                f"{run_dir}: there is no block for a pull request of Go benchmarks; report.md begins with it"
            )
        from plots import comment

        print(comment.main(run_dir), end="")
    else:
        from plots import exports, report
        from plots.gobench import report as go_report

        if open_run(run_dir).kind == "gobench":
            # stats/*.bench.txt are what other tools read of these.
            go_report.main(run_dir)
            go_report.print_summary(run_dir)
            return outcome.tell(run_dir, fail_on)
        report.main(run_dir)
        exported = exports.main(run_dir)
        report.print_summary(run_dir)
        print(exported)
        return outcome.tell(run_dir, fail_on)
    return outcome.DONE


def main() -> int:
    """Parse the arguments, run the stage, and turn a user's mistake into a sentence."""
    parser = argparse.ArgumentParser(prog="tsduel", description=__doc__)
    stages = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    for name, text in STAGES.items():
        stages.add_parser(name, help=text).add_argument("run", help="a directory in results/, or latest")
    stages.add_parser("plot-load", help="one or two CSVs of loads -> a picture of their load rates")
    arguments = parser.parse_args()
    try:
        if arguments.stage == "plot-load":
            from plots import plot_load

            plot_load.main(os.environ)
            return outcome.DONE
        return stage(arguments.stage, arguments.run)
    except UserError as error:
        print("\n".join(f"tsduel: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return outcome.USER
    except BrokenPipeError:
        return outcome.DONE


if __name__ == "__main__":
    sys.exit(main())
