"""stats/ + tidy/ + plan -> report.md, report.html and plots/, and the summary in the terminal."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from plots import drawing, facts, markup, noise, page, pictures, queries, tables, words
from plots.opened import Opened, open_report, template, write

MOST_FAILURES = 20
LEGEND = (
    "diff % is the Hodges-Lehmann estimate with its exact 95 % interval over blocks; p is adjusted for all metrics of "
    "its family (Westfall-Young), so that one false alarm in twenty is meant for the whole family. ✗ and ✓: real, "
    "and at least the metric's threshold (5 % for rates, mean service times, memory and disk, 3 % for CPU seconds, 10 "
    "% for p99 and the rest, unless the experiment says otherwise); clearly: the whole interval is. ≈: real, below the "
    "threshold. =: equivalent, the 90 % interval is within the threshold. ?: inconclusive, which does not mean no "
    "change. What has no verdict says the same as another row, or is for information."
)


def main(run_dir: Path) -> None:
    """Write report.md, report.html and the pictures."""
    opened = open_report(run_dir)
    run, comparisons, checks, names = opened.run, opened.comparisons, opened.checks, opened.labels
    drawn = pictures.draw(drawing.read(opened))
    differ, common = facts.differences(run)
    text = template("report.md.j2").render(
        title=_title(opened),
        question=markup.text(str(run.plan.get("question") or "")),
        standing=facts.standing(run, comparisons),
        baseline=markup.text(comparisons[0].labels[0]),
        parts=[_part(opened, one) for one in comparisons],
        calibration=facts.calibration(run),
        planned_blocks=run.plan["design"]["blocks"],
        differ=tables.markdown(["", *names.values()], [[key, *values] for key, values in differ])
        if differ
        else "The variants do not differ.",
        common=tables.markdown(["In common", ""], [list(pair) for pair in [*common, *facts.machine(run)]]),
        load_lines=tables.load_lines(comparisons, run),
        loads=tables.metrics_tables(comparisons, tables.LOADS),
        load_metrics=tables.metrics_tables(comparisons, tables.LOAD_METRICS),
        round_metrics=tables.metrics_tables(comparisons, tables.ROUND_METRICS),
        shift=queries.asks_for_shift(run.plan),
        pictures=[picture for picture in drawn if picture.drawn],
        not_drawn=[picture.name for picture in drawn if not picture.drawn],
        legend=LEGEND,
        checks_sentence=tables.checks_sentence(run, checks),
        checks=tables.checks_table(run, checks),
        check_failures=_failures(checks),
        failed_rounds=_failed_rounds(checks),
        left_out=_once(line for one in comparisons for line in facts.left_out(one)),
        noise=noise.section(run, opened.noise),
        warnings=_once(line for one in comparisons for line in facts.warnings(run, one, opened.measurements)),
        method=facts.method(run),
        command=markup.block(facts.command(run), "shell"),
        identities=facts.identities(run),
        written=facts.folded_experiment(run),
        run=run.path.name,
        imported=bool(run.plan.get("imported")),
        cpus=run.json("raw/host.json").get("cpus"),
    )
    text = write(run_dir / "report.md", text)
    write(run_dir / "report.html", page.render(text, _title(opened), run_dir))


def _once(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(lines))


def _part(opened: Opened, comparison: tables.Comparison) -> dict[str, Any]:
    """Return what the report says of one candidate."""
    types = opened.run.query_types
    return {
        "candidate": markup.text(comparison.labels[1]),
        "blocks": comparison.valid_blocks,
        "headline": words.headline(comparison),
        "answer": words.answer(comparison),
        "load_sentence": _load_sentence(comparison),
        "queries": queries.overview(comparison, types),
        "query_details": queries.details(comparison, types),
        "shifts": queries.shifts(comparison, opened.run),
    }


def print_summary(run_dir: Path) -> None:
    """Print the table of verdicts, the checks and where the report is."""
    opened = open_report(run_dir)
    run, comparisons, checks = opened.run, opened.comparisons, opened.checks
    print(f"\n{_title(opened)}\n")
    for comparison in comparisons:
        print(tables.plain(comparison, run.query_types))
        print()
        for line in words.answer(comparison):
            print(line.replace("**", ""))
        print(f"Blocks: {comparison.valid_blocks} valid of {run.plan['design']['blocks']}.\n")
    for line in filter(None, [*facts.standing(run, comparisons), facts.calibration(run)]):
        print(line.replace("**", "").replace("`", ""))
    print(f"{tables.checks_sentence(run, checks)}.")
    for line in [*_failures(checks)[:5], *_failed_rounds(checks)]:
        print(f"  {line}")
    print(f"Report: {run_dir / 'report.md'}, with its pictures in one file: {run_dir / 'report.html'}")


def _title(opened: Opened) -> str:
    baseline, *candidates = (markup.text(label) for label in opened.labels.values())
    return f"{markup.text(opened.run.plan['name'])}: {', '.join(candidates)} against {baseline}"


def _load_sentence(comparison: tables.Comparison) -> str:
    row, blocks = comparison.row("load_rate") or {}, comparison.valid_blocks
    change = row.get("change_pct")
    if change is None:
        return ""
    if row.get("verdict") == "failed":
        return "A check of the load failed: these figures are of no use."
    how = "faster" if change > 0 else "slower"
    over = f"estimate over {blocks} block{'' if blocks == 1 else 's'}"
    return f"I.e. {markup.text(comparison.labels[1])} was {abs(change):.1f} % {how} ({over})."


def _failures(checks: pd.DataFrame) -> list[str]:
    bad = checks[(checks["ok"] != "true") & (checks["check"] != "round_finished")]
    lines = [
        f"{round_}: {markup.text(message)} ({markup.code(check)})."
        for round_, check, message in zip(bad["round"], bad["check"], bad["message"], strict=True)
    ]
    if len(lines) > MOST_FAILURES:
        return [*lines[:MOST_FAILURES], f"and {len(lines) - MOST_FAILURES} more, see `tidy/checks.csv`."]
    return lines


def _failed_rounds(checks: pd.DataFrame) -> list[str]:
    bad = checks[(checks["ok"] != "true") & (checks["check"] == "round_finished")]
    return [
        f"{round_} failed{' in phase ' + phase if phase else ''}: {markup.text(message)}"
        for round_, phase, message in zip(bad["round"], bad["phase"], bad["message"], strict=True)
    ]
