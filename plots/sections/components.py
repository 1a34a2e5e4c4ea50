"""What each component of a variant took, where one has several: CPU, memory, bytes, alone and beside the others."""

from plots import markup
from plots.pictures import Pictures
from plots.source import Source

NOTE = (
    "Everywhere else the components of a variant are added up. CPU is that of each process's own clock, over the "
    "operations of its phase or the samples of the load."
)
QUEUED = (
    "{roles} acknowledges samples before they are stored: the load rate is that of acknowledgements. The check of what "
    "was stored waits for the last sample, and so does the CPU of the load and of ingestion."
)


def section(source: Source, _: Pictures) -> str:
    """Return a table a candidate, a row a metric and role; nothing where every variant has one component."""
    metrics, roles, tables = source.metrics.values(), source.plan.roles, []
    for one in source.comparisons:
        keys = [(m.name, role) for m in metrics if m.per_role for role in roles] + [("arrival_seconds", "")]
        rows = [row for metric, role in keys if (row := one.row(metric, role))]
        title = f"{one.title}:" if len(source.comparisons) > 1 else ""
        tables += [markup.paragraphs(title, one.table(rows))] if rows else []
    if not tables:
        return ""
    return markup.paragraphs(NOTE, *tables)


def queued(source: Source) -> str:
    """Say what a load rate is where a component queues; nothing where none does."""
    queues = {role for target in source.plan.targets.values() for role in target.queues} & set(source.plan.roles)
    return QUEUED.format(roles=" and ".join(sorted(queues))) if queues else ""
