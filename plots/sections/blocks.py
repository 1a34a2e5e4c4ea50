"""Block by block: the primary metrics in the order of execution, which blocks do not count, where the noise is."""

import math

import pandas as pd
from matplotlib.figure import Figure

from plots import markup, numbers
from plots.charts.blocks import Lane, by_block
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.source import Source
from tsduel.core.metrics import GEOMEAN
from tsduel.plan.foresight import advise
from tsduel.workloads.checks import FINISHED


def section(source: Source, pictures: Pictures) -> str:
    """Return the picture, the table of spreads with the advice, blocks left out, and failures."""
    names = markup.text(" and ".join(source.labels.values()))
    return markup.paragraphs(
        pictures.show(
            "blocks", "block by block", f"Primary metrics block by block: {names}",
            "Left the values of each side, right the change in each block with the estimate and its 95 % interval. "
            "What slopes on the left is drift of the machine; blocks compare neighbours. The axes do not begin at 0.",
            _figure(source),
        ),
        markup.items(dict.fromkeys(line for one in source.comparisons for line in left_out(one)))
        or "Every block of the plan counts.",
        _failed(source),
        markup.folded("Spreads, and what narrows intervals", *(_spreads(one, source) for one in source.comparisons)),
    )  # fmt: skip


def left_out(comparison: Comparison) -> list[str]:
    """Say which blocks do not count and why."""
    return [f"Block {block} does not count: {markup.text(reason)}." for block, reason in comparison.dropped.items()]


def _failed(source: Source) -> str:
    lines = failures(source)
    return (lines and f"Failed blocks:\n\n{markup.items(lines)}") or ""


def failures(source: Source) -> list[str]:
    """Return a sentence for each variant of a block that did not come to its end."""
    table = source.table("checks")
    bad = table[(table["ok"] != "true") & (table["check"] == FINISHED)]
    columns = (bad[name].tolist() for name in ("block", "variant", "phase", "message"))
    return [
        f"Block {block:.0f}{', ' + variant if variant else ''}{' in phase ' + phase if phase else ''}: "
        f"{markup.text(message)}"
        for block, variant, phase, message in zip(*columns, strict=True)
    ]


def _spreads(comparison: Comparison, source: Source) -> str:
    """Return the spread of each row of the first family within and between blocks, and what would help."""
    rows = [row for row in comparison.rows if row["family"] == "primary"]
    # What is made of single query types is said of each of them, too.
    parts = {row["metric"] for row in rows if row["query_type"] == GEOMEAN}
    rows += [row for name in parts for t, row in comparison.of(name, source.query_types).items() if t != GEOMEAN]
    cells = [
        [
            comparison.named(row), numbers.number(row["within_pct"], 2), numbers.number(_between(row), 2),
            numbers.interval(row), numbers.count(row["blocks_needed"]),
            numbers.MISSING if numbers.by_ratio(row) else f"{row['threshold_pct']:g}", _advice(row, source),
        ]
        for row in rows if row["s_d"] is not None
    ]  # fmt: skip
    header = ("Where the noise is", "within a block, %", "between blocks, %", "95 % CI", "blocks needed", "for, %")
    return markup.table([*header, "what would help"], cells, range(1, 6))


def _between(row: Row) -> float:
    """Return the spread between blocks; all of it where none within them is known."""
    return float(100 * (row["s_d"] or 0.0) if row["between_pct"] is None else row["between_pct"])


def _advice(row: Row, source: Source) -> str:
    """Say what narrows the interval of a row that is not decided: more blocks, or longer phases."""
    if numbers.by_ratio(row):
        return "more blocks" if row["verdict"].startswith("inconclusive") else "nothing: it is decided"
    if row.get("over_hosts") and row["verdict"].startswith("inconclusive"):
        known = (("BLOCKS", row["blocks_needed"]), ("HOSTS", row["hosts_needed"]))
        return next((f"{knob}={needed}" for knob, needed in known if needed), "quieter machines")
    duel, block_s = source.plan.duel, float(source.plan.duration.block_s if source.plan.duration else 0)
    types = 1 if row["query_type"] in source.query_types else len(source.query_types)
    found = advise(
        row["threshold_pct"], row["s_d"], within=row["within"], blocks=row["blocks"], block_s=block_s,
        phase_s=types * duel.seconds if duel else block_s,
    )  # fmt: skip
    if found is None or not row["verdict"].startswith("inconclusive"):
        return "nothing: enough for its threshold"
    return found.words or "a quieter machine"


def _figure(source: Source) -> Figure | None:
    """Draw the rows of the primary family, values left and changes right."""
    lanes, values, changes = [], [], []
    found = [(one, one.row(r["metric"], r["query_type"])) for one in source.comparisons for r in one.rows]
    for one, row in ((one, row) for one, row in found if row and row["family"] == "primary"):
        metric = source.metrics[row["metric"]]
        of = values_of(source, metric.name, row["query_type"], one.cell)
        name = one.named(row, brief=True)
        lanes.append(Lane(name, metric.unit, metric.better == "higher", numbers.by_ratio(row)))
        # Of a fleet each host has a warm-up block, and only one could stand at the beginning.
        drawn_blocks = of[~of["block"].isin(source.run.warmups)] if source.plan.is_fleet else of
        values.append(drawn_blocks.assign(lane=name))
        moved = changes_of(source, one, row, of).assign(
            lane=name, low=row["lo_pct"], high=row["hi_pct"], estimate=row["change_pct"]
        )
        if numbers.by_ratio(row):
            drawn = ["change", "low", "high", "estimate"]
            moved[drawn] = 1 + moved[drawn].astype(float) / 100
        changes.append(moved)
    if not lanes:
        return None
    return by_block(
        pd.concat(values), pd.concat(changes), list({lane.name: lane for lane in lanes}.values()), source.labels
    )


def values_of(source: Source, metric: str, query_type: str, cell: str) -> pd.DataFrame:
    """Return columns block, variant, value of one row over all blocks.

    A geometric mean is over the types that all blocks have; where failed ones leave none, over those of whole blocks.
    """
    table = source.table("measurements")
    mine = table[(table["metric"] == metric) & (table["cell"] == cell)]
    if query_type != GEOMEAN:
        return mine[mine["query_type"] == query_type][["block", "variant", "value"]]
    known = mine.pivot_table(index=["block", "variant"], columns="query_type", values="value")
    wide = next((one for axis in ("columns", "index") if not (one := known.dropna(axis=axis)).empty), known.iloc[:0])
    if wide.empty or (wide <= 0).any(axis=None):
        return mine.iloc[:0][["block", "variant", "value"]]
    return wide.map(math.log).mean(axis="columns").map(math.exp).rename("value").reset_index()


def changes_of(source: Source, comparison: Comparison, row: Row, values: pd.DataFrame) -> pd.DataFrame:
    """Return columns block, candidate, change (percent), counts: the log ratio of pairs.csv, or that of the values."""
    pairs = source.table("pairs")
    mine = pairs[
        (pairs["metric"] == row["metric"]) & (pairs["candidate"] == row["candidate"]) & (pairs["cell"] == row["cell"])
    ]
    if not mine.empty:
        of_type = mine if row["query_type"] == GEOMEAN else mine[mine["query_type"] == row["query_type"]]
        ratios = of_type.groupby("block")["log_ratio"].mean()
    else:
        wide = values.pivot_table(index="block", columns="variant", values="value")
        sides = [source.baseline, row["candidate"]]
        whole = wide[sides].dropna() if set(sides) <= set(wide.columns) else wide.iloc[:0]
        whole = whole[(whole > 0).all(axis="columns")]
        ratios = (
            (whole[row["candidate"]] / whole[source.baseline]).map(math.log) if len(whole) else pd.Series(dtype=float)
        )
    ratios = ratios[~ratios.index.isin(source.run.warmups)]
    found = pd.DataFrame(
        {"block": ratios.index.to_numpy(), "change": 100 * (ratios.map(math.exp).to_numpy(dtype=float) - 1)}
    )
    return found.assign(candidate=row["candidate"], counts=found["block"].isin(comparison.valid))
