"""Write the run directory of Go benchmarks as a real run would leave it: for tests that need no Go.

Every figure is the baseline's times a factor, and the times have a little noise drawn from a seed.
"""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthetic import HOST

from tsduel.workloads import kinds

CLOCK = 1_795_184_000.0
# Unit as Go prints it -> the baseline's value.
UNITS = {"ns/op": 1e5, "B/op": 2048.0, "allocs/op": 100.0}


@dataclass(frozen=True)
class Spec:
    """Size and shape: `factors` of the units by variant; `only`: rows of one variant alone; `columns` make a pivot."""

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


def write_run(path: Path, spec: Spec, **changes: Any) -> Path:
    """Write plan, build and raw below `path`, the run's directory; `changes` are laid over the plan."""
    for part in ("plan", "build", "raw"):
        (path / part).mkdir(parents=True, exist_ok=True)
    _dump(path / "plan/experiment.json", _plan(path.name, spec) | changes)
    _dump(path / "raw/host.json", HOST)
    planned = [_planned(row, column, spec) for row in spec.rows for column in spec.columns or ("",)]
    calibration = {"cpu": 8, "rows": planned} | ({"columns": list(spec.columns)} if spec.columns else {})
    _dump(path / "raw/calibration.json", calibration)
    for variant in spec.variants:
        version = spec.go_versions.get(variant, "go1.26.8")
        built = {"revision": f"{variant:0<40}", "go_version": version, "sha256": f"{variant:0<64}"}
        _dump(path / f"build/{variant}.json", {"variant": variant} | built)
    draw = random.Random(1)  # noqa: S311 - the same figures each time, no secret
    lines = ["block\tposition\tvariant\tkind\tquery_types"]
    for block in range(spec.blocks + 1):
        order = spec.variants if block % 2 else spec.variants[::-1]
        for position, variant in enumerate(order, start=1):
            lines.append(f"{block}\t{position}\t{variant}\t{'measured' if block else 'warmup'}\t")
            rows = [row for row in planned if variant in row["names"]]
            _write_round(path / f"raw/{block:02}-{position}-{variant}", spec, rows, draw)
    (path / "plan/rounds.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _plan(run: str, spec: Spec) -> dict[str, Any]:
    sides = {name: {"ref": f"v1.{i}.0"} for i, name in enumerate(spec.variants)}
    pivot = {"pivot": {"column": "batch"}} if spec.columns else {}
    written = {"name": "small", "kind": "gobench", "question": "Which one?", "variants": sides,
               "gobench": {"module": "example.org/m", "package": "./p", **pivot, **spec.go},
               "design": {"blocks": spec.blocks}}  # fmt: skip
    asked = kinds.validate(written, "test")
    variants = [
        {"name": name, **variant.model_dump(), **kinds.variant_part(asked, variant), "label": variant.ref,
         "version": variant.ref, "revision": f"{name:0<40}", "dirty": ""}
        for name, variant in asked.variants.items()
    ]  # fmt: skip
    parts = {part: getattr(asked, part).model_dump() for part in ("gobench", "design", "noise", "host")}
    return {
        "schema": 1, "run": run, "name": asked.name, "question": asked.question, "kind": "gobench", "smoke": False,
        "screen": spec.blocks < 6, "aa": False, "created": "2026-11-20T14:00:00Z",
        "tsduel": {"version": "0.1.0", "commit": "c0ffee"}, "variants": variants, **parts,
        "asked": {"experiment": "", "written": written, "knobs": {"PACKAGE": "./p", "BENCH": "a b"}},
    }  # fmt: skip


def _planned(row: str, column: str, spec: Spec) -> dict[str, Any]:
    own = f"{row}/batch={column}" if column else row
    named = {variant: f"Benchmark{own}" for variant in spec.variants if spec.only.get(row, variant) == variant}
    cell = {"cell": {"row": row, "column": column}} if column else {}
    return {"row": own, "count": 1000, "names": named, **cell}


def _write_round(path: Path, spec: Spec, rows: list[dict[str, Any]], draw: random.Random) -> None:
    number, position, variant = path.name.split("-", 2)
    begin = CLOCK + 1000 * int(number) + 100 * int(position)
    path.mkdir()
    text, index, phases = "", "", []
    for i, row in enumerate(rows):
        factors = spec.factors.get(row.get("cell", {}).get("column") or variant, {})
        values = {u: v * factors.get(u, 1.0) * (1 + i) for u, v in spec.units.items()}
        if "ns/op" in values:
            values["ns/op"] *= draw.gauss(1.0, 0.002)
        printed = "\t".join(f"{value:.6g} {unit}" for unit, value in values.items())
        part = f"{spec.output}{row['names'][variant]}-8\t{row['count']}\t{printed}\nPASS\n"
        index += f"{row['row']}\t{len(text)}\t{len(text) + len(part)}\n"
        text += part
        phases.append({"phase": "bench", "query_type": row["row"], "begin": begin + i, "end": begin + i + 1, "exit": 0})
    (path / "bench.txt").write_text(text, encoding="utf-8")
    (path / "outputs.tsv").write_text(index, encoding="utf-8")
    _dump(path / "round.json", {
        "block": int(number), "position": int(position), "variant": variant,
        "kind": "measured" if int(number) else "warmup", "status": "ok", "failure": None, "started": begin,
        "ended": begin + 60, "server_pid": 0, "server_pid_end": 0, "phases": phases, "sizes": {},
    })  # fmt: skip


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
