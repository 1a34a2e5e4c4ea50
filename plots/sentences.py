"""Verdicts in words that a person would use: the answer in a sentence, and a line with its figures for each subject."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plots import markup, numbers
from plots.comparison import Comparison, Row
from tsduel.core.metrics import ALL, GEOMEAN, UPGRADE_STATES
from tsduel.core.record import RatePhase, Solo
from tsduel.core.wording import number_of
from tsduel.stats.power import MOST_NEEDED


@dataclass(frozen=True)
class Subject:
    """Something people ask about: the row that answers, its names, and what a larger and a smaller value are called."""

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
# In the order in which a reader wants to know; what follows a verdict is the size of the change, where it has one.
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
    """Yield what there are values of and an answer to, but for what another one answers more precisely."""
    answered = [
        (subject, row)
        for subject in (*SUBJECTS, *_components(comparison))
        if (row := comparison.row(subject.metric, subject.query_type)) and row["verdict"] != "shown"
    ]
    less = comparison.answered_better
    yield from ((subject, row) for subject, row in answered if subject.metric not in less)


def _components(comparison: Comparison) -> list[Subject]:
    """Return CPU of the components that both sides have: of a sample where ingestion is exchanged, else of a query."""
    for metric in ("duel_load_role_cpu_us", "duel_role_cpu_us", "load_role_cpu_us"):
        rows = [row for row in comparison.rows if row["metric"] == metric and row["change_pct"] is not None]
        if rows:
            title, roles = comparison.metrics[metric].title, [row["query_type"] for row in rows]
            return [Subject(metric, role, f"{title}, {role}", f"{title} of {role}") for role in roles]
    return []


def short_rows(comparison: Comparison, query_types: Sequence[str]) -> list[Row]:
    """Return the rows that a short table has: what the answer stands on, then the query types of its first mean."""
    found = [row for _, row in subjects(comparison)]
    mean = next((row for row in found if row["query_type"] == GEOMEAN), None)
    of_type = comparison.of(mean["metric"], query_types) if mean else {}
    return found + [row for name, row in of_type.items() if name in query_types]


def headline(comparison: Comparison) -> str:
    """Return the answer in one line, by verdict: "**✗ worse**: ingestion (6.5 % slower); = equivalent: disk"."""
    said: dict[str, list[str]] = {}
    for subject, row in subjects(comparison):
        verdict = ONE_EACH if _alone(row) else row["verdict"]
        sized = HEADLINES.get(verdict, ("", False))[1] and row["change_pct"] is not None
        beside = "; ".join(filter(None, [size(row, subject) if sized else "", comparison.note(row)]))
        said.setdefault(verdict, []).append(f"{subject.short}{markup.aside(beside)}")
    order = [*(v for v in HEADLINES if v in said), *(v for v in said if v not in HEADLINES)]
    if order:
        return "; ".join(f"{HEADLINES.get(v, (v,))[0]}: {', '.join(said[v])}" for v in order)
    # That every block failed is an answer, too.
    why = (f"block {block}: {reason}" for block, reason in comparison.dropped.items() if not comparison.valid)
    return f"? nothing was measured{markup.aside(markup.text(next(why, '')))}"


def answer(comparison: Comparison) -> list[str]:
    """Return the verdict lines: mark, subject, both values, what that means, and which rows of it moved most."""
    said = []
    for subject, row in subjects(comparison):
        unit, sides = numbers.sides(row)
        found = sentence(row, subject) + _moved(comparison, subject)
        name = f"**{subject.name}**{markup.aside(comparison.note(row))}"
        said.append(f"{comparison.symbol(row)} {name}: {' → '.join(sides)} {unit}; {found}")
    return said


def sentence(row: Row, subject: Subject) -> str:
    """Say what a row of comparison.json means. "Not significant" is never worded as "no change"."""
    verdict, matters = row["verdict"], f"{row['threshold_pct']:g} %"
    if verdict == "failed":
        return "**failed**, see Checks"
    if verdict == "not comparable" or row["change_pct"] is None:
        return f"{verdict}, {_reason(row)}".removesuffix(", ")
    sized = size(row, subject)
    if verdict == "equivalent" and "identical in every block" in row["warnings"]:
        return "identical in every block (equivalent)"
    screen = (
        f"{sized}, one run each: no verdict"
        if _alone(row)
        else f"{sized} in {number_of(row['blocks'], 'block')}, a screen: {verdict}"
    )
    said = {
        "equivalent": f"{sized}{_bounded(row)}: no difference larger than {matters} (equivalent)",
        "inconclusive": f"inconclusive, {_possible(row)}",
        "inconclusive: environment": f"{verdict}, {_reason(row)}",
        "inconclusive (n < 6)": screen,
        "negligible": f"{sized} ({_evidence(row, subject)}): real, but below the {matters} that matter (negligible)",
    }
    if numbers.by_ratio(row) and verdict in {"worse", "better"}:
        return f"{sized} ({_evidence(row, subject)})"
    return said.get(verdict) or f"{sized} ({_evidence(row, subject)}): {'clear ' if row['clear'] else ''}{verdict}"


def _alone(row: Row) -> bool:
    return bool(row["verdict"] == "inconclusive (n < 6)" and row["blocks"] == 1)


def _moved(comparison: Comparison, subject: Subject) -> str:
    """Return which of the rows that a subject stands for moved most, each way."""
    rows = [r for r in comparison.rows if r["metric"] == subject.metric and r["query_type"] not in {"", GEOMEAN, ALL}]
    if any(row["query_type"] == subject.query_type for row in rows):
        return ""  # it stands for itself
    parts = []
    for verdict, word in (("regression", "worse"), ("improvement", "better")):
        moved = [row for row in rows if row["verdict"] in {verdict, word} and row["change_pct"] is not None]
        if moved and len(rows) > 1:
            most = max(moved, key=lambda row: abs(row["change_pct"]))
            name = f"{markup.text(most['query_type'])} ({numbers.effect(most)})"
            parts.append(f"{len(moved)} of {len(rows)} {word}, most {name}")
    return f". {'; '.join(parts)}" if parts else ""


_TIMES = {"faster": "fast", "slower": "slow"}


def size(row: Row, subject: Subject) -> str:
    """Say how large a change is: 6.5 % slower; of different databases 3.1 times as fast, 0.41 times as much."""
    if numbers.by_ratio(row):
        return (
            f"{numbers.ratio(row, inverse=_inverse(row, subject))[0]} times as {_TIMES.get(_way(row, subject), 'much')}"
        )
    text = numbers.size(row["change_pct"], numbers.row_digits(row)[1])
    return f"{text} % {_way(row, subject)}" if float(text.replace(",", "")) else "0 % in the estimate"


def _way(row: Row, subject: Subject) -> str:
    return subject.up if row["change_pct"] > 0 else subject.down


def _inverse(row: Row, subject: Subject) -> bool:
    """Whether a ratio is said the other way round: what takes a third of the time is 3 times as fast."""
    return row["change_pct"] < 0 and _way(row, subject) in _TIMES


def _bounded(row: Row) -> str:
    """Return the interval of 95 %, or where that reaches beyond the threshold that of 90 %, which the verdict is by."""
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
    # Of a fleet the interval is over hosts.
    blocks += f" on {row['hosts']} hosts" if row.get("over_hosts") else ""
    if numbers.by_ratio(row):
        return f"95 % CI {numbers.ratio(row, inverse=_inverse(row, subject))[1]}, p {p}, {blocks}"
    low, high, decimals = row["lo_pct"], row["hi_pct"], numbers.row_digits(row)[1]
    inner, outer = sorted((abs(low), abs(high)))
    one_way = low > 0 or high < 0
    reach = f"{numbers.size(inner, decimals)} to {numbers.size(outer, decimals)}" if one_way else numbers.interval(row)
    return f"95 % CI {reach} %, p {p}, {blocks}"


def _possible(row: Row) -> str:
    """Say what an inconclusive session leaves open, and what would settle it."""
    if row["lo_pct"] is None or row["p_adj"] is None:
        return _reason(row)
    if numbers.by_ratio(row):
        return f"could be {numbers.interval(row)} times the baseline's"
    could, needed = f"could be {numbers.interval(row).replace(' to', ' % to')} %", row["blocks_needed"]
    if needed is None and row.get("hosts_needed"):
        return f"{could}; {row['hosts_needed']} hosts would settle {row['threshold_pct']:g} %, more blocks would not"
    if needed is None:
        return f"{could}; {numbers.count(MOST_NEEDED)} blocks would not settle {row['threshold_pct']:g} %"
    if needed > row["blocks"]:
        return f"{could}; {numbers.count(needed)} blocks would settle {row['threshold_pct']:g} %"
    return f"{could}; {number_of(row['blocks'], 'block')} see changes of {numbers.size(row['mde_pct'])} % and more"


def _reason(row: Row) -> str:
    return str(row["warnings"]).removeprefix("not comparable: ")


def together(found: Sequence[RatePhase | Solo], did: str, added: str) -> str:
    """Say which clients did something together, and how well they began together; nothing where there was one."""
    if not (hosts := sorted({client.host for one in found for client in one.clients})):
        return ""
    skew = max(one.skew_ms for one in found)
    return (
        f"{len(hosts)} clients ({', '.join(hosts)}) {did} and began within "
        f"{numbers.number(skew, 2)} ms of each other at most; their {added} are added. "
    )
