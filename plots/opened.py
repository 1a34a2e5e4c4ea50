"""What every text about a run starts from: its plan, tables and comparisons, the templates, how a file is written."""

import re
from dataclasses import dataclass
from pathlib import Path

import jinja2
import pandas as pd

from plots import facts
from plots.tables import Comparison
from tsduel.core.errors import UserError
from tsduel.core.rundir import Run, open_run, read_json
from tsduel.tidy.blocks import read_noise, read_table
from tsduel.tidy.tables import CHECKS, MEASUREMENTS

TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Opened:
    """A run that has been compared. `labels`: variant -> name for people, baseline first; a comparison a candidate."""

    run: Run
    labels: dict[str, str]
    comparisons: list[Comparison]
    measurements: pd.DataFrame
    checks: pd.DataFrame
    noise: pd.DataFrame


def open_report(run_dir: Path) -> Opened:
    """Open a run that has been compared, or say what to do first."""
    run = open_run(run_dir)
    path = run_dir / "stats/comparison.json"
    if not path.exists():
        raise UserError(f"{path} is missing: run `make compare RUN={run_dir.name}` first")
    labels = facts.labels(run)
    document = read_json(path)
    baseline, *candidates = run.variants
    return Opened(
        run,
        labels,
        [Comparison(document, name, (labels[baseline], labels[name])) for name in candidates],
        read_table(run_dir / "tidy/measurements.csv", MEASUREMENTS),
        read_table(run_dir / "tidy/checks.csv", CHECKS),
        read_noise(run_dir / "tidy/noise.csv"),
    )


def template(name: str) -> jinja2.Template:
    """Return a template of Markdown, which is no HTML: what people wrote is escaped where it is put in (markup)."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701 - as above
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def write(path: Path, text: str) -> str:
    """Write a text with at most one blank line in a row, and return it."""
    tidied = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    partial = path.with_name(path.name + ".partial")
    partial.write_text(tidied, encoding="utf-8")
    partial.replace(path)
    return tidied
