"""Each variant alone at rates that were fixed beforehand: writes and queries at once, and a ladder of rates."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from plots import markup, numbers
from plots.charts.rates import NAMES, against_rate, responses
from plots.pictures import Pictures
from plots.sections import heading, tables
from plots.source import Source
from tsduel.core.record import CAPACITY, MIXED, Block, RatePhase
from tsduel.core.sections import CapacityAsked, Rates
from tsduel.core.tsbs import Mixed
from tsduel.core.wording import number_of

_SHOWN = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9", 1.0: "largest"}
_QUANTILE = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
NOTE = (
    "Response time counts from the moment when an operation was meant to start, also if the server had not answered "
    "the operations before it; service time counts from the moment when it was sent. While all connections wait for "
    "the server, further operations wait, too, and their response time contains that wait (to leave it out is called "
    "coordinated omission). Percentiles over blocks are of all operations together, by adding histograms (0.1 %); "
    "verdicts compare block with block."
)


@dataclass(frozen=True)
class AtRates:
    """A part of a run at fixed rates."""

    source: Source
    part: str

    @property
    def responses(self) -> pd.DataFrame:
        """Percentiles of all operations of the blocks that count."""
        table = self.source.table("responses")
        return table[table["part"] == self.part]

    def phases(self, variant: str) -> list[tuple[Block, RatePhase]]:
        """Return the phases of a variant in the blocks that were planned to count, each with its block."""
        blocks = [block for block in self.source.run.blocks if block.kind != "warmup"]
        parts = ((block, (block.mixed if self.part == MIXED else block.capacity).get(variant)) for block in blocks)
        return [(block, phase) for block, part in parts if part for phase in part.phases]

    def verdicts(self) -> Iterator[str]:
        """Yield the tables of judged metrics and of the others."""
        for comparison in self.source.comparisons:
            rows = comparison.rows_of(tables.measured(self.source, self.part))
            judged = [row for row in rows if row["verdict"] != "shown"]
            rest = [row for row in rows if row["verdict"] == "shown"]
            yield markup.titled(f"Block against block, {comparison.title}:", comparison.table(judged))
            yield markup.folded(f"What is not judged, {comparison.title}", comparison.table(rest))


@heading("Writes and queries at once, at a fixed rate", 30, "tsbs")
def mixed(source: Source, pictures: Pictures) -> str:
    """Return verdicts, percentiles over all blocks, their picture and the conditions; nothing without this part."""
    part, workload, rates = AtRates(source, MIXED), source.plan.workload, source.plan.mixed
    if rates is None:
        return ""
    churn = (
        f" Every {workload.churn.every_s} s of the data's clock {workload.churn.pct:g} % of the hosts are replaced."
        if workload and workload.churn else ""
    )  # fmt: skip
    return markup.paragraphs(
        f"Each variant alone, on its own data: {rates.ingest:,.0f} samples/s of new data in batches of "
        f"{number_of(rates.batch_size, 'line')}, and {numbers.number(rates.queries)} queries/s "
        f"({', '.join(map(markup.text, rates.types))} in turn) at once, for {rates.seconds:g} s.{churn} "
        f"{_starts(rates)}",
        *_void(part),
        *_unsent(part, rates),
        _percentiles(part),
        pictures.show(
            part.part, "response times at a fixed rate", f"Response times by percentile: {source.names}",
            "All operations of the blocks that count. The thin lines are service times.",
            responses(part.responses, part.source.labels),
        ),
        *part.verdicts(),
        markup.folded("How to read these, and how well the client kept the rate", NOTE, _kept(part)),
    )  # fmt: skip


@heading("Response time against rate", 31, "tsbs")
def capacity(source: Source, pictures: Pictures) -> str:
    """Return how far each variant came up the ladder, and response time against rate; nothing without a ladder."""
    if (ladder := source.plan.capacity) is None:
        return ""
    part = AtRates(source, CAPACITY)
    table, values = part.responses, source.table("measurements")
    quantile, percentile = _QUANTILE[ladder.percentile], _SHOWN[_QUANTILE[ladder.percentile]]
    pooled = table[(table["quantile"] == quantile) & (table["time"] == "response")]
    blocks = part.source.counting(values[values["metric"] == "capacity_response_ms"])
    blocks = blocks.assign(rate=blocks["query_type"].str.removesuffix("/s").astype(float), value_ms=blocks["value"])
    return markup.paragraphs(
        f"The highest rate of queries with {percentile} of the response times within {ladder.within_ms:g} ms. Rates, "
        f"queries/s, from the lowest up until two in a row are not held: {', '.join(f'{r:,g}' for r in ladder.rates)}; "
        f"{ladder.seconds:g} s each. {_starts(ladder)}",
        *_void(part),
        *part.verdicts(),
        *_unknown(part, ladder),
        pictures.show(
            part.part, "response time against rate", f"{percentile} of response times against the rate: {source.names}",
            "Thin lines are blocks, thick lines are all operations together. The dotted line is the bound.",
            against_rate(blocks, pooled, part.source.labels, percentile, ladder.within_ms),
        ),
        markup.folded(
            "Rung by rung", _rungs(part, pooled, percentile), NOTE,
            "The capacity of a block lies between the last rung that was held and the next one, where a line between "
            "the two (both axes logarithmic) crosses the bound.",
        ),
    )  # fmt: skip


def _starts(rates: Rates) -> str:
    how = "drawn as of independent clients (Poisson)" if rates.arrivals == "poisson" else "at equal distances"
    return f"Starts were fixed beforehand, {how}, the same for every variant of a block, and wait for no answer."


def _void(part: AtRates) -> Iterator[str]:
    for variant, label in part.source.labels.items():
        if void := [(block, phase) for block, phase in part.phases(variant) if phase.void]:
            block, phase = void[0]
            where = f" at {phase.rate:,g} queries/s" if phase.rate else ""
            yield (
                f"**Void: {markup.text(label)} in {number_of(len(void), 'phase')}**, first in block "
                f"{block.block}{where}: {markup.text(phase.void)}. Void phases are in no figure here."
            )


def _unsent(part: AtRates, rates: Mixed) -> Iterator[str]:
    for variant, label in part.source.labels.items():
        good = [phase for _, phase in part.phases(variant) if not phase.void]
        for operation, name in NAMES.items():
            streams = [stream for phase in good for stream in phase.streams if stream.operation == operation]
            left, planned = (sum(getattr(stream, key) for stream in streams) for key in ("unstarted", "planned"))
            if left:
                yield (
                    f"**{markup.text(label)} did not keep this rate**: {left:,} of {planned:,} {name} "
                    f"were never sent, since all {rates.connections} connections waited for it until the end. They "
                    "count in the response times with the time that they had waited by then: percentiles "
                    "are lower bounds."
                )


def _sides(part: AtRates, table: pd.DataFrame, time: str, quantile: float) -> str:
    """Return baseline → candidate at a quantile, in ms."""
    at_time = table[(table["time"] == time) & (table["quantile"] == quantile)]
    values = at_time.set_index("variant")["value_ms"].to_dict()
    return " → ".join(numbers.number(values.get(variant), 3) for variant in part.source.labels)


def _percentiles(part: AtRates) -> str:
    rows, table = [], part.responses
    for operation, name in NAMES.items():
        for time in ("response", "service"):
            of_operation = table[(table["operation"] == operation) & (table["time"] == time)]
            if not of_operation.empty:
                counted = " to ".join(f"{n:,}" for n in sorted(set(of_operation["n"].astype(int))))
                sides = (_sides(part, of_operation, time, quantile) for quantile in _SHOWN)
                rows.append([f"{time} time of {name}, ms", *sides, counted])
    names = " → ".join(map(markup.text, part.source.labels.values()))
    return markup.table([names, *_SHOWN.values(), "of"], rows, range(1, len(_SHOWN) + 2))


def _kept(part: AtRates) -> str:
    phases = [phase for variant in part.source.labels for _, phase in part.phases(variant) if not phase.void]
    if not phases:
        return ""
    streams = [stream for phase in phases for stream in phase.streams]
    started, late, queued = (sum(getattr(s, name) for s in streams) for name in ("started", "late", "queued"))
    worst = max(stream.lateness_ns.get("p999", 0) for stream in streams) / 1e6
    used = max(phase.client_share for phase in phases)
    return (
        f"The client used {100 * used:.0f} % of its CPUs at most. Of {started:,} "
        f"operations it began {late:,} late by its own doing (p99.9 of lateness {numbers.number(worst, 2)} ms in the "
        f"worst phase); {queued:,} had to wait until a connection was free."
    )


def _unknown(part: AtRates, ladder: CapacityAsked) -> Iterator[str]:
    for variant, label in part.source.labels.items():
        why = Counter[str]()
        for _, phases in groupby(part.phases(variant), key=lambda each: each[0].block):
            of_block = [phase for _, phase in phases]
            rungs = [phase.held for phase in of_block]
            if of_block[0].void:
                continue  # that says nothing of the server
            if not any(rungs):
                why[f"held no rung, not even {ladder.rates[0]:,g} queries/s"] += 1
            elif rungs[-1] and len(rungs) == len(ladder.rates):
                why[f"held all of the ladder: its capacity is {ladder.rates[-1]:,g} queries/s or more"] += 1
        for reason, count in why.items():
            yield f"{markup.text(label)} {reason} in {number_of(count, 'block')}: no value."


def _rungs(part: AtRates, pooled: pd.DataFrame, percentile: str) -> str:
    tried = {
        variant: [(phase.rate, phase.held) for _, phase in part.phases(variant) if not phase.void]
        for variant in part.source.labels
    }
    values = pooled.set_index(["variant", "rate"])["value_ms"].to_dict()
    rows = []
    for rate in sorted({rate for rungs in tried.values() for rate, _ in rungs}):
        row = [f"{rate:,g}"]
        for variant, rungs in tried.items():
            at_rate = [held for at, held in rungs if at == rate]
            row += [numbers.number(values.get((variant, rate)), 3), f"{sum(at_rate)} of {len(at_rate)}"]
        rows.append(row)
    names = map(markup.text, part.source.labels.values())
    heads = [head for name in names for head in (f"{name}: {percentile}, ms", "held in blocks")]
    return markup.table(["queries/s", *heads], rows, range(len(heads) + 1))
