"""How a run ended, as an exit code for whoever started it: docs/operating.md lists them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.rundir import open_run
from tsduel.core.wording import number_of

DONE = 0
DEFECT = 1
USER = 2
CHECK_FAILED = 4
TOO_NOISY = 5
REGRESSION = 6
INTERRUPTED = 130
FAIL_ON = ("", "regression")
MOST_NAMES = 4


def fail_on(given: str) -> str:
    """Validate the knob FAIL_ON."""
    if given not in FAIL_ON:
        raise UserError(f"FAIL_ON: {given!r} is not known; FAIL_ON=regression is, or leave it out")
    return given


def tell(run_dir: Path, given: str) -> int:
    """Say on stderr why a compared run does not end with 0, if so, and return its exit code."""
    run = open_run(run_dir)
    code, why = outcome(read_json(run_dir / "stats/comparison.json"), given, smoke=run.plan.smoke)
    if why:
        print(f"tsduel: {why}: exit code {code}", file=sys.stderr)
    return code


def outcome(document: dict[str, Any], given: str, *, smoke: bool) -> tuple[int, str]:
    """Return the exit code of a comparison (stats/comparison.json), and the sentence that goes with it.

    The first that holds: a failed check, since then no figure is worth reading; too noisy a machine; a regression of a
    judged metric. A smoke run shows nothing but whether the machinery works, so noise does not fail it.
    """
    if failed := document["checks"]["failed"]:
        return CHECK_FAILED, f"{number_of(failed, 'check')} failed"
    verdicts = {row["verdict"] for row in document["rows"]}
    if not smoke and "inconclusive: environment" in verdicts:
        return TOO_NOISY, "the environment was too noisy for a verdict"
    if not smoke and not document.get("aa", {}).get("passed", True):
        return TOO_NOISY, "the A/A comparison has not passed"
    worse = [row for row in document["rows"] if row["verdict"] == "regression"]
    if given == "regression" and worse:
        return REGRESSION, f"regression (FAIL_ON=regression): {_named(worse)}"
    return DONE, ""


def _named(rows: Sequence[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(f"{row['metric']} {row['query_type']}".rstrip() for row in rows))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
