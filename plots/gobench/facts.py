"""What a report of Go benchmarks says in words: the summary with its marks, what was run, what is doubtful."""

import json
import shlex
from typing import Any

import pandas as pd

from plots import facts, markup, numbers, words
from plots.gobench.tables import TITLES, units, value
from plots.tables import Comparison, markdown, wanted_rounds
from tsduel.core.metrics import GEOMEAN
from tsduel.core.rundir import Run
from tsduel.stats import aa
from tsduel.workloads.gobench.tidy import SCOPES

_WORSE, _BETTER = "regression", "improvement"
_WORDS = {"sec/op": ("slower", "faster"), "B/s": ("more", "less")}


def summary(comparison: Comparison) -> list[str]:
    """Return a line a unit: its mark, the geometric mean in words, and which rows moved most."""
    said = []
    for unit in units([comparison]):
        row = comparison.row(unit, GEOMEAN)
        if row is None or row["verdict"] == "shown":
            continue
        up, down = _WORDS.get(unit, ("more", "less"))
        mark = comparison.mark(row).split(" ")[0]
        name = TITLES.get(unit, unit)
        found = f"{words.sentence(row, up, down)}{_sides(row)}{_moved(comparison, unit)}"
        said.append(f"{mark} **{name}** (geometric mean): {found}")
    return said


def _sides(row: dict[str, Any]) -> str:
    sides = (row["baseline_median"], row["candidate_median"])
    return "" if None in sides else f"; {' → '.join(value(side, row['metric']) for side in sides)}"


def _moved(comparison: Comparison, unit: str) -> str:
    rows = [row for row in comparison.rows if row["metric"] == unit and row["query_type"] != GEOMEAN]
    parts = []
    for verdict, word in ((_WORSE, "worse"), (_BETTER, "better")):
        moved = [row for row in rows if row["verdict"] == verdict and row["change_pct"] is not None]
        if moved:
            most = max(moved, key=lambda row: abs(row["change_pct"]))
            change = numbers.change(most["change_pct"])
            parts.append(
                f"{len(moved)} of {len(rows)} rows {word}, most {markup.text(most['query_type'])} ({change} %)"
            )
    return f". {'; '.join(parts)}" if parts else ""


def calibration(run: Run) -> str:
    """Say whether a comparison of a binary with itself has shown what this kind of machine can tell apart."""
    if run.plan.get("aa"):
        return ""
    kept = aa.calibration(run)
    if kept is None:
        return "Uncalibrated: no A/A run of Go benchmarks on this kind of machine is known here (`make gobench AA=1`)."
    what, verdict = (
        kept["gobench"]["package"],
        "passed" if kept["passed"] else f"FAILED ({len(kept['reasons'])} reasons)",
    )
    return f"Calibrated by the A/A run {kept['run']} of {what}, which {verdict}."


def compared(run: Run) -> tuple[list[tuple[str, list[str]]], list[tuple[str, str]]]:
    """Return what differs between variants (name, a value a variant) and what they have in common (name, value)."""
    described = [_variant(run, name) for name in built(run)]
    rows = [(key, [one[key] for one in described]) for key in described[0] if any(one[key] for one in described)]
    differ = [(key, [v or "none" for v in values]) for key, values in rows if len(set(values)) > 1]
    common = [(key, values[0]) for key, values in rows if len(set(values)) == 1]
    host = run.json("raw/host.json")
    cpu = f"{host['cpu_model']}, {host.get('cpus', '?')} CPUs" if host.get("cpu_model") else ""
    wide = [
        ("module", str(run.plan["gobench"]["module"])),
        ("GOMAXPROCS (-cpu)", str(run.json("raw/calibration.json").get("cpu") or "")),
        ("machine", str(run.plan["host"].get("machine") or "")),
        ("CPU", cpu),
        ("memory", numbers.size(host.get("memory_bytes")) if host.get("memory_bytes") else ""),
        ("kernel", str(host.get("kernel") or "")),
        ("system", str(host.get("os") or "")),
        ("tsduel", " ".join(str(part) for part in run.plan["tsduel"].values() if part)),
    ]
    return differ, [*common, *((name, value) for name, value in wide if value)]


def _variant(run: Run, name: str) -> dict[str, str]:
    plan = next(v for v in run.plan["variants"] if v["name"] == name)
    build = run.json(f"build/{name}.json")
    return {
        "version": str(plan.get("version") or plan.get("ref") or ""),
        "source": " ".join(str(plan.get(key) or "") for key in ("source", "repo", "path")).strip(),
        "revision": str(build.get("revision") or plan.get("revision") or ""),
        "local changes (sha256 of the diff)": str(plan.get("dirty") or ""),
        "package": str(plan["package"]),
        "benchmarks": markup.code(plan["bench"]),
        "environment": " ".join(f"{key}={value}" for key, value in (plan.get("env") or {}).items()),
        "Go": str(build.get("go_version") or ""),
        "sha256 of the test binary": str(build.get("sha256") or ""),
    }


def warnings(run: Run, comparisons: list[Comparison]) -> list[str]:
    """Say what makes figures doubtful: toolchains that differ, blocks left out, rows that one side lacks."""
    said = []
    toolchains = {name: str(run.json(f"build/{name}.json").get("go_version") or "?") for name in built(run)}
    if len(set(toolchains.values())) > 1:
        named = ", ".join(f"{name} {version}" for name, version in toolchains.items())
        said.append(f"The toolchains differ ({named}): a difference may be the compiler's and not the module's.")
    for comparison in comparisons:
        said += facts.left_out(comparison)
        baseline, candidate = comparison.labels
        for row in comparison.rows:
            sides = (row["baseline_median"], row["candidate_median"])
            if row["metric"] == "sec/op" and row["query_type"] != GEOMEAN and None in sides and sides != (None, None):
                only = candidate if sides[0] is None else baseline
                name = markup.text(row["query_type"])
                said.append(f"{name} exists in {markup.text(only)} only: it is shown, and not compared.")
            elif row["family"] == "primary":
                where = f"{TITLES[row['metric']]}, geometric mean, {markup.text(candidate)}"
                notes = [note for note in row["warnings"].split("; ") if note.startswith(("order", "without"))]
                said += [f"{where}: {note}." for note in notes]
    return list(dict.fromkeys(said))


def built(run: Run) -> list[str]:
    """Return the names of what was built, baseline first: the variants, also where a pivot compares columns."""
    return sorted((str(variant["name"]) for variant in run.plan["variants"]), key=lambda name: name != "baseline")


def method(run: Run) -> list[str]:
    """Say how it was measured, from the plan."""
    plan, go = run.plan, run.plan["gobench"]
    design, rows = plan["design"], run.json("raw/calibration.json").get("rows") or []
    counts = [int(row["count"]) for row in rows]
    asked = (
        f"{numbers.count(go['count'])} operations each (fixed)"
        if go["count"]
        else f"as many operations as last about {go['seconds']:g} s for the fastest variant, found in the warm-up"
    )
    first = (
        f"{design['blocks']} blocks after a discarded warm-up block. A block is one round of each variant; their order "
        f"was drawn at random (seed {design['seed']}) before the first round."
    )
    once = (
        "A round runs each benchmark once, in a process of its own and in a clean working directory that holds a copy "
        "of the package's testdata and of what `files:` names, nothing else. The order of benchmarks is the same in "
        "all rounds of a block and another one in the next."
    )
    shown = (
        "The tables show medians over rounds; diff % is the Hodges-Lehmann estimate of the ratio within blocks, which "
        "need not be the ratio of the medians. benchstat's table is the unpaired view of the same values."
    )
    flags = f"`-test.count=1 -test.benchmem -test.benchtime=Nx`: {asked}; the same N for all variants."
    said = [first, once, flags, shown]
    if counts:
        least, most = numbers.count(min(counts)), numbers.count(max(counts))
        said.append(f"N is {least} to {most} over {len(rows)} benchmarks; each is in `raw/calibration.json`.")
    said += [f"Taken from names: {_rule(rule)}." for rule in go["rename"]]
    said += [f"Required of each benchmark, above zero: `{rule['metric'] or rule['output']}`." for rule in go["require"]]
    return said


def _rule(rule: dict[str, Any]) -> str:
    return f"element {rule['drop']}" if rule["drop"] else f"{markup.code(rule['match'])} becomes `{rule['to']}`"


def planned_checks(run: Run, checks: pd.DataFrame) -> dict[str, int]:
    """Return how many times each check has to be made in the whole planned run."""
    columns = len(run.variants) if run.plan["gobench"]["pivot"] else 1
    rows = run.json("raw/calibration.json").get("rows") or []
    wanted = wanted_rounds(run, checks)
    measured = [line["variant"] for line in wanted if line["kind"] != "warmup"]
    per_row = sum(variant in row["names"] for variant in measured for row in rows)
    times = {"round_finished": len(wanted) * columns, "bench_exit": per_row, "bench_result": per_row}
    return {**times, "bench_required": per_row * len(run.plan["gobench"]["require"])}


def checks_sentence(run: Run, checks: pd.DataFrame) -> str:
    """Return one sentence for all checks: checked N of M, how many failed."""
    planned, made = sum(planned_checks(run, checks).values()), len(checks)
    failed = int((checks["ok"] != "true").sum())
    text = f"checked {numbers.count(made)} of {numbers.count(planned)}"
    if failed:
        return f"{text}, {failed} FAILED"
    return f"{text}, none failed" + (f", {numbers.count(planned - made)} not made" if made < planned else "")


def checks_table(run: Run, checks: pd.DataFrame) -> str:
    """Return checked N of M and the number of failures, a line a check."""
    rows = []
    for check, planned in planned_checks(run, checks).items():
        mine = checks[checks["check"] == check]
        failed = int((mine["ok"] != "true").sum())
        if planned or len(mine):
            verdict = f"✗ {failed} failed" if failed else "✓" if len(mine) else "✗ never checked"
            rows.append([SCOPES[check][1], f"checked {len(mine)} of {planned}", verdict])
    return markdown(["Check", "How often", ""], rows)


def failures(checks: pd.DataFrame) -> list[str]:
    """Return a sentence for each check that failed, rounds that failed among them."""
    bad = checks[checks["ok"] != "true"].drop_duplicates(["round", "check", "query_type"])
    columns = (bad[name].tolist() for name in ("round", "check", "message"))
    return [f"{round_}: {markup.text(message)} (`{check}`)" for round_, check, message in zip(*columns, strict=True)]


def command(run: Run) -> str:
    """Return the command that makes this run again."""
    asked: dict[str, Any] = run.plan.get("asked") or {}
    words_ = ["make", "gobench"]
    if asked.get("experiment"):
        words_.append(f"EXPERIMENT={asked['experiment']}")
    knobs = asked.get("knobs") or {}
    words_ += [f"{name}={v if isinstance(v, str) else json.dumps(v)}" for name, v in knobs.items() if v]
    return " ".join(shlex.quote(word) for word in words_)
