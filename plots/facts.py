"""What a report says in words: what was compared, how it was measured, what is doubtful. All from plan and files."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

import pandas as pd
import yaml

from plots import imported, markup, numbers
from plots.tables import Comparison
from tsduel.core.metrics import METRICS
from tsduel.core.rundir import Run
from tsduel.stats import aa
from tsduel.stats.compare import SCREEN_BELOW
from tsduel.stats.rows import SHORT_PHASE_S

CLIENT_BUDGET = 0.8
MOST_REASONS = 5


def labels(run: Run) -> dict[str, str]:
    """Return the names of the variants for people; the variant's own name is added where two would be alike.

    The columns of pivoted Go benchmarks are named by their key and value.
    """
    pivot = run.plan.get("gobench", {}).get("pivot")
    if pivot:
        return {name: f"{pivot['column']}={name}" for name in run.variants}
    by_name = {str(v["name"]): str(v.get("label") or v["name"]) for v in run.plan["variants"]}
    named = {name: by_name[name] for name in run.variants}
    found = list(named.values())
    return {name: f"{label} ({name})" if found.count(label) > 1 else label for name, label in named.items()}


def differences(run: Run) -> tuple[list[tuple[str, list[str]]], list[tuple[str, str]]]:
    """Return what differs between variants (name, a value a variant) and what they have in common (name, value)."""
    rows: list[tuple[str, list[str]]] = []
    described = [_variant(run, name) for name in run.variants]
    for key in described[0]:
        values = [one[key] for one in described]
        if any(values):
            rows.append((key, [value or "none" for value in values]))
    differ = [(key, values) for key, values in rows if len(set(values)) > 1]
    common = [(key, values[0]) for key, values in rows if len(set(values)) == 1]
    return differ, common


def _variant(run: Run, name: str) -> dict[str, str]:
    plan = next(v for v in run.plan["variants"] if v["name"] == name)
    build = run.json(f"build/{name}.json")
    env = " ".join(f"{key}={value}" for key, value in (plan.get("env") or {}).items())
    return {
        "database": str(plan["target"]),
        "version": str(plan.get("version") or plan.get("ref") or ""),
        "source": " ".join(str(plan.get(key) or "") for key in ("source", "repo", "path")).strip(),
        "revision": str(build.get("revision") or plan.get("revision") or ""),
        "local changes (sha256 of the diff)": str(plan.get("dirty") or ""),
        "flags": markup.code(shlex.join(plan["flags"])) if plan.get("flags") else "",
        "environment": markup.code(env) if env else "",
        "Go": str(build.get("go_version") or ""),
        "sha256 of the binary": str(build.get("sha256") or ""),
    }


def machine(run: Run) -> list[tuple[str, str]]:
    """Return what the rounds ran on and with; what was not recorded is left out."""
    if run.plan.get("imported"):
        return imported.known(run)
    host, workload = run.json("raw/host.json"), run.plan["workload"]
    data = run.json("raw/workload.json").get("data") or {}
    cpu = f"{host.get('cpu_model', '')}, {host.get('cpus', '?')} CPUs" if host.get("cpu_model") else ""
    wide = [
        ("machine", _joined(run.plan["host"].get("machine"), host.get("virtualization"))),
        ("CPU", cpu),
        ("memory", numbers.size(host.get("memory_bytes")) if host.get("memory_bytes") else ""),
        ("kernel", str(host.get("kernel") or "")),
        ("system", str(host.get("os") or "")),
        ("filesystem", str(host.get("filesystem") or "")),
        ("data", _data(workload)),
        ("sha256 of the data", str(data.get("sha256") or "")),
        ("TSBS", str(run.json("build/tsbs.json").get("version") or "")),
        ("tsduel", " ".join(str(part) for part in run.plan["tsduel"].values() if part)),
    ]  # fmt: skip
    return [(name, value) for name, value in wide if value]


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


def _data(workload: dict[str, Any]) -> str:
    window = f"{workload['start']} to {workload['end']} every {workload['interval']}"
    hosts, samples = numbers.count(workload["scale"]), numbers.count(workload["samples"])
    return f"{workload['use_case']}, {hosts} hosts, {window}, {samples} samples, seed {workload['seed']}"


def standing(run: Run, comparisons: Sequence[Comparison]) -> list[str]:
    """Say what the whole is worth, before any figure."""
    said = [imported.STANDING] if run.plan.get("imported") else []
    blocks = min(comparison.valid_blocks for comparison in comparisons)
    if run.plan.get("smoke"):
        said.append("**This is not a result.** A smoke run shows that the machinery works; its figures mean nothing.")
    if blocks < SCREEN_BELOW and not run.plan.get("imported"):
        plural = "block" if blocks == 1 else "blocks"
        said.append(
            f"**This is a screen, not a result:** {blocks} valid {plural}, and {SCREEN_BELOW} is the fewest for one."
        )
    if run.plan.get("aa"):
        said.append("Both sides are **the same binary** (A/A): every difference below is noise of this machine.")
        found = comparisons[0].document["aa"]
        reasons = markup.text(_listed(found["reasons"]))
        said.append("**A/A: passed.**" if found["passed"] else f"**A/A: failed.** {reasons}.")
    return said


def _listed(reasons: Sequence[str]) -> str:
    shown = "; ".join(reasons[:MOST_REASONS])
    return f"{shown}; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else shown


def calibration(run: Run) -> str:
    """Say whether a comparison of a binary with itself has shown what this kind of machine can tell apart."""
    if run.plan.get("aa") or run.plan.get("imported"):
        return ""
    kept = aa.calibration(run)
    if kept is None:
        return "Uncalibrated: no A/A run on this kind of machine is known here (`make tsbs AA=1`)."
    blocks = min(kept["blocks"].values())
    spread = next((s for s in kept["spreads"] if s["metric"] == "load_rate"), None)
    sees = f"; with its {blocks} blocks it sees {spread['mde_pct']:.1f} % in the load rate" if spread else ""
    verdict = "passed" if kept["passed"] else f"FAILED ({len(kept['reasons'])} reasons)"
    samples = numbers.count(kept["workload"]["samples"])
    return f"Calibrated by the A/A run {kept['run']} of {samples} samples, which {verdict}{sees}."


def left_out(comparison: Comparison) -> list[str]:
    """Say which blocks do not count and why, and how many rounds of each variant failed."""
    said = [f"Block {drop['block']} does not count: {markup.text(drop['reason'])}." for drop in comparison.dropped]
    failed = {name: count for name, count in comparison.document["failed_rounds"].items() if count}
    if failed:
        said.append(f"Rounds that failed, by variant: {', '.join(f'{n} {count}' for n, count in failed.items())}.")
    return said


def warnings(run: Run, comparison: Comparison, measurements: pd.DataFrame) -> list[str]:
    """Say what makes figures doubtful: short phases, metrics of one side only, order effects, a busy client."""
    said: list[str] = imported.notes(run)
    said += [
        f"{METRICS[row['metric']].title}{', ' + row['query_type'] if row['query_type'] else ''}: {markup.text(note)}."
        for row in comparison.rows
        if row["family"] == "primary"
        for note in row["warnings"].split("; ")
        if note.startswith(("order effect", "the interval does not"))
    ]
    short: list[str] = []
    for row in comparison.rows:
        sides = [s for s in (row["baseline_median"], row["candidate_median"]) if s is not None]
        if row["metric"] in {"load_seconds", "query_seconds"} and sides and min(sides) < SHORT_PHASE_S:
            short.append(f"{row['query_type'] or 'the load'} ({numbers.number(min(sides), 3)} s)")
        if "not comparable" in row["warnings"]:
            of_type = f" of {row['query_type']}" if row["query_type"] else ""
            said.append(f"`{row['metric']}`{of_type}: {markup.text(row['warnings'])}.")
    if short:
        said.append(f"Phases under {SHORT_PHASE_S:.0f} s, whose figures scatter: {', '.join(short)}.")
    return said + _busy_client(run, measurements)


def _busy_client(run: Run, measurements: pd.DataFrame) -> list[str]:
    cpus = float(run.json("raw/host.json").get("cpus") or 1)
    table = measurements.pivot_table(index=["round", "query_type"], columns="metric", values="value")
    said = []
    for client, seconds, workers, what in (
        ("load_client_cpu_seconds", "load_seconds", run.plan["workload"]["workers"], "load"),
        ("query_client_cpu_seconds", "query_seconds", run.plan["queries"]["workers"], "query"),
    ):
        if {client, seconds} <= set(table.columns):
            budget = min(cpus, float(workers))
            share = float((table[client] / table[seconds] / budget).max())
            if share > CLIENT_BUDGET:
                said.append(
                    f"The {what} client used up to {share:.0%} of its {budget:g} CPUs: it may be the bottleneck."
                )
    return said


def method(run: Run) -> list[str]:
    """Say how it was measured, from the plan."""
    plan = run.plan
    if plan.get("imported"):
        return imported.method(run)
    design, queries, settle = plan["design"], plan["queries"], plan["settle"]
    counts = run.json("raw/calibration.json").get("counts")
    warm = design["warmup_blocks"]
    asked = f"{queries['count']} queries a type" if queries["count"] else (
        f"as many queries a type as last {queries['seconds']:g} s at least, counted in the warm-up block, "
        f"at most {numbers.count(queries['max_count'])}"
    )  # fmt: skip
    plural = "" if warm == 1 else "s"
    batch = numbers.count(plan["workload"]["batch_size"])
    seeds = "one seed for all types" if queries.get("shared_seed") else "a seed of its own for each type"
    first = (
        f"{design['blocks']} blocks after {warm} discarded warm-up block{plural}. A block is one round of each "
        f"variant; their order was drawn at random (seed {design['seed']}) before the first round."
    )
    values = (
        "A round is a fresh process on an empty data directory: start, load, settle, queries, stop. It gives one value "
        "of each metric. The tables show medians over rounds; diff % is the Hodges-Lehmann estimate of the ratio "
        "within blocks, which need not be the ratio of the medians."
    )
    load = f"Load: {plan['workload']['workers']} workers, batches of {batch} lines, the same file for every round."
    settled = (
        f"Settle: {settle['mode']}, until nothing was pending or merging; polled every {settle['poll_s']} s, "
        f"{settle['polls']} times quiet in a row."
    )
    queried = (
        f"Queries: {queries['workers']} workers in a closed loop, {asked}; caches {queries['cache']}; {seeds}; "
        "the order of types was drawn for each block."
    )
    said = [first, values, load, settled, queried]
    if counts:
        said.append("Counts: " + ", ".join(f"{name} {numbers.count(n)}" for name, n in counts.items()) + ".")
    return said


def command(run: Run) -> str:
    """Return the command that makes this run again."""
    asked: dict[str, Any] = run.plan.get("asked") or {}
    words = (
        ["make", "import"]
        if run.plan.get("imported")
        else ["make", "tsbs", f"EXPERIMENT={asked.get('experiment', run.plan['name'])}"]
    )
    knobs = asked.get("knobs")
    if knobs is None:
        refs = {v["name"]: str(v["ref"]) for v in run.plan["variants"]}
        knobs = {"BASELINE": refs.get("baseline", ""), "CANDIDATE": refs.get("candidate", "")}
    words += [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in knobs.items() if value
    ]
    return " ".join(shlex.quote(word) for word in words)


def written(run: Run) -> str:
    """Return the experiment as it was written, in YAML; an empty string where the plan does not have it."""
    found = (run.plan.get("asked") or {}).get("written")
    return yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=110) if found else ""


def folded_experiment(run: Run) -> str:
    """Return the experiment as it was written as a block that a reader opens; an empty string as above."""
    experiment = written(run)
    if not experiment:
        return ""
    name = (run.plan.get("asked") or {}).get("experiment") or "the experiment"
    return markup.folded(f"{name} as it was read, before knobs", markup.block(experiment, "yaml"))


def identities(run: Run) -> list[str]:
    """Return what has to be the same when it is done again: the revisions, the data and queries, tsduel and TSBS."""
    if run.plan.get("imported"):
        return imported.identities(run)
    said = []
    for name, label in labels(run).items():
        plan, build = next(v for v in run.plan["variants"] if v["name"] == name), run.json(f"build/{name}.json")
        revision = build.get("revision") or plan.get("revision")
        dirty = f" with local changes {markup.code(str(plan['dirty'])[:16])}" if plan.get("dirty") else ""
        binary = f", binary sha256 {markup.code(str(build['sha256']))}" if build.get("sha256") else ""
        said.append(f"{name}: {markup.text(label)} is {markup.code(str(revision or 'unknown'))}{dirty}{binary}")
    workload = run.json("raw/workload.json")
    sha256 = (workload.get("data") or {}).get("sha256")
    if sha256:
        said.append(f"data: sha256 {markup.code(str(sha256))}")
    commit = " ".join(str(part) for part in run.plan["tsduel"].values() if part)
    return [*said, f"tsduel {markup.text(commit)}"]
