"""Profiles: functions whose cost changed, flame graphs, pprof's own view, and changes in the sources."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd

from plots import flame, markup, numbers
from plots.comparison import Comparison
from plots.pictures import Pictures
from plots.programs import printed
from plots.sections import heading
from plots.source import Source
from tsduel.core.defaults import GO_MINIMUM
from tsduel.core.metrics import ALL, GEOMEAN
from tsduel.core.project import PROJECT
from tsduel.core.wording import number_of
from tsduel.plan import changes
from tsduel.tidy.profiles import index, read
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
"""A state and no sum over the work: it is not divided by operations, and it has no flame graph."""
_EXPLAINS = {
    ("queries", "cpu"): (("duel_cpu_us", ALL), ("duel_typical_ms", GEOMEAN)),
    ("queries", "alloc_space"): (("duel_object_bytes", ALL), ("duel_gc_cpu_us", ALL)),
    ("queries", _HELD): (("duel_rss_bytes", ""),),
    ("queries", "delay"): (("duel_typical_ms", GEOMEAN),),
    ("ingestion", "cpu"): (("duel_load_cpu_us", ""), ("duel_load_typical_ms", "")),
    ("ingestion", "alloc_space"): (("duel_load_object_bytes", ""),),
    ("ingestion", "delay"): (("duel_load_typical_ms", ""),),
    ("load", "cpu"): (("load_cpu_seconds", ""), ("load_rate", "")),
    ("load", "alloc_space"): (("gc_cpu_seconds", ""),),
    ("load", _HELD): (("rss_peak_bytes", ""),),
    ("load", "delay"): (("load_rate", ""),),
    ("", "cpu"): (("sec/op", GEOMEAN),),
    ("", "alloc_space"): (("B/op", GEOMEAN),),
}
_OF_ROLE = {"queries": "duel_role_cpu_us", "ingestion": "duel_load_role_cpu_us", "load": "load_role_cpu_us"}


class Pair:
    """One kind of cost of one component and one work, on both sides (baseline first), an operation.

    A cost that is no sum over operations is one of a host: it is divided by the `hosts` that profiles are sums of.
    `factors`: from a value of a profile to seconds or bytes an operation. `steps`: the cost of one sample of the
    profiler. `functions`: columns baseline, candidate, difference, chance of own costs, the largest difference first;
    the sum has no name. `factor` is that of the `unit` that suits the values.
    """

    def __init__(self, source: Source, comparison: Comparison, sides: list[pd.DataFrame]) -> None:
        self.source, self.comparison = source, comparison
        self.work, self.role, kind, self.sample = sides[0][["work", "role", "kind", "sample"]].iloc[0].tolist()
        self.hosts, timed = int(sides[0]["hosts"].iloc[0]), sides[0]["unit"].iloc[0] == "nanoseconds"
        each, divisor = " a host" if self.hosts > 1 else "", "hosts"
        if self.work in _EACH and self.sample != _HELD:
            each, divisor = _EACH[self.work], "operations"
        self.factors = [(1e-9 if timed else 1.0) / max(1.0, float(side[divisor].iloc[0])) for side in sides]
        self.steps = [float(side["period"].iloc[0]) * f for side, f in zip(sides, self.factors, strict=True)]
        own = [side.set_index("function")["own"] * f for side, f in zip(sides, self.factors, strict=True)]
        costs = pd.DataFrame({"baseline": own[0], "candidate": own[1]}).fillna(0.0).sort_index()
        costs["difference"] = costs["candidate"] - costs["baseline"]
        costs["chance"] = self.chance(costs["baseline"], costs["candidate"])
        self.functions = costs.sort_values("difference", key=abs, ascending=False, kind="stable")
        largest = max(self.whole.baseline, self.whole.candidate)
        unit, self.factor = numbers.scaled("sec/op" if timed else "B/op", largest / 10)
        self.unit = f"{unit.removesuffix('/op')}{each}"
        by_key = {(p.variant, p.work, p.role, p.kind): p for p in index(source.run)}
        self.profiles = [by_key[name, self.work, self.role, kind] for name in (source.baseline, comparison.candidate)]

    def chance(self, baseline: Any, candidate: Any) -> Any:
        """Return how far two values may be apart by chance: three standard errors of their numbers of samples."""
        return _ERRORS * (baseline * self.steps[0] + candidate * self.steps[1]) ** 0.5

    @property
    def title(self) -> str:
        """The kind of cost and of work, as plain text."""
        role = f" ({self.role})" if self.source.plan.roles and self.role else ""
        return f"{_WHAT.get(self.sample, self.sample)} of {_OF.get(self.work, self.work)}{role}"

    @property
    def whole(self) -> Any:
        """All functions together."""
        return self.functions.loc[""]

    @property
    def notable(self) -> pd.DataFrame:
        """The functions that differ by more than chance."""
        least = self.functions["chance"].clip(lower=_LEAST * self.whole.baseline)
        return self.functions[(self.functions["difference"].abs() > least) & (self.functions.index != "")]


def pairs(source: Source) -> Iterator[Pair]:
    """Yield a pair for each kind of cost that both sides have a profile of."""
    table, columns = source.table("profiles"), ["work", "role", "kind", "sample"]
    usable = table[(table["message"] == "") & ((table["work"] != "") | (table["sample"] != _HELD))]
    for comparison in (side for side in source.comparisons if not side.crosses):
        names = (source.baseline, comparison.candidate)
        for _, alike in usable.groupby(columns, sort=False):
            sides = [alike[alike["variant"] == name] for name in names]
            if not any(side.empty for side in sides):
                yield Pair(source, comparison, sides)


@heading("Profiles of the difference", 70, "tsbs", "gobench")
def section(source: Source, pictures: Pictures) -> str:
    """Return functions, flame graphs and pprof's view of each pair; nothing for a run without profiles."""
    table = source.table("profiles")
    if table.empty or source.pivoted:
        return ""
    missing = table[["variant", "work", "role", "kind", "message"]][table["message"] != ""]
    lines = [
        f"There is no {kind} profile of {_OF.get(work, markup.text(work))} of {markup.text(source.labels[variant])}"
        f"{f' ({role})' if source.plan.roles and role else ''}: {markup.text(message)}."
        for variant, work, role, kind, message in missing.itertuples(index=False)
    ]
    note = "Profiles of different databases are kept, and not compared." if source.plan.crosses else ""
    intro = (
        "The profiles are of one more block, after the measured ones. In it both sides did the same work once more "
        "while they were profiled, so the cost of a function can be compared, and not only its share. There is one "
        "profile of each side, so there is no interval and no verdict: a profile says where in the code a difference "
        "lies that the blocks have shown. The *own* cost of a function is the cost of its code and of the functions of "
        "Go's own library that it calls. All functions: "
        f"{markup.code('tidy/profiles.csv')}; files: "
        f"{markup.code('raw/HOST/profiles/')}{', which are added up' * (len(source.plan.every_host) > 1)}."
    )
    return markup.paragraphs(
        intro,
        note,
        markup.items(lines),
        *(_subsection(pair, pictures) for pair in pairs(source) if pair.whole.baseline),
    )


def _subsection(pair: Pair, pictures: Pictures) -> str:
    comparison = pair.comparison
    several = f", {comparison.title}" if pair.source.several else ""
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
    """Return the sums of both sides, beside the metrics of the blocks that they are part of."""
    unit, factor, whole, comparison = pair.unit, pair.factor, pair.whole, pair.comparison
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
    where = f"profiles of {pair.hosts} hosts" if pair.hosts > 1 else "profile"
    text = f"{sides} {unit} ({percent} %, by chance up to {chance}) in the {where}."
    return f"{text} In the measured blocks it is part of: {'; '.join(metrics)}." if metrics else text


def _functions(pair: Pair) -> str:
    factor, whole, notable = pair.factor, pair.whole, pair.notable
    if notable.empty:
        return "No function's own cost differs by more than chance (three standard errors of its number of samples)."
    rows = [
        [
            short(pair, str(function)),
            *(numbers.number(side / factor, 3) for side in (cost.baseline, cost.candidate)),
            numbers.signed(cost.difference / factor),
            f"±{numbers.number(cost.chance / factor, 2)}",
            f"{100 * cost.baseline / whole.baseline:.1f} → {100 * cost.candidate / max(whole.candidate, 1e-12):.1f}",
        ]
        for function, cost in notable[:MOST].iterrows()
    ]
    head = [f"Own cost, {pair.unit}", *pair.comparison.labels, "difference", "chance", "share, %"]
    more = f"{len(notable) - MOST} more differ by more than chance." if len(notable) > MOST else ""
    return markup.paragraphs(markup.table(head, rows, range(1, 6)), more)


def short(pair: Pair, function: str) -> str:
    """Return a function's name without the path of the program's own module."""
    plan = pair.source.plan
    module = workload_of(plan).program(plan, plan.variants[0], pair.role or plan.variants[0].server.role).module
    return function.replace(f"{module}/", "").replace(f"{module}.", ".") if module else function


def _graph(pair: Pair, pictures: Pictures) -> str:
    factor, sides = pair.factor, []
    for profile, scale in zip(pair.profiles, pair.factors, strict=True):
        stacks, added = read(profile), Counter[tuple[str, ...]]()
        column = stacks.samples.index(pair.sample)
        for places, values in stacks.stacks:
            added[tuple(short(pair, stacks.functions[at]) for at in places)] += values[column]
        sides.append({stack: value * scale for stack, value in added.items()})

    def label(baseline: float, candidate: float) -> str:
        percent = f", {numbers.change(100 * (candidate - baseline) / baseline)} %" if baseline else ""
        both = " → ".join(numbers.number(side / factor, 3) for side in (baseline, candidate))
        return f"{both} {pair.unit} ({numbers.signed((candidate - baseline) / factor)}{percent})"

    parts = ("flame", pair.comparison.candidate, pair.work, pair.role if pair.source.plan.roles else "", pair.sample)
    return pictures.keep(
        "-".join(filter(None, parts)).replace("_", "-"),
        f"Flame graph of both sides: {markup.text(pair.title)}, {pair.comparison.title}",
        "Callers are above, called functions below. A frame is as wide as its cost on both sides together. ▲ and "
        "orange: the candidate spends more on an operation; ▼ and blue: less. A strong colour is a large share of "
        "the whole. Grey: no more than chance. In report.html, a click on a frame makes it as wide as the picture; a "
        "click on the top frame shows all again.",
        flame.drawn(flame.tree((sides[0], sides[1])), label, pair.chance),
    )


def _pprof(pair: Pair) -> str:
    go = [str(PROJECT / "scripts/with-go"), GO_MINIMUM, "local", "go", "tool", "pprof"]
    base, candidate = (f"{profile.paths[0]}.pprof" for profile in pair.profiles)
    flags = ["-top", f"-nodecount={_NODES}", f"-sample_index={pair.sample}", f"-diff_base={base}", candidate]
    return printed([*go, *flags], _PPROF_S, "go tool pprof")


@heading("What changed in the sources", 71, "tsbs", "gobench")
def changed(source: Source, _: Pictures) -> str:
    """Return the commits between the revisions of each component that touch the packages with notable functions."""
    if source.pivoted or source.plan.aa or source.table("profiles").empty:
        return ""
    touched: dict[tuple[str, str], dict[str, None]] = {}
    for pair in pairs(source):
        packages = dict.fromkeys(map(package, pair.notable.index[:MOST]))
        touched.setdefault((pair.comparison.candidate, pair.role), {}).update(packages)
    return markup.paragraphs(*(_changed(source, *key, list(imports)) for key, imports in touched.items() if imports))


def package(function: str) -> str:
    """Return the import path of a function's package."""
    path, slash, name = function.partition("[")[0].rpartition("/")
    return f"{path}{slash}{name.partition('.')[0]}"


def _changed(source: Source, candidate: str, role: str, packages: list[str]) -> str:
    plan = source.plan
    old, new = (
        next((part for part in plan.variant(name).components if not role or part.role == role), None)
        for name in (source.baseline, candidate)
    )
    if old is None or new is None or old.build_key == new.build_key:
        return ""
    program = workload_of(plan).program(plan, plan.variant(candidate), role or new.role)
    history = changes.between(program, old, new, packages)
    head = f"**{markup.text(new.label)} against {markup.text(old.label)}**{f', {role}' if plan.roles else ''}"
    where = f"in {', '.join(markup.code(name) for name in packages)}"
    if history.why:
        return f"{head}: the changes are not known: {markup.text(history.why)}."
    lines = [
        f"{markup.code(commit.revision[:12])} {commit.day} {markup.text(commit.subject)}"
        f"{' (in the baseline only)' if commit.taken_back else ''}"
        for commit in history.commits
    ]
    what = number_of(len(lines), "commit") if lines else "no commit"
    if not history.commits and {old.source, new.source} == {"module"}:
        lines = [
            f"{markup.code(name)}: {', '.join(files[:MOST_FILES])}"
            f"{f' and {len(files) - MOST_FILES} more' if len(files) > MOST_FILES else ''}"
            for name, files in history.files
        ] + [f"{markup.text(name)} {before or 'none'} → {after or 'none'}" for name, before, after in history.modules]
        what = "files that differ (a module has no history)" if lines else "no file differs"
    local = [f"the {name} has local changes" for name, part in (("baseline", old), ("candidate", new)) if part.dirty]
    return markup.paragraphs(
        f"{head}: {what} {where}{markup.aside('; '.join(local))}", markup.items(markup.most(lines, MOST_COMMITS))
    )
