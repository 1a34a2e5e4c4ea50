"""Block by block: the primary metrics in the order of execution, blocks that do not count, the spread of blocks."""

import math
from collections.abc import Collection
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from plots import markup, numbers
from plots.charts.blocks import Lane, by_block
from plots.charts.style import LEAST
from plots.comparison import NOT_CONFIRMED, Comparison, Row, decision
from plots.pictures import Pictures
from plots.sections import heading
from plots.source import Source
from tsduel.core.metrics import ALL, GEOMEAN, MIX
from tsduel.plan.forecast.spread import advise
from tsduel.stats.verdict import ENVIRONMENT
from tsduel.workloads.checks import FINISHED

LEVELS = (
    "Of the log ratio. Exchanges: the standard error that they leave in a block's ratio. Sittings: the standard "
    "deviation of one sitting; a block's ratio is the mean of n sittings and has 1/√n of it. Blocks: the standard "
    "deviation that is left between them. CPU is one figure for each sitting, so the spread of its exchanges is a part "
    "of the spread between sittings."
)


@heading("Block by block", 80, "tsbs", "upgrade", "gobench")
def section(source: Source, pictures: Pictures) -> str:
    """Return the picture, the table of spreads with the advice, blocks left out, and failures."""
    return markup.paragraphs(
        pictures.show(
            "blocks", "block by block", f"Primary metrics block by block: {source.names}",
            "On the left are the values of each side, on the right the change in each block, with the estimate and its "
            "95 % interval. A common slope on the left is drift of the machine; it does not change the right side. The "
            "axes do not begin at 0.",
            _figure(source),
        ),
        markup.items(dict.fromkeys(line for side in source.comparisons for line in left_out(side)))
        or "Every block of the plan counts.",
        markup.titled("Failed blocks:", markup.items(failures(source))),
        markup.folded(
            "Spreads, and what narrows intervals", *(_spreads(side, source) for side in source.comparisons),
            LEVELS if any(row.get("sitting_pct") is not None for s in source.comparisons for row in s.rows) else "",
        ),
    )  # fmt: skip


def left_out(comparison: Comparison) -> list[str]:
    """Return a sentence for each block that does not count."""
    return [f"Block {block} does not count: {markup.text(reason)}." for block, reason in comparison.dropped.items()]


def failures(source: Source) -> list[str]:
    """Return a sentence for each variant of a block that did not finish."""
    table = source.table("checks")
    bad = table[(table["ok"] != "true") & (table["check"] == FINISHED)]
    return [
        f"Block {block:.0f}{', ' + markup.text(variant) if variant else ''}"
        f"{' in phase ' + markup.text(phase) if phase else ''}: {markup.text(message)}"
        for block, variant, phase, message in bad[["block", "variant", "phase", "message"]].itertuples(index=False)
    ]


def _spreads(comparison: Comparison, source: Source) -> str:
    rows = comparison.primary
    # Add the query types of a mean.
    means = dict.fromkeys(row["metric"] for row in rows if row["query_type"] == GEOMEAN)
    rows += [row for name in means for t, row in comparison.by_type(name, source.query_types).items() if t != GEOMEAN]
    cells = []
    for row in rows:
        if row["s_d"] is not None and not row.get("native"):
            # The whole spread if that within blocks is not known.
            between = 100 * row["s_d"] if row["between_pct"] is None else row["between_pct"]
            spreads = (numbers.number(v, 2) for v in (row["within_pct"], row.get("sitting_pct"), between))
            evidence = (numbers.interval(row), numbers.count(row["blocks_needed"]))
            threshold = numbers.MISSING if numbers.by_ratio(row) else f"{row['threshold_pct']:g}"
            cells.append([comparison.named(row), *spreads, *evidence, threshold, _advice(row, source)])
    header = ("Where the noise is", "exchanges, %", "between sittings, %", "between blocks, %", "95 % CI")
    return markup.table([*header, "blocks for 80 % power", "for, %", "what would help most"], cells, range(1, 7))


def _advice(row: Row, source: Source) -> str:
    """Return what narrows the interval of an inconclusive row most: more blocks, sittings or hosts, longer phases."""
    inconclusive = row["verdict"].startswith("inconclusive")
    if numbers.by_ratio(row):
        return "more blocks" if inconclusive else "nothing: it is decided"
    if row.get("over_hosts") and inconclusive:
        wanted = (("BLOCKS", row["blocks_needed"]), ("HOSTS", row["hosts_needed"]))
        return next((f"{knob}={needed}" for knob, needed in wanted if needed), "quieter machines")
    duel, block_s = source.plan.duel, float(source.plan.duration.block_s if source.plan.duration else 0)
    types = 1 if row["query_type"] in source.query_types else len(source.query_types)
    advice = advise(
        row["threshold_pct"], row["s_d"], within=row["within"], blocks=row["blocks"], block_s=block_s,
        phase_s=types * duel.seconds if duel else block_s,
    )  # fmt: skip
    if advice is None and inconclusive:
        near = "more blocks: its change is near the threshold"
        of = {NOT_CONFIRMED: "more blocks: p is adjusted for all metrics", ENVIRONMENT: "a quieter machine"}
        return of.get(decision(row), near if row["p_adj"] is not None else "blocks that have a value of it")
    if advice is None or not inconclusive:
        return "nothing: enough for its threshold"
    shares: dict[str, float] = row.get("shares") or {}
    if "sitting" in shares and shares["sitting"] == max(shares.values()) > 0:
        return f"more sittings{f', or {advice}' if advice else ''}"
    return advice or "a quieter machine"


def _figure(source: Source) -> Figure | None:
    lanes, values, changes = [], [], []
    rows = [(side, row) for side in source.comparisons for row in side.primary]
    for comparison, row in rows:
        metric = source.metrics[row["metric"]]
        if not comparison.row(metric.name, row["query_type"]):
            continue
        measured = values_of(source, metric.name, row["query_type"])
        if measured["block"].nunique() < LEAST:
            continue
        name = comparison.named(row, brief=True)
        lanes.append(Lane(name, metric.unit, metric.better == "higher", source.plan.crosses))
        # The warm-up blocks of several hosts do not stand at the beginning: leave them out.
        left_out = source.run.warmups if len(source.plan.every_host) > 1 else ()
        values.append(measured[~measured["block"].isin(left_out)].assign(lane=name))
        interval = {"low": row["lo_pct"], "high": row["hi_pct"], "estimate": row["change_pct"]}
        moved = changes_of(source, comparison, row).assign(lane=name, **interval)
        if source.plan.crosses:
            drawn = ["change", *interval]
            moved[drawn] = 1 + moved[drawn].astype(float) / 100
        changes.append(moved)
    if not lanes:
        return None
    unique = list({lane.name: lane for lane in lanes}.values())
    return by_block(pd.concat(values), pd.concat(changes), unique, source.labels)


def values_of(source: Source, metric: str, query_type: str, variants: Collection[str] = ()) -> pd.DataFrame:
    """Return columns block, variant, value of one row over all blocks, of all variants unless some are named.

    A geometric mean is that of the mix alone where there is one, and else over the types that are above zero in all
    blocks which count; where none counts, over all. A block that lacks one of them has none.
    """
    table = source.table("measurements")
    of_metric = table[table["metric"] == metric]
    if variants:
        of_metric = of_metric[of_metric["variant"].isin(variants)]
    if query_type != GEOMEAN:
        return of_metric[of_metric["query_type"] == query_type][["block", "variant", "value"]]
    logs = _logs_by_type(source, of_metric)
    if logs.empty:
        return of_metric.iloc[:0][["block", "variant", "value"]]
    return logs.mean(axis="columns").map(math.exp).rename("value").reset_index()


def _logs_by_type(source: Source, of_metric: pd.DataFrame) -> pd.DataFrame:
    """Return the log of the values of the types that a mean is over: a row a block and variant, a column a type."""
    by_type, counting = (
        _of_mean(rows).pivot_table(index=["block", "variant"], columns="query_type", values="value")
        for rows in (of_metric, source.counting(of_metric))
    )
    wide = by_type[by_type.columns if counting.empty else counting.columns[(counting > 0).all()]].dropna()
    return wide[(wide > 0).all(axis="columns")].map(math.log)


def _of_mean(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the types that a mean is made of, as tsduel/stats/compare.py does."""
    types = table[~table["query_type"].isin([ALL, GEOMEAN])]
    mixed = types["query_type"] == MIX
    return types[mixed] if mixed.any() else types


def _means(source: Source, row: Row, pairs: pd.DataFrame) -> "pd.Series[Any]":
    """Return the mean log ratio of each block; a type that took no turns has no pair, but values."""
    table, sides = source.table("measurements"), (source.baseline, row["candidate"])
    logs = _logs_by_type(source, table[(table["metric"] == row["metric"]) & table["variant"].isin(sides)])
    before, after = (logs[logs.index.get_level_values("variant") == side].droplevel("variant") for side in sides)
    of_values = (after - before).dropna()
    paired = pairs.pivot_table(index="block", columns="query_type", values="log_ratio")
    return paired.reindex_like(of_values).fillna(of_values).mean(axis="columns")


def changes_of(source: Source, comparison: Comparison, row: Row) -> pd.DataFrame:
    """Return columns block, candidate, change (percent), counts: the log ratio of pairs.csv, or that of the values."""
    pairs, keys = source.table("pairs"), ["metric", "candidate"]
    of_row = pairs[(pairs[keys] == [row[key] for key in keys]).all(axis="columns")]
    ratios: pd.Series[Any]
    if not of_row.empty and row["query_type"] == GEOMEAN:
        ratios = _means(source, row, of_row)
    elif not of_row.empty:
        ratios = of_row[of_row["query_type"] == row["query_type"]].set_index("block")["log_ratio"]
    else:
        values = values_of(source, row["metric"], row["query_type"], (source.baseline, row["candidate"]))
        wide = values.pivot_table(index="block", columns="variant", values="value")
        whole = wide.reindex(columns=[source.baseline, row["candidate"]]).dropna()
        whole = whole[(whole > 0).all(axis="columns")]
        ratios = (whole[str(row["candidate"])] / whole[source.baseline]).map(math.log)
    ratios = ratios[~ratios.index.isin(source.run.warmups)].astype(float)
    table = (100 * (ratios.map(math.exp) - 1)).rename("change").rename_axis("block").reset_index()
    return table.assign(candidate=row["candidate"], counts=table["block"].isin(comparison.valid))
