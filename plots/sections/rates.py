"""What each variant did at rates that were fixed beforehand: writes and queries at once, and a ladder of rates."""

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from plots import markup, numbers
from plots.charts.rates import NAMES, against_rate, responses
from plots.pictures import Pictures
from plots.source import Source
from tsduel.core.plan import Mixed
from tsduel.core.record import CAPACITY, MIXED, Block, RatePhase
from tsduel.core.sections import Rates
from tsduel.core.wording import number_of

_SHOWN = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9", 1.0: "largest"}
_QUANTILE = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
NOTE = (
    "Response time counts from when an operation was meant to start, whether or not the server had answered those "
    "before it; service time from when it was sent. While all connections wait for the server, operations wait, "
    "and that wait is theirs (to leave it out is coordinated omission). Percentiles over blocks are of all operations "
    "together, by adding histograms (0.1 %); verdicts compare block with block."
)


def mixed(source: Source, pictures: Pictures) -> str:
    """Return verdicts, percentiles over all blocks, their picture, and under which conditions; nothing without."""
    asked = source.plan.mixed
    if asked is None:
        return ""
    table = _pooled(source, MIXED)
    names = markup.text(" and ".join(source.labels.values()))
    return markup.paragraphs(
        f"{_asked(asked, source)} {_starts(asked)}",
        *_troubles(source, MIXED, asked),
        _percentiles(table, source),
        pictures.show(
            "mixed", "response times at a fixed rate", f"Response times by percentile: {names}",
            "All operations of the blocks that count; the thin lines are service times.",
            responses(table, source.labels),
        ),
        *(_verdicts(source, "mixed_")),
        markup.folded("How to read these, and how well the client kept the rate", NOTE, _kept(source)),
    )  # fmt: skip


def capacity(source: Source, pictures: Pictures) -> str:
    """Return how far each variant came up the ladder, and response time against rate; nothing without a ladder."""
    asked = source.plan.capacity
    if asked is None:
        return ""
    table, of_blocks = _pooled(source, CAPACITY), source.table("measurements")
    percentile = _SHOWN[_QUANTILE[asked.percentile]]
    pooled = table[(table["quantile"] == _QUANTILE[asked.percentile]) & (table["time"] == "response")]
    mine = source.counting(of_blocks[of_blocks["metric"] == "capacity_response_ms"])
    mine = mine.assign(rate=mine["query_type"].str.removesuffix("/s").astype(float), value_ms=mine["value"])
    names = markup.text(" and ".join(source.labels.values()))
    return markup.paragraphs(
        f"The highest rate of queries with {percentile} of the response times within {asked.within_ms:g} ms. Rates, "
        f"queries/s, from the lowest up until two in a row are not held: {_listed([f'{r:,g}' for r in asked.rates])}; "
        f"{asked.seconds:g} s each. {_starts(asked)}",
        *_troubles(source, CAPACITY, asked),
        *_verdicts(source, "capacity_rate"),
        *_unknown(source),
        pictures.show(
            "capacity", "response time against rate", f"{percentile} of response times against the rate: {names}",
            "Thin lines are blocks, thick ones all of their operations together; the dotted line is the bound.",
            against_rate(mine, pooled, source.labels, percentile, asked.within_ms),
        ),
        markup.folded(
            "Rung by rung", _rungs(source, pooled, percentile), NOTE,
            "The capacity of a block lies between the last rung that was held and the next one, where a line between "
            "the two (both axes logarithmic) crosses the bound.",
        ),
    )  # fmt: skip


def _asked(mixed_: Mixed, source: Source) -> str:
    workload = source.plan.workload
    churn = (
        f" Every {workload.churn.every_s} s of the data's clock {workload.churn.pct:g} % of the hosts are replaced."
        if workload and workload.churn else ""
    )  # fmt: skip
    return (
        f"Each variant alone, on its own data: {mixed_.ingest:,.0f} samples/s of new data in batches of "
        f"{number_of(mixed_.batch_size, 'line')}, and {mixed_.queries:,g} queries/s ({_listed(mixed_.types)} in turn) "
        f"at once, for {mixed_.seconds:g} s.{churn}"
    )


def _starts(asked: Rates) -> str:
    how = "drawn as of independent clients (Poisson)" if asked.arrivals == "poisson" else "at equal distances"
    return f"Starts were fixed beforehand, {how}, the same for every variant of a block, and wait for no answer."


def _listed(words: list[str] | tuple[str, ...]) -> str:
    return ", ".join(map(markup.text, words))


def _phases(source: Source, part: str) -> Iterator[tuple[Block, str, RatePhase]]:
    """Yield every phase of the blocks that were planned to count."""
    for block in source.run.blocks:
        if block.kind != "warmup":
            of = block.mixed if part == MIXED else block.capacity
            yield from ((block, variant, phase) for variant in source.labels for phase in (
                of[variant].phases if variant in of else ()))  # fmt: skip


def _troubles(source: Source, part: str, asked: Rates) -> Iterator[str]:
    """Yield a sentence for what says nothing of a server, and for what could never be sent."""
    void = [(variant, block.block, phase) for block, variant, phase in _phases(source, part) if phase.void]
    for variant in dict.fromkeys(variant for variant, _, _ in void):
        mine = [(block, phase) for name, block, phase in void if name == variant]
        block, phase = mine[0]
        at = f" at {phase.rate:,g} queries/s" if phase.rate else ""
        yield (
            f"**Void: {markup.text(source.labels[variant])} in {number_of(len(mine), 'phase')}**, first in block "
            f"{block}{at}: {markup.text(phase.void)}. What is void is in no figure here."
        )
    if part == CAPACITY:
        return
    for variant in source.labels:
        good = [phase for _, name, phase in _phases(source, part) if name == variant and not phase.void]
        streams = [stream for phase in good for stream in phase.streams]
        for operation, said in NAMES.items():
            left = sum(s.unstarted for s in streams if s.operation == operation)
            if left:
                planned = sum(s.planned for s in streams if s.operation == operation)
                yield (
                    f"**{markup.text(source.labels[variant])} did not keep this rate**: {left:,} of {planned:,} {said} "
                    f"were never sent, since all {asked.connections} connections waited for it until the end. They "
                    "stand in the response times with what they had waited by then, so percentiles are lower bounds."
                )


def _pooled(source: Source, part: str) -> pd.DataFrame:
    table = source.table("responses")
    return table[(table["part"] == part) & (table["cell"] == "")]


def _percentiles(table: pd.DataFrame, source: Source) -> str:
    """Return a row an operation and time, a column a percentile: baseline → candidate in ms."""
    rows = []
    for operation, name in NAMES.items():
        for time in ("response", "service"):
            mine = table[(table["operation"] == operation) & (table["time"] == time)]
            cells = []
            for quantile in _SHOWN:
                at = mine[mine["quantile"] == quantile].set_index("variant")["value_ms"].to_dict()
                cells.append(" → ".join(numbers.number(at.get(v), 3) for v in source.labels))
            if not mine.empty:
                counted = " to ".join(f"{n:,}" for n in sorted(set(mine["n"].astype(int))))
                rows.append([f"{time} time of {name}, ms", *cells, counted])
    names = " → ".join(map(markup.text, source.labels.values()))
    return markup.table([names, *_SHOWN.values(), "of"], rows, range(1, len(_SHOWN) + 2))


def _verdicts(source: Source, prefix: str) -> Iterator[str]:
    for one in source.comparisons:
        rows = [row for row in one.rows if row["metric"].startswith(prefix) and one.row(row["metric"])]
        judged = [row for row in rows if row["verdict"] != "shown"]
        rest = [row for row in rows if row["verdict"] == "shown"]
        if judged:
            yield f"Block against block, {one.title}:\n\n{one.table(judged)}"
        if rest:
            yield markup.folded(f"What is not judged, {one.title}", one.table(rest))


def _kept(source: Source) -> str:
    """Say what the client did about the rate: its lateness, its CPU, what had to wait for a connection."""
    found = [phase for _, _, phase in _phases(source, MIXED) if not phase.void]
    if not found:
        return ""
    streams = [stream for phase in found for stream in phase.streams]
    started, late, queued = (sum(getattr(s, name) for s in streams) for name in ("started", "late", "queued"))
    worst = max(stream.lateness_ns["p999"] for stream in streams) / 1e6
    who, used = "busiest client" if found[0].clients else "client", max(phase.client_share for phase in found)
    return (
        f"{_together(found)}The {who} used {used:.0%} of its CPUs at most. Of {started:,} "
        f"operations it began {late:,} late by its own doing (p99.9 of lateness {numbers.number(worst, 2)} ms in the "
        f"worst phase); {queued:,} had to wait until a connection was free."
    )


def _together(found: list[RatePhase]) -> str:
    """Say which clients shared the operations, and how well they began together; nothing where there was one."""
    if not (hosts := sorted({client.host for phase in found for client in phase.clients})):
        return ""
    skew = max(phase.skew_ms for phase in found)
    return (
        f"{len(hosts)} clients ({', '.join(hosts)}) shared the operations and began within "
        f"{numbers.number(skew, 2)} ms of each other at most; their histograms are added. "
    )


def _unknown(source: Source) -> Iterator[str]:
    """Yield a sentence for each variant whose capacity some blocks do not know, and why."""
    asked = source.plan.capacity
    by_block: dict[tuple[int, str], list[RatePhase]] = {}
    for block, variant, phase in _phases(source, CAPACITY):
        by_block.setdefault((block.block, variant), []).append(phase)
    for variant, label in source.labels.items():
        why = Counter[str]()
        for (_, name), phases in by_block.items():
            held = [phase.held for phase in phases]
            if name == variant and asked and not any(held):
                why[f"held no rung, not even {asked.rates[0]:,g} queries/s"] += 1
            elif name == variant and asked and held[-1] and len(phases) == len(asked.rates):
                why[f"held all of the ladder: its capacity is {asked.rates[-1]:,g} queries/s or more"] += 1
        for said, count in why.items():
            yield f"{markup.text(label)} {said} in {number_of(count, 'block')}, which have no value of it."


def _rungs(source: Source, pooled: pd.DataFrame, percentile: str) -> str:
    held, tried = Counter[tuple[str, float]](), Counter[tuple[str, float]]()
    for _, variant, phase in _phases(source, CAPACITY):
        tried[variant, phase.rate] += 1
        held[variant, phase.rate] += phase.held
    rows = []
    for rate in sorted({rate for _, rate in tried}):
        cells = [f"{rate:,g}"]
        for variant in source.labels:
            at = pooled[(pooled["variant"] == variant) & (pooled["rate"] == rate)]["value_ms"]
            cells.append(numbers.number(float(at.iloc[0]) if len(at) else None, 3))
            cells.append(f"{held[variant, rate]} of {tried[variant, rate]}")
        rows.append(cells)
    names = map(markup.text, source.labels.values())
    heads = [head for name in names for head in (f"{name}: {percentile}, ms", "held in blocks")]
    return markup.table(["queries/s", *heads], rows, range(len(heads) + 1))
