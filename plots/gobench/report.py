"""stats/ + tidy/ + plan -> report.md of a run of Go benchmarks, and the summary in the terminal."""

import re
import subprocess
from pathlib import Path

import jinja2

from plots import facts as shared
from plots.gobench import facts, profiles, tables
from plots.tables import Comparison, markdown
from tsduel.blocks import read_table
from tsduel.errors import UserError
from tsduel.rundir import Run, open_run, read_json
from tsduel.tidy import CHECKS

PROJECT = Path(__file__).resolve().parent.parent.parent
MOST_FAILURES = 20
_TEMPLATES = PROJECT / "plots/templates"
_BENCHSTAT_S = 600


def main(run_dir: Path) -> None:
    """Write report.md."""
    run, comparisons = _open(run_dir)
    checks = read_table(run_dir / "tidy/checks.csv", CHECKS)
    differ, common = facts.compared(run)
    failed = facts.failures(checks)
    text = _template().render(
        title=_plain(_title(run, comparisons)),
        question=_plain(str(run.plan.get("question") or "")),
        standing=shared.standing(run, comparisons),
        baseline=comparisons[0].labels[0],
        parts=[
            {"candidate": one.labels[1], "blocks": one.valid_blocks, "summary": facts.summary(one)}
            for one in comparisons
        ],
        planned_blocks=run.plan["design"]["blocks"],
        calibration=facts.calibration(run),
        differ=markdown(["", *(str(v["name"]) for v in _planned(run))], [[key, *values] for key, values in differ])
        if differ
        else "",
        common=markdown(["In common", ""], [list(pair) for pair in common]),
        units=[
            {
                "name": unit,
                "title": tables.TITLES.get(unit, unit),
                "table": tables.unit_table(comparisons, unit, run.query_types),
            }
            for unit in tables.units(comparisons)
        ],
        benchstat=benchstat(run),
        profiles=profiles.differences(run),
        checks_sentence=facts.checks_sentence(run, checks),
        checks=facts.checks_table(run, checks),
        failures=[_plain(line) for line in failed[:MOST_FAILURES]],
        more_failures=max(0, len(failed) - MOST_FAILURES),
        warnings=[_plain(line) for line in facts.warnings(run, comparisons)],
        method=facts.method(run),
        command=facts.command(run),
        run=run.path.name,
    )
    partial = run_dir / "report.md.partial"
    partial.write_text(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n", encoding="utf-8")
    partial.replace(run_dir / "report.md")


def print_summary(run_dir: Path) -> None:
    """Print the table of verdicts, the checks and where the report is."""
    run, comparisons = _open(run_dir)
    checks = read_table(run_dir / "tidy/checks.csv", CHECKS)
    print(f"\n{_title(run, comparisons)}\n")
    for comparison in comparisons:
        print(tables.plain(comparison, run.query_types))
        print()
        for line in facts.summary(comparison):
            print(line.replace("**", ""))
        print(f"Blocks: {comparison.valid_blocks} valid of {run.plan['design']['blocks']}.\n")
    said = [*shared.standing(run, comparisons), facts.calibration(run), *facts.warnings(run, comparisons)[:5]]
    for line in filter(None, said):
        print(line.replace("**", "").replace("`", ""))
    print(f"Checks: {facts.checks_sentence(run, checks)}.")
    for line in facts.failures(checks)[:5]:
        print(f"  {line}")
    print(f"Report: {run_dir / 'report.md'}")


def benchstat(run: Run) -> str:
    """Return benchstat's own table, or a sentence that says why there is none."""
    words = [str(PROJECT / "scripts/benchstat"), str(run.path)]
    pivot = run.plan["gobench"]["pivot"]
    if pivot:
        keys = [f"/{key}" for row in run.query_types[:1] for key in re.findall(r"/([^/=]+)=", row)]
        words += ["-row", " ".join([".name", *keys]), "-col", f"/{pivot['column']}"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_BENCHSTAT_S)
    except subprocess.TimeoutExpired:
        return f"benchstat did not end within {_BENCHSTAT_S} s; `make benchstat RUN={run.path.name}` tries again."
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"benchstat has no table: {said}. `make benchstat RUN={run.path.name}` tries again."
    return done.stdout.rstrip()


def _planned(run: Run) -> list[dict[str, str]]:
    by_name = {str(v["name"]): v for v in run.plan["variants"]}
    return sorted(by_name.values(), key=lambda variant: variant["name"] != "baseline")


def _open(run_dir: Path) -> tuple[Run, list[Comparison]]:
    run = open_run(run_dir)
    path = run_dir / "stats/comparison.json"
    if not path.exists():
        raise UserError(f"{path} is missing: run `make compare RUN={run_dir.name}` first")
    names, document = facts.labels(run), read_json(path)
    baseline, *candidates = run.variants
    return run, [Comparison(document, name, (names[baseline], names[name])) for name in candidates]


def _title(run: Run, comparisons: list[Comparison]) -> str:
    candidates = ", ".join(comparison.labels[1] for comparison in comparisons)
    return f"{run.plan['name']}: {candidates} against {comparisons[0].labels[0]}"


def _plain(text: str) -> str:
    """Take the meaning from HTML in what a person or a program wrote."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=False,  # noqa: S701 - Markdown is no HTML: see _plain
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("gobench.md.j2")
