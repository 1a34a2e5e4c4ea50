"""Checks: checked N of M, what failed, and what makes figures doubtful."""

from plots import markup, numbers
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.source import Source
from tsduel.core.metrics import GEOMEAN
from tsduel.workloads.checks import CHECKS, FINISHED

MOST_FAILURES = 20
CLIENT_BUDGET = 0.8
SHORT_PHASE_S = 5.0


def section(source: Source, _: Pictures) -> str:
    """Return the table of checks, each failure in a sentence, and the warnings."""
    failed, doubts = failures(source), warnings(source)
    return markup.paragraphs(
        f"{sentence(source)}.",
        (failed and f"Failures:\n\n{markup.items(failed)}") or "",
        (doubts and f"Warnings:\n\n{markup.items(doubts)}") or "",
        markup.folded("Each check", _table(source)),
    )


def planned(source: Source) -> dict[str, int]:
    """Return how many times each check is made in the whole run: as in a whole block, in each that was planned.

    Spare blocks that were not needed lack nothing. With `reload: once` only one block has a load.
    """
    table = source.table("checks")
    looked_at = {int(block) for block in table["block"].tolist()}
    blocks = [b.cell for b in source.run.planned if b.kind != "spare" or b.block in looked_at]
    counted = table.groupby(["check", "cell", "block"]).size()
    once = source.plan.design.reload == "once"
    found = {}
    for check in [*CHECKS, *(c for c in dict.fromkeys(table["check"]) if c not in CHECKS)]:
        if check in counted.index.get_level_values(0):
            solo = once and set(table["phase"][table["check"] == check]) == {"load"}
            most = counted[check].groupby(level="cell").max()
            found[check] = (
                int(counted[check].sum()) if solo else sum(int(n) * blocks.count(cell) for cell, n in most.items())
            )
    return found


def _table(source: Source) -> str:
    rows = []
    for check, wanted in planned(source).items():
        mine = source.table("checks")[source.table("checks")["check"] == check]
        made, failed = int((mine["actual"] != "").sum()), int((mine["ok"] != "true").sum())
        verdict = f"✗ {failed} failed" if failed else "✗ never checked" if made == 0 else "✓"
        rest = f", {wanted - made} not made" if verdict == "✓" and made < wanted else ""
        rows.append([CHECKS.get(check, check), f"checked {made:,} of {wanted:,}", f"{verdict}{rest}"])
    return markup.table(["Check", "How often", ""], rows)


def sentence(source: Source) -> str:
    """Return one sentence for all checks: checked N of M, how many failed."""
    wanted, made = sum(planned(source).values()), int((source.table("checks")["actual"] != "").sum())
    failed = int((source.table("checks")["ok"] != "true").sum())
    text = f"Checked {numbers.count(made)} of {numbers.count(wanted)}"
    if failed or not made:
        return f"{text}, {failed} FAILED" if made else f"{text}: FAILED, nothing was checked"
    return f"{text}, none failed" + (f", {numbers.count(wanted - made)} not made" if made < wanted else "")


def failures(source: Source) -> list[str]:
    """Return a sentence for each check that failed; blocks that did not end are told elsewhere."""
    table = source.table("checks")
    bad = table[(table["ok"] != "true") & (table["check"] != FINISHED)].drop_duplicates(
        ["block", "variant", "check", "query_type"]
    )
    columns = (bad[name].tolist() for name in ("block", "variant", "query_type", "message", "check"))
    lines = [
        f"Block {' '.join(filter(None, (f'{block:.0f}', variant, query_type)))}: {markup.text(message)} "
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
    said, short = [], []
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
            what = markup.text(row["query_type"] or comparison.named(row))
            said.append(f"{what} exists in {only} only: it is shown, and not compared.")
        if row["metric"] in {"load_seconds", "query_seconds"} and known and min(known) < SHORT_PHASE_S:
            short.append(f"{row['query_type'] or 'the load'} ({numbers.number(min(known), 3)} s)")
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
    found = [("duel", table["duel_client_cpu_ratio"], own)] if "duel_client_cpu_ratio" in table else []
    for what, workers in (("load", plan.workload.workers), ("query", plan.queries.workers)):
        client, seconds = f"{what}_client_cpu_seconds", f"{what}_seconds"
        if {client, seconds} <= set(table.columns):
            found.append((what, table[client] / table[seconds], min(cpus, workers)))
    return [
        f"The {what} client used up to {used.max() / budget:.0%} of {budget:g} CPUs: it may be the bottleneck."
        for what, used, budget in found
        if used.max() > CLIENT_BUDGET * budget
    ]
