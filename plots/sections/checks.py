"""Checks: how many were made, which failed, and warnings about figures."""

import math
from collections import Counter
from statistics import median_low

import pandas as pd

from plots import markup, numbers
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.sections import heading
from plots.sentences import short_phases
from plots.source import Source
from tsduel.core.metrics import GEOMEAN
from tsduel.core.wording import number_of
from tsduel.stats.rows import SHORT_PHASE_S
from tsduel.workloads.checks import CHECKS, FINISHED, FOUND

MOST_FAILURES = 20
_LEVELS = {
    "values": "values: series, times, and values within 1e-9",
    "points": "series, and how many points each has",
    "series": "series",
    "data": "that both have data",
}
CLIENT_BUDGET = 0.8


@heading("Checks", 86)
def section(source: Source, _: Pictures) -> str:
    """Return the table of checks, each failure in a sentence, and the warnings."""
    return markup.paragraphs(
        f"{sentence(source)}.{_not_made(source)}",
        markup.titled("Failures:", markup.items(failures(source))),
        markup.titled("Warnings:", markup.items(warnings(source))),
        _how_compared(source),
        markup.folded("Each check", _table(source)),
    )


def levels(source: Source) -> list[tuple[str, str, str, str]]:
    """Return how far answers of different databases are compared: query type, candidate, level, why no further."""
    queries = source.plan.queries
    return [
        (of_type.name, side.candidate, level.level, level.why)
        for of_type in (queries.types if queries else ())
        for side in source.comparisons
        if side.crosses and (level := of_type.compared.get(source.plan.target_of(side.candidate).name))
    ]


def _how_compared(source: Source) -> str:
    table, rows = source.table("checks"), []
    answered = table[(table["check"] == "exchanges_answered") & ~table["block"].isin(source.run.warmups)]
    for name, candidate, level, why in levels(source):
        of_type = answered[(answered["query_type"] == name) & answered["variant"].isin(["", candidate])]
        sums = [pd.to_numeric(of_type[column], errors="coerce").sum() for column in ("actual", "expected")]
        compared = f"{numbers.count(sums[0])} of {numbers.count(sums[1])}"
        rows.append([name, source.labels[candidate], compared, _LEVELS[level], why or numbers.MISSING])
    note = (
        "The k-th question asks all for the same hosts and windows, which begin at whole minutes: drawn by us, since "
        "TSBS draws them in another order for each database. A point is put at the end of its window."
    )
    heads = ["Query type", "Answers of", "Compared", "By", "Why no further"]
    return markup.paragraphs("How the answers were compared:", markup.table(heads, rows), note) if rows else ""


def planned(source: Source) -> dict[str, int]:
    """Return how often each check should be made in the run: in each planned block as often as in a complete block.

    Spare blocks that did not run are left out. Only blocks that load have the checks of a load: with `reload:
    once` the first and one after lost data, with `load: in_turn` the warm-up block. A warm-up block has one
    sitting: its own number of checks is right.
    """
    table = source.table("checks")
    looked_at = set(table["block"].astype(int))
    warm = {row.block for row in source.run.planned if row.kind == "warmup"} & looked_at
    blocks = [row.block for row in source.run.planned if row in source.run.due or row.block in looked_at]
    counted = Counter(zip(table["check"], table["block"].astype(int), strict=True))
    times, checks = {}, dict.fromkeys(table["check"])
    for check in [*(c for c in CHECKS if c in checks), *(c for c in checks if c not in CHECKS)]:
        made = [counted[check, block] for block in blocks]
        usual = 0 if check == FOUND else max(made)
        if source.plan.design.reload == "once" or source.plan.loads_in_turn:
            later = [n for block, n in zip(blocks, made, strict=True) if block in looked_at][1:]
            usual = median_low(later or [0])
        times[check] = sum(n if block in warm else max(n, usual) for block, n in zip(blocks, made, strict=True))
    return times


def _table(source: Source) -> str:
    rows, table = [], source.table("checks")
    titles = CHECKS | ({"exchanges_same": "every answer agrees as far as it is compared"} if levels(source) else {})
    for check, wanted in planned(source).items():
        of_check = table[table["check"] == check]
        made, failed = int((of_check["actual"] != "").sum()), int((of_check["ok"] != "true").sum())
        verdict = f"✗ {failed} failed" if failed else "✗ never checked" if made == 0 else "✓"
        rest = f", {wanted - made} not made" if verdict == "✓" and made < wanted else ""
        rows.append([titles.get(check, check), f"checked {made:,} of {wanted:,}", f"{verdict}{rest}"])
    return markup.table(["Check", "How often", ""], rows)


def _counts(source: Source) -> tuple[int, int]:
    return sum(planned(source).values()), int((source.table("checks")["actual"] != "").sum())


def sentence(source: Source) -> str:
    """Return one sentence for all checks: checked N of M, how many failed."""
    (wanted, made), failed = _counts(source), int((source.table("checks")["ok"] != "true").sum())
    text = f"Checked {numbers.count(made)} of {numbers.count(wanted)}"
    if not made:
        return f"{text}: FAILED, nothing was checked"
    if failed:
        return f"{text}, {failed} FAILED"
    return f"{text}, none failed" + (f", {numbers.count(wanted - made)} not made" if made < wanted else "")


def counted(source: Source) -> str:
    """Return the number of warnings with a link to them, the effects of an order among them; empty without any."""
    if not (lines := warnings(source)):
        return ""
    orders = sum("order effect" in line for line in lines)
    among = f", {number_of(orders, 'order effect')} among them" if orders else ""
    return f"**[{number_of(len(lines), 'warning')}](#checks)**{among}."


def _not_made(source: Source) -> str:
    wanted, made = _counts(source)
    ended = {block.block for block in source.run.blocks if not block.failures}
    rest = [row for row in source.run.due if row.block not in ended]
    if made >= wanted or not rest:
        return ""
    blocks = number_of(len(rest), "block")
    return f" The missing checks belong to {blocks} of the plan that did not run to the end."


def failures(source: Source) -> list[str]:
    """Return a sentence for each failed check; blocks that did not finish are listed in `blocks.failures`."""
    table = source.table("checks")
    key = ["block", "variant", "check", "query_type"]
    bad = table[(table["ok"] != "true") & (table["check"] != FINISHED)].drop_duplicates(key)[[*key, "message"]]
    lines = [
        f"Block {' '.join(filter(None, (f'{block:.0f}', variant, markup.text(query_type))))}: {markup.text(message)} "
        f"({markup.code(check)})."
        for block, variant, check, query_type, message in bad.itertuples(index=False)
    ]
    return markup.most(lines, MOST_FAILURES, "and {} more, see `tidy/checks.csv`.")


def warnings(source: Source) -> list[str]:
    """Return warnings: short phases, metrics of one side only, order effects, toolchains, a busy client."""
    lines = []
    toolchains = {name: source.run.json(f"build/{name}.json").get("go_version") for name in source.run.variants}
    if len(set(filter(None, toolchains.values()))) > 1:
        named = markup.text(", ".join(f"{name} {version}" for name, version in toolchains.items()))
        lines.append(f"The toolchains differ ({named}): a difference may be the compiler's.")
    short = dict[str, float]()
    for comparison in source.comparisons:
        label = comparison.labels[1] if source.run.variants[2:] else ""
        where = markup.text(", ".join(filter(None, [label, comparison.setting])))
        lines += [f"{where}: {doubt}" if where else doubt for doubt in _doubts(comparison, short)]
    return list(dict.fromkeys([*_together(source), *lines, *short_phases(short), *_busy_client(source)]))


def _together(source: Source) -> list[str]:
    """Return a warning where versions ran while others were asked."""
    duels = [duel for block in source.run.blocks for duel in block.duels]
    return [
        f"All versions ran while one was asked ({markup.text(why)}). What one does in the background delays the "
        "others: then times can have the wrong sign (docs/method.md)."
        for why in dict.fromkeys(duel.unheld for duel in duels if duel.unheld)
    ]


def _doubts(comparison: Comparison, short: dict[str, float]) -> list[str]:
    """Return the warnings of a comparison; add its short phases to `short`."""
    lines, only_in = [], dict[str, list[str]]()
    medians = ("baseline_median", "candidate_median")
    compared = {row["query_type"] for row in comparison.rows if all(row[side] is not None for side in medians)}
    for row in comparison.rows:
        sides = [row[side] for side in medians]
        judged = [side for side in sides if side is not None]
        if row["family"] == "primary":
            wanted = ("order effect", "the interval does not", "without")
            notes = (note for note in row["warnings"].split("; ") if note.startswith(wanted))
            lines += [f"{comparison.named(row)}: {markup.text(note)}." for note in notes]
        if len(judged) == 1 and row["family"] != "shown" and row["query_type"] != GEOMEAN:
            only = markup.text(comparison.labels[sides[0] is None])
            lacks = row["query_type"] and row["query_type"] not in compared
            what = markup.text(row["query_type"] if lacks else comparison.named(row, brief=comparison.crosses))
            if comparison.crosses:
                only_in.setdefault(only, []).append(what)
            else:
                where = "exists in" if lacks else "has a value in"
                lines.append(f"{what} {where} {only} only: it is shown, and not compared.")
        if row["metric"] in {"load_seconds", "query_seconds"} and judged and min(judged) < SHORT_PHASE_S:
            name = f"{row['query_type'] or 'the load'}{markup.aside(comparison.setting)}"
            short[name] = min(short.get(name, math.inf), *judged)
    lines += [f"Only {only} has {'; '.join(what)}: shown, and not compared." for only, what in only_in.items()]
    return lines


def _busy_client(source: Source) -> list[str]:
    """Return a warning for each client that used most of its CPUs: those it was pinned to, else all or one a worker."""
    plan, cpus = source.plan, float(source.run.host.get("cpus") or 1)
    if plan.workload is None or plan.queries is None:
        return []
    index = ["block", "variant", "query_type"]
    table = source.table("measurements").pivot_table(index=index, columns="metric", values="value")
    own = len((source.run.host.get("pin") or {}).get("client") or []) or cpus
    clients = [("duel client", table["duel_client_cpu_ratio"], own)] if "duel_client_cpu_ratio" in table else []
    for what, workers in (("load", plan.workload.workers), ("query", plan.queries.workers)):
        own_cpu, seconds = f"{what}_client_cpu_seconds", f"{what}_seconds"
        if {own_cpu, seconds} <= set(table.columns):
            clients.append((f"{what} client", table[own_cpu] / table[seconds], min(cpus, workers)))
    return [
        f"The {client} used up to {100 * used.max() / budget:.0f} % of {budget:g} CPU{'s' * (budget != 1)}: it may be "
        "the bottleneck."
        for client, used, budget in clients
        if used.max() > CLIENT_BUDGET * budget
    ]
