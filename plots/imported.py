"""`make import`: two terminal logs of `make tsbs` -> results/imported/NAME, a report with one table and one picture.

Each log is one run that was measured elsewhere: there is no verdict. Other stages do not read the directory.
"""

import hashlib
import shlex
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from plots import markup, numbers, page, sentences
from plots.charts.curves import load_rate
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.plot_load import curves
from plots.report import plain, print_table
from plots.source import write
from tsduel.cli.pipeline import new_run
from tsduel.core import files
from tsduel.core.codes import CHECK_FAILED, DONE
from tsduel.core.errors import UserError
from tsduel.core.metrics import GEOMEAN, METRICS
from tsduel.core.results import run_directory
from tsduel.core.sections import WorkloadAsked
from tsduel.core.wording import number_of
from tsduel.stats.rows import SHORT_PHASE_S
from tsduel.workloads.tsbs.logs import PROCESS, Log, read_log
from tsduel.workloads.tsbs.output import precise_mean_ms
from tsduel.workloads.tsbs.queries import SAMPLES_PER_LINE

HOME = "imported"
KNOBS = {"baseline": ("BASELINE_LOG", "BASELINE"), "candidate": ("CANDIDATE_LOG", "CANDIDATE")}
SHOWN = ("load_rate", "load_seconds", *PROCESS, "query_rate", "query_mean_ms", "query_p50_ms")
ONE_EACH = (
    "**One run each: no verdict.** These are two logs of one run each, imported and not measured here; how much a "
    "difference is worth is not known. `make tsbs` repeats and interleaves, and gives an answer."
)
FAILED = "**A check failed: these figures are of no use.**"
LIMITS = """\
- Rates, means and medians are those of the summaries that TSBS prints. It prints no other percentiles.
- CPU, memory and bytes are the process_* lines of /metrics, read once after the load. They are what the server had
  counted since its start, not differences over the load.
- Only what a log shows was checked: how many samples were sent, and whether any were sent again. The machine, the
  flags, lost samples and the answers are not known.
- The same binary run twice differs by as much as many changes do, and another CPU, disk or workload may turn the
  order around.
"""
MOST_WARNINGS = 5
"""Warnings in the terminal; the report has all."""


def main(environment: Mapping[str, str], results: Path) -> int:
    """Write the report on the logs that the knobs name, and return the exit code; for a wrong log write nothing."""
    name = environment.get("RUN") or new_run({}, "import")
    out = results / HOME / run_directory(name, must_exist=False).name
    if out.exists():
        raise UserError(f"{out} is there already; import makes a report of its own: leave RUN= out")
    if lacking := [knob for knob, _ in KNOBS.values() if not environment.get(knob)]:
        raise UserError(f"{lacking[0]} is not given: make import BASELINE_LOG=a.log CANDIDATE_LOG=b.log")
    paths = {side: files.from_home(environment[knob]) for side, (knob, _) in KNOBS.items()}
    if paths["baseline"].resolve() == paths["candidate"].resolve():
        raise UserError(f"BASELINE_LOG and CANDIDATE_LOG are the same file: {paths['baseline']}")
    logs = {side: read_log(path) for side, path in paths.items()}
    labels = {side: environment.get(KNOBS[side][1], "").strip() or path.stem for side, path in paths.items()}
    if len(set(labels.values())) < len(labels):
        labels = {side: f"{label} ({side})" for side, label in labels.items()}
    (out / "logs").mkdir(parents=True)
    for side, path in paths.items():
        shutil.copyfile(path, out / f"logs/{side}.log")
    figures = rows(logs)
    failed, doubts = list(failures(logs, labels)), list(warnings(logs, labels, figures))
    title, names = "{candidate} against {baseline}".format(**labels), markup.text(" and ".join(labels.values()))
    compared = [row for row in figures if row["change_pct"] is not None]
    sides = Comparison("candidate", (labels["baseline"], labels["candidate"]), compared, METRICS, [], {})
    # Without the mark, which stands for a verdict.
    answers = [] if failed else [line.removeprefix("? ") for line in sentences.answer(sides)]
    summary = [ONE_EACH, *([FAILED, *failed] if failed else [])]
    knobs = [f"{KNOBS[side][0]}={log.path}" for side, log in logs.items()]
    knobs += [f"{KNOBS[side][1]}={label}" for side, label in labels.items()]
    picture = Pictures(out).show(
        "load-rate", "load rate", f"Ingestion rate over time, samples/s: {names}",
        "One load of each; a bar marks its end.",
        load_rate(curves({side: log.load for side, log in logs.items()}), labels),
    )  # fmt: skip
    text = write(out / "report.md", markup.paragraphs(
        f"# {markup.text(title)}", markup.quoted(summary), picture, markup.items(answers),
        "## Figures", markup.table(*_table(figures, labels), right=range(2, 5)),
        markup.titled("## Warnings", markup.items(doubts)),
        "## Where the figures come from", LIMITS + markup.items(_origins(logs)),
        markup.block(shlex.join(["make", "import", *knobs]), "shell"),
    ))  # fmt: skip
    write(out / "report.html", page.render(text, title, out))
    print(f"\n{title}\n")
    print_table(*_table(figures, labels))
    for line in (*answers, "", *summary, *doubts[:MOST_WARNINGS]):
        print(plain(line))
    print(f"Report: {out / 'report.md'}, with its picture in one file: {out / 'report.html'}")
    if failed:
        print(f"tsduel: {number_of(len(failed), 'check')} failed: exit code {CHECK_FAILED}", file=sys.stderr)
    return CHECK_FAILED if failed else DONE


def rows(logs: Mapping[str, Log]) -> list[Row]:
    """Return a row a metric and query type, like those of comparison.json, without statistics."""
    first, second = (_figures(log) for log in logs.values())
    means = [key for key in first if key[0] == "query_mean_ms" and first[key] and second.get(key)]
    if means:
        for figures in (first, second):
            figures["query_mean_ms", GEOMEAN] = statistics.geometric_mean(figures[key] for key in means)
    table = []
    for name, query_type in sorted(first | second, key=lambda key: SHOWN.index(key[0])):
        metric, old, new = METRICS[name], first.get((name, query_type)), second.get((name, query_type))
        change = 100 * (new / old - 1) if old and new is not None else None
        table.append({
            "metric": name, "query_type": query_type, "unit": metric.unit, "threshold_pct": metric.threshold,
            "baseline_median": old, "candidate_median": new,
            "baseline_pseudomedian": old, "candidate_pseudomedian": new,
            "change_pct": change, "lo_pct": None, "hi_pct": None, "p_adj": None, "warnings": "",
            "verdict": "inconclusive (n < 6)", "blocks": 1, "blocks_needed": None,
        })  # fmt: skip
    return table


def _figures(log: Log) -> dict[tuple[str, str], float]:
    figures = {("load_rate", ""): log.load.rate, ("load_seconds", ""): log.load.seconds}
    figures |= {(metric, ""): log.process.get(name) for metric, name in PROCESS.items()}
    for query_type, output in log.queries.items():
        figures["query_rate", query_type] = output.rate
        figures["query_mean_ms", query_type] = precise_mean_ms(output)
        figures["query_p50_ms", query_type] = output.median_ms
    return {key: value for key, value in figures.items() if value is not None}


def failures(logs: Mapping[str, Log], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each load of an unexpected size, and for each in which samples were sent again."""
    expected = next(filter(None, (samples_asked(log.flags) for log in logs.values())), logs["baseline"].load.samples)
    for side, log in logs.items():
        name, sent = markup.text(labels[side]), log.load.samples
        if sent != expected:
            yield f"{name}: the loader sent {sent} samples, and {expected} were expected."
        if log.complaints:
            lines = number_of(len(log.complaints), "line")
            yield f"{name}: the loader complained on {lines}, the first: {markup.text(log.complaints[0][:200])}"


def samples_asked(flags: Mapping[str, str]) -> int | None:
    """Return the number of samples that the flags of tsbs_generate_data stand for; None if they do not say it."""
    try:
        workload = WorkloadAsked(
            use_case=flags["use-case"], scale=int(flags["scale"]), interval=flags["log-interval"],
            start=flags["timestamp-start"], end=flags["timestamp-end"],
        )  # fmt: skip
        return workload.window_s // workload.step_s * workload.scale * SAMPLES_PER_LINE[workload.use_case]
    except (KeyError, ValueError):  # a ValidationError of pydantic is a ValueError
        return None


def warnings(logs: Mapping[str, Log], labels: Mapping[str, str], figures: list[Row]) -> Iterator[str]:
    """Yield warnings: messages of make, different flags, workers and queries, metrics of one side, short phases."""
    first, second = logs.values()
    notes = [*first.notes, *second.notes]
    notes += [
        f"--{flag} differs: {value} and {second.flags[flag]}"
        for flag, value in first.flags.items()
        if second.flags.get(flag, value) != value
    ]
    if first.load.workers != second.load.workers:
        notes.append(f"the loads had {first.load.workers} and {second.load.workers} workers")
    notes += [
        f"{query_type} is not the same on both sides: '{head}' and '{second.heads[query_type]}'"
        for query_type, head in first.heads.items()
        if second.heads.get(query_type, head) != head
    ]
    yield from (f"{markup.text(line)}." for line in notes)
    alone = {}
    for row in figures:
        if row["baseline_median"] is None or row["candidate_median"] is None:
            side = "candidate" if row["baseline_median"] is None else "baseline"
            alone[row["query_type"] or METRICS[row["metric"]].title] = labels[side]
    for name, label in alone.items():
        yield f"{markup.text(name)} exists in {markup.text(label)} only: it is shown, and not compared."
    lasted = [("the load", log.load.seconds) for log in logs.values()]
    lasted += [(query_type, output.wall_s) for log in logs.values() for query_type, output in log.queries.items()]
    # The longer phase first, so that the dictionary keeps the shorter one of both sides.
    by_length = sorted(((name, s) for name, s in lasted if s is not None), key=lambda phase: -phase[1])
    yield from sentences.short_phases({name: seconds for name, seconds in by_length if seconds < SHORT_PHASE_S})


def _table(figures: list[Row], labels: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    cells = []
    for row in figures:
        metric, (unit, sides) = METRICS[row["metric"]], numbers.sides(row)
        name = metric.named(row["query_type"]) + markup.aside(metric.known_as)
        cells.append([name, unit, *sides, numbers.changed(row)])
    return ["Metric", "Unit", *labels.values(), "diff %"], cells


def _origins(logs: Mapping[str, Log]) -> Iterator[str]:
    for side, log in logs.items():
        digest = hashlib.sha256(log.path.read_bytes()).hexdigest()
        flags = " ".join(f"--{name}={value}" for name, value in log.flags.items())
        flags_given = markup.aside(flags and markup.code(flags))
        yield (
            f"`logs/{side}.log`: {numbers.count(log.load.samples)} samples{flags_given}, "
            f"{log.load.workers} workers; {markup.code(str(log.path))} as it was, sha256 {markup.code(digest)}"
        )
