"""How it was measured, how to do it again, and what it does not show: from the plan."""

import yaml

from plots import markup, numbers
from plots.pictures import Pictures
from plots.sections import compared
from plots.source import Source
from tsduel.core.sections import Rename
from tsduel.core.wording import number_of

LEGEND = (
    "diff % is the Hodges-Lehmann estimate of the ratio within blocks, which need not be the ratio of the two medians, "
    "with its exact 95 % interval over blocks; p is adjusted for all metrics of its family (Westfall-Young). ✗ and ✓: "
    "real, and at least the metric's threshold; clearly: the whole interval is. ≈: real, below the threshold. =: "
    "equivalent, the 90 % interval is within the threshold. ?: inconclusive, which does not mean no change. What has no "
    "verdict says the same as another row, or is for information."
)


def method(source: Source, _: Pictures) -> str:
    """Return it for a run of databases."""
    plan = source.plan
    if plan.workload is None or plan.queries is None or plan.settle is None:
        return ""
    once = (
        ["The duel of later blocks ran on the data of the first: differences below about 0.5 % may belong to the directories."]
        if plan.design.reload == "once"
        else []
    )
    said = [
        f"{_blocks(source)} A block is a part of each variant alone (fresh process, empty directory: start, load, settle, "
        "stop) and a duel of all of them, resident at the same time. It gives one value of each metric.",
        *once,
        f"Load: {plan.workload.workers} workers, batches of {numbers.count(plan.workload.batch_size)} lines, the same file for every variant.",
        f"Settle: {plan.settle.mode}, until nothing was pending or merging, {plan.settle.polls} polls of {plan.settle.poll_s} s in a row.",
        *_duel(source),
        *_solo(source),
    ]
    return markup.paragraphs(markup.items(said), LEGEND)


def _blocks(source: Source) -> str:
    design = source.plan.design
    return (
        f"{number_of(design.blocks, 'block')} after {number_of(design.warmup_blocks, 'discarded warm-up block')}; the order "
        f"of variants and query types was drawn at random (seed {design.seed}) before the first block."
    )


def _counts(source: Source, name: str) -> str:
    counts = source.run.json("raw/calibration.json").get(name) or {}
    return f" Counts: {', '.join(f'{of} {numbers.count(n)}' for of, n in counts.items())}." if counts else ""


def _duel(source: Source) -> list[str]:
    duel, queries = source.plan.duel, source.plan.queries
    if duel is None or queries is None or not duel.enabled:
        return ["No duel: each variant was measured alone only."]
    flight = "one at a time" if duel.in_flight == 1 else f"in bursts of {4 * duel.in_flight}, {duel.in_flight} in flight"
    return [
        f"Duel: each query to every variant in turn (B C C B), {flight}, {duel.seconds:g} s a type and at least {duel.least} "
        f"exchanges, counted in the warm-up block; caches {queries.cache}; a seed of its own for each type; every answer "
        f"compared; nanoseconds of CLOCK_MONOTONIC around request and last byte.{_counts(source, 'counts')}"
    ]


def _solo(source: Source) -> list[str]:
    queries = source.plan.queries
    if queries is None or not queries.solo:
        return []
    asked = f"{numbers.count(queries.count)} a type" if queries.count else f"as many a type as last {queries.seconds:g} s"
    return [
        f"Queries of several workers: TSBS's client with {queries.workers} workers in a closed loop, {asked}, each variant "
        f"alone.{_counts(source, 'solo_counts')}"
    ]


def bench(source: Source, _: Pictures) -> str:
    """Return it for Go benchmarks."""
    go = source.plan.gobench
    if go is None:
        return ""
    rows = source.run.json("raw/calibration.json").get("rows") or []
    counts = [int(row["count"]) for row in rows]
    asked = (
        f"{numbers.count(go.count)} operations each (fixed)"
        if go.count
        else f"as many operations as last about {go.seconds:g} s for the fastest variant, found in the warm-up"
    )
    said = [
        f"{_blocks(source)} A block runs each benchmark once for each variant, in a process of its own and in a clean "
        "working directory that holds a copy of the package's testdata and of what `files:` names, nothing else.",
        f"`-test.count=1 -test.benchmem -test.benchtime=Nx`: {asked}; the same N for all variants.",
    ]
    if counts:
        least, most = numbers.count(min(counts)), numbers.count(max(counts))
        said.append(f"N is {least} to {most} over {number_of(len(rows), 'benchmark')}; each is in `raw/calibration.json`.")
    said += [f"Taken from names: {_rule(rule)}." for rule in go.rename]
    said += [f"Required of each benchmark, above zero: {markup.code(rule.metric or rule.output)}." for rule in go.require]
    return markup.paragraphs(markup.items(said), LEGEND)


def _rule(rule: Rename) -> str:
    return f"element {rule.drop}" if rule.drop else f"{markup.code(rule.match)} becomes {markup.code(rule.to)}"


def imported(source: Source, _: Pictures) -> str:
    """Return it for imported logs: what each figure was taken from."""
    of = source.plan.imported
    return "" if of is None else markup.items([
        "Imported from one terminal log a side, of `make tsbs` as in VictoriaMetrics' benchmarks/Makefile. The logs as they "
        "were are in `raw/logs/`.",
        f"Load: {of.load_workers} workers; rate and time are those of the loader's own summary, the curve is its CSV.",
        "CPU, memory and bytes: the process_* lines of /metrics, read once after the load. They are what the server had "
        "counted since its start, not differences over the load.",
        f"Queries: {of.query_workers} workers in a closed loop; q/s, mean and median service time are those of the summary "
        "that run_queries prints. It prints no other percentiles.",
        "Checks: only what a log shows was checked. The others were not made, which says nothing either way.",
    ])  # fmt: skip


def reproduce(source: Source, _: Pictures) -> str:
    """Return the command, the experiment as it was written, and where the figures are."""
    asked = source.plan.asked
    written = yaml.safe_dump(asked.written, sort_keys=False, allow_unicode=True, width=110) if asked.written else ""
    return markup.paragraphs(
        compared.command(source),
        markup.items(identities(source)),
        written and markup.folded(f"{asked.experiment or 'the experiment'} as it was read, before knobs", markup.block(written, "yaml")),
        "The figures behind this page: `tidy/measurements.csv` and `tidy/pairs.csv` (a line a block and metric), "
        "`stats/comparison.csv` (a line a metric), `tidy/checks.csv`; all of them from `raw/`, again with "
        f"`make tidy compare report RUN={source.run.path.name}`.",
    )


def identities(source: Source) -> list[str]:
    """Return what has to be the same when it is done again: the revisions or logs, and tsduel."""
    if source.plan.imported:
        said = [f"{name}: a log with sha256 {markup.code(log.sha256)}" for name, log in source.plan.imported.logs.items()]
    else:
        said = [
            f"{variant.name}: {markup.text(variant.label)} is {markup.code(source.revision(variant.name))}"
            for variant in source.plan.variants
        ]
    return [*said, f"tsduel {markup.text(compared.own(source))}"]


def limits(source: Source, _: Pictures) -> str:
    """Say what a run of databases does not show."""
    cpus = f" ({source.host['cpus']})" if source.host.get("cpus") else ""
    return markup.items([
        "On this machine, with this data: another CPU, disk or workload may turn the order around.",
        f"The client and the databases shared the machine's CPUs{cpus}.",
        "Queries were asked in a closed loop after the load had settled: service times say nothing about queries during "
        "writes, nor about response times at a fixed rate.",
        "An empty database was loaded with one window of data; growth, retention and restarts were not looked at.",
    ])  # fmt: skip


def bench_limits(_source: Source, _: Pictures) -> str:
    """Say what Go benchmarks do not show."""
    return markup.items([
        "On this machine, with this toolchain: another CPU or compiler may turn the order around.",
        "A benchmark is what its authors wrote: whether it stands for what users do is not looked at.",
        "A fixed number of operations in one process: what warms up over more of them is not seen.",
    ])  # fmt: skip


def import_limits(_source: Source, _: Pictures) -> str:
    """Say what two logs do not show."""
    return markup.items([
        "On machines that are not known here, with one set of data: another CPU, disk or workload may turn the order around.",
        "One run of each version: the same binary run twice differs by as much as many changes do. Only runs that are "
        "repeated and interleaved tell them apart.",
        "What was not in the logs was not looked at: the machine, the flags, whether samples were lost, and whether the "
        "answers were right and the same.",
    ])  # fmt: skip
