"""A/A: one binary as both variants. What it says of the machine is kept, and named by later reports on its kind.

docs/method.md says when it passes; MEASUREMENT.md 1 is where that comes from.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsduel.core.rundir import Run, read_json
from tsduel.stats.power import ALPHA, FEWEST_BLOCKS

GATED = {"primary", "secondary"}


def verdict(document: dict[str, Any]) -> dict[str, Any]:
    """Judge the comparison of a binary with itself: {"passed": bool, "reasons": why not, a sentence each}."""
    rows = [row for row in document["rows"] if row["family"] in GATED]
    reasons = [f"{document['checks']['failed']} checks failed"] if document["checks"]["failed"] else []
    blocks = {name: len(of["valid"]) for name, of in document["blocks"].items()}
    reasons += [
        f"{n} valid blocks, and {FEWEST_BLOCKS} is the fewest that show anything"
        for n in blocks.values()
        if n < FEWEST_BLOCKS
    ]
    reasons += [
        f"{_name(row)}: called different (p {row['p_adj']:.2g}, {row['change_pct']:+.1f} %)"
        for row in rows
        if row["p_adj"] is not None and row["p_adj"] <= ALPHA and row["change_pct"] is not None
    ]
    reasons += [
        f"{_name(row)}: the estimate is {row['change_pct']:+.2f} %, half of its threshold is "
        f"{row['threshold_pct'] / 2:g} %"
        for row in rows
        if row["change_pct"] is not None and abs(row["change_pct"]) >= row["threshold_pct"] / 2
    ]
    reasons += _order_effects(rows)
    return {"passed": not reasons, "reasons": reasons}


def _order_effects(rows: list[dict[str, Any]]) -> list[str]:
    """Find effects of the order within blocks: p adjusted by Holm, since twenty unadjusted tests find one anywhere."""
    tested = sorted((row for row in rows if row["order_effect_p"] is not None), key=lambda row: row["order_effect_p"])
    found, adjusted = [], 0.0
    for rank, row in enumerate(tested):
        adjusted = max(adjusted, min(1.0, row["order_effect_p"] * (len(tested) - rank)))
        size = row["order_effect_pct"]
        if adjusted <= ALPHA or (size is not None and abs(size) > row["threshold_pct"] / 2):
            how = "" if size is None else f" {size:+.1f} % where it ran second"
            found.append(f"{_name(row)}: order effect{how} (p {row['order_effect_p']:.2g}, {adjusted:.2g} for all)")
    return found


def machine_kind(run: Run) -> str:
    """Return the kind of machine that a run was on."""
    return kind_of(run.plan["host"]["machine"], run.json("raw/host.json"))


def kind_of(machine: str, host: Mapping[str, Any]) -> str:
    """Return what two machines must share for the spreads of one to say something about the other, as a file's name.

    ``host`` is what scripts/describe-host says, ``machine`` the experiment's ``host.machine``.
    """
    parts = [
        machine,
        host.get("cpu_model") or "unknown-cpu",
        f"{host.get('cpus') or 0}cpus",
        f"{round((host.get('memory_bytes') or 0) / 2**30)}GiB",
    ]
    return re.sub(r"[^a-z0-9.]+", "-", " ".join(str(part) for part in parts).lower()).strip("-")


def _subject(run: Run) -> dict[str, Any]:
    if run.kind == "gobench":
        return {"gobench": {key: run.plan["gobench"][key] for key in ("module", "package", "bench")}}
    return {"workload": {key: run.plan["workload"][key] for key in ("use_case", "scale", "samples")}}


def keep(run: Run, document: dict[str, Any]) -> None:
    """Write results/aa/MACHINE-KIND.json, replacing what an earlier A/A run of this kind of machine has left."""
    kept = {
        "machine_kind": machine_kind(run),
        "run": run.path.name,
        "created": run.plan.get("created") or "",
        "experiment": run.plan["name"],
        **_subject(run),
        "blocks": {name: len(of["valid"]) for name, of in document["blocks"].items()},
        **document["aa"],
        "spreads": [
            {key: row[key] for key in ("metric", "query_type", "s_d", "mde_pct", "change_pct", "threshold_pct")}
            for row in document["rows"]
            if row["family"] in GATED and row["s_d"] is not None
        ],
    }
    path = _path(run.path.resolve().parent, machine_kind(run), run.kind)
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(kept, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(path)


def calibration(run: Run) -> dict[str, Any] | None:
    """Return what the last A/A run on this kind of machine left, or None: the machine is uncalibrated."""
    return calibration_of(run.path.resolve().parent, machine_kind(run), run.kind)


def calibration_of(results: Path, machine_kind: str, kind: str) -> dict[str, Any] | None:
    """Return the same for a kind of machine and of experiment; ``results`` is the directory of all runs."""
    path = _path(results, machine_kind, kind)
    return read_json(path) if path.exists() else None


def _path(results: Path, machine_kind: str, kind: str) -> Path:
    # What a database's rounds scatter says nothing of Go benchmarks.
    return results / "aa" / f"{machine_kind}{'' if kind == 'tsbs' else f'.{kind}'}.json"


def _name(row: dict[str, Any]) -> str:
    return f"{row['metric']} {row['query_type']}".rstrip()
