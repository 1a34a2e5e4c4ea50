"""What is in a run directory: the plan, the builds and the rounds, as records. See results/README.md for the layout."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError

_ROUND_NAME = re.compile(r"^\d+-\d+-.+$")


@dataclass(frozen=True)
class Phase:
    """One phase of a round as the round clocked it: epoch seconds, exit code and CPU seconds of its client."""

    phase: str
    query_type: str
    begin: float
    end: float
    exit: int
    client_cpu_s: float | None
    count: int
    attempts: int

    @property
    def seconds(self) -> float:
        """Wall seconds."""
        return self.end - self.begin


@dataclass(frozen=True)
class Round:
    """One round: a directory BB-P-VARIANT below raw/."""

    path: Path
    block: int
    position: int
    variant: str
    kind: str
    status: str
    failure: dict[str, str] | None
    started: float
    ended: float
    server_pid: int | None
    server_pid_end: int | None
    phases: tuple[Phase, ...]
    sizes: dict[str, float]

    @property
    def name(self) -> str:
        """The name of the round, which is that of its directory."""
        return self.path.name

    @property
    def ok(self) -> bool:
        """Whether the round came to its end."""
        return self.status == "ok"

    def phase(self, name: str, query_type: str = "") -> Phase | None:
        """Return a phase, its last attempt when it was started again."""
        found = [p for p in self.phases if p.phase == name and p.query_type == query_type]
        return found[-1] if found else None


@dataclass(frozen=True)
class Run:
    """A run directory and its plan (plan/experiment.json as it is)."""

    path: Path
    plan: dict[str, Any]

    @property
    def kind(self) -> str:
        """What a round does: tsbs, or gobench."""
        return str(self.plan.get("kind") or "tsbs")

    @property
    def variants(self) -> list[str]:
        """Names of the variants, baseline first; of a pivoted run its columns, which are compared in their place."""
        columns = self.json("raw/calibration.json").get("columns")
        if columns:
            return [str(column) for column in columns]
        names = [str(variant["name"]) for variant in self.plan["variants"]]
        return sorted(names, key=lambda name: name != "baseline")

    @property
    def query_types(self) -> list[str]:
        """Names of the query types in the order of the experiment; of Go benchmarks the rows that were found."""
        if self.kind == "gobench":
            rows = self.json("raw/calibration.json").get("rows") or []
            return list(dict.fromkeys(str((row.get("cell") or row)["row"]) for row in rows))
        return [str(entry["name"]) for entry in self.plan["queries"]["types"]]

    def target_of(self, variant: str) -> str:
        """Name of the database that a variant is a version of."""
        return next(str(v["target"]) for v in self.plan["variants"] if v["name"] == variant)

    @cached_property
    def rounds(self) -> list[Round]:
        """Every finished round, ok or failed, in order of execution; a .partial one is none yet."""
        found = [
            read_round(path)
            for path in sorted(self.path.glob("raw/*/round.json"))
            if _ROUND_NAME.match(path.parent.name) and not path.parent.name.endswith(".partial")
        ]
        return sorted(found, key=lambda r: (r.started, r.block, r.position))

    @cached_property
    def planned(self) -> list[dict[str, str]]:
        """The lines of plan/rounds.tsv."""
        path = self.path / "plan/rounds.tsv"
        lines = _read(path).splitlines()
        header = lines[0].split("\t") if lines else []
        return [dict(zip(header, line.split("\t"), strict=False)) for line in lines[1:] if line]

    def json(self, name: str) -> dict[str, Any]:
        """Read a JSON file below the run directory; an empty dictionary where there is none."""
        path = self.path / name
        return read_json(path) if path.exists() else {}


def open_run(path: Path) -> Run:
    """Open a run directory; the plan must be there."""
    plan = path / "plan/experiment.json"
    if not plan.exists():
        raise UserError(f"{path} is not a run directory: it has no plan/experiment.json. `ls results` shows the runs")
    return Run(path, read_json(plan))


def lost_latest(link: Path) -> str:
    """Return a sentence if results/latest leads to a run that somebody has removed; else an empty string."""
    if not link.is_symlink() or link.exists():
        return ""
    gone = str(link.readlink())
    return f"{link} leads to {gone!r}, which is not there any more; name a run that is: RUN=NAME (make list)"


def refuse_imported(run_dir: Path, plan: dict[str, Any]) -> None:
    """Raise where a run was made of logs: its rounds are over, and nobody knows on which machine."""
    if plan.get("imported"):
        raise UserError(f"{run_dir} was imported from logs: there is nothing to build or to run in it")


def read_round(path: Path) -> Round:
    """Read a round.json."""
    raw = read_json(path)
    try:
        return Round(
            path=path.parent,
            block=int(raw["block"]),
            position=int(raw["position"]),
            variant=str(raw["variant"]),
            kind=str(raw["kind"]),
            status=str(raw["status"]),
            failure=raw.get("failure"),
            started=float(raw["started"]),
            ended=float(raw["ended"]),
            server_pid=raw.get("server_pid"),
            server_pid_end=raw.get("server_pid_end"),
            phases=tuple(_phase(p) for p in raw.get("phases", [])),
            sizes={name: float(value) for name, value in (raw.get("sizes") or {}).items() if value is not None},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: {error!r} is missing or wrong in this round's record") from None


def _phase(raw: dict[str, Any]) -> Phase:
    user, system = raw.get("client_user_s"), raw.get("client_system_s")
    return Phase(
        phase=str(raw["phase"]),
        query_type=str(raw.get("query_type") or ""),
        begin=float(raw["begin"]),
        end=float(raw["end"]),
        exit=int(raw.get("exit", 0)),
        client_cpu_s=None if user is None or system is None else float(user) + float(system),
        count=int(raw.get("count") or 0),
        attempts=int(raw.get("attempts") or 1),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} is missing: the stage that writes it has not run") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or say where it is none."""
    try:
        found = json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON: {error.msg} (the file may be cut short)") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: a JSON object is expected here")
    return found
