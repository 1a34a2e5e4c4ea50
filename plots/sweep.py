"""A study of settings: its answer in a sentence, the growth of figures, a table by setting, and each setting's own."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plots import cost, markup, numbers, page, sentences
from plots.comparison import Comparison, Row, decision
from plots.growth import exponents, growth, pictures_of
from plots.pictures import Pictures
from plots.report import plain
from plots.sections import blocks, hosts, sides, summary, tables
from plots.source import write
from plots.study import Figures, Settings, figures_of, open_settings, samples_of, short_name, unit_of
from tsduel.core.metrics import Metric
from tsduel.core.wording import number_of
from tsduel.studies.settings import Sweep

MOST_LINES, MOST_NAMED = 6, 4
"""Differences between machines that are told, settings that a sentence names."""
Difference = Mapping[str, Any]
"""An entry of `machines` in comparison.json: one row on two types of machines."""


def main(directory: Path) -> None:
    """Write report.md, report.html and the pictures."""
    study, pictures = open_settings(directory), Pictures(directory)
    text = markup.paragraphs(
        f"# {study.title}", screen(study, pictures),
        "## By setting", section(study, pictures), cost.section(study), "## Each setting", each_setting(study),
        "## How to reproduce", sides.command(study.plan.kind, Sweep.load(directory).asked),
    )  # fmt: skip
    text = write(directory / "report.md", text)
    write(directory / "report.html", page.render(text, plain(study.title), directory))


def print_summary(directory: Path) -> None:
    """Print the answer, the changes by setting, the checks and the path of the report."""
    study = open_settings(directory)
    lines = [*answers(study), *(changes(study, name) for name in study.run.variants[1:]), *_standing(study)]
    print(f"\n{study.title}\n")
    print("\n\n".join(map(plain, [*lines, _checks(study)])))
    print(f"Report: {directory / 'report.md'}, with its pictures in one file: {directory / 'report.html'}")


def comment(directory: Path, marker: str) -> str:
    """Return the short Markdown block for a pull request."""
    study = open_settings(directory)
    return markup.paragraphs(
        marker.format(study.plan.name),
        *answers(study),
        *(changes(study, name) for name in study.run.variants[1:]),
        markup.folded("How it grows", *growth(study)),
        markup.quoted(_standing(study)),
        f"{markup.text(study.plan.question)} {_checks(study)}".strip(),
        *_folds(study),
        markup.folded("How to reproduce", sides.command(study.plan.kind, Sweep.load(directory).asked)),
    )


def _standing(study: Settings) -> list[str]:
    lines = summary.standing(study) + [line for source in study.sources.values() for line in hosts.standing(source)]
    lines += [f"{side.setting}: {said}" for side in study.comparisons if (said := sentences.before(side))]
    missing = [each["name"] for each in study.document["settings"] if not each["compared"]]
    if missing:
        lines.append(f"**No result of {markup.text(', '.join(missing))}**: a run failed, see its run.log.")
    return list(dict.fromkeys(lines))


def _checks(study: Settings) -> str:
    made, failed = (study.document["checks"][name] for name in ("made", "failed"))
    return f"{numbers.count(made)} checks in all runs, {f'**{failed} failed**' if failed else 'none failed'}."


def screen(study: Settings, pictures: Pictures) -> str:
    """Return the first screen: question, answer, picture, the changes by setting, and the growth of figures."""
    question = study.plan.question
    return markup.paragraphs(
        f"**Question.** {markup.text(question)}" if question else "",
        markup.quoted(_standing(study)),
        *answers(study),
        between_types(study),
        cost.answers(study),
        *pictures_of(study, pictures, figures_of(study), "scaling"),
        *(changes(study, name) for name in study.run.variants[1:]),
        tables.MARKS,
        *growth(study),
        _checks(study),
    )


def _sides(study: Settings, candidate: str) -> list[Comparison]:
    return [comparison for comparison in study.comparisons if comparison.candidate == candidate]


def answers(study: Settings) -> list[str]:
    """Return the answer for each candidate in a sentence: verdicts, with their subjects and settings."""
    lines = []
    for name in study.run.variants[1:]:
        comparisons = _sides(study, name)
        few = sorted({len(comparison.valid) for comparison in comparisons})
        counted = f"{few[0]} to {few[-1]} valid blocks" if len(few) > 1 else number_of(few[0], "valid block")
        title = f"{markup.text(study.labels[name])} against {markup.text(study.labels[study.baseline])}"
        verdicts = ". ".join(_verdicts(study, comparisons)) or "? nothing was measured"
        settings = f"{number_of(len(comparisons), 'setting')} ({_keys(study)})"
        lines.append(f"**Answer.** {title} in {settings}, {counted}{comparisons[0].on_hosts} each: {verdicts}.")
        # FAIL_ON=regression sees them, too.
        inside = [f"{markup.text(side.setting)}: {said}" for side in comparisons for said in sentences.inside(side)]
        lines += [f"Below the means: {'; '.join(markup.most(inside, MOST_NAMED))}."] if inside else []
    return lines


def _verdicts(study: Settings, comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield e.g. "**✗ worse** from scale=1000 on: Query time (1.9 to 4.1 % slower)"; without a difference last."""
    by_verdict: dict[str, dict[str, list[str]]] = {}
    for metric, query_type in sentences.keys(comparisons):
        rows = {side.setting: row for side in comparisons if (row := side.row(metric, query_type))}
        registered = study.metrics[metric]
        for verdict in dict.fromkeys(map(decision, rows.values())):
            named = [name for name, row in rows.items() if decision(row) == verdict]
            size = _sizes([rows[name] for name in named], registered) if sentences.HEADLINES[verdict][1] else ""
            where = _where(study, named, len(comparisons))
            by_verdict.setdefault(verdict, {}).setdefault(where, []).append(f"{registered.named(query_type)}{size}")
    for verdict, (words, _) in sentences.HEADLINES.items():
        for where, subjects in by_verdict.get(verdict, {}).items():
            yield f"{words} {where}: {'; '.join(subjects)}"


def _where(study: Settings, named: Sequence[str], total: int) -> str:
    if len(named) == total:
        return "in all settings" if total > 1 else f"at {markup.text(named[0])}"
    for line in study.document["lines"]:
        if set(named) == set(line["settings"][-len(named) :]) and len(named) > 1:
            return f"from {markup.text(line['settings'][-len(named)])} on"
    return f"at {markup.text(', '.join(named))}" if len(named) <= MOST_NAMED else f"in {len(named)} of {total} settings"


def _keys(study: Settings) -> str:
    """Return the swept keys with their values: scale 100 to 10,000."""
    parts, settings = [], study.document["settings"]
    for key in dict.fromkeys(key for each in settings for key in each["set"]):
        values = list(dict.fromkeys(_plain(each["set"][key]) for each in settings))
        shown = f"{values[0]} to {values[-1]}" if len(values) > MOST_NAMED else ", ".join(values)
        parts.append(f"{key.rpartition('.')[2].replace('_', ' ')} {shown}")
    return markup.text("; ".join(parts))


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _sizes(rows: Sequence[Row], metric: Metric) -> str:
    by_size = sorted((row for row in rows if row["change_pct"] is not None), key=lambda row: float(row["change_pct"]))
    if not by_size:
        return ""
    if numbers.by_ratio(rows[0]):
        ends = [sentences.size(row, metric).partition(" times ") for row in (by_size[0], by_size[-1])]
        if ends[0][2] != ends[1][2]:
            return f" ({' to '.join(map(''.join, ends))})"
        times = sorted({number for number, _, _ in ends}, key=lambda number: float(number.replace(",", "")))
        return f" ({' to '.join(times)} times {ends[0][2]})"
    low, high = by_size[0]["change_pct"], by_size[-1]["change_pct"]
    if low < 0 < high:
        return f" ({numbers.reach(low, high)} %)"
    near, far = sorted((low, high), key=abs)
    sizes = dict.fromkeys(numbers.size(value) for value in (near, far))
    return f" ({' to '.join(sizes)} % {metric.words[far < 0]})"


def changes(study: Settings, candidate: str) -> str:
    """Return a table with a row a setting: the change of each subject with its mark."""
    comparisons = _sides(study, candidate)
    what = "ratio" if comparisons[0].crosses else "change, %"
    title = f"{comparisons[0].labels[1]}, {what}" if study.run.variants[2:] else what
    return markup.table(*tables.matrix([(side.setting, side) for side in comparisons], f"Setting, {title}"))


def section(study: Settings, pictures: Pictures) -> str:
    """Return both values of each figure by setting, the same of each query type, pictures and exponents."""
    keys = [("duel_typical_ms", query_type) for query_type in study.query_types]
    types = {key: key[1] for key in keys if any(comparison.row(*key) for comparison in study.comparisons)}
    candidates, figures = study.run.variants[1:], figures_of(study)
    return markup.paragraphs(
        *(_by_setting(study, name, figures) for name in candidates),
        "A cell of the table has the baseline's value → the candidate's value (the change) and the mark. Per sample: "
        "divided by the samples that the setting stores. The runs "
        "followed each other: what the machine drifted between them is in the growth of a figure, and not in a change.",
        *(pictures_of(study, pictures, types, "scaling-types") if types else ()),
        markup.folded("Query time of each query type", *(_by_setting(study, c, types) for c in candidates if types)),
        markup.folded("Exponents", *exponents(study)),
    )


def _by_setting(study: Settings, candidate: str, figures: Figures) -> str:
    comparisons, samples = _sides(study, candidate), samples_of(study)
    counted = len(set(samples.values()) - {None}) > 1
    rows = []
    for side in comparisons:
        stored = samples[side.setting]
        cells = (side.cell_of(*key, unit_of(study.metrics[key[0]], stored)[1]) for key in figures)
        rows.append([side.setting, *([numbers.count(stored)] if counted else []), *cells])
    units = (numbers.scaled(unit_of(study.metrics[metric], 1)[0], 0.0)[0] for metric, _ in figures)
    named = [f"{title}, {unit}" for title, unit in zip(figures.values(), units, strict=True)]
    title = f"Setting, {comparisons[0].labels[1]} against {comparisons[0].labels[0]}"
    head = [title, *(["samples"] if counted else []), *named]
    return markup.table(head, rows, range(1, len(head)))


def each_setting(study: Settings) -> str:
    """Return the answer of each setting with its table, folded, what was left out, and where its report is."""
    lines, left_out = [], list[str]()
    for name, source in study.sources.items():
        run = source.run.path.name
        lines.append([name, markup.Safe(f"[{run}](../{run}/report.md)"), summary.compared_answers(source)])
        left_out += [f"{markup.text(name)}: {line}" for side in source.comparisons for line in blocks.left_out(side)]
        left_out += [f"{markup.text(name)}: {line}" for line in blocks.failures(source)]
    return markup.paragraphs(
        *_folds(study),
        markup.items(dict.fromkeys(left_out)) or "Every block of the plan counts.",
        "Each setting is a run with a report of its own, in which p is adjusted for that run alone:",
        markup.table(["Setting", "Run", ""], lines),
    )


def _folds(study: Settings) -> Iterator[str]:
    for side in study.comparisons:
        title = f"{side.setting}: {side.labels[1]} against {side.labels[0]}, {side.blocks}"
        yield sentences.folded(side, title, study.query_types)


def between_types(study: Settings) -> str:
    """Return a line for each difference between two types of machines."""
    by_key = {(side.setting, side.candidate): side for side in study.comparisons}
    lines = [
        f"{by_key[each['setting'], each['candidate']].named(row)}: {_difference(study, each)}"
        for each in study.document["machines"]
        for row in sentences.subjects(by_key[each["setting"], each["candidate"]])
        if (row["metric"], row["query_type"]) == (each["metric"], each["query_type"])
    ]
    shown = markup.most(lines, MOST_LINES, "and {} more: see stats/comparison.json")
    return markup.titled("**Between machines:**", markup.items(shown))


def _difference(study: Settings, difference: Difference) -> str:
    """Return a difference in words with its interval: on e2 1.9 points worse than on n2 (0.7 to 3.1)."""
    first, second = (short_name(difference[name]) for name in ("setting", "than"))
    sign = 1 if study.metrics[difference["metric"]].better == "lower" else -1
    worse, (low, high) = sign * difference["points"], sorted((sign * difference["lo"], sign * difference["hi"]))
    several = f" for {markup.text(study.labels[difference['candidate']])}" if study.run.variants[2:] else ""
    alone = "; one host each, so it may be the host" if difference["one_host"] else ""
    if low <= 0 <= high:
        reach = f"{numbers.reach(low, high)} points worse on the first{several}{alone}"
        return f"no difference between {first} and {second} is seen ({reach})"
    word, (inner, outer) = ("worse", (low, high)) if worse > 0 else ("better", (-high, -low))
    reach = f"{numbers.size(inner)} to {numbers.size(outer)}{alone}"
    return f"on {first} {numbers.size(worse)} points {word} than on {second}{several} ({reach})"
