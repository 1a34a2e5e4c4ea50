"""stats/ + tidy/ + plan -> report.md and report.html of Go benchmarks, and the summary in the terminal."""

import re
import subprocess
from pathlib import Path

from plots import drawing, markup, noise, page
from plots import facts as shared
from plots.gobench import facts, pictures, profiles, tables
from plots.opened import Opened, open_report, template, write
from tsduel.core.rundir import Run

PROJECT = Path(__file__).resolve().parent.parent.parent
MOST_FAILURES = 20
_BENCHSTAT_S = 600


def main(run_dir: Path) -> None:
    """Write report.md, report.html and the pictures."""
    opened = open_report(run_dir)
    drawn = pictures.draw(drawing.read(opened))
    run, comparisons, checks = opened.run, opened.comparisons, opened.checks
    failed = facts.failures(checks)
    text = template("gobench.md.j2").render(
        title=_title(opened),
        question=markup.text(str(run.plan.get("question") or "")),
        standing=shared.standing(run, comparisons),
        baseline=markup.text(comparisons[0].labels[0]),
        parts=[
            {"candidate": markup.text(one.labels[1]), "blocks": one.valid_blocks, "summary": facts.summary(one)}
            for one in comparisons
        ],
        planned_blocks=run.plan["design"]["blocks"],
        calibration=facts.calibration(run),
        compared=tables.compared(*facts.compared(run), facts.built(run)),
        units=[
            {"title": tables.titled(unit), "table": tables.unit_table(comparisons, unit, run.query_types)}
            for unit in tables.units(comparisons)
        ],
        pictures=[picture for picture in drawn if picture.drawn],
        not_drawn=[picture.name for picture in drawn if not picture.drawn],
        benchstat=markup.block(benchstat(run), "text"),
        profiles=[
            {"title": found["title"], "text": markup.block(found["text"], "text")}
            for found in profiles.differences(run)
        ],
        noise=noise.section(run, opened.noise),
        checks_sentence=facts.checks_sentence(run, checks),
        checks=facts.checks_table(run, checks),
        failures=failed[:MOST_FAILURES],
        more_failures=max(0, len(failed) - MOST_FAILURES),
        warnings=facts.warnings(run, comparisons),
        method=facts.method(run),
        command=markup.block(facts.command(run), "shell"),
        written=shared.folded_experiment(run),
        run=run.path.name,
    )
    text = write(run_dir / "report.md", text)
    write(run_dir / "report.html", page.render(text, _title(opened), run_dir))


def print_summary(run_dir: Path) -> None:
    """Print the table of verdicts, the checks and where the report is."""
    opened = open_report(run_dir)
    run, comparisons, checks = opened.run, opened.comparisons, opened.checks
    print(f"\n{_title(opened)}\n")
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
    print(f"Report: {run_dir / 'report.md'}, with its pictures in one file: {run_dir / 'report.html'}")


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


def _title(opened: Opened) -> str:
    candidates = ", ".join(comparison.labels[1] for comparison in opened.comparisons)
    return markup.text(f"{opened.run.plan['name']}: {candidates} against {opened.comparisons[0].labels[0]}")
