"""Write the run directory of Go benchmarks as a real run would leave it: for tests that need no Go.

Every figure is the baseline's times a factor, and the times have a little noise drawn from a seed.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthetic import BLOCK_S, CLOCK, HOST, NOISE, dump

from tsduel.core.plan import VERSION
from tsduel.core.tables import BLOCKS_TSV, COINS

# Unit as Go prints it -> the baseline's value.
UNITS = {"ns/op": 1e5, "B/op": 2048.0, "allocs/op": 100.0}
SECTION = {"module": "example.org/m", "package": "./p", "bench": "."}


@dataclass(frozen=True)
class Spec:
    """Size and shape: `factors` of the units by variant; `only`: rows of one variant alone; `columns` make a pivot.

    `lacking`: row -> (variant, message) of the warm-up; `fixed`: values by (variant, number of the row).
    `turns`: how many short runs of each benchmark a block has; `failed`: block -> (variant, message).
    """

    blocks: int = 6
    rows: tuple[str, ...] = ("Search/Data/100", "Search/Names/100")
    variants: tuple[str, ...] = ("baseline", "candidate")
    units: dict[str, float] = field(default_factory=lambda: UNITS)
    factors: dict[str, dict[str, float]] = field(
        default_factory=lambda: {"candidate": {"ns/op": 0.8, "B/op": 1.1, "allocs/op": 1.0}}
    )
    only: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    go: dict[str, Any] = field(default_factory=dict)
    go_versions: dict[str, str] = field(default_factory=dict)
    output: str = ""
    turns: int = 1
    noise: float = 0.002
    failed: dict[int, tuple[str, str]] = field(default_factory=dict)
    sha256: str = ""
    lacking: dict[str, tuple[str, str]] = field(default_factory=dict)
    fixed: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)


def write_run(path: Path, spec: Spec, **changes: Any) -> Path:
    """Write plan, build and raw below `path`, the run's directory; `changes` are laid over the plan."""
    for part in ("plan", "build", "raw/host1"):
        (path / part).mkdir(parents=True, exist_ok=True)
    dump(path / "plan/experiment.json", _plan(path.name, spec) | changes)
    dump(path / "raw/host1.json", HOST)
    planned = [_planned(row, column, spec) for row in spec.rows for column in spec.columns or ("",)]
    calibration = {"cpu": 8, "rows": planned} | ({"columns": list(spec.columns)} if spec.columns else {})
    dump(path / "raw/host1/calibration.json", calibration)
    for variant in spec.variants:
        version = spec.go_versions.get(variant, "go1.26.8")
        built = {"revision": f"{variant:0<40}", "go_version": version, "sha256": spec.sha256 or f"{variant:0<64}"}
        dump(path / f"build/{variant}.json", {"variant": variant} | built)
    draw = random.Random(1)  # noqa: S311 - the same figures each time, no secret
    lines = ["\t".join(BLOCKS_TSV)]
    for block in range(spec.blocks + 1):
        order = spec.variants if block % 2 else spec.variants[::-1]
        kind = "measured" if block else "warmup"
        lines.append("\t".join([str(block), "host1", kind, *[",".join(order)] * len(COINS), ""]))
        _write_block(path / f"raw/host1/{block:03}", spec, (block, kind, order), planned, draw)
    (path / "plan/blocks.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _plan(run: str, spec: Spec) -> dict[str, Any]:
    pivot = {"pivot": {"rows": [], "column": "batch"}} if spec.columns else {}
    go = SECTION | pivot | spec.go
    variants = [
        {"name": name, "label": f"v1.{i}.0", "target": "go", "package": go["package"], "bench": go["bench"],
         "components": [{"role": "server", "program": "test", "source": "module", "ref": f"v1.{i}.0",
                         "label": f"v1.{i}.0", "version": f"v1.{i}.0", "revision": f"{name:0<40}",
                         "build_key": f"{name:0<16}"}]}
        for i, name in enumerate(spec.variants)
    ]  # fmt: skip
    return {
        "plan_version": VERSION, "run": run, "name": "small", "question": "Which one?", "kind": "gobench",
        "smoke": False, "screen": spec.blocks < 6, "aa": False, "created": "2026-11-20T14:00:00Z",
        "own": {"version": "0.1.0", "commit": "c0ffee"}, "variants": variants, "gobench": go, "noise": NOISE,
        "design": {"blocks": spec.blocks, "spare_blocks": 0}, "host": {"machine": "local"},
        "watchdog": {"idle_s": 60, "silent_s": 900},
        "asked": {"experiment": "", "written": {}, "knobs": {"PACKAGE": "./p", "BENCH": "a b"}},
    }  # fmt: skip


def _planned(row: str, column: str, spec: Spec) -> dict[str, Any]:
    own = f"{row}/batch={column}" if column else row
    named = {variant: f"Benchmark{own}" for variant in spec.variants if spec.only.get(row, variant) == variant}
    cell = {"cell": {"row": row, "column": column}} if column else {}
    return {"row": own, "count": 1000, "parts": spec.turns, "setup_s": 0.01, "names": named, **cell}


def _write_block(
    path: Path, spec: Spec, of: tuple[int, str, tuple[str, ...]], planned: list[dict[str, Any]], draw: random.Random
) -> None:
    block, kind, order = of
    begin, (dead, message) = CLOCK + BLOCK_S * block, spec.failed.get(block, ("", ""))
    phases, checks = [], []
    for variant in order:
        (path / variant).mkdir(parents=True)
        text, index = "", ""
        for row in [row for row in planned if variant in row["names"]] * spec.turns:
            part = _printed(spec, spec.rows.index((row.get("cell") or row)["row"]), row, variant, draw)
            index += f"{row['row']}\t{len(text)}\t{len(text) + len(part)}\n"
            text += part
            phases.append({"variant": variant, "part": "bench", "phase": "bench", "query_type": row["row"],
                           "begin": begin + len(phases), "end": begin + len(phases) + 1, "exit": 0})  # fmt: skip
        (path / variant / "bench.txt").write_text(text, encoding="utf-8")
        (path / variant / "outputs.tsv").write_text(index, encoding="utf-8")
        ok = variant != dead
        checks.append({"check": "block_finished", "variant": variant, "phase": "bench", "query_type": "",
                       "expected": 1, "actual": int(ok), "ok": ok, "message": "" if ok else message})  # fmt: skip
        checks += [
            {"check": check, "variant": variant, "phase": "bench", "query_type": row["row"], "expected": 1,
             "actual": 1, "ok": True, "message": ""}
            for row in planned if ok and variant in row["names"] for check in ("bench_exit", "bench_result")
        ]  # fmt: skip
    checks += [
        {"check": "bench_found", "variant": variant, "phase": "find", "query_type": row, "expected": 1,
         "actual": 0, "ok": False, "message": message}
        for row, (variant, message) in spec.lacking.items() if kind == "warmup"
    ]  # fmt: skip
    failures = [{"variant": dead, "part": "bench", "phase": "bench", "message": message}] if dead else []
    dump(path / "block.json", {
        "schema": 1, "block": block, "host": "host1", "kind": kind, "order": list(order),
        "query_types": [], "status": "failed" if dead else "ok", "failures": failures, "void": "", "started": begin,
        "ended": begin + 60, "phases": phases, "solo": {}, "duel": None, "checks": checks,
    })  # fmt: skip


def _printed(spec: Spec, at: int, row: dict[str, Any], variant: str, draw: random.Random) -> str:
    """Return what the process of one benchmark prints."""
    factors = spec.factors.get(row.get("cell", {}).get("column") or variant, {})
    values = {u: v * factors.get(u, 1.0) * (1 + at) for u, v in spec.units.items()}
    if "ns/op" in values:
        values["ns/op"] *= draw.gauss(1.0, spec.noise)
    values |= spec.fixed.get((variant, at), {})
    printed = "\t".join(f"{value:.6g} {unit}" for unit, value in values.items())
    return f"{spec.output}{row['names'][variant]}-8\t{row['count']}\t{printed}\nPASS\n"
