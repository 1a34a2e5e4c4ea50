"""A sweep: what it found in a sentence, how figures grow, a table by cell, and each cell's own answer, folded."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pandas as pd

from plots import markup, numbers, sentences
from plots.charts.scaling import Panel, scaling
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.sections import blocks, checks, first, hosts
from plots.sentences import Subject
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.wording import number_of
from tsduel.stats.sweep import PER_SAMPLE

MOST_LINES = 6
"""Pictures; a sweep over many keys has a line for each value of the others."""
MOST_PANELS = 12
MOST_NAMED = 4
TITLES = {
    "load_cpu_seconds": "CPU an ingested sample",
    "disk_bytes": "Bytes on disk a sample",
    "duel_typical_ms": "Service time, mean of types",
    "duel_cpu_us": "CPU a query",
}
NS = 1e9
Fit = Mapping[str, Any]


def screen(source: Source, pictures: Pictures) -> str:
    """Return the first screen of a sweep: question, answer, picture, the changes by cell, and how figures grow."""
    return markup.paragraphs(
        f"**Question.** {markup.text(source.plan.question)}" if source.plan.question else "",
        markup.quoted(first.standing(source)),
        *answers(source),
        hosts.between_types(source),
        *_pictures(source, pictures, _figures(source), "scaling"),
        *(changes(source, name) for name in source.run.variants[1:]),
        *growth(source),
        " ".join(
            filter(None, [first.compared_answers(source), f"{checks.sentence(source)}.", first.calibration(source)])
        ),
    )


def answers(source: Source) -> list[str]:
    """Return the answer of each candidate in a sentence: by verdict what has it, and in which cells."""
    said = []
    for name in source.run.variants[1:]:
        mine = [one for one in source.comparisons if one.candidate == name]
        few = sorted({len(one.valid) for one in mine})
        counted = f"{few[0]} to {few[-1]} valid blocks" if len(few) > 1 else number_of(few[0], "valid block")
        title = f"{markup.text(source.labels[name])} against {markup.text(source.labels[source.baseline])}"
        found = "; ".join(_verdicts(source, mine)) or "? nothing was measured"
        said.append(f"**Answer.** {title} in {len(mine)} cells ({_keys(source)}), {counted} each: {found}.")
    return said


def _verdicts(source: Source, comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield e.g. "**✗ worse**: from scale=1000 on queries (1.9 to 4.1 % slower)", what has no difference last."""
    found: dict[str, dict[str, list[str]]] = {}
    for subject in _subjects(comparisons):
        rows = {one.cell: row for one in comparisons if (row := one.row(subject.metric, subject.query_type))}
        for verdict in dict.fromkeys(row["verdict"] for row in rows.values()):
            cells = [cell for cell, row in rows.items() if row["verdict"] == verdict]
            sized = sentences.HEADLINES.get(verdict, ("", False))[1]
            size = _sizes([rows[cell] for cell in cells], subject) if sized else ""
            where = _where(source, cells, len(comparisons))
            found.setdefault(verdict, {}).setdefault(where, []).append(f"{subject.short}{size}")
    for verdict in [*(one for one in sentences.HEADLINES if one in found), *(set(found) - set(sentences.HEADLINES))]:
        parts = [f"{where} {', '.join(named)}" for where, named in found[verdict].items()]
        yield f"{sentences.HEADLINES.get(verdict, (verdict,))[0]}: {' and '.join(parts)}"


def _where(source: Source, cells: Sequence[str], of: int) -> str:
    if len(cells) == of:
        return "in all cells"
    for line in source.document_of_sweep["lines"]:
        if set(cells) == set(line["cells"][-len(cells) :]) and len(cells) > 1:
            return f"from {markup.text(line['cells'][-len(cells)])} on"
    return f"in {markup.text(', '.join(cells)) if len(cells) <= MOST_NAMED else f'{len(cells)} of {of} cells'}"


def _keys(source: Source) -> str:
    """Return what is swept, from where to where: scale 100 to 10,000."""
    said = []
    for key in dict.fromkeys(key for cell in source.plan.cells for key in cell.set):
        values = list(dict.fromkeys(_plain(cell.set[key]) for cell in source.plan.cells))
        name = key.rpartition(".")[2].replace("_", " ")
        many = len(values) > MOST_NAMED
        said.append(f"{name} {f'{values[0]} to {values[-1]}' if many else ', '.join(values)}")
    return markup.text("; ".join(said))


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _subjects(comparisons: Sequence[Comparison]) -> list[Subject]:
    return list(dict.fromkeys(subject for one in comparisons for subject, _ in sentences.subjects(one)))


def _sizes(rows: Sequence[Row], subject: Subject) -> str:
    known = sorted((row["change_pct"] for row in rows if row["change_pct"] is not None), key=abs)
    if not known:
        return ""
    if numbers.by_ratio(rows[0]):
        apart = sorted((row for row in rows if row["change_pct"] is not None), key=lambda row: float(row["change_pct"]))
        said = [sentences.size(row, subject).partition(" times ") for row in (apart[0], apart[-1])]
        if said[0][2] != said[1][2]:
            return f" ({' to '.join(map(''.join, said))})"
        ends = sorted({times for times, _, _ in said}, key=lambda times: float(times.replace(",", "")))
        return f" ({' to '.join(ends)} times {said[0][2]})"
    decimals = max(numbers.row_digits(row)[1] for row in rows)
    if min(known) < 0 < max(known):
        low, high = (numbers.change(value, decimals) for value in (min(known), max(known)))
        return f" ({low} to {high} %)"
    ends = list(dict.fromkeys(numbers.size(value, decimals) for value in (known[0], known[-1])))
    return f" ({' to '.join(ends)} % {subject.up if known[-1] > 0 else subject.down})"


def growth(source: Source) -> list[str]:
    """Return a paragraph for each line: how each subject grows along it, of every variant, by its exponents."""
    said = []
    for at, line in enumerate(source.document_of_sweep["lines"][:MOST_LINES]):
        parts = []
        for metric, query_type, title in _figures(source):
            of = {v: fit for v in source.run.variants if (fit := _fit(source, at, metric, query_type, v))}
            powers: dict[str, list[str]] = {}
            for variant, fit in of.items():
                powers.setdefault(power(line["name"], fit), []).append(markup.text(source.labels[variant]))
            each = "; ".join(f"{said} ({', '.join(names)})" for said, names in powers.items())
            parts += [f"**{markup.text(title)}** {_verb(list(of.values()))} {each}"] if of else []
        if parts:
            beside = f" ({markup.text(line['beside'])})" if line["beside"] else ""
            said.append(f"How it grows by {line['name']}{beside}:\n\n{markup.items(parts)}")
    return said


def _verb(fits: Sequence[Fit]) -> str:
    for word, sign in (("grows", 1), ("falls", -1)):
        if all(fit["lo"] is not None and min(sign * fit["lo"], sign * fit["hi"]) > 0 for fit in fits):
            return f"{word} as"
    return "goes as"


def power(axis: str, fit: Fit) -> str:
    """Return an exponent with its interval: scale^0.12, 0.09 to 0.15; with both ends where it is no single one."""
    between = ", no interval" if fit["lo"] is None else f", {_two(fit['lo'])} to {_two(fit['hi'])}"
    bent = f"; bent: ^{_two(fit['first'])} at first, ^{_two(fit['last'])} at the end" if fit["bent"] else ""
    return f"{axis}^{_two(fit['exponent'])}{between}{bent}"


def _two(value: float) -> str:
    """Return two decimals; no minus before a zero."""
    return f"{round(value, 2) + 0.0:.2f}"


def _fit(source: Source, line: int, metric: str, query_type: str, variant: str) -> Fit | None:
    wanted = (line, metric, query_type, variant)
    names = ("line", "metric", "query_type", "variant")
    return next((f for f in source.document_of_sweep["fits"] if tuple(f[n] for n in names) == wanted), None)


def _figures(source: Source) -> list[tuple[str, str, str]]:
    """Return metric, query type and title of what is drawn first: the subjects of the answer, whichever cells have."""
    return [
        (one.metric, one.query_type, _title(source.comparisons[0], _any(source, one)))
        for one in _subjects(source.comparisons)
    ]


def _title(comparison: Comparison, row: Row) -> str:
    whole = row["query_type"] in {"", GEOMEAN, ALL}
    return (TITLES.get(row["metric"]) if whole else "") or comparison.named(row)


def _any(source: Source, subject: Subject) -> Row:
    found = (one.row(subject.metric, subject.query_type) for one in source.comparisons)
    return next(row for row in found if row)


def _pictures(source: Source, pictures: Pictures, figures: Sequence[tuple[str, str, str]], file: str) -> Iterator[str]:
    """Draw one picture a line, or one of all cells side by side where none is numeric."""
    lines = source.document_of_sweep["lines"][:MOST_LINES]
    names = [cell.name for cell in source.plan.cells]
    whole = [{"name": "", "beside": "", "cells": names, "at": list(map(float, range(len(names))))}]
    labels = markup.text(" and ".join(source.labels.values()))
    for at, line in enumerate(lines or whole):
        panels = []
        for metric, query_type, title in figures[:MOST_PANELS]:
            values = _values(source, line, metric, query_type)
            if values.empty or (values["value"] <= 0).any():
                continue
            per, of = metric in PER_SAMPLE, source.metrics[metric]
            unit = ("ns" if of.unit == "s" else of.unit) if per else of.unit
            fits = {v: _fit(source, at, metric, query_type, v) for v in source.run.variants} if lines else {}
            words = {v: _drawn(line["name"], fit) for v, fit in fits.items() if fit}
            panels.append(Panel(title, unit, of.better, words, values))
        figure = None
        if panels:
            cells = dict(zip(line["at"], line["cells"], strict=True))
            of_types = all(metric == "duel_typical_ms" and t != GEOMEAN for metric, t, _ in figures)
            figure = scaling(
                panels, line["name"], cells, source.labels, "Service time, typical," if of_types else "Figures"
            )
        beside = f" ({markup.text(line['beside'])})" if line["beside"] else ""
        by = f"by {line['name']}{beside}" if line["name"] else "by cell"
        yield pictures.show(
            f"{file}-{at + 1}" if len(lines) > 1 else file, f"figures {by}", f"Figures {by}: {labels}",
            "A point is a block, a line joins the medians. On these axes a power law is a straight line; exponents are "
            "with their 95 % intervals."
            if lines else "A point is a block, a bar the median of a cell.",
            figure,
        )  # fmt: skip


def _drawn(axis: str, fit: Fit) -> str:
    between = "" if fit["lo"] is None else f" ({_two(fit['lo'])} to {_two(fit['hi'])})"
    return f"{axis}$^{{{_two(fit['exponent'])}}}${between}{', bent' if fit['bent'] else ''}"


def _values(source: Source, line: Mapping[str, Any], metric: str, query_type: str) -> pd.DataFrame:
    """Return columns at, cell, variant, block, value of the blocks that count, a sample of those that are said so."""
    found = []
    for at, cell in zip(line["at"], line["cells"], strict=True):
        of = blocks.values_of(source, metric, query_type, cell)
        mine = source.counting(of.assign(cell=cell))
        load = source.plan.at(cell).workload
        if metric in PER_SAMPLE and load:
            mine = mine.assign(value=mine["value"] / load.samples * (NS if source.metrics[metric].unit == "s" else 1))
        found.append(mine.assign(at=at))
    return pd.concat(found)


def changes(source: Source, candidate: str) -> str:
    """Return a table with a row a cell: the change of each subject with its mark."""
    mine = [one for one in source.comparisons if one.candidate == candidate]
    subjects = _subjects(mine)
    rows = [
        [one.cell, *(_change(one, one.row(s.metric, s.query_type)) for s in subjects), str(len(one.valid))]
        for one in mine
    ]  # fmt: skip
    what = "ratio" if mine[0].apart else "change, %"
    title = f"{mine[0].labels[1]}, {what}" if len(source.run.variants) > 2 else what  # noqa: PLR2004 - several
    return markup.table([f"Cell, {title}", *(s.short for s in subjects), "blocks"], rows, range(1, len(subjects) + 2))


def _change(comparison: Comparison, row: Row | None) -> str:
    if row is None:
        return numbers.MISSING
    return f"{numbers.changed(row)} {comparison.symbol(row)}".strip()


def section(source: Source, pictures: Pictures) -> str:
    """Return both values of each figure by cell, and the query types: tables, picture and exponents."""
    types = [
        ("duel_typical_ms", t, t)
        for t in source.query_types
        if any(one.row("duel_typical_ms", t) for one in source.comparisons)
    ]
    titles = {(metric, query_type): title for metric, query_type, title in _figures(source)}
    tables = [
        _by_cell(source, name, [(m, t, title) for (m, t), title in titles.items()]) for name in source.run.variants[1:]
    ]
    typed = [_by_cell(source, name, types) for name in source.run.variants[1:]] if types else []
    return markup.paragraphs(
        *tables,
        "A cell of the table is the baseline's median → the candidate's (change) and its mark. Per sample: divided by "
        "the samples that the cell stores.",
        *(_pictures(source, pictures, types, "scaling-types") if types else ()),
        markup.folded("Service time, typical, of each query type", *typed),
        markup.folded("Exponents", *_exponents(source)),
    )


def _by_cell(source: Source, candidate: str, figures: Sequence[tuple[str, str, str]]) -> str:
    mine = [one for one in source.comparisons if one.candidate == candidate]
    head = [f"Cell, {mine[0].labels[1]} against {mine[0].labels[0]}"]
    loads = {cell.name: load.samples for cell in source.plan.cells if (load := source.plan.at(cell.name).workload)}
    counted = len(set(loads.values())) > 1
    rows = []
    for one in mine:
        cells = [one.cell, *([numbers.count(loads[one.cell])] if counted else [])]
        rows.append([*cells, *(_figure(one, metric, t, loads.get(one.cell)) for metric, t, _ in figures)])
    head += ["samples"] if counted else []
    head += [f"{title}, {_unit(source, metric)}" for metric, _, title in figures]
    return markup.table(head, rows, range(1, len(head)))


def _unit(source: Source, metric: str) -> str:
    unit = source.metrics[metric].unit
    if metric in PER_SAMPLE:
        return "ns" if unit == "s" else unit
    return numbers.scaled(unit, 0.0)[0]


def _figure(comparison: Comparison, metric: str, query_type: str, samples: int | None) -> str:
    row = comparison.row(metric, query_type)
    if row is None or metric not in PER_SAMPLE or not samples:
        return comparison.cell_of(metric, query_type)
    factor = (NS if row["unit"] == "s" else 1.0) / samples
    values = [row[side] for side in ("baseline_median", "candidate_median")]
    digits = numbers.row_digits(row)[0]
    both = " → ".join(numbers.number(None if v is None else v * factor, digits) for v in values)
    return both if row["change_pct"] is None else f"{both} ({numbers.effect(row)}) {comparison.symbol(row)}".rstrip()


def _exponents(source: Source) -> Iterator[str]:
    """Yield a table a line: the exponent of each variant, and of the ratio of both, which says whether a gap opens."""
    for at, line in enumerate(source.document_of_sweep["lines"]):
        mine = [fit for fit in source.document_of_sweep["fits"] if fit["line"] == at]
        rows = []
        keys = [
            (m, t) for m, t in dict.fromkeys((f["metric"], f["query_type"]) for f in mine) if _is_shown(source, m, t)
        ]
        for metric, query_type in keys:
            row = next(r for one in source.comparisons if (r := one.row(metric, query_type)))
            title = _title(source.comparisons[0], row)
            of = {
                (fit["variant"], fit["candidate"]): fit
                for fit in mine if (fit["metric"], fit["query_type"]) == (metric, query_type)
            }  # fmt: skip
            base = [_fit(source, at, metric, query_type, v) for v in source.run.variants]
            gaps = [of.get(("", name)) for name in source.run.variants[1:]]
            rows.append([title, *(_short(fit) for fit in (*base, *gaps))])
        head = [f"Exponent of {line['name']}{', ' + line['beside'] if line['beside'] else ''}", *source.labels.values()]
        head += [f"{source.labels[name]} / {source.labels[source.baseline]}" for name in source.run.variants[1:]]
        yield markup.table(head, rows, range(1, len(head)))
    yield (
        "Least squares on logarithms, a slope for each round of the cells; estimate (Hodges-Lehmann) and exact 95 % "
        "interval over the rounds' slopes. *bent*: the slopes at both ends differ by more than chance, so that one "
        "exponent says little. Intervals are not adjusted for their number."
        if source.document_of_sweep["lines"] else ""
    )  # fmt: skip


def _is_shown(source: Source, metric: str, query_type: str) -> bool:
    return any((row := one.row(metric, query_type)) and row["family"] != "shown" for one in source.comparisons)


def _short(fit: Fit | None) -> str:
    if fit is None:
        return numbers.MISSING
    between = "" if fit["lo"] is None else f" ({_two(fit['lo'])} to {_two(fit['hi'])})"
    bent = f", bent: {_two(fit['first'])} to {_two(fit['last'])}" if fit["bent"] else ""
    return f"{_two(fit['exponent'])}{between}{bent}"


def cells(source: Source, _: Pictures) -> str:
    """Return the answer of each cell with its table, folded, blocks left out and failures."""
    folds = [
        markup.folded(
            f"{one.cell}: {one.labels[1]} against {one.labels[0]}, {one.blocks}",
            markup.items(sentences.answer(one)),
            one.table(sentences.short_rows(one, source.query_types), aliases=False),
        )
        for one in source.comparisons
    ]  # fmt: skip
    left_out = [
        f"{markup.text(cell)}: {line}"
        for cell, of in groupby(source.comparisons, key=lambda one: one.cell)
        for line in dict.fromkeys(line for one in of for line in blocks.left_out(one))
    ]
    return markup.paragraphs(
        *folds, markup.items(left_out) or "Every block of the plan counts.", markup.items(blocks.failures(source))
    )
