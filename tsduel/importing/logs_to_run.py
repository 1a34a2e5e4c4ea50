"""Two terminal logs of `make tsbs` -> a run directory with one block and no duel, for the stages after `run`.

What a log does not say is left out of the plan or is "unknown", never made up. The process_* lines are what the
database said once, after the load: totals since its start, put where the kernel's own figures would stand.
"""

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tsduel
from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.plan import Asked, Component, Design, Imported, LogFile, Own, Plan, Variant
from tsduel.core.record import SOLO
from tsduel.core.sections import Host, WorkloadAsked
from tsduel.core.tables import BLOCKS_TSV
from tsduel.importing.logs import Log, read_log
from tsduel.plan.resolve import own_commit, point_latest
from tsduel.targets import databases
from tsduel.workloads.checks import FINISHED
from tsduel.workloads.tsbs import queries as tsbs_queries
from tsduel.workloads.tsbs.series import period

SIDES = {"baseline": ("BASELINE_LOG", "BASELINE"), "candidate": ("CANDIDATE_LOG", "CANDIDATE")}
UNKNOWN = "unknown"
TARGET = "victoriametrics"
_FLAGS = {
    "use_case": "use-case", "start": "timestamp-start", "end": "timestamp-end", "interval": "log-interval",
    "seed": "seed", "scale": "scale",
}  # fmt: skip
# Where a block's snapshots have what the database calls by the names that the Makefile greps.
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
    for side in sides:
        _write_solo(partial / "raw/001" / side.variant, side)
        shutil.copyfile(side.log.path, partial / f"raw/logs/{side.variant}.log")
    made = plan(run_dir.name, sides, list(dict.fromkeys(t for side in sides for t in side.log.queries)))
    assert made.imported is not None  # noqa: S101 - it has just been made
    record = block(sides, made.imported)
    files.write(partial / "raw/001/block.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    row = ("1", "", "host1", "measured", ",".join(record["order"]), ",".join(made.query_types))
    (partial / "plan/blocks.tsv").write_text(f"{chr(9).join(BLOCKS_TSV)}\n{chr(9).join(row)}\n", encoding="utf-8")
    made.write(partial)
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


def _write_solo(path: Path, side: Side) -> None:
    """Write what the solo part of a variant would have left, as far as the log knows it."""
    log = side.log
    (path / "query").mkdir(parents=True)
    (path / "load.csv").write_text(log.text, encoding="utf-8")
    for query_type, text in log.queries.items():
        (path / f"query/{query_type}.stdout").write_text(text, encoding="utf-8")
    body = [f"{_SNAPSHOT[name]} {value!r}" for name, value in log.process.items() if name in _SNAPSHOT]
    # Nothing was read before the load: a counter that is missing there counts from 0, which is the server's start.
    snapshots = [f"# snapshot {side.begin:.3f} edge load begin", f"# snapshot {side.end:.3f} edge load end", *body]
    with gzip.GzipFile(path / "metrics.prom.gz", "wb", mtime=0) as stream:
        stream.write("\n".join([*snapshots, ""]).encode())


def block(sides: Sequence[Side], imported: Imported) -> dict[str, Any]:
    """Return block.json: one block without a duel. What a log cannot show has neither passed nor failed."""
    ordered = sorted(sides, key=lambda side: side.begin)
    loads = [
        {"variant": side.variant, "part": SOLO, "phase": "load", "begin": side.begin, "end": side.end,
         "count": side.log.load.samples}
        for side in ordered if side.clocked
    ]  # fmt: skip
    return {
        "schema": 1, "block": 1, "cell": "", "host": "host1", "kind": "measured",
        "order": [side.variant for side in ordered], "query_types": imported.query_types, "status": "ok",
        "failures": [], "void": "", "started": ordered[0].begin, "ended": max(side.end for side in ordered),
        "phases": loads, "solo": {side.variant: {} for side in ordered}, "duel": None,
        "checks": [check for side in sides for check in _checks(side, imported)],
    }  # fmt: skip


def _checks(side: Side, imported: Imported) -> Iterator[dict[str, Any]]:
    def made(check: str, expected: float, actual: float, wrong: str) -> dict[str, Any]:
        ok = expected == actual
        return {"check": check, "variant": side.variant, "phase": "load", "query_type": "", "expected": expected,
                "actual": actual, "ok": ok, "message": "" if ok else wrong}  # fmt: skip

    yield made(FINISHED, 1, 1, "")
    # The baseline's number of samples, where it is what is expected, is not compared with itself.
    if imported.samples_from == "flags" or side.variant != "baseline":
        sent, wanted = side.log.load.samples or 0, imported.samples
        yield made("samples_sent", wanted, sent, f"the loader sent {sent} samples, and {wanted} were expected")
    if side.log.complaints:
        first, lines = side.log.complaints[0][:200], len(side.log.complaints)
        yield made("load_retries", 0, lines, f"the loader complained on {lines} lines, the first: {first}")


def plan(run: str, sides: Sequence[Side], types: Sequence[str]) -> Plan:
    """Return the plan of a run that nobody planned."""
    first, second = (side.log for side in sides)
    flags = first.flags or second.flags
    asked = samples_asked(flags)
    workers = {line.split(" with ")[1].split()[0] for log in (first, second) for line in log.queries.values()}
    names = {side.variant: SIDES[side.variant] for side in sides}
    return Plan(
        run=run, name="imported", question="", kind="logs", smoke=False, screen=True, aa=False,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        own=Own(version=tsduel.__version__, commit=own_commit()),
        asked=Asked(experiment="", knobs={
            **{names[side.variant][0]: str(side.log.path) for side in sides},
            **{names[side.variant][1]: side.label for side in sides},
        }),
        variants=tuple(
            Variant(name=side.variant, label=side.label, target=TARGET, components=(Component(
                program=UNKNOWN, source="log", ref=side.label, path=str(side.log.path), label=side.label),))
            for side in sides
        ),
        targets={TARGET: databases()[TARGET].target},
        design=Design(blocks=1, warmup_blocks=0, spare_blocks=0),
        host=Host(machine=UNKNOWN),
        imported=Imported(
            logs={side.variant: _about(side.log) for side in sides},
            samples_from="flags" if asked else "baseline",
            notes=(*first.notes, *second.notes, *_unlike(first, second)),
            samples=asked or first.load.samples or 0,
            load_workers=first.load.workers,
            query_workers="+".join(sorted(workers)) or UNKNOWN,
            query_types=tuple(types),
            **{name: flags.get(flag, UNKNOWN) for name, flag in _FLAGS.items()},
        ),
    )  # fmt: skip


def samples_asked(flags: Mapping[str, str]) -> int | None:
    """Return how many samples tsbs_generate_data was asked for, where its flags say it."""
    try:
        asked = WorkloadAsked(
            use_case=flags["use-case"], scale=int(flags["scale"]), interval=flags["log-interval"],
            start=flags["timestamp-start"], end=flags["timestamp-end"],
        )  # fmt: skip
    except (KeyError, ValueError):  # pydantic's own error is one, too
        return None
    return asked.window_s // asked.step_s * asked.scale * tsbs_queries.SAMPLES_PER_LINE[asked.use_case]


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


def _about(log: Log) -> LogFile:
    raw = log.path.read_bytes()
    return LogFile(path=str(log.path), sha256=hashlib.sha256(raw).hexdigest(), bytes=len(raw))
