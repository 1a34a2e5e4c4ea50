"""A block of variants that start on the baseline's data (design.start_from) -> measurements and ratios."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tsduel.core.metrics import ALL
from tsduel.core.record import UPGRADE, Block, Upgrade
from tsduel.workloads.tsbs.exchanges import Figures, read_exchanges, whole
from tsduel.workloads.tsbs.measure import parsed
from tsduel.workloads.tsbs.output import parse_load_json

STATES = {"": "right_after", "half": "half", "new": "new"}
"""Maps the suffix after @ in a query type's name to the state; types over the first data have no suffix."""


def read_upgrade(figures: Figures, variants: Sequence[str]) -> None:
    """Add the figures of a block; of a variant that failed, or did not start, those from before that."""
    block, upgrade = figures.block, figures.block.upgrade
    if upgrade is None:
        return
    for name in variants:
        figures.into.add(name, _alone(block, upgrade, name))
    refused = {name for name, start in upgrade.start.items() if start.refused}
    alive = [name for name in figures.alive if name not in refused]
    figures = replace(figures, alive=alive)
    for phase, duel in (("before", upgrade.before), ("after", upgrade.after)):
        if duel is None or figures.baseline not in alive:
            continue
        for name, times in read_exchanges(block.path / f"upgrade/{phase}/exchanges.csv.gz", alive).items():
            query_type, _, window = name.partition("@")
            figures.typical(f"upgrade_{STATES[window]}_typical_ms", query_type, times)
            figures.total(f"upgrade_{STATES[window]}_total_ms", query_type, times)
        for window, state in STATES.items():
            records = [record for record in duel.types if record.query_type.partition("@")[2] == window]
            for name in (*dict.fromkeys(record.query_type for record in records), ALL):
                own = whole(records) if name == ALL else [r for r in records if r.query_type == name]
                clocks = [(r.sitting, r.cpu_ns, r.exchanges) for r in own]
                figures.per_operation(f"upgrade_{state}_cpu_us", name.partition("@")[0], clocks, 1e3)


def _alone(block: Block, upgrade: Upgrade, name: str) -> Iterator[tuple[str, str, float]]:
    """Yield metric, query type and value of what a variant did alone."""
    start = upgrade.start.get(name)
    if start is not None and not start.refused and start.quiet_s:
        yield "upgrade_start_seconds", "", start.start_s
        yield "upgrade_first_answer_seconds", "", start.first_answer_s
        yield "upgrade_quiet_seconds", "", start.quiet_s
        yield "upgrade_migration_cpu_seconds", "", start.cpu_ns / 1e9
        if start.written_bytes >= 0:
            yield "upgrade_migration_written_bytes", "", start.written_bytes
    ingest = upgrade.ingest.get(name)
    if ingest is not None and "drained" in ingest.cpu_ns:
        load = parsed(block.path / name / UPGRADE / "load.json", parse_load_json)
        if load is not None:
            yield "upgrade_ingest_rate", "", load.rate
        yield "upgrade_ingest_cpu_seconds", "", ingest.cpu_ns["drained"] / 1e9
        if ingest.written_bytes >= 0:
            yield "upgrade_ingest_written_bytes", "", ingest.written_bytes
    if "disk_bytes" in upgrade.sizes.get(name, {}):
        yield "upgrade_disk_bytes", "", upgrade.sizes[name]["disk_bytes"]
    if down := upgrade.downgrade.get(name):
        yield "upgrade_downgrade_starts", "", float(down.starts)
        for answers in down.answers:
            yield "upgrade_downgrade_same", answers.window, answers.same / max(1, answers.asked)
