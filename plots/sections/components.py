"""The components of a variant that has several: CPU, memory and bytes of each, alone and beside the others."""

from plots import markup
from plots.pictures import Pictures
from plots.sections import heading, tables
from plots.source import Source

NOTE = (
    "Everywhere else the components of a variant are added up. CPU is that of each process's own clock, over the "
    "operations of its phase or the samples of the load."
)
QUEUED = (
    "{roles} acknowledges samples before they are stored: the load rate is that of acknowledgements. The check of what "
    "was stored waits for the last sample, and so does the CPU of ingestion."
)


@heading("By component", 55, "tsbs")
def section(source: Source, _: Pictures) -> str:
    """Return a table a candidate, with a row a metric and role; nothing for variants of one component."""
    metrics = [metric.name for metric in source.metrics.values() if metric.per_role]
    keys = [*((name, role) for name in metrics for role in source.plan.roles), ("arrival_seconds", "")]
    texts = tables.each(source, lambda side: side.table([row for key in keys if (row := side.row(*key))]))
    return markup.paragraphs(NOTE, *texts) if any(texts) else ""


def queued(source: Source) -> str:
    """Return a note on the load rate of a component that queues; nothing without such components."""
    queues = {role for target in source.plan.targets.values() for role in target.queues} & set(source.plan.roles)
    return QUEUED.format(roles=" and ".join(sorted(queues))) if queues else ""
