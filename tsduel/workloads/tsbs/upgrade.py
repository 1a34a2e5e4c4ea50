"""A block of variants that start on what the baseline has left (design.start_from) -> measurements and ratios."""

from collections.abc import Iterator, Sequence

from tsduel.core.metrics import ALL, METRICS
from tsduel.core.plan import Plan
from tsduel.core.record import UPGRADE, Block, Upgrade
from tsduel.workloads.measured import Measurement, Reading
from tsduel.workloads.tsbs.exchanges import Put, read_exchanges, sums
from tsduel.workloads.tsbs.measure import read_solo
from tsduel.workloads.tsbs.series import ingested

STATES = {"": "right_after", "half": "half", "new": "new"}
"""By the window that a query type is over, as it stands behind its name; the first data's has none."""


def read_upgrade(block: Block, variants: Sequence[str], plan: Plan, into: Reading) -> None:
    """Add what a block says. A variant that failed in it, or did not start, has what is known of it before that."""
    found, failed = block.upgrade, {failure.variant for failure in block.failures}
    if found is None or "" in failed or block.void:
        return
    for name in variants:
        into.measurements += [
            Measurement(name, UPGRADE, METRICS[metric].phase, query_type, metric, value, METRICS[metric].unit)
            for metric, query_type, value in _alone(block, found, name, plan, into)
        ]
    out = failed | {name for name, start in found.start.items() if start.refused}
    alive = [name for name in variants if name not in out]
    for phase, duel in (("before", found.before), ("after", found.after)):
        if duel is None or variants[0] in out:
            continue
        put = Put(variants[0], alive, into, UPGRADE, phase)
        for name, times in read_exchanges(block.path / f"upgrade/{phase}/exchanges.csv.gz", alive).items():
            query_type, _, window = name.partition("@")
            if len(times[variants[0]]):
                put.typical(f"upgrade_{STATES[window]}_typical_ms", query_type, times)
                put.total(f"upgrade_{STATES[window]}_total_ms", query_type, times)
        for window, state in STATES.items():
            of = [one for one in duel.types if one.query_type.partition("@")[2] == window]
            for one in of:
                query_type = one.query_type.partition("@")[0]
                put.per_operation(f"upgrade_{state}_cpu_us", query_type, one.cpu_ns, one.exchanges, 1e3)
            whole = sums([one.cpu_ns for one in of])
            put.per_operation(f"upgrade_{state}_cpu_us", ALL, whole, sum(one.exchanges for one in of), 1e3)


def _alone(block: Block, found: Upgrade, name: str, plan: Plan, into: Reading) -> Iterator[tuple[str, str, float]]:
    """Yield metric, query type and value of what a variant did alone; add the course of its load to `into`."""
    start = found.start.get(name)
    if start is not None and not start.refused and start.quiet_s:
        yield "upgrade_start_seconds", "", start.start_s
        yield "upgrade_first_answer_seconds", "", start.first_answer_s
        yield "upgrade_quiet_seconds", "", start.quiet_s
        yield "upgrade_migration_cpu_seconds", "", start.cpu_ns / 1e9
        yield "upgrade_migration_written_bytes", "", start.written_bytes
    ingest = found.ingest.get(name)
    if ingest is not None and "drained" in ingest.cpu_ns:
        raw = read_solo(block, plan.variant(name), plan, UPGRADE)
        said = raw.load_results or raw.load
        if said is not None and said.rate is not None:
            yield "upgrade_ingest_rate", "", said.rate
        yield "upgrade_ingest_cpu_seconds", "", ingest.cpu_ns["drained"] / 1e9
        yield "upgrade_ingest_written_bytes", "", ingest.written_bytes
        into.points += ingested(raw)
    if "disk_bytes" in found.sizes.get(name, {}):
        yield "upgrade_disk_bytes", "", found.sizes[name]["disk_bytes"]
    if name in found.downgrade:
        down = found.downgrade[name]
        yield "upgrade_downgrade_starts", "", float(down.starts)
        for answers in down.answers:
            yield "upgrade_downgrade_same", answers.window, answers.same / max(1, answers.asked)
