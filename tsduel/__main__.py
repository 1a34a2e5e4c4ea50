"""The command line: one stage a call, `python -m tsduel STAGE RUN`. The Makefile calls these in order."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from tsduel import outcome
from tsduel.errors import UserError

# A run's name is a directory's and stands in commands that a user copies.
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
STAGES = {
    "plan": "resolve the experiment and draw the order of rounds",
    "provision": "say where the rounds run",
    "build": "install what is missing and build TSBS and the variants",
    "run": "run every round that has not been run yet",
    "tidy": "raw files -> tidy/*.csv",
    "compare": "tidy/*.csv -> stats/comparison.{csv,json}",
    "report": "stats -> report.md and plots/, and the verdict table on the terminal",
    "status": "say what the rounds are doing",
    "stop": "end the rounds, wherever they run",
    "fetch": "bring home what is finished elsewhere",
    "ssh": "log in where the rounds run",
    "give-back": "delete a rented machine once all is at home, or once the run has failed",
    "destroy": "delete everything of a rented machine, and see that nothing is left",
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


def stage(name: str, run: str, code: int) -> int:
    """Run one stage and return its exit code. Imports are late, since a stage needs only its own libraries.

    ``code`` is the exit code of what failed before; it is for ``give-back`` alone.
    """
    # Before the first round too, and not ten minutes later.
    fail_on = outcome.fail_on(os.environ.get("FAIL_ON", ""))
    run_dir = run_directory(run, must_exist=name != "plan")
    if name == "plan":
        from tsduel import plan

        plan.main(run_dir, os.environ)
    elif name == "provision":
        from tsduel import provision

        provision.main(run_dir)
    elif name == "build":
        from tsduel import build

        return build.main(run_dir)
    elif name == "run":
        from tsduel import run as rounds

        return rounds.main(run_dir)
    elif name == "tidy":
        from tsduel import tidy

        tidy.main(run_dir)
    elif name == "compare":
        from tsduel import compare

        compare.main(run_dir)
    elif name in {"give-back", "destroy"}:
        from tsduel.gcp import ending

        return ending.main(run_dir, os.environ, code, forced=name == "destroy")
    elif name in {"status", "stop", "fetch", "ssh"}:
        control(name, run_dir)
    else:
        from plots import report

        report.main(run_dir)
        report.print_summary(run_dir)
        return outcome.tell(run_dir, fail_on)
    return outcome.DONE


def control(name: str, run_dir: Path) -> None:
    """Look at the rounds, or lay a hand on them."""
    from tsduel.remote import control as remote

    if name == "status":
        remote.status(run_dir, os.environ)
    elif name == "stop":
        remote.stop(run_dir, os.environ)
    elif name == "fetch":
        remote.fetch(run_dir)
    else:
        remote.login(run_dir)


def main() -> int:
    """Parse the arguments, run the stage, and turn a user's mistake into a sentence."""
    parser = argparse.ArgumentParser(prog="tsduel", description=__doc__)
    stages = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    for name, text in STAGES.items():
        arguments = stages.add_parser(name, help=text)
        arguments.add_argument("run", help="a directory in results/, or latest")
        arguments.add_argument("code", nargs="?", type=int, default=0, help="exit code of the stage that failed")
    given = parser.parse_args()
    try:
        return stage(given.stage, given.run, given.code)
    except UserError as error:
        print("\n".join(f"tsduel: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return outcome.USER
    except BrokenPipeError:
        return outcome.DONE


if __name__ == "__main__":
    sys.exit(main())
