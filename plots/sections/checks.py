"""Checks: checked N of M, what failed, and what makes figures doubtful."""

from collections import Counter
from statistics import median_low

import pandas as pd

from plots import markup, numbers
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.source import Source
from tsduel.core.metrics import GEOMEAN
from tsduel.core.wording import number_of
from tsduel.workloads.checks import CHECKS, FINISHED

MOST_FAILURES = 20
_LEVELS = {
    "values": "values: series, times, and values within 1e-9",
    "points": "series, and how many points each has",
    "series": "series",
    "data": "that both have data",
}
CLIENT_BUDGET = 0.8
SHORT_PHASE_S = 5.0


def section(source: Source, _: Pictures) -> str:
    """Return the table of checks, each failure in a sentence, and the warnings."""
    failed, doubts = failures(source), warnings(source)
    return markup.paragraphs(
        f"{sentence(source)}.{_not_made(source)}",
        (failed and f"Failures:\n\n{markup.items(failed)}") or "",
        (doubts and f"Warnings:\n\n{markup.items(doubts)}") or "",
        _how_compared(source),
        markup.folded("Each check", _table(source)),
    )


def levels(source: Source) -> list[tuple[str, str, str, str]]:
    """Return how answers of different databases were compared: query type, candidate, level, why no further."""
    queries = source.plan.queries
    return [
        (of_type.name, source.labels[one.candidate], found.level, found.why)
        for of_type in (queries.types if queries else ())
        for one in source.comparisons
        if one.apart and (found := of_type.compared.get(source.plan.target_of(one.candidate).name))
    ]


def _how_compared(source: Source) -> str:
    """Return a table of how far the answers of different databases could be compared, and why no further."""
    table, rows = source.table("checks"), []
    answered = table[(table["check"] == "exchanges_answered") & ~table["block"].isin(source.run.warmups)]
    for name, label, level, why in levels(source):
        candidate = next(variant for variant, of in source.labels.items() if of == label)
        mine = answered[(answered["query_type"] == name) & answered["variant"].isin(["", candidate])]
        sums = [pd.to_numeric(mine[column], errors="coerce").sum() for column in ("actual", "expected")]
        compared = f"{numbers.count(sums[0])} of {numbers.count(sums[1])}"
        rows.append([name, label, compared, _LEVELS[level], why or numbers.MISSING])
    note = (
        "The k-th question asks all for the same hosts and windows, which begin at whole minutes: drawn by us, since "
        "TSBS draws them in another order for each database. A point is put at the end of its window."
    )
    heads = ["Query type", "Answers of", "Compared", "By", "Why no further"]
    return markup.paragraphs("How the answers were compared:", markup.table(heads, rows), note) if rows else ""


def planned(source: Source) -> dict[str, int]:
    """Return how many times each check is made in the whole run: as in a whole block, in each that was planned.

    Spare blocks that were not needed lack nothing. With `reload: once` only blocks that load have the checks of a load:
    the first, and one before which the data were lost.
    """
    table = source.table("checks")
    looked_at = {int(block) for block in table["block"].tolist()}
    by_cell: dict[str, list[int]] = {}
    for row in source.run.planned:
        if row in source.run.due or row.block in looked_at:
            by_cell.setdefault(row.cell, []).append(row.block)
    counted = Counter(zip(table["check"].tolist(), map(int, table["block"].tolist()), strict=True))
    found = {}
    for check in [*CHECKS, *(c for c in dict.fromkeys(table["check"]) if c not in CHECKS)]:
        if not any(of == check for of, _ in counted):
            continue
        found[check] = 0
        for blocks in by_cell.values():
            made = [counted[check, block] for block in blocks]
            usual = max(made)
            if source.plan.design.reload == "once":
                later = [n for block, n in zip(blocks, made, strict=True) if block in looked_at][1:]
                usual = median_low(later or [0])
            found[check] += sum(max(n, usual) for n in made)
    return found


def _table(source: Source) -> str:
    rows, titles = (
        [],
        CHECKS | ({"exchanges_same": "every answer agrees as far as it is compared"} if levels(source) else {}),
    )
    for check, wanted in planned(source).items():
        mine = source.table("checks")[source.table("checks")["check"] == check]
        made, failed = int((mine["actual"] != "").sum()), int((mine["ok"] != "true").sum())
        verdict = f"✗ {failed} failed" if failed else "✗ never checked" if made == 0 else "✓"
        rest = f", {wanted - made} not made" if verdict == "✓" and made < wanted else ""
        rows.append([titles.get(check, check), f"checked {made:,} of {wanted:,}", f"{verdict}{rest}"])
    return markup.table(["Check", "How often", ""], rows)


def sentence(source: Source) -> str:
    """Return one sentence for all checks: checked N of M, how many failed."""
    wanted, made = sum(planned(source).values()), int((source.table("checks")["actual"] != "").sum())
    failed = int((source.table("checks")["ok"] != "true").sum())
    text = f"Checked {numbers.count(made)} of {numbers.count(wanted)}"
    if failed or not made:
        return f"{text}, {failed} FAILED" if made else f"{text}: FAILED, nothing was checked"
    return f"{text}, none failed" + (f", {numbers.count(wanted - made)} not made" if made < wanted else "")


def _not_made(source: Source) -> str:
    """Say in how many blocks of the plan checks can be missing, where some are."""
    wanted, made = sum(planned(source).values()), int((source.table("checks")["actual"] != "").sum())
    ended = {block.block for block in source.run.blocks if not block.failures}
    rest = [row for row in source.run.due if row.block not in ended]
    if made >= wanted or not rest:
        return ""
    blocks = number_of(len(rest), "block")
    return f" What was not made belongs to {blocks} of the plan that did not run, or not to its end."


def failures(source: Source) -> list[str]:
    """Return a sentence for each check that failed; blocks that did not end are told elsewhere."""
    table = source.table("checks")
    bad = table[(table["ok"] != "true") & (table["check"] != FINISHED)].drop_duplicates(
        ["block", "variant", "check", "query_type"]
    )
    columns = (bad[name].tolist() for name in ("block", "variant", "query_type", "message", "check"))
    lines = [
        f"Block {' '.join(filter(None, (f'{block:.0f}', variant, markup.text(query_type))))}: {markup.text(message)} "
        f"({markup.code(check)})."
        for block, variant, query_type, message, check in zip(*columns, strict=True)
    ]
    more = [f"and {len(lines) - MOST_FAILURES} more, see `tidy/checks.csv`."] if len(lines) > MOST_FAILURES else []
    return [*lines[:MOST_FAILURES], *more]


def warnings(source: Source) -> list[str]:
    """Say what makes figures doubtful: short phases, one side only, order effects, toolchains, a busy client."""
    said = [f"{markup.text(note)}." for note in (source.plan.imported.notes if source.plan.imported else ())]
    toolchains = {name: source.run.json(f"build/{name}.json").get("go_version") for name in source.run.variants}
    if len(set(filter(None, toolchains.values()))) > 1:
        named = ", ".join(f"{name} {version}" for name, version in toolchains.items())
        said.append(f"The toolchains differ ({named}): a difference may be the compiler's.")
    for one in source.comparisons:
        of = f"{markup.text(one.cell)}: " if one.cell else ""
        said += [f"{of}{doubt}" for doubt in _doubts(one)]
    return list(dict.fromkeys(said + _busy_client(source)))


def _doubts(comparison: Comparison) -> list[str]:
    said, short, only_in = [], [], dict[str, list[str]]()
    for row in comparison.rows:
        sides = [row["baseline_median"], row["candidate_median"]]
        known = [side for side in sides if side is not None]
        if row["family"] == "primary":
            wanted = ("order effect", "the interval does not", "without")
            said += [
                f"{comparison.named(row)}: {markup.text(n)}."
                for n in row["warnings"].split("; ")
                if n.startswith(wanted)
            ]
        if len(known) == 1 and row["family"] != "shown" and row["query_type"] != GEOMEAN:
            only = markup.text(comparison.labels[sides[0] is None])
            what = markup.text(row["query_type"] or comparison.named(row, brief=comparison.apart))
            if comparison.apart:
                only_in.setdefault(only, []).append(what)
            else:
                said.append(f"{what} exists in {only} only: it is shown, and not compared.")
        if row["metric"] in {"load_seconds", "query_seconds"} and known and min(known) < SHORT_PHASE_S:
            short.append(f"{row['query_type'] or 'the load'} ({numbers.number(min(known), 3)} s)")
    said += [f"Only {only} has {'; '.join(what)}: shown, and not compared." for only, what in only_in.items()]
    few = f"Phases under {SHORT_PHASE_S:.0f} s, with figures that scatter: {', '.join(short)}."
    return [*said, few] if short else said


def _busy_client(source: Source) -> list[str]:
    """Name a client that had little of its CPUs left: pinned ones in the duel, else all, or one a worker."""
    plan, cpus = source.plan, float(source.host.get("cpus") or 1)
    if plan.workload is None or plan.queries is None:
        return []
    table = source.table("measurements").pivot_table(
        index=["block", "variant", "query_type"], columns="metric", values="value"
    )
    own = len((source.host.get("pin") or {}).get("client") or []) or cpus
    found = [("duel client", table["duel_client_cpu_ratio"], own)] if "duel_client_cpu_ratio" in table else []
    together = [client for block in source.run.blocks for one in block.solo.values() for client in one.clients]
    for client in {client.host: client for client in together}.values():
        used = pd.Series([one.share * one.cpus for one in together if one.host == client.host])
        found.append((f"load client on {client.host}", used, min(client.cpus, plan.workload.workers)))
    alone = () if together else (("load", plan.workload.workers),)
    for what, workers in (*alone, ("query", plan.queries.workers)):
        own_cpu, seconds = f"{what}_client_cpu_seconds", f"{what}_seconds"
        if {own_cpu, seconds} <= set(table.columns):
            found.append((f"{what} client", table[own_cpu] / table[seconds], min(cpus, workers)))
    return [
        f"The {who} used up to {used.max() / budget:.0%} of {budget:g} CPUs: it may be the bottleneck."
        for who, used, budget in found
        if used.max() > CLIENT_BUDGET * budget
    ]
