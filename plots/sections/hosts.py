"""A fleet: each host with its own estimate, the spread between hosts, and types of machines beside each other."""

from collections.abc import Iterator, Mapping
from typing import Any

from plots import markup, numbers, sentences
from plots.charts.hosts import Whole, over_hosts
from plots.comparison import Comparison, Row
from plots.pictures import Pictures
from plots.sections import blocks
from plots.sentences import Subject
from plots.source import Source
from tsduel.core.wording import number_of
from tsduel.stats.hosts import DISAGREE, FEWEST_HOSTS

MOST_TOLD = 6
UNKNOWN = "a CPU that is not known"


def standing(source: Source) -> list[str]:
    """Say what a fleet's verdicts are joined over, before any figure; Markdown."""
    return [*_models(source), *_few(source)]


def _models(source: Source) -> Iterator[str]:
    for cell, of in _by_cell(source).items():
        models: dict[str, list[str]] = {}
        for host in of:
            models.setdefault(host["cpu_model"] or UNKNOWN, []).append(host["host"])
        if len(models) > 1:
            each = "; ".join(f"{markup.text(model)} ({', '.join(names)})" for model, names in models.items())
            beside = f" of {_spoken(cell)}" if cell else ""
            yield (
                f"**The hosts{beside} differ in their CPU**, and verdicts are joined over them: {each}. See *Host by "
                "host*."
            )


def _spoken(cell: str) -> str:
    """Return e2-standard-8 for machine=e2-standard-8, where nothing else is swept."""
    return markup.text(cell if " " in cell else cell.removeprefix("machine="))


def _few(source: Source) -> Iterator[str]:
    counts = {len(of) for of in _by_cell(source).values()}
    if 1 < min(counts, default=0) < FEWEST_HOSTS:
        yield (
            "Two hosts say little of others: intervals are over blocks, and true of these two machines. From three "
            "hosts on they are over hosts."
        )


def _by_cell(source: Source) -> dict[str, list[dict[str, Any]]]:
    """Return the hosts with a block that counts, by cell."""
    found: dict[str, list[dict[str, Any]]] = {}
    for host in source.document.get("hosts", []):
        for cell in host["cells"] if host["blocks"] else ():
            found.setdefault(cell, []).append(host)
    return found


def between_types(source: Source) -> str:
    """Say of each subject how far its change differs between each two types of machines; nothing without several."""
    lines = [
        f"{subject.name.split(' (')[0]}: {_told(source, one, subject)}"
        for one in source.document.get("machines", [])
        if (subject := _subject(source, one))
    ]
    if not lines:
        return ""
    rest = f"\n- and {len(lines) - MOST_TOLD} more: see *Host by host*" if len(lines) > MOST_TOLD else ""
    return f"**Between machines:**\n\n{markup.items(lines[:MOST_TOLD])}{rest}"


def _subject(source: Source, one: Mapping[str, Any]) -> Subject | None:
    of = next(c for c in source.comparisons if (c.cell, c.candidate) == (one["cell"], one["candidate"]))
    wanted = (one["metric"], one["query_type"])
    return next((s for s, _ in sentences.subjects(of) if (s.metric, s.query_type) == wanted), None)


def _told(source: Source, one: Mapping[str, Any], subject: Subject) -> str:
    """Say a difference: on e2-standard-8 1.9 points worse than on n2-standard-8 (0.7 to 3.1)."""
    here, there = (_spoken(one[name]) for name in ("cell", "than"))
    better = source.metrics[subject.metric].better
    worse = one["points"] if better == "lower" else -one["points"]
    low, high = sorted((one["lo"], one["hi"]) if worse == one["points"] else (-one["lo"], -one["hi"]))
    places = numbers.digits(one["lo"], one["hi"])[1]
    several = f" for {markup.text(source.labels[one['candidate']])}" if len(source.run.variants) > 2 else ""  # noqa: PLR2004 - candidates
    alone = "; one host each, so it may be the host" if one["one_host"] else ""
    if low <= 0 <= high:
        reach = f"{numbers.change(low, places)} to {numbers.change(high, places)} points worse"
        return f"{here} and {there} are not told apart{several} (on the first {reach}{alone})"
    word, (inner, outer) = ("worse", (low, high)) if worse > 0 else ("better", (-high, -low))
    size = numbers.size(one["points"], places)
    reach = f"{numbers.size(inner, places)} to {numbers.size(outer, places)}"
    return f"on {here} {size} points {word} than on {there}{several} ({reach}{alone})"


def section(source: Source, pictures: Pictures) -> str:
    """Return hosts, picture, the estimate on each, how far they differ, and the differences between types."""
    found = source.document.get("hosts")
    if not found:
        return ""
    rows = [
        [one["host"] + (" (spare)" if one["spare"] else ""), one["machine"], one["cpu_model"] or numbers.MISSING,
         str(one["blocks"])]
        for one in found
    ]  # fmt: skip
    return markup.paragraphs(
        *(f"{_name(one)}{_spread(one, source)}" for one in source.comparisons),
        between_types(source),
        _picture(source, pictures),
        markup.folded("Hosts", markup.table(["Host", "Machine", "CPU", "blocks that count"], rows, (3,))),
        *(markup.folded(f"{_name(one)}each metric on each host", _table(one)) for one in source.comparisons),
        markup.folded("Between machines, every metric", _differences(source)),
    )


def _name(one: Comparison) -> str:
    return f"{one.title}: "


def _spread(one: Comparison, source: Source) -> str:
    """Say how far the hosts of a comparison differ, beyond what their blocks explain."""
    rows = [row for row in one.rows if row["family"] == "primary" and row.get("by_host")]
    if not rows:
        counting = number_of(len(_by_cell(source).get(one.cell, ())), "host")
        return (
            f"{counting} with a block that counts; how far hosts differ takes two, and a second block on one of them."
        )
    hosts = max(row["hosts"] for row in rows)
    spread = [
        f"{one.named(row)} {numbers.number(row['hosts_pct'], 2)} %" for row in rows if row["hosts_pct"] is not None
    ]
    known = ", ".join(spread) or "not known"
    disagree = [one.named(row) for row in rows if row["hosts_p"] is not None and row["hosts_p"] <= DISAGREE]
    said = f"{number_of(hosts, 'host')}; standard deviation between them, beyond that of their blocks: {known}."
    if disagree:
        return (
            f"{said} **They disagree** in {', '.join(disagree)}: what holds on one does not on another, and more hosts "
            "narrow the interval, more blocks do not."
        )
    tested = any(row["hosts_p"] is not None for row in rows)
    why = f"adjusted p above {DISAGREE:g}" if tested else "not tested"
    return f"{said} That they differ by more than blocks do is not seen ({why})."


def _table(one: Comparison) -> str:
    rows = [row for row in one.rows if row.get("by_host") and row["family"] != "shown"]
    hosts = list(dict.fromkeys(name for row in rows for name in row["by_host"]))
    cells = [
        [one.named(row), *(_on(row, name) for name in hosts), numbers.changed(row), numbers.interval(row),
         numbers.number(row["hosts_pct"], 2), numbers.probability(row["hosts_p"]), numbers.count(row["hosts_needed"])]
        for row in rows if row["change_pct"] is not None
    ]  # fmt: skip
    head = ["Change, %", *hosts, "over hosts", "95 % CI", "between hosts, %", "p", "hosts needed"]
    return markup.table(head, cells, range(1, len(head)))


def _on(row: Row, host: str) -> str:
    of = row["by_host"].get(host)
    return numbers.MISSING if of is None else numbers.change(of["change_pct"], numbers.row_digits(row)[1])


def _differences(source: Source) -> str:
    cells = []
    for one in source.document.get("machines", []):
        of = next(c for c in source.comparisons if (c.cell, c.candidate) == (one["cell"], one["candidate"]))
        places = numbers.digits(one["lo"], one["hi"])[1]
        reach = f"{numbers.change(one['lo'], places)} to {numbers.change(one['hi'], places)}"
        named = of.named(of.row(one["metric"], one["query_type"]) or {})
        cells.append([named, one["cell"], one["than"], numbers.change(one["points"], places), reach])
    head = ["Change on the first less that on the second", "on", "than on", "points", "95 % CI"]
    return markup.table(head, cells, (3, 4))


def _picture(source: Source, pictures: Pictures) -> str:
    several = len(_by_cell(source)) > 1
    found = []
    for one in source.comparisons:
        for row in (
            r for r in one.rows if r["family"] == "primary" and r.get("by_host") and r["change_pct"] is not None
        ):
            values = blocks.values_of(source, row["metric"], row["query_type"], one.cell)
            moved = blocks.changes_of(source, one, row, values)
            hosts = source.table("blocks").set_index("block")["host"].to_dict()
            counting = moved[moved["counts"]]
            of: dict[str, list[float]] = {}
            for block, change in zip(counting["block"].tolist(), counting["change"].tolist(), strict=True):
                of.setdefault(hosts[block], []).append(change)
            each = {host: known["change_pct"] for host, known in row["by_host"].items()}
            found.append(
                Whole(
                    one.named(row, brief=True), row["better"], _spoken(one.cell) if several else "", one.candidate,
                    row["change_pct"], row["lo_pct"], row["hi_pct"], each, of,
                )
            )  # fmt: skip
    return pictures.show(
        "hosts", "host by host", "The change on each host, and over hosts",
        "A small dot is a block, a large mark a host's own estimate, the diamond and its bar the estimate over hosts "
        "with its 95 % interval.",
        over_hosts(found, source.labels) if found else None,
    )  # fmt: skip
