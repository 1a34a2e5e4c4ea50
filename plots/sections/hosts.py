"""A fleet: the estimate of each host, and the spread between hosts."""

from collections.abc import Iterator, Sequence
from typing import Any

from plots import markup, numbers
from plots.charts.hosts import Whole, over_hosts
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.sections import blocks, heading
from plots.source import Source
from tsduel.core.wording import number_of
from tsduel.stats.hosts import DISAGREE, FEWEST_HOSTS

UNKNOWN = "a CPU that is not known"


def standing(source: Source) -> list[str]:
    """Return warnings about verdicts over hosts that differ, or over two hosts; Markdown."""
    lines, hosts, models = [], counting(source), dict[str, list[str]]()
    for host in hosts:
        models.setdefault(host["cpu_model"] or UNKNOWN, []).append(host["host"])
    if len(models) > 1:
        each = "; ".join(f"{markup.text(model)} ({', '.join(names)})" for model, names in models.items())
        lines.append(
            f"**The hosts differ in their CPU**, and verdicts are joined over them: {each}. See *Host by host*."
        )
    lines += _settings(source)
    if 1 < len(hosts) < FEWEST_HOSTS:
        lines.append(
            "Two hosts say little about other machines: the intervals are over blocks, and hold for these two. From "
            "three hosts on, intervals are over hosts."
        )
    return lines


def _settings(source: Source) -> Iterator[str]:
    """Yield a warning for each setting of the kernel that hosts with a block that counts have differently."""
    names = {host["host"] for host in source.document.get("hosts", []) if host["blocks"]}
    found = {name: facts.get("sysctls") or {} for name, facts in source.run.machines.items() if name in names}
    for setting in sorted({setting for each in found.values() for setting in each}):
        values: dict[str, list[str]] = {}
        for name, each in found.items():
            values.setdefault(each.get(setting, "not known"), []).append(name)
        if len(values) > 1:
            each_value = "; ".join(f"{markup.text(value)} ({', '.join(hosts)})" for value, hosts in values.items())
            yield f"The hosts differ in {markup.code(setting)}, a setting of their kernels: {each_value}."


def counting(source: Source) -> list[dict[str, Any]]:
    """Return the hosts that have a block that counts."""
    return [host for host in source.document.get("hosts", []) if host["blocks"]]


@heading("Host by host", 75)
def section(source: Source, pictures: Pictures) -> str:
    """Return the spread between hosts, the picture, the hosts and their estimates."""
    hosts, comparisons = source.document.get("hosts", []), source.comparisons
    if len(hosts) <= 1:
        return ""
    rows = [
        [host["host"] + (" (spare)" if host["spare"] else ""), host["machine"], host["cpu_model"] or numbers.MISSING,
         str(host["blocks"])]
        for host in hosts
    ]  # fmt: skip
    return markup.paragraphs(
        *(f"{comparison.title}: {_spread(comparison, source)}" for comparison in comparisons),
        _picture(source, pictures),
        markup.folded("Hosts", markup.table(["Host", "Machine", "CPU", "blocks that count"], rows, (3,))),
        *(
            markup.folded(f"{comparison.title}: each metric on each host", _table(comparison))
            for comparison in comparisons
        ),
    )


def _spread(comparison: Comparison, source: Source) -> str:
    rows = [row for row in comparison.primary if row.get("by_host")]
    if not rows:
        hosts = number_of(len(counting(source)), "host")
        return f"{hosts} with a block that counts. How far hosts differ is known from two hosts and three blocks on."
    spreads = [(comparison.named(row), row["hosts_pct"]) for row in rows if row["hosts_pct"] is not None]
    listed = ", ".join(f"{name} {numbers.number(spread, 2)} %" for name, spread in spreads)
    text = (
        f"{number_of(max(row['hosts'] for row in rows), 'host')}; standard deviation between them, beyond that of "
        f"their blocks: {listed or 'not known'}."
    )
    tested = [row for row in rows if row["hosts_p"] is not None]
    disagree = [comparison.named(row) for row in tested if row["hosts_p"] <= DISAGREE]
    if disagree:
        where = "More hosts narrow the interval, more blocks do not" if _over_hosts(rows) else "More hosts show how far"
        return f"{text} **The hosts disagree** in {', '.join(disagree)}: the change depends on the host. {where}."
    why = f"adjusted p above {DISAGREE:g}" if tested else "not tested"
    return f"{text} The hosts do not visibly differ by more than their blocks ({why})."


def _over_hosts(rows: Sequence[Row]) -> bool:
    return any(row["over_hosts"] for row in rows)


def _table(comparison: Comparison) -> str:
    rows = [row for row in comparison.rows if row.get("by_host") and row["family"] != "shown"]
    hosts, cells = dict.fromkeys(name for row in rows for name in row["by_host"]), []
    for row in rows:
        if row["change_pct"] is not None:
            each = [numbers.change(row["by_host"].get(name, {}).get("change_pct")) for name in hosts]
            over = [numbers.number(row["hosts_pct"], 2), numbers.probability(row["hosts_p"])]
            change = [numbers.changed(row), numbers.interval(row)]
            cells.append([comparison.named(row), *each, *change, *over, numbers.count(row["hosts_needed"])])
    head = [
        "Change, %",
        *hosts,
        "over hosts" if _over_hosts(rows) else "over blocks",
        "95 % CI",
        "between hosts, %",
        "p",
        "hosts needed",
    ]
    return markup.table(head, cells, range(1, len(head)))


def _picture(source: Source, pictures: Pictures) -> str:
    changes = []
    hosts = source.table("blocks").set_index("block")["host"]
    for comparison in source.comparisons:
        for row in comparison.primary:
            if not row.get("by_host") or row["change_pct"] is None:
                continue
            moved = blocks.changes_of(source, comparison, row)
            counting = moved[moved["counts"]]
            by_host = counting["change"].groupby(counting["block"].map(hosts.to_dict()))
            name = comparison.named(row, brief=True)
            changes.append(Whole(name, row, {str(host): own.tolist() for host, own in by_host}))
    return pictures.show(
        "hosts", "host by host", "The change on each host, and over hosts",
        "A small dot is a block, a large mark a host's own estimate, the diamond and its bar the estimate "
        f"over {'hosts' if any(change.row['over_hosts'] for change in changes) else 'blocks'} with its 95 % interval.",
        over_hosts(changes, source.labels) if changes else None,
    )  # fmt: skip
