"""The pictures of a report of Go benchmarks: the change of each benchmark with its interval, and the rounds."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure

from plots import drawing, markup
from plots.charts.change import Change
from plots.drawing import MOST_ROWS, READ, Data, Picture, change_of, forest_of, rounds_of
from plots.gobench.tables import TITLES
from tsduel.core.metrics import GEOMEAN
from tsduel.workloads.gobench.units import KNOWN

_TIME = "sec/op"


def draw(data: Data) -> list[Picture]:
    """Draw every picture that there is data for, and return all of them with what has been drawn."""
    return drawing.draw(data, _all(data))


def _all(data: Data) -> Iterator[tuple[Picture, Callable[[], Figure | None]]]:
    names = markup.text(" and ".join(data.labels.values()))
    yield (
        Picture(
            "plots/change-in-time",
            "change in time by benchmark",
            f"Change of the time of each benchmark with its 95 % interval: {names}",
            f"Time an operation, above it the geometric means. {_read(data, time=True)}",
        ),
        lambda: _changes(data, "Change in time by benchmark, %", time=True),
    )
    yield (
        Picture(
            "plots/change-in-memory",
            "change in memory and allocations by benchmark",
            f"Change of bytes, allocations and own metrics of each benchmark with its 95 % interval: {names}",
            f"Worse is always to the right; the figures have the metric's own sign. {_read(data, time=False)}",
        ),
        lambda: _changes(data, "Change in memory, allocations and own metrics by benchmark, %", time=False),
    )
    # The columns of a pivot share their rounds.
    if not data.run.plan["gobench"]["pivot"]:
        yield (
            Picture(
                "plots/rounds",
                "round by round",
                f"Geometric means round by round in the order of execution: {names}",
                "What slopes is drift of the machine; blocks compare neighbours. The axes do not begin at 0.",
            ),
            lambda: rounds_of(data, [(m, GEOMEAN, m.title.lower()) for m in KNOWN if m.geomean == "primary"]),
        )


def _read(data: Data, *, time: bool) -> str:
    """Say how to read a picture of changes, and how many rows it has no room for."""
    drawable = (
        (row["metric"], row["query_type"])
        for one in data.comparisons
        for row in one.rows
        if row["family"] == "secondary" and row["change_pct"] is not None and (row["metric"] == _TIME) == time
    )
    left = len(set(drawable)) - MOST_ROWS
    return f"{READ} {left} rows that moved less, measured by their thresholds, are left out." if left > 0 else READ


def _changes(data: Data, title: str, *, time: bool) -> Figure | None:
    shared = len(_shared(data.run.query_types))
    found = [change for one in data.comparisons for change in _of_rows(one.rows, shared, time=time)]
    # A picture of means alone shows nothing that the summary does not say.
    return forest_of(data, found, title) if any(change.group != "primary" for change in found) else None


def _of_rows(rows: Sequence[dict[str, Any]], shared: int, *, time: bool) -> Iterator[Change]:
    """Yield what is judged and has a change; the names are without what all of them begin with."""
    for row in rows:
        unit, name = str(row["metric"]), str(row["query_type"])
        if row["family"] == "shown" or row["change_pct"] is None:
            continue
        if name == GEOMEAN:
            if time or unit != _TIME:
                yield change_of(row, "primary", f"{TITLES.get(unit, unit)}, geometric mean")
        elif (unit == _TIME) == time:
            yield change_of(row, unit, name[shared:] if time else f"{TITLES.get(unit, unit)}, {name[shared:]}")


def _shared(names: Sequence[str]) -> str:
    """Return the elements of the path, with their slashes, that all names begin with; none of a single name."""
    parts = [name.split("/")[:-1] for name in names]
    if len(parts) < 2:  # noqa: PLR2004 - one shares with nobody
        return ""
    same = 0
    while all(len(part) > same and part[same] == parts[0][same] for part in parts):
        same += 1
    return "".join(f"{element}/" for element in parts[0][:same])
