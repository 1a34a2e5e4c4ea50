"""Two terminal logs of `make tsbs` -> a run directory as if it had one block, for the stages after `run`.

What a log does not say is left out of the plan or is "unknown", never made up. The process_* lines are what the
database said once, after the load: totals since its start, put where the kernel's own figures would stand.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tsduel
from tsduel.core.errors import UserError
from tsduel.importing.logs import Log, read_log
from tsduel.plan.resolve import own_commit, point_latest
from tsduel.question.experiment import Workload
from tsduel.workloads.tsbs import queries as tsbs_queries
from tsduel.workloads.tsbs.series import period

if TYPE_CHECKING:
    from collections.abc import Mapping

SIDES = {"baseline": ("BASELINE_LOG", "BASELINE"), "candidate": ("CANDIDATE_LOG", "CANDIDATE")}
UNKNOWN = "unknown"
# Where a round's snapshots have what the database calls by the names that the Makefile greps.
_SNAPSHOT = {
    "process_cpu_seconds_user_total": 'tsduel_process_cpu_seconds_total{mode="user"}',
    "process_cpu_seconds_system_total": 'tsduel_process_cpu_seconds_total{mode="system"}',
    "process_resident_memory_bytes": "tsduel_process_resident_memory_bytes",
    "process_resident_memory_peak_bytes": "tsduel_process_resident_memory_peak_bytes",
    "process_io_read_bytes_total": "tsduel_process_io_read_bytes_total",
    "process_io_written_bytes_total": "tsduel_process_io_written_bytes_total",
}


@dataclass(frozen=True)
class Side:
    """One log, what people call its version, and when its load began and ended in epoch seconds.

    A load shorter than a reporting period has no clock; then both are the time of the file, and `clocked` is False.
    """

    variant: str
    label: str
    log: Log
    begin: float
    end: float
    clocked: bool


def main(run_dir: Path, environment: Mapping[str, str]) -> None:
    """Write RUN/raw/ and RUN/plan/ from the logs that the knobs name; nothing where one of them is wrong."""
    if run_dir.exists():
        raise UserError(f"{run_dir} is there already; import makes a run of its own: leave RUN= out")
    paths = {variant: _path(environment, knob) for variant, (knob, _) in SIDES.items()}
    if paths["baseline"].resolve() == paths["candidate"].resolve():
        raise UserError(f"BASELINE_LOG and CANDIDATE_LOG are the same file: {paths['baseline']}")
    sides = [_side(variant, path, environment.get(SIDES[variant][1], "")) for variant, path in paths.items()]
    partial = run_dir.with_name(run_dir.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "raw/logs").mkdir(parents=True)
    (partial / "plan").mkdir()
    ordered = sorted(sides, key=lambda side: side.begin)
    for position, side in enumerate(ordered, start=1):
        _write_round(partial / f"raw/01-{position}-{side.variant}", side, position)
        shutil.copyfile(side.log.path, partial / f"raw/logs/{side.variant}.log")
    types = list(dict.fromkeys(query_type for side in sides for query_type in side.log.queries))
    lines = ["block\tposition\tvariant\tkind\tquery_types"]
    lines += [f"1\t{n}\t{side.variant}\tmeasured\t{','.join(types)}" for n, side in enumerate(ordered, start=1)]
    (partial / "plan/rounds.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _dump(partial / "plan/experiment.json", plan(run_dir.name, sides, types))
    partial.replace(run_dir)
    point_latest(run_dir)
    for side in sides:
        print(f"{side.variant:9} {side.label}: {side.log.load.samples:,} samples, {len(side.log.queries)} query types")


def _path(environment: Mapping[str, str], knob: str) -> Path:
    if not environment.get(knob):
        raise UserError(f"{knob} is not given: make import BASELINE_LOG=a.log CANDIDATE_LOG=b.log")
    return Path(environment[knob]).expanduser()


def _side(variant: str, path: Path, label: str) -> Side:
    log = read_log(path)
    clocks = [interval.clock for interval in log.load.intervals]
    if clocks:
        begin = clocks[0] - period(log.load.intervals)
        return Side(variant, label.strip() or path.stem, log, begin, begin + (log.load.seconds or 0.0), clocked=True)
    written = path.stat().st_mtime
    return Side(variant, label.strip() or path.stem, log, written, written, clocked=False)


def _write_round(path: Path, side: Side, position: int) -> None:
    """Write what a round would have left, as far as the log knows it."""
    log = side.log
    (path / "query").mkdir(parents=True)
    (path / "load.csv").write_text(log.text, encoding="utf-8")
    if log.complaints:
        (path / "load.stderr").write_text("\n".join(log.complaints) + "\n", encoding="utf-8")
    for query_type, text in log.queries.items():
        (path / f"query/{query_type}.stdout").write_text(text, encoding="utf-8")
    body = [f"{_SNAPSHOT[name]} {value!r}" for name, value in log.process.items() if name in _SNAPSHOT]
    # Nothing was read before the load: a counter that is missing there counts from 0, which is the server's start.
    snapshots = [f"# snapshot {side.begin:.3f} edge load begin", f"# snapshot {side.end:.3f} edge load end", *body]
    with gzip.GzipFile(path / "metrics.prom.gz", "wb", mtime=0) as stream:
        stream.write("\n".join([*snapshots, ""]).encode())
    load = {"phase": "load", "query_type": "", "begin": side.begin, "end": side.end, "count": log.load.samples}
    _dump(path / "round.json", {
        "block": 1, "position": position, "variant": side.variant, "kind": "measured", "status": "ok", "failure": None,
        "started": side.begin, "ended": side.end, "phases": [load] if side.clocked else [], "sizes": {},
    })  # fmt: skip


def plan(run: str, sides: list[Side], types: list[str]) -> dict[str, Any]:
    """Return a plan/experiment.json; `imported` marks it, and has what is not in a plan otherwise."""
    first, second = (side.log for side in sides)
    flags = first.flags or second.flags
    expected = samples_asked(flags)
    workers = {line.split(" with ")[1].split()[0] for log in (first, second) for line in log.queries.values()}
    known = {name: flags.get(flag, UNKNOWN) for name, flag in (
        ("use_case", "use-case"), ("start", "timestamp-start"), ("end", "timestamp-end"), ("interval", "log-interval"),
        ("seed", "seed"), ("scale", "scale"),
    )}  # fmt: skip
    return {
        "schema": 1, "run": run, "name": "imported", "question": "", "kind": "tsbs",
        "smoke": False, "screen": True, "aa": False,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "imported": {
            "logs": {side.variant: _about(side.log) for side in sides},
            "samples_from": "flags" if expected else "baseline",
            "notes": [*first.notes, *second.notes, *_unlike(first, second)],
        },
        "tsduel": {"version": tsduel.__version__, "commit": own_commit()},
        "tsbs": {"version": ""},
        "variants": [
            {"name": side.variant, "target": "victoriametrics", "source": "log", "ref": side.label,
             "repo": str(side.log.path), "path": "", "flags": [], "env": {}, "go": "", "label": side.label,
             "revision": "", "version": "", "sum": "", "dirty": "", "build_key": ""}
            for side in sides
        ],
        "workload": {**known, "workers": first.load.workers, "samples": expected or first.load.samples, "data_key": ""},
        "queries": {"types": [{"name": t} for t in types], "workers": "+".join(sorted(workers)) or UNKNOWN,
                    "count": None, "responses": 0},
        "design": {"blocks": 1, "warmup_blocks": 0, "seed": 1, "thresholds": {}},
        "host": {"machine": UNKNOWN},
        "asked": {"experiment": "", "knobs": {
            **{SIDES[side.variant][0]: str(side.log.path) for side in sides},
            **{SIDES[side.variant][1]: side.label for side in sides},
        }},
    }  # fmt: skip


def samples_asked(flags: Mapping[str, str]) -> int | None:
    """Return how many samples tsbs_generate_data was asked for, where its flags say it."""
    try:
        asked = Workload(
            use_case=flags["use-case"], scale=int(flags["scale"]), interval=flags["log-interval"],
            start=flags["timestamp-start"], end=flags["timestamp-end"],
        )  # fmt: skip
    except (KeyError, ValueError):  # pydantic's own error is one, too
        return None
    return asked.window_s // asked.interval_s * asked.scale * tsbs_queries.SAMPLES_PER_LINE[asked.use_case]


def _unlike(first: Log, second: Log) -> list[str]:
    """Say in which way the two were not asked for the same."""
    notes = [
        f"--{flag} differs: {first.flags[flag]} and {second.flags[flag]}"
        for flag in first.flags
        if flag in second.flags and first.flags[flag] != second.flags[flag]
    ]
    if first.load.workers != second.load.workers:
        notes.append(f"the loads had {first.load.workers} and {second.load.workers} workers")
    for query_type, text in first.queries.items():
        heads = [found.split(" (")[0] for found in (text, second.queries.get(query_type, text))]
        if heads[0] != heads[1]:
            notes.append(f"{query_type} is not the same on both sides: '{heads[0]}' and '{heads[1]}'")
    return notes


def _about(log: Log) -> dict[str, Any]:
    raw = log.path.read_bytes()
    return {"path": str(log.path), "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
