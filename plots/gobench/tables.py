"""Tables of Go benchmarks: a row a benchmark, a column a variant, each against the first, as in benchstat's own."""

from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from plots import markup, numbers
from plots.tables import EVIDENCE, Comparison, markdown
from tsduel.core.metrics import GEOMEAN
from tsduel.workloads.gobench.units import KNOWN

TITLES = {metric.name: metric.title for metric in KNOWN}
MOST_ROWS = 40
"""Of the table in the terminal; the report has all of them."""
_THOUSANDS = (("k", 1e3), ("M", 1e6), ("G", 1e9))
_PREFIX_FROM = 10_000
_NAMED = markup.Safe("**geometric mean**")


def value(number: float | None, unit: str) -> str:
    """Print a value with the prefix that suits it, as benchstat does: 745.1 µs, 5.708 MiB, 11.45 k."""
    if number is None:
        return numbers.MISSING
    if unit.startswith("sec") or unit.endswith("-sec"):
        name, factor = numbers.time_unit(abs(number))
        return f"{numbers.number(number / factor)} {name}"
    if unit.partition("/")[0].rsplit("-", maxsplit=1)[-1] == "B":
        name, factor = numbers.binary_unit(abs(number))
        return f"{numbers.number(number / factor)} {name}{'/s' if unit == 'B/s' else ''}"
    fits = (p for p in reversed(_THOUSANDS) if abs(number) >= max(p[1], _PREFIX_FROM))
    name, factor = next(fits, ("", 1.0))
    return f"{numbers.number(number / factor)} {name}".rstrip()


def titled(unit: str) -> str:
    """Return a unit's heading: what it is called, and the unit."""
    return f"{TITLES[unit]} ({unit})" if unit in TITLES else markup.text(unit)


def units(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the units that there are rows of, in the order of the comparison."""
    return list(dict.fromkeys(row["metric"] for comparison in comparisons for row in comparison.rows))


def unit_table(comparisons: Sequence[Comparison], unit: str, names: Sequence[str]) -> str:
    """Return the table of one unit; of several candidates a change and a mark each, with the evidence folded below."""
    if len(comparisons) == 1:
        return _pair(comparisons[0], unit, names)
    header = ["Benchmark", f"{comparisons[0].labels[0]}"]
    for comparison in comparisons:
        header += [comparison.labels[1], "diff %", ""]
    rows = []
    for name in (*names, GEOMEAN):
        found = [comparison.row(unit, name) for comparison in comparisons]
        if not any(found):
            continue
        baseline = next((r["baseline_median"] for r in found if r and r["baseline_median"] is not None), None)
        cells = [_NAMED if name == GEOMEAN else name, value(baseline, unit)]
        for comparison, row in zip(comparisons, found, strict=True):
            cells += _versus(comparison, row, unit)
        rows.append(cells)
    right = [1, *(i for n in range(len(comparisons)) for i in (2 + 3 * n, 3 + 3 * n))]
    single = [
        f"**{markup.text(one.labels[1])} against {markup.text(one.labels[0])}**\n\n{_pair(one, unit, names)}"
        for one in comparisons
    ]
    evidence = markup.folded("Intervals and p of these", "\n\n".join(single))
    return f"{markdown(header, rows, right=right)}\n\n{evidence}"


def _versus(comparison: Comparison, row: dict[str, Any] | None, unit: str) -> list[str]:
    if row is None:
        return [numbers.MISSING, "", ""]
    mark = comparison.mark(row)
    return [value(row["candidate_median"], unit), numbers.change(row["change_pct"]), mark.split(" ")[0] if mark else ""]


def _pair(comparison: Comparison, unit: str, names: Sequence[str]) -> str:
    rows = [
        [_NAMED if name == GEOMEAN else name, *_sides(row, unit), *comparison.evidence(row)]
        for name in (*names, GEOMEAN)
        if (row := comparison.row(unit, name)) is not None
    ]
    return markdown(["Benchmark", *comparison.labels, *EVIDENCE], rows, right=(1, 2, 3, 4, 5))


def _sides(row: dict[str, Any], unit: str) -> list[str]:
    return [value(row["baseline_median"], unit), value(row["candidate_median"], unit)]


def compared(differ: Sequence[tuple[str, list[str]]], common: Sequence[tuple[str, str]], names: Sequence[str]) -> str:
    """Return the tables of what differs between variants and of what they have in common."""
    found = [markdown(["", *names], [[key, *values] for key, values in differ])] if differ else []
    return "\n\n".join([*found, markdown(["In common", ""], [list(pair) for pair in common])])


def plain(comparison: Comparison, names: Sequence[str]) -> str:
    """Return the table of verdicts for a terminal: geometric means, then time row by row."""
    wanted = [(unit, GEOMEAN) for unit in TITLES] + [("sec/op", name) for name in names[:MOST_ROWS]]
    rows = []
    for unit, name in wanted:
        row = comparison.row(unit, name)
        if row is not None:
            title = f"{TITLES[unit]}, {'geomean' if name == GEOMEAN else name}"
            rows.append([title, *_sides(row, unit), *comparison.evidence(row)])
    header = ["benchmark", *comparison.labels, *EVIDENCE]
    align = ("left", "right", "right", "right", "right", "right", "left")
    text = tabulate(rows, headers=header, tablefmt="simple", colalign=align if rows else None, disable_numparse=True)
    left = len(names) - MOST_ROWS
    return f"{text}\n({left} more rows are in the report)" if left > 0 else text
