"""What the measured work costs on each type of rented machine: a million queries, a million ingested samples."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from plots import markup, numbers
from plots.comparison import Comparison, Row, decision
from plots.sections.blocks import values_of
from plots.study import Figures, Settings, samples_of, short_name
from tsduel.core.metrics import ALL
from tsduel.core.place import GcpPlace
from tsduel.studies.compare import by_machine

MOST_LINES = 6
_LOSS = {"regression", "worse"}
_SECONDS, _MILLION, _HOUR_S = {"us": 1e-6, "s": 1.0}, 1e6, 3600
_LEAST_USD = 0.001
"""What costs less is told in millionths of a USD."""


@dataclass(frozen=True)
class Cost:
    """A figure of one comparison with its price; `usd`: of a million operations for one unit of the row's metric."""

    side: Comparison
    row: Row
    usd: float

    def of(self, number: int) -> float:
        """Return USD of a million operations of the baseline (0) or the candidate (1)."""
        return float(self.row[("baseline_pseudomedian", "candidate_pseudomedian")[number]]) * self.usd


def machines_of(study: Settings) -> list[list[str]]:
    """Return the compared settings on rented machines, those together that differ in the machine alone."""
    return by_machine({
        each["name"]: each["set"] for each in study.document["settings"]
        if each["compared"] and _place(study, each["name"])
    })  # fmt: skip


def _place(study: Settings, setting: str) -> GcpPlace | None:
    place = study.sources[setting].plan.place
    return place if isinstance(place, GcpPlace) else None


def hour_of(study: Settings, setting: str) -> float:
    """Return USD for an hour of one machine alone: without disk, address and traffic, unless `gcp.price_h` has them.

    All machines of a setting are alike, and the spare ones are paid for, too.
    """
    place = _place(study, setting)
    return place.price.machine_h / len(place.hosts) if place else 0.0


def cpus_of(study: Settings, setting: str) -> int:
    """Return the CPUs of a machine as the host itself described them; 0 where it did not, or lies."""
    cpus = study.sources[setting].run.host.get("cpus")
    return cpus if isinstance(cpus, int) and cpus > 0 else 0


def cost_of(study: Settings, side: Comparison, metric: str, query_type: str) -> Cost | None:
    """Return what a million operations cost by the CPU time of the server; None where something is not known.

        cost = 1e6 x CPU seconds of one operation / CPUs of the machine x USD of its hour / 3600

    A machine of n CPUs that is fully used has n CPU seconds in each second of its hour. CPU of a whole phase is divided
    by its samples or queries.
    """
    row, cpus, many = side.row(metric, query_type), cpus_of(study, side.setting), 1.0
    if metric == "load_cpu_seconds":
        many = float(samples_of(study)[side.setting] or 0)
    elif metric == "query_cpu_seconds":
        many = float((side.row("query_count", query_type) or {}).get("baseline_median") or 0)
    if not (row and cpus and many and row["baseline_pseudomedian"] and row["candidate_pseudomedian"]):
        return None
    seconds = _MILLION * _SECONDS[study.metrics[metric].unit] / many
    return Cost(side, row, seconds / cpus * hour_of(study, side.setting) / _HOUR_S)


def costs_of(study: Settings, candidate: str, names: Sequence[str], figure: tuple[str, str]) -> dict[str, Cost]:
    """Return the costs of a figure, a metric and a query type, by setting; what is not known is left out."""
    sides = (side for side in study.comparisons if side.candidate == candidate and side.setting in names)
    return {side.setting: cost for side in sides if (cost := cost_of(study, side, *figure))}


def figures_of(study: Settings) -> Figures:
    """Return what is paid for: queries of all types in turn, else each type alone; samples in turn, else alone."""

    def is_there(metric: str, query_type: str = "") -> bool:
        return any(side.row(metric, query_type) for side in study.comparisons)

    found = {("duel_cpu_us", ALL): "queries"}
    if not is_there("duel_cpu_us", ALL):
        alone = (name for name in study.query_types if is_there("query_cpu_seconds", name))
        found = {("query_cpu_seconds", name): f"queries, {name}" for name in alone}
    load = next((name for name in ("duel_load_cpu_us", "load_cpu_seconds") if is_there(name)), "")
    return {**found, **({(load, ""): "samples"} if load else {})}


def section(study: Settings) -> str:
    """Return a table of each candidate, a row a machine: CPUs, price and costs; empty without types of machines."""
    names = [name for together in machines_of(study) for name in together]
    if not (names and figures_of(study)):
        return ""
    return markup.paragraphs(
        "## What it costs",
        *(_table(study, candidate, names) for candidate in study.run.variants[1:]),
        "Cost = CPU time of the server for a million of them / CPUs of the machine x price of its hour: the machine "
        f"is taken as fully used. {_price(study, names)} A cell has the baseline's cost → the candidate's (the "
        "change) and the mark; both are those of the CPU time.",
    )


def _price(study: Settings, names: Sequence[str]) -> str:
    places = [place for name in names if (place := _place(study, name))]
    spot = " Spot machines count like standard ones." if any(place.spot for place in places) else ""
    months = ", ".join(sorted({place.price.as_of for place in places}))
    if months == "as given":
        return f"The price is `gcp.price_h`, the same for each machine, with all that it was given for.{spot}"
    return f"The price is the list price of {months}, of the machine alone: disk, address and traffic are out.{spot}"


def _table(study: Settings, candidate: str, names: Sequence[str]) -> str:
    heads = [f"Machine, {study.labels[candidate]} against {study.labels[study.baseline]}", "CPUs", "USD an hour"]
    hours = {name: numbers.number(hour_of(study, name)) for name in names}
    rows = [[short_name(name), numbers.count(cpus_of(study, name) or None), hours[name]] for name in names]
    for figure, title in figures_of(study).items():
        costs = costs_of(study, candidate, names, figure)
        unit, scale = _unit(costs)
        heads.append(f"a million {title}, {unit}")
        for name, cells in zip(names, rows, strict=True):
            price = costs.get(name)
            cells.append(price.side.cell_of(*figure, price.usd / scale) if price else numbers.MISSING)
    return markup.table(heads, rows, range(1, len(heads)))


def _unit(costs: Mapping[str, Cost]) -> tuple[str, float]:
    largest = max((cost.of(0) for cost in costs.values()), default=0.0)
    return ("USD", 1.0) if largest >= _LEAST_USD else ("millionths of a USD", 1e-6)


def answers(study: Settings) -> str:
    """Return on which machine the candidate loses most, and on which it is cheapest: two lines for each figure."""
    lines = list[str]()
    for candidate in study.run.variants[1:]:
        whose = f"{markup.text(study.labels[candidate])}: " if study.run.variants[2:] else ""
        for names in machines_of(study):
            for figure, title in figures_of(study).items():
                costs = costs_of(study, candidate, names, figure)
                if len(costs) > 1:
                    lines += [f"{whose}A million {markup.text(title)}: {said}" for said in _said(study, costs)]
    shown = markup.most(lines, MOST_LINES, "and {} more: see *What it costs*")
    return markup.titled("**What it costs on each machine:**", markup.items(shown))


def _said(study: Settings, costs: Mapping[str, Cost]) -> Iterator[str]:
    changed = {name: cost for name, cost in costs.items() if cost.row["change_pct"] is not None}
    if len(changed) > 1:
        yield _loss(study, changed)
    yield _cheapest(study, costs)


def _loss(study: Settings, costs: Mapping[str, Cost]) -> str:
    """Return on which machine the cost changes most, and whether it is shown that it is more than on each other."""
    most = max(costs, key=lambda name: float(costs[name].row["change_pct"]))
    losses, row = [name for name, cost in costs.items() if decision(cost.row) in _LOSS], costs[most].row
    begin = f"no loss is shown; the candidate does worst on {short_name(most)}"
    if most in losses:
        begin = f"the candidate loses most on **{short_name(most)}**"
    elif losses:
        begin = f"a loss is shown on {_named(losses)}, and the largest change is on {short_name(most)}"
    parts = [f"{begin}, {numbers.effect(row)} ({numbers.interval(row)}; {costs[most].side.mark(row)})"]
    than, alone = dict[str, tuple[float, float]](), False
    for each in study.document["machines"]:
        is_of = all(each[key] == row[key] for key in ("candidate", "metric", "query_type"))
        if is_of and most in (each["setting"], each["than"]):
            first = each["setting"] == most
            than[each["than" if first else "setting"]] = (
                (each["lo"], each["hi"]) if first else (-each["hi"], -each["lo"])
            )
            alone = alone or each["one_host"]
    points = {name: markup.aside(f"{numbers.reach(*than[name])} points") if name in than else "" for name in costs}
    more = [name for name, (low, _) in than.items() if low > 0]
    rest = [name for name in costs if name not in (most, *more)]
    if more:
        parts.append(f"more than on {_named(more, points)}")
    if rest:
        parts.append(f"not shown to be more than on {_named(rest, points)}")
    return "; ".join([*parts, *(["one host each, so it may be the host"] if alone else [])])


def _cheapest(study: Settings, costs: Mapping[str, Cost]) -> str:
    """Return where the candidate is cheapest; machines whose blocks overlap with those there are not told apart."""
    first, *others = sorted(costs, key=lambda name: costs[name].of(1))
    usd, (unit, scale) = costs[first].of(1), _unit(costs)
    blocks = {name: _blocks(study, cost) for name, cost in costs.items()}
    near = [name for name in others if min(blocks[name]) <= max(blocks[first])]
    more = {name: f" {numbers.change(100 * (costs[name].of(1) / usd - 1))} %" for name in others}
    parts = [
        f"the candidate is cheapest on **{short_name(first)}**, {numbers.number(usd / scale, 3)} {unit}",
        _named(others, more),
    ]
    return "; ".join([*parts, *([f"not told apart from {_named(near)}: their blocks overlap"] if near else [])])


def _blocks(study: Settings, cost: Cost) -> list[float]:
    """Return USD of a million operations of the candidate in each block that counts."""
    source = study.sources[cost.side.setting]
    sides = (source.baseline, cost.side.candidate)
    table = source.counting(values_of(source, cost.row["metric"], cost.row["query_type"], sides))
    of_candidate = table[table["variant"] == cost.side.candidate]
    return [float(value) * cost.usd for value in of_candidate["value"]] or [cost.of(1)]


def _named(settings: Sequence[str], beside: Mapping[str, str] | None = None) -> str:
    return ", ".join(f"{short_name(name)}{(beside or {}).get(name, '')}" for name in settings)
