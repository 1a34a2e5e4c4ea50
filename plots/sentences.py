"""Verdicts in plain words: the answer in a sentence, and a line with figures for each subject."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from plots import markup, numbers
from plots.comparison import Comparison, Row
from tsduel.core.metrics import ALL, GEOMEAN, UPGRADE_STATES
from tsduel.core.record import RatePhase, Solo
from tsduel.core.wording import number_of
from tsduel.stats.power import MOST_NEEDED


@dataclass(frozen=True)
class Subject:
    """A subject of the answer: its row, its long and short names, the words for a larger and a smaller value."""

    metric: str
    query_type: str
    name: str
    short: str
    up: str = "more"
    down: str = "less"


SUBJECTS = (
    Subject("load_rate", "", "Ingestion", "ingestion", "faster", "slower"),
    Subject("duel_load_typical_ms", "", "Ingestion (a batch of lines)", "ingestion", "slower", "faster"),
    Subject("duel_typical_ms", GEOMEAN, "Queries (geometric mean of the types)", "queries", "slower", "faster"),
    Subject("duel_cpu_us", ALL, "CPU of the queries", "CPU of queries"),
    Subject("duel_load_cpu_us", "", "CPU of ingestion (a sample)", "CPU of ingestion"),
    Subject("mixed_query_p99_ms", "", "Queries while data comes in, p99", "p99 under writes", "slower", "faster"),
    Subject("mixed_cpu_cores", "", "CPU at a fixed rate", "CPU at a fixed rate"),
    Subject("capacity_rate", "", "Capacity (highest rate of queries within the bound)", "capacity"),
    Subject("load_cpu_seconds", "", "CPU of the load", "CPU of the load"),
    *(
        Subject(f"upgrade_{state}_typical_ms", GEOMEAN, f"Queries {spoken}", f"queries {title}", "slower", "faster")
        for state, (_, title, spoken) in UPGRADE_STATES.items()
    ),
    *(
        Subject(f"upgrade_{state}_cpu_us", ALL, f"CPU of the queries {spoken}", f"CPU {title}")
        for state, (_, title, spoken) in UPGRADE_STATES.items()
    ),
    Subject("upgrade_ingest_rate", "", "Ingestion on top of the old data", "ingestion on top", "faster", "slower"),
    Subject("upgrade_ingest_cpu_seconds", "", "CPU of that ingestion and its merges", "CPU of ingestion"),
    Subject("upgrade_first_answer_seconds", "", "First answer after the start", "first answer", "later", "sooner"),
    Subject("upgrade_migration_cpu_seconds", "", "CPU from the start until quiet", "CPU of the start"),
    Subject("upgrade_disk_bytes", "", "Disk", "disk"),
    Subject("query_mean_ms", GEOMEAN, "Queries of several workers", "queries of several workers", "slower", "faster"),
    Subject("rss_peak_bytes", "", "Peak memory", "memory"),
    Subject("disk_bytes", "", "Disk", "disk"),
    Subject("sec/op", GEOMEAN, "Time (geometric mean)", "time", "slower", "faster"),
    Subject("B/op", GEOMEAN, "Memory (geometric mean)", "memory"),
    Subject("allocs/op", GEOMEAN, "Allocations (geometric mean)", "allocations"),
)  # fmt: skip

ONE_EACH = "one run each"
SHORT_PHASE_S = 5.0
# Verdicts in the order of a sentence: their words, and whether the size of the change follows.
HEADLINES = {
    "failed": ("**✗ a check failed**", False),
    "regression": ("**✗ worse**", True),
    "improvement": ("**✓ better**", True),
    "worse": ("**✗ worse**", True),
    "better": ("**✓ better**", True),
    "negligible": ("≈ negligible", True),
    "equivalent": ("= equivalent", False),
    "inconclusive": ("? inconclusive", False),
    "inconclusive: environment": ("? inconclusive, too noisy", False),
    "inconclusive (n < 6)": ("? a screen, no verdict", True),
    ONE_EACH: ("? one run each, no verdict", True),
    "not comparable": ("not comparable", False),
}


def subjects(comparison: Comparison) -> Iterator[tuple[Subject, Row]]:
    """Yield the subjects that have a verdict, without those that another metric answers more precisely."""
    replaced = comparison.answered_better
    for subject in (*SUBJECTS, *_components(comparison)):
        row = comparison.row(subject.metric, subject.query_type)
        if row and row["verdict"] != "shown" and subject.metric not in replaced:
            yield subject, row


def _components(comparison: Comparison) -> list[Subject]:
    """Return CPU of the components that both sides have: a sample, or a query if ingestion is not exchanged."""
    for metric in ("duel_load_role_cpu_us", "duel_role_cpu_us", "load_role_cpu_us"):
        rows = [row for row in comparison.rows if row["metric"] == metric and row["change_pct"] is not None]
        if rows:
            title, roles = comparison.metrics[metric].title, [row["query_type"] for row in rows]
            return [Subject(metric, role, f"{title}, {role}", f"{title} of {role}") for role in roles]
    return []


def short_rows(comparison: Comparison, query_types: Sequence[str]) -> list[Row]:
    """Return the rows of a short table: those of the answer, then the query types of the first mean."""
    rows = [row for _, row in subjects(comparison)]
    mean = next((row for row in rows if row["query_type"] == GEOMEAN), None)
    of_type = comparison.by_type(mean["metric"], query_types) if mean else {}
    return rows + [row for name, row in of_type.items() if name in query_types]


def headline(comparison: Comparison) -> str:
    """Return the answer in one line, by verdict: "**✗ worse**: ingestion (6.5 % slower); = equivalent: disk"."""
    by_verdict: dict[str, list[str]] = {}
    for subject, row in subjects(comparison):
        verdict = _verdict(row)
        sized = HEADLINES.get(verdict, ("", False))[1] and row["change_pct"] is not None
        beside = "; ".join(filter(None, [size(row, subject) if sized else "", comparison.note(row)]))
        by_verdict.setdefault(verdict, []).append(f"{subject.short}{markup.aside(beside)}")
    if by_verdict:
        return "; ".join(f"{HEADLINES.get(v, (v,))[0]}: {', '.join(by_verdict[v])}" for v in in_order(by_verdict))
    # Without a block that counts, give the reason.
    why = (f"block {block}: {reason}" for block, reason in comparison.dropped.items() if not comparison.valid)
    return f"? nothing was measured{markup.aside(markup.text(next(why, '')))}"


def in_order(verdicts: Iterable[str]) -> list[str]:
    """Return verdicts in the order of HEADLINES, unknown ones last."""
    known = list(HEADLINES)
    return sorted(verdicts, key=lambda verdict: known.index(verdict) if verdict in known else len(known))


def folded(comparison: Comparison, title: str, query_types: Sequence[str]) -> str:
    """Return the answer and the short table of a comparison, folded."""
    table = comparison.table(short_rows(comparison, query_types), aliases=False)
    return markup.folded(title, markup.items(answer(comparison)), table)


def answer(comparison: Comparison) -> list[str]:
    """Return the verdict lines: mark, subject, both values, the meaning, and the query types that moved most."""
    lines = []
    for subject, row in subjects(comparison):
        unit, sides = numbers.sides(row)
        meaning = sentence(row, subject) + _moved(comparison, subject)
        said = subject.name.replace("geometric mean of the types", comparison.whole[GEOMEAN])
        name = f"**{said}**{markup.aside(comparison.note(row))}"
        lines.append(f"{comparison.symbol(row)} {name}: {' → '.join(sides)} {unit}; {meaning}")
    return lines


def sentence(row: Row, subject: Subject) -> str:
    """Return the meaning of a row of comparison.json; "not significant" is never worded as "no change"."""
    verdict, matters = row["verdict"], f"{row['threshold_pct']:g} %"
    if verdict == "failed":
        return "**failed**, see Checks"
    if verdict == "not comparable" or row["change_pct"] is None:
        return f"{verdict}, {_reason(row)}".removesuffix(", ")
    sized = size(row, subject)
    if verdict == "equivalent" and "identical in every block" in row["warnings"]:
        return "identical in every block (equivalent)"
    blocks = number_of(row["blocks"], "block")
    sentences = {
        "equivalent": f"{sized}{_bounded(row)}: no difference larger than {matters} (equivalent)",
        "inconclusive": f"inconclusive, {_possible(row)}",
        "inconclusive: environment": f"{verdict}, {_reason(row)}",
        "inconclusive (n < 6)": f"{sized} in {blocks}, a screen: {verdict}",
        ONE_EACH: f"{sized}, one run each: no verdict",
    }
    if known := sentences.get(_verdict(row)):
        return known
    sized = f"{sized} ({_evidence(row, subject)})"
    if numbers.by_ratio(row) and verdict in {"worse", "better"}:
        return sized
    real = f"real, but below the {matters} that matter (negligible)"
    return f"{sized}: {real if verdict == 'negligible' else ('clear ' if row['clear'] else '') + verdict}"


def _verdict(row: Row) -> str:
    return ONE_EACH if row["verdict"] == "inconclusive (n < 6)" and row["blocks"] == 1 else str(row["verdict"])


def _moved(comparison: Comparison, subject: Subject) -> str:
    """Return the query types of a subject that moved most, each way; nothing for a subject of one type."""
    rows = [r for r in comparison.rows if r["metric"] == subject.metric and r["query_type"] not in {"", GEOMEAN, ALL}]
    if len(rows) < 2 or any(row["query_type"] == subject.query_type for row in rows):  # noqa: PLR2004 - one type
        return ""
    parts = []
    for verdict, word in (("regression", "worse"), ("improvement", "better")):
        moved = [row for row in rows if row["verdict"] in {verdict, word} and row["change_pct"] is not None]
        if moved:
            most = max(moved, key=lambda row: abs(row["change_pct"]))
            name = f"{markup.text(most['query_type'])} ({numbers.effect(most)})"
            parts.append(f"{len(moved)} of {len(rows)} {word}, most {name}")
    return f". {'; '.join(parts)}" if parts else ""


_TIMES = {"faster": "fast", "slower": "slow"}


def size(row: Row, subject: Subject) -> str:
    """Return the size of a change: 6.5 % slower; of different databases 3.1 times as fast, 0.41 times as much."""
    if numbers.by_ratio(row):
        ratio = numbers.ratio(row, inverse=_inverse(row, subject))[0]
        return f"{ratio} times as {_TIMES.get(_way(row, subject), 'much')}"
    text = numbers.size(row["change_pct"], numbers.row_digits(row)[1])
    return f"{text} % {_way(row, subject)}" if float(text.replace(",", "")) else "0 % in the estimate"


def _way(row: Row, subject: Subject) -> str:
    return subject.up if row["change_pct"] > 0 else subject.down


def _inverse(row: Row, subject: Subject) -> bool:
    """Whether a ratio is inverted: a third of the time is 3 times as fast."""
    return row["change_pct"] < 0 and _way(row, subject) in _TIMES


def _bounded(row: Row) -> str:
    """Return the 95 % interval; if it exceeds the threshold, the 90 % interval, which decides the verdict."""
    if row["lo_pct"] is None:
        return ""
    limit = row["threshold_pct"]
    if -100 * limit / (100 + limit) < row["lo_pct"] and row["hi_pct"] < limit:
        return f" (95 % CI {numbers.interval(row)} %)"
    return f" (90 % CI {numbers.interval(row | {'lo_pct': row['lo90_pct'], 'hi_pct': row['hi90_pct']})} %)"


def _evidence(row: Row, subject: Subject) -> str:
    if row["lo_pct"] is None:
        return f"the same in each of {number_of(row['blocks'], 'block')}"
    p, blocks = numbers.probability(row["p_adj"]), number_of(row["blocks"], "block")
    # The interval of a fleet is over hosts.
    blocks += f" on {row['hosts']} hosts" if row.get("over_hosts") else ""
    if numbers.by_ratio(row):
        return f"95 % CI {numbers.ratio(row, inverse=_inverse(row, subject))[1]}, p {p}, {blocks}"
    low, high, decimals = row["lo_pct"], row["hi_pct"], numbers.row_digits(row)[1]
    inner, outer = sorted((abs(low), abs(high)))
    one_way = low > 0 or high < 0
    reach = f"{numbers.size(inner, decimals)} to {numbers.size(outer, decimals)}" if one_way else numbers.interval(row)
    return f"95 % CI {reach} %, p {p}, {blocks}"


def _possible(row: Row) -> str:
    """Return the changes that an inconclusive row leaves possible, and the number of blocks that would settle it."""
    if row["lo_pct"] is None or row["p_adj"] is None:
        return _reason(row)
    if numbers.by_ratio(row):
        return f"could be {numbers.interval(row)} times the baseline's"
    could, needed = f"could be {numbers.interval(row).replace(' to', ' % to')} %", row["blocks_needed"]
    threshold = f"{row['threshold_pct']:g} %"
    if needed is None and row.get("hosts_needed"):
        return f"{could}; {row['hosts_needed']} hosts would settle {threshold}, more blocks would not"
    if needed is None:
        return f"{could}; {numbers.count(MOST_NEEDED)} blocks would not settle {threshold}"
    if needed > row["blocks"]:
        return f"{could}; {numbers.count(needed)} blocks would settle {threshold}"
    return f"{could}; {number_of(row['blocks'], 'block')} see changes of {numbers.size(row['mde_pct'])} % and more"


def _reason(row: Row) -> str:
    return str(row["warnings"]).removeprefix("not comparable: ")


def short_phases(seconds: Mapping[str, float]) -> Iterator[str]:
    """Yield a warning about short phases (name -> seconds), if there are any."""
    if seconds:
        listed = ", ".join(f"{name} ({numbers.number(value, 3)} s)" for name, value in seconds.items())
        yield f"Phases under {SHORT_PHASE_S:.0f} s, with figures that scatter: {listed}."


def together(parts: Sequence[RatePhase | Solo], did: str, added: str) -> str:
    """Return a sentence: several clients, the differences of their starts, and how they are added. Empty for one."""
    if not (hosts := sorted({client.host for part in parts for client in part.clients})):
        return ""
    skew = numbers.number(max(part.skew_ms for part in parts), 2)
    clients = f"{len(hosts)} clients ({', '.join(hosts)}) {did}"
    return f"{clients} and began within {skew} ms of each other at most; their {added} are added. "
