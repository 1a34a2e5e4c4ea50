"""A fleet: the estimate of each host, the spread between hosts, and the differences between types of machines."""

from collections.abc import Iterator, Mapping
from typing import Any

from plots import markup, numbers, sentences
from plots.charts.hosts import Whole, over_hosts
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.sections import blocks, heading
from plots.source import Source
from tsduel.core.wording import number_of
from tsduel.stats.hosts import DISAGREE, FEWEST_HOSTS

MOST_LINES = 6
UNKNOWN = "a CPU that is not known"
Difference = Mapping[str, Any]
"""An entry of `machines` in comparison.json: one row on two types of machines."""


def standing(source: Source) -> list[str]:
    """Return warnings about verdicts over hosts that differ, or over two hosts; Markdown."""
    lines, by_cell = [], _by_cell(source)
    for cell, hosts in by_cell.items():
        models: dict[str, list[str]] = {}
        for host in hosts:
            models.setdefault(host["cpu_model"] or UNKNOWN, []).append(host["host"])
        if len(models) > 1:
            each = "; ".join(f"{markup.text(model)} ({', '.join(names)})" for model, names in models.items())
            beside = f" of {_short_cell(cell)}" if cell else ""
            lines.append(
                f"**The hosts{beside} differ in their CPU**, and verdicts are joined over them: {each}. See *Host by "
                "host*."
            )
    lines += _settings(source)
    if 1 < min(map(len, by_cell.values()), default=0) < FEWEST_HOSTS:
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
            yield f"The hosts differ in `{setting}`, a setting of their kernels: {each_value}."


def _short_cell(cell: str) -> str:
    """Return e2-standard-8 for machine=e2-standard-8; a cell of several keys stays whole."""
    return markup.text(cell if " " in cell else cell.removeprefix("machine="))


def _by_cell(source: Source) -> dict[str, list[dict[str, Any]]]:
    """Return the hosts of each cell that have a block that counts."""
    hosts: dict[str, list[dict[str, Any]]] = {}
    for host in source.document.get("hosts", []):
        for cell in host["cells"] if host["blocks"] else ():
            hosts.setdefault(cell, []).append(host)
    return hosts


def _differences(source: Source) -> Iterator[tuple[Difference, Comparison]]:
    by_key = {(side.cell, side.candidate): side for side in source.comparisons}
    for difference in source.document.get("machines", []):
        yield difference, by_key[difference["cell"], difference["candidate"]]


def between_types(source: Source) -> str:
    """Return a line for each difference between two types of machines, and one for all that is not seen to differ."""
    lines, alike = [], dict[str, list[str]]()
    for difference, comparison in _differences(source):
        for row in sentences.subjects(comparison):
            if (row["metric"], row["query_type"]) == (difference["metric"], difference["query_type"]):
                seen, words = _difference(source, difference)
                if seen:
                    lines.append(f"{comparison.named(row)}: {seen} ({words})")
                else:
                    pair = " and ".join(_short_cell(difference[name]) for name in ("cell", "than"))
                    alike.setdefault(pair, []).append(f"{comparison.named(row)} ({words})")
    lines += [f"no difference between {pair} is seen in {', '.join(names)}" for pair, names in alike.items()]
    shown = markup.most(lines, MOST_LINES, "and {} more: see *Host by host*")
    return markup.titled("**Between machines:**", markup.items(shown))


def _difference(source: Source, difference: Difference) -> tuple[str, str]:
    """Return a difference in words, and its interval: ("on e2 1.9 points worse than on n2", "0.7 to 3.1").

    The words are empty where the interval has 0 in it.
    """
    first, second = (_short_cell(difference[name]) for name in ("cell", "than"))
    sign = 1 if source.metrics[difference["metric"]].better == "lower" else -1
    worse, (low, high) = sign * difference["points"], sorted((sign * difference["lo"], sign * difference["hi"]))
    several = f" for {markup.text(source.labels[difference['candidate']])}" if source.run.variants[2:] else ""
    alone = "; one host each, so it may be the host" if difference["one_host"] else ""
    if low <= 0 <= high:
        return "", f"{numbers.reach(low, high)} points worse on the first{several}{alone}"
    word, (inner, outer) = ("worse", (low, high)) if worse > 0 else ("better", (-high, -low))
    reach = f"{numbers.size(inner)} to {numbers.size(outer)}"
    return f"on {first} {numbers.size(worse)} points {word} than on {second}{several}", f"{reach}{alone}"


@heading("Host by host", 25, "sweep")
@heading("Host by host", 75, "tsbs", "upgrade", "gobench")
def section(source: Source, pictures: Pictures) -> str:
    """Return the spread between hosts, the differences between types, the picture, the hosts and their estimates."""
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
        between_types(source),
        _picture(source, pictures),
        markup.folded("Hosts", markup.table(["Host", "Machine", "CPU", "blocks that count"], rows, (3,))),
        *(
            markup.folded(f"{comparison.title}: each metric on each host", _table(comparison))
            for comparison in comparisons
        ),
        markup.folded("Between machines, every metric", _every_difference(source)),
    )


def _spread(comparison: Comparison, source: Source) -> str:
    rows = [row for row in comparison.primary if row.get("by_host")]
    if not rows:
        hosts = number_of(len(_by_cell(source).get(comparison.cell, ())), "host")
        return f"{hosts} with a block that counts. How far hosts differ is known from two hosts and three blocks on."
    spreads = [(comparison.named(row), row["hosts_pct"]) for row in rows if row["hosts_pct"] is not None]
    known = ", ".join(f"{name} {numbers.number(spread, 2)} %" for name, spread in spreads)
    text = (
        f"{number_of(max(row['hosts'] for row in rows), 'host')}; standard deviation between them, beyond that of "
        f"their blocks: {known or 'not known'}."
    )
    tested = [row for row in rows if row["hosts_p"] is not None]
    disagree = [comparison.named(row) for row in tested if row["hosts_p"] <= DISAGREE]
    if disagree:
        return (
            f"{text} **The hosts disagree** in {', '.join(disagree)}: the change depends on the host. More hosts "
            "narrow the interval, more blocks do not."
        )
    why = f"adjusted p above {DISAGREE:g}" if tested else "not tested"
    return f"{text} The hosts do not visibly differ by more than their blocks ({why})."


def _table(comparison: Comparison) -> str:
    rows = [row for row in comparison.rows if row.get("by_host") and row["family"] != "shown"]
    hosts, cells = dict.fromkeys(name for row in rows for name in row["by_host"]), []
    for row in rows:
        if row["change_pct"] is not None:
            each = [numbers.change(row["by_host"].get(name, {}).get("change_pct")) for name in hosts]
            over = [numbers.number(row["hosts_pct"], 2), numbers.probability(row["hosts_p"])]
            change = [numbers.changed(row), numbers.interval(row)]
            cells.append([comparison.named(row), *each, *change, *over, numbers.count(row["hosts_needed"])])
    head = ["Change, %", *hosts, "over hosts", "95 % CI", "between hosts, %", "p", "hosts needed"]
    return markup.table(head, cells, range(1, len(head)))


def _every_difference(source: Source) -> str:
    cells = []
    for difference, comparison in _differences(source):
        points, reach = numbers.change(difference["points"]), numbers.reach(difference["lo"], difference["hi"])
        named = comparison.named(comparison.row(difference["metric"], difference["query_type"]) or {})
        cells.append([named, difference["cell"], difference["than"], points, reach])
    head = ["Change on the first less that on the second", "on", "than on", "points", "95 % CI"]
    return markup.table(head, cells, (3, 4))


def _picture(source: Source, pictures: Pictures) -> str:
    several, changes = len(_by_cell(source)) > 1, []
    hosts = source.table("blocks").set_index("block")["host"]
    for comparison in source.comparisons:
        for row in comparison.primary:
            if not row.get("by_host") or row["change_pct"] is None:
                continue
            values = blocks.values_of(source, row["metric"], row["query_type"], comparison.cell)
            moved = blocks.changes_of(source, comparison, row, values)
            counting = moved[moved["counts"]]
            by_host = counting["change"].groupby(counting["block"].map(hosts.to_dict()))
            name, kind = comparison.named(row, brief=True), _short_cell(comparison.cell) if several else ""
            changes.append(Whole(name, kind, row, {str(host): own.tolist() for host, own in by_host}))
    return pictures.show(
        "hosts", "host by host", "The change on each host, and over hosts",
        "A small dot is a block, a large mark a host's own estimate, the diamond and its bar the estimate over hosts "
        "with its 95 % interval.",
        over_hosts(changes, source.labels) if changes else None,
    )  # fmt: skip
