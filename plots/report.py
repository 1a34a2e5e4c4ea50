"""stats/ + tidy/ + plan -> report.md and plots/, and the summary in the terminal."""

import re
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from plots import charts, facts, tables, words
from tsduel.blocks import read_table
from tsduel.errors import UserError
from tsduel.metrics import METRICS
from tsduel.rundir import Run, open_run, read_json
from tsduel.tidy import CHECKS, MEASUREMENTS, TIMESERIES

PLOT = "plots/load-rate"
MOST_FAILURES = 20
LEGEND = (
    "diff % is the Hodges-Lehmann estimate with its exact 95 % interval over blocks; p is adjusted for all metrics of "
    "its family (Westfall-Young), so that one false alarm in twenty is meant for the whole family. ✗ and ✓: real, "
    "and at least the metric's threshold (5 % for rates, mean service times, memory and disk, 3 % for CPU seconds, 10 "
    "% for p99 and the rest, unless the experiment says otherwise); clearly: the whole interval is. ≈: real, below the "
    "threshold. =: equivalent, the 90 % interval is within the threshold. ?: inconclusive, which does not mean no "
    "change. What has no verdict says the same as another row, or is for information."
)
_TEMPLATES = Path(__file__).with_name("templates")


def main(run_dir: Path) -> None:
    """Write report.md and its plot."""
    run, comparisons = _open(run_dir)
    checks = read_table(run_dir / "tidy/checks.csv", CHECKS)
    measurements = read_table(run_dir / "tidy/measurements.csv", MEASUREMENTS)
    plotted = _plot(run, run_dir, checks)
    differ, common = facts.differences(run)
    names = facts.labels(run)
    said = [line for one in comparisons for line in facts.warnings(run, one, measurements)]
    text = _template("report.md.j2").render(
        title=_title(run, comparisons),
        question=_plain(str(run.plan.get("question") or "")),
        standing=facts.standing(run, comparisons),
        baseline=comparisons[0].labels[0],
        parts=[_part(run, one) for one in comparisons],
        calibration=facts.calibration(run),
        planned_blocks=run.plan["design"]["blocks"],
        differ=tables.markdown(["", *names.values()], [[key, *values] for key, values in differ])
        if differ
        else "The variants do not differ.",
        common=tables.markdown(["In common", ""], [list(pair) for pair in [*common, *facts.machine(run)]]),
        plot=PLOT if plotted else "",
        legend=LEGEND,
        checks_sentence=tables.checks_sentence(run, checks),
        checks=tables.checks_table(run, checks),
        check_failures=_failures(checks),
        failed_rounds=_failed_rounds(checks),
        warnings=[_plain(line) for line in dict.fromkeys(said)],
        method=facts.method(run),
        command=facts.command(run),
        run=run.path.name,
        cpus=run.json("raw/host.json").get("cpus"),
    )
    partial = run_dir / "report.md.partial"
    partial.write_text(_one_blank_line(text), encoding="utf-8")
    partial.replace(run_dir / "report.md")


def _part(run: Run, comparison: tables.Comparison) -> dict[str, Any]:
    """Return what the report says of one candidate."""
    change = comparison.row("load_rate")
    return {
        "candidate": comparison.labels[1],
        "blocks": comparison.valid_blocks,
        "answer": words.answer(comparison),
        "load_lines": tables.load_lines(comparison, run),
        "load_sentence": _load_sentence(comparison, change["change_pct"] if change else None, comparison.valid_blocks),
        "load_metrics": tables.metrics_table(comparison, tables.LOAD_METRICS),
        "round_metrics": tables.metrics_table(comparison, tables.ROUND_METRICS),
        "query_rates": tables.query_table(comparison, METRICS["query_rate"], run.query_types),
        "query_means": tables.query_table(comparison, METRICS["query_mean_ms"], run.query_types),
    }


def print_summary(run_dir: Path) -> None:
    """Print the table of verdicts, the checks and where the report is."""
    run, comparisons = _open(run_dir)
    checks = read_table(run_dir / "tidy/checks.csv", CHECKS)
    print(f"\n{_title(run, comparisons)}\n")
    for comparison in comparisons:
        print(tables.plain(comparison, run.query_types))
        print()
        for line in words.answer(comparison):
            print(line.replace("**", ""))
        print(f"Blocks: {comparison.valid_blocks} valid of {run.plan['design']['blocks']}.\n")
    for line in filter(None, [*facts.standing(run, comparisons), facts.calibration(run)]):
        print(line.replace("**", "").replace("`", ""))
    print(f"Checks: {tables.checks_sentence(run, checks)}.")
    for line in [*_failures(checks)[:5], *_failed_rounds(checks)]:
        print(f"  {line}")
    print(f"Report: {run_dir / 'report.md'}")


def _open(run_dir: Path) -> tuple[Run, list[tables.Comparison]]:
    run = open_run(run_dir)
    path = run_dir / "stats/comparison.json"
    if not path.exists():
        raise UserError(f"{path} is missing: run `make compare RUN={run_dir.name}` first")
    names = facts.labels(run)
    document = read_json(path)
    baseline, *candidates = run.variants
    return run, [tables.Comparison(document, name, (names[baseline], names[name])) for name in candidates]


def _title(run: Run, comparisons: list[tables.Comparison]) -> str:
    candidates = ", ".join(_plain(comparison.labels[1]) for comparison in comparisons)
    return f"{run.plan['name']}: {candidates} against {_plain(comparisons[0].labels[0])}"


def _plain(text: str) -> str:
    """Take the meaning from HTML in what a person wrote."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _template(name: str) -> jinja2.Template:
    # Markdown is no HTML: what comes from people is escaped where it is put in (_plain).
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=False,  # noqa: S701
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def _one_blank_line(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _plot(run: Run, run_dir: Path, checks: pd.DataFrame) -> bool:
    """Draw the load rate of measured rounds that were finished; False where there is none."""
    finished = checks["round"][(checks["check"] == "round_finished") & (checks["ok"] == "true")]
    table = read_table(run_dir / "tidy/timeseries.csv", TIMESERIES)
    rates = table[(table["metric"] == "load_rate") & (table["block"] > 0) & table["round"].isin(finished)]
    if rates.empty:
        return False
    charts.save(charts.load_rate(rates, facts.labels(run)), run_dir / PLOT)
    return True


def _load_sentence(comparison: tables.Comparison, change: float | None, blocks: int) -> str:
    if change is None:
        return ""
    row = comparison.row("load_rate") or {}
    if row.get("verdict") == "failed":
        return "A check of the load failed: these figures are of no use."
    how = "faster" if change > 0 else "slower"
    over = f"estimate over {blocks} block{'' if blocks == 1 else 's'}"
    return f"I.e. {comparison.labels[1]} was {abs(change):.1f} % {how} ({over})."


def _failures(checks: pd.DataFrame) -> list[str]:
    bad = checks[(checks["ok"] != "true") & (checks["check"] != "round_finished")]
    lines = [
        f"{round_}: {_plain(message)} (`{check}`)."
        for round_, check, message in zip(bad["round"], bad["check"], bad["message"], strict=True)
    ]
    if len(lines) > MOST_FAILURES:
        return [*lines[:MOST_FAILURES], f"and {len(lines) - MOST_FAILURES} more, see `tidy/checks.csv`."]
    return lines


def _failed_rounds(checks: pd.DataFrame) -> list[str]:
    bad = checks[(checks["ok"] != "true") & (checks["check"] == "round_finished")]
    return [
        f"{round_} failed{' in phase ' + phase if phase else ''}: {_plain(message)}"
        for round_, phase, message in zip(bad["round"], bad["phase"], bad["message"], strict=True)
    ]
