"""What to do after a comparison, by what came of it."""

from pathlib import Path

from tsduel.core.defaults import FEWEST_BLOCKS
from tsduel.core.files import read_json
from tsduel.core.rundir import open_run

_MOVED = {"regression", "improvement", "worse", "better"}


def text(run_dir: Path) -> str:
    """Return at most three lines: the next commands."""
    plan, rows = open_run(run_dir).plan, read_json(run_dir / "stats/comparison.json")["rows"]
    verdicts = {row["verdict"] for row in rows}
    again = "the same command with"
    lines = [f"make comment RUN={run_dir.name} prints a block for a pull request"]
    if not plan.smoke and not plan.profile and verdicts & _MOVED:
        lines.append(f"{again} PROFILE=cpu says where in the code")
    # More starts of a soak are more days, and what grows is seen in one.
    soaks = plan.mixed and plan.mixed.window_s
    if not plan.smoke and not soaks and any(verdict.startswith("inconclusive") for verdict in verdicts):
        more = max(2 * plan.design.blocks, FEWEST_BLOCKS)
        lines.append(f"{again} BLOCKS={more} settles more of what is inconclusive")
    return "\n".join(f"{'next' if line == lines[0] else '':5} {line}" for line in lines)
