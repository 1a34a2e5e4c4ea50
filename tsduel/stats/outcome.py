"""The exit code of a comparison."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tsduel.core.codes import CHECK_FAILED, DONE, REGRESSION, TOO_NOISY
from tsduel.core.files import read_json
from tsduel.core.wording import number_of

MOST_NAMES = 4


def exit_code(run_dir: Path, fail_on: str) -> int:
    """Return the exit code of a compared run or study; say on stderr why it is not 0."""
    document = read_json(run_dir / "stats/comparison.json")
    code, why = outcome(document, fail_on, smoke=bool(document.get("smoke")))
    if why:
        print(f"tsduel: {why}: exit code {code}", file=sys.stderr)
    return code


def outcome(document: dict[str, Any], fail_on: str, *, smoke: bool) -> tuple[int, str]:
    """Return the exit code of a comparison (stats/comparison.json), and the sentence that goes with it.

    In this order: a failed check, a machine that is too noisy, a regression (if FAIL_ON asks). A smoke run shows only
    whether the machinery works, so noise does not fail it.
    """
    if failed := document["checks"]["failed"]:
        broken = first_few(f"{each['variant']}: {each['message']}" for each in document.get("broken", []))
        return CHECK_FAILED, f"{number_of(failed, 'check')} failed" + (f" ({broken})" if broken else "")
    verdicts = {row["verdict"] for row in document["rows"]}
    if not smoke and "inconclusive: environment" in verdicts:
        return TOO_NOISY, "the environment was too noisy for a verdict"
    if not smoke and not document.get("aa", {}).get("passed", True):
        return TOO_NOISY, "the A/A comparison has not passed"
    worse = [f"{r['metric']} {r['query_type']}".rstrip() for r in document["rows"] if r["verdict"] == "regression"]
    if fail_on == "regression" and worse:
        return REGRESSION, f"regression (FAIL_ON=regression): {first_few(worse)}"
    return DONE, ""


def first_few(names: Iterable[str]) -> str:
    """Return the first four different names and how many more there are."""
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - MOST_NAMES} more" if len(different) > MOST_NAMES else ""
    return ", ".join(different[:MOST_NAMES]) + more
