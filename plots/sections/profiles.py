"""Where the difference is: functions whose cost changed, flame graphs, pprof's own view; what the sources changed."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from plots import flame, markup, numbers
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.printed import printed
from plots.source import Source
from tsduel.core.defaults import GO_MINIMUM
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.project import PROJECT
from tsduel.core.wording import number_of
from tsduel.plan import changes
from tsduel.tidy import profiles
from tsduel.workloads import workload_of

MOST, MOST_COMMITS, MOST_FILES = 12, 30, 8
_ERRORS, _LEAST, _PPROF_S, _NODES = 3, 0.002, 300, 20
_OF = {"load": "the load", "ingestion": "ingestion in turn", "queries": "the queries", "": "the benchmarks"}
_EACH = {"load": " a sample", "ingestion": " a sample", "queries": " an exchange"}
_WHAT = {
    "cpu": "CPU",
    "alloc_space": "Memory allocated",
    "inuse_space": "Memory held at the end",
    "delay": "Time spent waiting",
}
_HELD = "inuse_space"
"""A state and no sum over the work, so it is given as it is, and it has no flame graph."""
_EXPLAINS = {
    ("queries", "cpu"): (("duel_cpu_us", ALL), ("duel_typical_ms", GEOMEAN)),
    ("queries", "alloc_space"): (("duel_gc_cpu_us", ALL),),
    ("queries", _HELD): (("duel_rss_bytes", ""),),
    ("queries", "delay"): (("duel_typical_ms", GEOMEAN),),
    ("ingestion", "cpu"): (("duel_load_cpu_us", ""), ("duel_load_typical_ms", "")),
    ("ingestion", "delay"): (("duel_load_typical_ms", ""),),
    ("load", "cpu"): (("load_cpu_seconds", ""), ("load_rate", "")),
    ("load", "alloc_space"): (("gc_cpu_seconds", ""),),
    ("load", _HELD): (("rss_peak_bytes", ""),),
    ("load", "delay"): (("load_rate", ""),),
    ("", "cpu"): (("sec/op", GEOMEAN),),
    ("", "alloc_space"): (("B/op", GEOMEAN),),
}
_OF_ROLE = {"queries": "duel_role_cpu_us", "ingestion": "duel_load_role_cpu_us", "load": "load_role_cpu_us"}


@dataclass(frozen=True)
class Change:
    """What a function costs on both sides, an operation, and how far that may be apart by chance."""

    function: str
    baseline: float
    candidate: float
    chance: float

    @property
    def difference(self) -> float:
        """Candidate less baseline."""
        return self.candidate - self.baseline


@dataclass(frozen=True)
class Pair:
    """One kind of cost of one component at one work, on both sides. `tables`: their rows of tidy/profiles.csv."""

    source: Source
    comparison: Comparison
    work: str
    role: str
    kind: str
    sample: str
    tables: tuple[pd.DataFrame, pd.DataFrame]

    @property
    def title(self) -> str:
        """What it is of, as plain text."""
        role = f" ({self.role})" if self.source.plan.roles and self.role else ""
        return f"{_WHAT[self.sample]} of {_OF[self.work]}{role}"

    @property
    def hosts(self) -> int:
        """On how many hosts it was taken, of which it is the sum."""
        return int(self.tables[0]["hosts"].iloc[0])

    @property
    def counted(self) -> str:
        """What a value is divided by, a column: operations, where there are any that it is a sum over."""
        return "operations" if self.work in _EACH and self.sample != _HELD else "hosts"

    @property
    def each(self) -> str:
        """What a value is of: " an exchange"; nothing where it is of all that one host did."""
        return _EACH[self.work] if self.counted == "operations" else " a host" if self.hosts > 1 else ""

    @property
    def factors(self) -> tuple[float, float]:
        """From a value of each side to one an operation, in seconds or bytes."""
        unit = 1e-9 if self.tables[0]["unit"].iloc[0] == "nanoseconds" else 1.0
        counts = [float(table[self.counted].iloc[0]) for table in self.tables]
        return unit / max(1.0, counts[0]), unit / max(1.0, counts[1])

    def profile(self, variant: str) -> profiles.Profile:
        """Return where it is of one side."""
        wanted = (variant, self.work, self.role, self.kind)
        every = profiles.index(self.source.run)
        return next(one for one in every if (one.variant, one.work, one.role, one.kind) == wanted)

    def chance(self, baseline: float, candidate: float) -> float:
        """Return how far two values may be apart by chance: three standard errors of so many samples."""
        periods = [float(table["period"].iloc[0]) for table in self.tables]
        spread = sum(
            value * period * factor
            for value, period, factor in zip((baseline, candidate), periods, self.factors, strict=True)
        )
        return _ERRORS * math.sqrt(spread)

    def changes(self, column: str = "own") -> list[Change]:
        """Return every function, the whole under no name; what differs most first."""
        sides = [
            dict(zip(table["function"], table[column] * factor, strict=True))
            for table, factor in zip(self.tables, self.factors, strict=True)
        ]
        found = [
            Change(name, before, after, self.chance(before, after))
            for name in {**sides[0], **sides[1]}
            for before, after in [(sides[0].get(name, 0.0), sides[1].get(name, 0.0))]
        ]
        return sorted(found, key=lambda one: (-abs(one.difference), one.function))

    def whole(self) -> Change:
        """Return all functions together."""
        return next(one for one in self.changes() if not one.function)

    def notable(self) -> list[Change]:
        """Return the functions that differ by more than chance."""
        least = _LEAST * self.whole().baseline
        return [one for one in self.changes() if one.function and abs(one.difference) > max(one.chance, least)]

    def unit(self) -> tuple[str, float]:
        """Return the unit that suits, and its factor."""
        of = "sec/op" if self.tables[0]["unit"].iloc[0] == "nanoseconds" else "B/op"
        whole = self.whole()
        name, factor = numbers.scaled(of, max(whole.baseline, whole.candidate) / 10)
        return f"{name.removesuffix('/op')}{self.each}", factor


def pairs(source: Source) -> Iterator[Pair]:
    """Yield what both sides have a profile of."""
    table = source.table("profiles")
    had = table[(table["message"] == "") & ((table["work"] != "") | (table["sample"] != _HELD))]
    for comparison in source.comparisons:
        if comparison.apart:
            continue
        columns = ["work", "role", "kind", "sample"]
        for work, role, kind, sample in had[columns].drop_duplicates().to_numpy().tolist():
            of = had[(had[columns] == [work, role, kind, sample]).all(axis=1)]
            sides = (of[of["variant"] == source.baseline], of[of["variant"] == comparison.candidate])
            if not any(side.empty for side in sides):
                yield Pair(source, comparison, work, role, kind, sample, sides)


def section(source: Source, pictures: Pictures) -> str:
    """Return functions, flame graphs and pprof's view of each pair; nothing where no profile was asked for."""
    table = source.table("profiles")
    if table.empty or source.pivoted:
        return ""
    missing = [
        f"There is no {kind} profile of {_OF[work]} of {markup.text(source.labels[variant])}"
        f"{f' ({role})' if source.plan.roles and role else ''}: {markup.text(message)}."
        for variant, work, role, kind, message in table.loc[
            table["message"] != "", ["variant", "work", "role", "kind", "message"]
        ]
        .to_numpy()
        .tolist()
    ]
    fleet = source.plan.is_fleet
    apart = "Profiles of different databases are kept, and not compared." if source.plan.crosses else ""
    intro = (
        "From one more block behind the measured ones: both sides did the same work once more while they were read, so "
        "that what a function costs can be compared, and not only its share. It is one profile a side, so it has no "
        "interval and gives no verdict: it says where a difference is that the blocks have shown. The *own* cost of a "
        "function is that of its code and of what it calls of Go's own library. All functions: "
        f"{markup.code('tidy/profiles.csv')}; files: "
        + (f"{markup.code('raw/HOST/profiles/')}, which are added up." if fleet else f"{markup.code('raw/profiles/')}.")
    )
    return markup.paragraphs(
        intro, apart, markup.items(missing), *(_one(pair, pictures) for pair in pairs(source) if pair.whole().baseline)
    )


def _one(pair: Pair, pictures: Pictures) -> str:
    comparison = pair.comparison
    several = f", {comparison.title}" if len(pair.source.comparisons) > 1 else ""
    return markup.paragraphs(
        f"### {markup.text(pair.title)}{several}",
        _total(pair),
        _functions(pair),
        _graph(pair, pictures) if pair.sample != _HELD else "",
        markup.folded(
            f"go tool pprof -top -diff_base{', of the first host' if pair.hosts > 1 else ''}",
            markup.block(_pprof(pair), "text"),
        ),
    )


def _total(pair: Pair) -> str:
    """Say what all of it costs on both sides, beside the metrics of the blocks that it is part of."""
    unit, factor = pair.unit()
    whole, comparison = pair.whole(), pair.comparison
    wanted = list(_EXPLAINS.get((pair.work, pair.sample), ()))
    if pair.sample == "cpu" and pair.source.plan.roles:
        wanted.insert(0, (_OF_ROLE[pair.work], pair.role))
    rows = [row for metric, query_type in wanted if (row := comparison.row(metric, query_type))]
    metrics = [
        f"{markup.text(comparison.named(row))} {numbers.changed(row)} %{markup.aside(comparison.mark(row))}"
        for row in rows
        if row["change_pct"] is not None
    ]
    percent = numbers.change(100 * whole.difference / whole.baseline)
    sides = " → ".join(numbers.number(side / factor) for side in (whole.baseline, whole.candidate))
    chance = numbers.size(100 * whole.chance / whole.baseline)
    of = f"profiles of {pair.hosts} hosts" if pair.hosts > 1 else "profile"
    said = f"{sides} {unit} ({percent} %, by chance up to {chance}) in the {of}."
    return f"{said} It is part of, in the measured blocks: {'; '.join(metrics)}." if metrics else said


def _functions(pair: Pair) -> str:
    unit, factor = pair.unit()
    whole, found = pair.whole(), pair.notable()
    if not found:
        return "No function's own cost differs by more than chance (three standard errors of its number of samples)."
    rows = [
        [
            short(pair, one.function),
            *(numbers.number(side / factor, 3) for side in (one.baseline, one.candidate)),
            numbers.signed(one.difference / factor),
            f"±{numbers.number(one.chance / factor, 2)}",
            f"{100 * one.baseline / whole.baseline:.1f} → {100 * one.candidate / max(whole.candidate, 1e-12):.1f}",
        ]
        for one in found[:MOST]
    ]
    head = [f"Own cost, {unit}", *pair.comparison.labels, "difference", "chance", "share, %"]
    more = f"{len(found) - MOST} more differ by more than chance." if len(found) > MOST else ""
    return markup.paragraphs(markup.table(head, rows, range(1, 6)), more)


def short(pair: Pair, function: str) -> str:
    """Return a function without the path of the program's own module."""
    plan = pair.source.plan
    module = workload_of(plan).program(plan, plan.variants[0], pair.role or plan.variants[0].server.role).module
    return function.replace(f"{module}/", "").replace(f"{module}.", ".") if module else function


def _graph(pair: Pair, pictures: Pictures) -> str:
    unit, factor = pair.unit()
    sides = []
    for variant, scale in zip((pair.source.baseline, pair.comparison.candidate), pair.factors, strict=True):
        stacks, added = profiles.read(pair.profile(variant)), Counter[tuple[str, ...]]()
        column = stacks.samples.index(pair.sample)
        for places, values in stacks.stacks:
            added[tuple(short(pair, stacks.functions[place]) for place in places)] += values[column]
        sides.append({stack: value * scale for stack, value in added.items()})

    def said(baseline: float, candidate: float) -> str:
        percent = f", {numbers.change(100 * (candidate - baseline) / baseline)} %" if baseline else ""
        both = " → ".join(numbers.number(side / factor, 3) for side in (baseline, candidate))
        return f"{both} {unit} ({numbers.signed((candidate - baseline) / factor)}{percent})"

    parts = ("flame", pair.comparison.candidate, pair.work, pair.role if pair.source.plan.roles else "", pair.sample)
    return pictures.keep(
        "-".join(filter(None, parts)).replace("_", "-"),
        f"Flame graph of both sides: {markup.text(pair.title)}, {pair.comparison.title}",
        "Who calls is above, what is called below; a frame is as wide as what both sides together spend in it. ▲ and "
        "orange: the candidate spends more, an operation; ▼ and blue: less; the stronger, the more of the whole. Grey: "
        "no more than chance. A click on a frame of report.html makes it as wide as the picture, on the top one all.",
        flame.drawn(flame.tree((sides[0], sides[1])), said, pair.chance),
    )


def _pprof(pair: Pair) -> str:
    go = [str(PROJECT / "scripts/with-go"), GO_MINIMUM, "local", "go", "tool", "pprof"]
    base, mine = (f"{pair.profile(name).paths[0]}.pprof" for name in (pair.source.baseline, pair.comparison.candidate))
    flags = ["-top", f"-nodecount={_NODES}", f"-sample_index={pair.sample}", f"-diff_base={base}", mine]
    return printed([*go, *flags], _PPROF_S, "go tool pprof")


def changed(source: Source, _: Pictures) -> str:
    """Return what lies between the revisions of each component and touches the packages in its profile's difference."""
    if source.pivoted or source.plan.aa or source.table("profiles").empty:
        return ""
    touched: dict[tuple[str, str], dict[str, None]] = {}
    for pair in pairs(source):
        of = touched.setdefault((pair.comparison.candidate, pair.role), {})
        of.update(dict.fromkeys(package(one.function) for one in pair.notable()[:MOST]))
    return markup.paragraphs(*(_changed(source, *key, list(found)) for key, found in touched.items() if found))


def package(function: str) -> str:
    """Return the import path of a function's package."""
    path, slash, name = function.partition("[")[0].rpartition("/")
    return f"{path}{slash}{name.partition('.')[0]}"


def _changed(source: Source, candidate: str, role: str, packages: list[str]) -> str:
    plan = source.plan
    sides = [
        next((part for part in plan.variant(name).components if not role or part.role == role), None)
        for name in (source.baseline, candidate)
    ]
    if sides[0] is None or sides[1] is None or sides[0].build_key == sides[1].build_key:
        return ""
    program = workload_of(plan).program(plan, plan.variant(candidate), role or sides[1].role)
    found = changes.between(program, sides[0], sides[1], packages)
    head = f"**{markup.text(sides[1].label)} against {markup.text(sides[0].label)}**{f', {role}' if plan.roles else ''}"
    of = f"in {', '.join(markup.code(name) for name in packages)}"
    if found.why:
        return f"{head}: what changed cannot be said: {markup.text(found.why)}."
    lines = [
        f"{markup.code(one.revision[:12])} {one.day} {markup.text(one.subject)}"
        f"{' (in the baseline only)' if one.taken_back else ''}"
        for one in found.commits
    ]
    what = number_of(len(lines), "commit") if lines else "no commit"
    if not found.commits and {sides[0].source, sides[1].source} == {"module"}:
        lines = [
            f"{markup.code(name)}: {', '.join(files[:MOST_FILES])}"
            f"{f' and {len(files) - MOST_FILES} more' if len(files) > MOST_FILES else ''}"
            for name, files in found.files
        ] + [f"{markup.text(name)} {before or 'none'} → {after or 'none'}" for name, before, after in found.modules]
        what = "files that differ (a module has no history)" if lines else "no file differs"
    local = [
        f"the {name} has local changes"
        for name, part in zip(("baseline", "candidate"), sides, strict=True)
        if part and part.dirty
    ]
    more = f"and {len(lines) - MOST_COMMITS} more" if len(lines) > MOST_COMMITS else ""
    return markup.paragraphs(
        f"{head}: {what} {of}{markup.aside('; '.join(local))}",
        markup.items([*lines[:MOST_COMMITS], *filter(None, [more])]),
    )
