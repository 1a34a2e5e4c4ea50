"""A sweep: its answer in a sentence, the growth of figures, a table by cell, and each cell's own answer, folded."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from plots import markup, numbers, sentences
from plots.charts.scaling import Panel, scaling
from plots.comparison import Comparison, Row, decision
from plots.pictures import Pictures
from plots.sections import blocks, heading, hosts, summary, tables
from plots.source import Source
from tsduel.core.metrics import GEOMEAN, Metric
from tsduel.core.wording import number_of
from tsduel.stats.sweep import PER_SAMPLE

MOST_LINES, MOST_PANELS, MOST_NAMED = 6, 12, 4
"""Lines that have a picture, figures in a picture, cells that a sentence names."""
NS = 1e9
Fit = Mapping[str, Any]
Figures = Mapping[tuple[str, str], str]
"""Metric and query type -> title, of the figures of a table or a picture."""


def screen(source: Source, pictures: Pictures) -> str:
    """Return the first screen of a sweep: question, answer, picture, the changes by cell, and the growth of figures."""
    return markup.paragraphs(
        *summary.question(source),
        *answers(source),
        hosts.between_types(source),
        *_pictures(source, pictures, _figures(source), "scaling"),
        *(changes(source, name) for name in source.run.variants[1:]),
        tables.MARKS,
        *growth(source),
        summary.worth(source),
    )


def _sides(source: Source, candidate: str) -> list[Comparison]:
    return [comparison for comparison in source.comparisons if comparison.candidate == candidate]


def answers(source: Source) -> list[str]:
    """Return the answer for each candidate in a sentence: verdicts, with their subjects and cells."""
    lines = []
    for name in source.run.variants[1:]:
        comparisons = _sides(source, name)
        few = sorted({len(comparison.valid) for comparison in comparisons})
        counted = f"{few[0]} to {few[-1]} valid blocks" if len(few) > 1 else number_of(few[0], "valid block")
        title = f"{markup.text(source.labels[name])} against {markup.text(source.labels[source.baseline])}"
        verdicts = ". ".join(_verdicts(source, comparisons)) or "? nothing was measured"
        cells = f"{len(comparisons)} cells ({_keys(source)})"
        lines.append(f"**Answer.** {title} in {cells}, {counted}{comparisons[0].on_hosts} each: {verdicts}.")
    return lines


def _verdicts(source: Source, comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield e.g. "**✗ worse** from scale=1000 on: Query time (1.9 to 4.1 % slower)"; without a difference last."""
    by_verdict: dict[str, dict[str, list[str]]] = {}
    for metric, query_type in sentences.keys(comparisons):
        rows = {side.cell: row for side in comparisons if (row := side.row(metric, query_type))}
        known = source.metrics[metric]
        for verdict in dict.fromkeys(map(decision, rows.values())):
            cells = [cell for cell, row in rows.items() if decision(row) == verdict]
            size = _sizes([rows[cell] for cell in cells], known) if sentences.HEADLINES[verdict][1] else ""
            where = _where(source, cells, len(comparisons))
            by_verdict.setdefault(verdict, {}).setdefault(where, []).append(f"{known.named(query_type)}{size}")
    for verdict, (words, _) in sentences.HEADLINES.items():
        for where, named in by_verdict.get(verdict, {}).items():
            yield f"{words} {where}: {'; '.join(named)}"


def _where(source: Source, cells: Sequence[str], total: int) -> str:
    if len(cells) == total:
        return "in all cells"
    for line in source.sweep["lines"]:
        if set(cells) == set(line["cells"][-len(cells) :]) and len(cells) > 1:
            return f"from {markup.text(line['cells'][-len(cells)])} on"
    return f"at {markup.text(', '.join(cells))}" if len(cells) <= MOST_NAMED else f"in {len(cells)} of {total} cells"


def _keys(source: Source) -> str:
    """Return the swept keys with their values: scale 100 to 10,000."""
    parts = []
    for key in dict.fromkeys(key for cell in source.plan.cells for key in cell.set):
        values = list(dict.fromkeys(_plain(cell.set[key]) for cell in source.plan.cells))
        shown = f"{values[0]} to {values[-1]}" if len(values) > MOST_NAMED else ", ".join(values)
        parts.append(f"{key.rpartition('.')[2].replace('_', ' ')} {shown}")
    return markup.text("; ".join(parts))


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _sizes(rows: Sequence[Row], metric: Metric) -> str:
    known = sorted((row for row in rows if row["change_pct"] is not None), key=lambda row: float(row["change_pct"]))
    if not known:
        return ""
    if numbers.by_ratio(rows[0]):
        ends = [sentences.size(row, metric).partition(" times ") for row in (known[0], known[-1])]
        if ends[0][2] != ends[1][2]:
            return f" ({' to '.join(map(''.join, ends))})"
        times = sorted({number for number, _, _ in ends}, key=lambda number: float(number.replace(",", "")))
        return f" ({' to '.join(times)} times {ends[0][2]})"
    low, high = known[0]["change_pct"], known[-1]["change_pct"]
    if low < 0 < high:
        return f" ({numbers.reach(low, high)} %)"
    near, far = sorted((low, high), key=abs)
    sizes = dict.fromkeys(numbers.size(value) for value in (near, far))
    return f" ({' to '.join(sizes)} % {metric.words[far < 0]})"


def growth(source: Source) -> list[str]:
    """Return a paragraph for each line: the exponents of each subject along it, for every variant."""
    paragraphs = []
    for at, line in enumerate(source.sweep["lines"][:MOST_LINES]):
        parts = []
        for key, title in _figures(source).items():
            fits = _fits(source, at, *key)
            powers: dict[str, list[str]] = {}
            for variant, fit in fits.items():
                powers.setdefault(_power(line["name"], fit), []).append(markup.text(source.labels[variant]))
            each = "; ".join(f"{text} for {' and '.join(names)}" for text, names in powers.items())
            parts += [f"**{markup.text(title)}** {_verb(list(fits.values()))} {each}"] if fits else []
        beside = markup.aside(markup.text(line["beside"]))
        paragraphs.append(markup.titled(f"How it grows by {line['name']}{beside}:", markup.items(parts)))
    return paragraphs


def _verb(fits: Sequence[Fit]) -> str:
    if all(fit["lo"] is not None and fit["lo"] > 0 for fit in fits):
        return "grows as"
    return "falls as" if all(fit["hi"] is not None and fit["hi"] < 0 for fit in fits) else "changes as"


def _power(axis: str, fit: Fit) -> str:
    """Return an exponent with its interval: scale^0.12 (0.09 to 0.15); a bent line has the exponents of both ends."""
    bent = f"; bent: ^{_two(fit['first'])} at first, ^{_two(fit['last'])} at the end" if fit["bent"] else ""
    return f"{axis}^{_two(fit['exponent'])} ({_interval(fit) or 'no interval'}{bent})"


def _two(value: float) -> str:
    """Return two decimals; no minus before a zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def _interval(fit: Fit) -> str:
    return "" if fit["lo"] is None else f"{_two(fit['lo'])} to {_two(fit['hi'])}"


def _fits(source: Source, line: int, metric: str, query_type: str) -> dict[str, Fit]:
    wanted = (line, metric, query_type)
    fits = [fit for fit in source.sweep["fits"] if (fit["line"], fit["metric"], fit["query_type"]) == wanted]
    return {name: fit for name in source.run.variants for fit in fits if fit["variant"] == name}


def _figures(source: Source) -> Figures:
    return {key: _title(source, *key) for key in sentences.keys(source.comparisons)}


def _title(source: Source, metric: str, query_type: str) -> str:
    row = next(row for comparison in source.comparisons if (row := comparison.row(metric, query_type)))
    return f"{source.comparisons[0].named(row)}{' a sample' if metric in PER_SAMPLE else ''}"


def _unit(metric: Metric, samples: int | None) -> tuple[str, float]:
    """Return the unit of a figure and its factor; some metrics are divided by the stored samples."""
    if metric.name not in PER_SAMPLE or not samples:
        return metric.unit, 1.0
    return ("ns", NS / samples) if metric.unit == "s" else (metric.unit, 1 / samples)


def _samples(source: Source) -> dict[str, int | None]:
    loads = {cell.name: source.plan.at(cell.name).workload for cell in source.plan.cells}
    return {cell: load.samples if load else None for cell, load in loads.items()}


def _pictures(source: Source, pictures: Pictures, figures: Figures, file: str) -> Iterator[str]:
    """Draw a picture a line; without a line (no key is numeric) one picture of all cells side by side."""
    lines = source.sweep["lines"][:MOST_LINES]
    names = [cell.name for cell in source.plan.cells]
    whole = [{"name": "", "beside": "", "cells": names, "at": list(map(float, range(len(names))))}]
    for at, line in enumerate(lines or whole):
        panels = []
        for (name, query_type), title in list(figures.items())[:MOST_PANELS]:
            metric, values = source.metrics[name], _values(source, line, name, query_type)
            if not values.empty and (values["value"] > 0).all():
                fits = _fits(source, at, name, query_type) if lines else {}
                words = {variant: _drawn(line["name"], fit) for variant, fit in fits.items()}
                panels.append(Panel(title, _unit(metric, 1)[0], metric.better, words, values))
        cells = dict(zip(line["at"], line["cells"], strict=True))
        of_types = all(metric == "duel_typical_ms" and t != GEOMEAN for metric, t in figures)
        what = "Query time" if of_types else "Figures"
        wide, narrow = (
            scaling(panels, line["name"], cells, source.labels, what, narrow=narrow) if panels else None
            for narrow in (False, True)
        )
        by = f"by {line['name']}{markup.aside(markup.text(line['beside']))}" if line["name"] else "by cell"
        yield pictures.show(
            f"{file}-{at + 1}" if len(lines) > 1 else file, f"figures {by}", f"Figures {by}: {source.names}",
            "A point is a block, a line joins the medians. On these axes a power law is a straight line. An exponent "
            "has its 95 % interval beside it."
            if lines else "A point is a block, a bar is the median of a cell.",
            wide, narrow=narrow,
        )  # fmt: skip


def _drawn(axis: str, fit: Fit) -> str:
    return f"{axis}$^{{{_two(fit['exponent'])}}}${markup.aside(_interval(fit))}{', bent' if fit['bent'] else ''}"


def _values(source: Source, line: Mapping[str, Any], metric: str, query_type: str) -> pd.DataFrame:
    """Return columns at, cell, variant, block, value of the blocks that count."""
    parts, samples = [], _samples(source)
    for at, cell in zip(line["at"], line["cells"], strict=True):
        mine = source.counting(blocks.values_of(source, metric, query_type, cell).assign(cell=cell))
        parts.append(mine.assign(at=at, value=mine["value"] * _unit(source.metrics[metric], samples[cell])[1]))
    return pd.concat(parts)


def changes(source: Source, candidate: str) -> str:
    """Return a table with a row a cell: the change of each subject with its mark."""
    comparisons = _sides(source, candidate)
    what = "ratio" if comparisons[0].apart else "change, %"
    title = f"{comparisons[0].labels[1]}, {what}" if source.run.variants[2:] else what
    return markup.table(*tables.matrix([(side.cell, side) for side in comparisons], f"Cell, {title}"))


@heading("By cell", 20, "sweep")
def section(source: Source, pictures: Pictures) -> str:
    """Return both values of each figure by cell, the same of each query type, pictures and exponents."""
    keys = [("duel_typical_ms", query_type) for query_type in source.query_types]
    types = {key: key[1] for key in keys if any(comparison.row(*key) for comparison in source.comparisons)}
    candidates, figures = source.run.variants[1:], _figures(source)
    return markup.paragraphs(
        *(_by_cell(source, name, figures) for name in candidates),
        "A cell of the table has the baseline's value → the candidate's value (the change) and the mark. Per sample: "
        "divided by the samples that the cell stores.",
        *(_pictures(source, pictures, types, "scaling-types") if types else ()),
        markup.folded("Query time of each query type", *(_by_cell(source, c, types) for c in candidates if types)),
        markup.folded("Exponents", *_exponents(source)),
    )


def _by_cell(source: Source, candidate: str, figures: Figures) -> str:
    comparisons, samples = _sides(source, candidate), _samples(source)
    counted = len(set(samples.values()) - {None}) > 1
    rows = []
    for side in comparisons:
        stored = samples[side.cell]
        cells = (side.cell_of(*key, _unit(source.metrics[key[0]], stored)[1]) for key in figures)
        rows.append([side.cell, *([numbers.count(stored)] if counted else []), *cells])
    units = (numbers.scaled(_unit(source.metrics[metric], 1)[0], 0.0)[0] for metric, _ in figures)
    named = [f"{title}, {unit}" for title, unit in zip(figures.values(), units, strict=True)]
    title = f"Cell, {comparisons[0].labels[1]} against {comparisons[0].labels[0]}"
    head = [title, *(["samples"] if counted else []), *named]
    return markup.table(head, rows, range(1, len(head)))


def _exponents(source: Source) -> Iterator[str]:
    """Yield a table a line: the exponents of each variant and of each ratio, whose sign shows if a gap opens."""
    baseline, *candidates = source.run.variants
    for at, line in enumerate(source.sweep["lines"]):
        fits: dict[tuple[str, str], dict[str, Fit]] = {}
        for fit in source.sweep["fits"]:
            if fit["line"] == at:
                column = fit["variant"] or f"/{fit['candidate']}"
                fits.setdefault((fit["metric"], fit["query_type"]), {})[column] = fit
        columns = [baseline, *candidates, *(f"/{name}" for name in candidates)]
        rows = [
            [_title(source, *key), *(_short(known.get(column)) for column in columns)]
            for key, known in fits.items()
            if any((row := side.row(*key)) and row["family"] != "shown" for side in source.comparisons)
        ]
        head = [f"Exponent of {line['name']}{', ' + line['beside'] if line['beside'] else ''}", *source.labels.values()]
        head += [f"{source.labels[name]} / {source.labels[baseline]}" for name in candidates]
        yield markup.table(head, rows, range(1, len(head)))
    if source.sweep["lines"]:
        yield (
            "Least squares on logarithms, a slope for each round of the cells; estimate (Hodges-Lehmann) and exact "
            "95 % interval over the rounds' slopes. *bent*: the slopes at both ends differ by more than chance, so "
            "that one exponent says little. Intervals are not adjusted for their number."
        )


def _short(fit: Fit | None) -> str:
    if fit is None:
        return numbers.MISSING
    bent = f", bent: {_two(fit['first'])} to {_two(fit['last'])}" if fit["bent"] else ""
    return f"{_two(fit['exponent'])}{markup.aside(_interval(fit))}{bent}"


@heading("Each cell", 35, "sweep")
def cells(source: Source, _: Pictures) -> str:
    """Return the answer of each cell with its table, folded, blocks left out and failures."""
    sides = source.comparisons
    left_out = dict.fromkeys(f"{markup.text(side.cell)}: {line}" for side in sides for line in blocks.left_out(side))
    titles = (f"{side.cell}: {side.labels[1]} against {side.labels[0]}, {side.blocks}" for side in sides)
    return markup.paragraphs(
        *(sentences.folded(side, title, source.query_types) for side, title in zip(sides, titles, strict=True)),
        markup.items(left_out) or "Every block of the plan counts.",
        markup.items(blocks.failures(source)),
    )
