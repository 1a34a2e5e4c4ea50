"""The museum: exhibits of experiments/museum, each an experiment, a report of users, and our result.

`make tsbs` runs an exhibit, `make bisect` traces it. The result is in results/museum/NAME.json; `keep` copies it to
docs/museum/NAME.json.
"""

import csv
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml
from pydantic import Field

from tsduel.bisect.bisection import HOME as BISECTIONS
from tsduel.bisect.bisection import Bisection
from tsduel.core import children, codes, files
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.sections import Part

EXHIBITS = PROJECT / "experiments/museum/exhibits.yaml"
KEPT = PROJECT / "docs/museum"
HOME = "museum"
ALL = "all"
QUIET = 0.5
"""Load of the machine, a CPU, above which a figure is no figure of a quiet machine."""
LIKELY = 0.5


class Exhibit(Part):
    """An entry of exhibits.yaml; the experiment has the same name."""

    compares: str
    reported: str
    metric: str
    type: str = ""
    expected: str
    bisect: dict[str, str] = Field(default_factory=dict)
    found: str = ""


class Row(Part):
    """A row of a comparison for an exhibit's metric, in percent; `setting` of a study."""

    setting: str = ""
    change_pct: float | None
    lo_pct: float | None
    hi_pct: float | None
    verdict: str


class Shown(Part):
    """The result of an exhibit: its rows, the likeliest commits with their chances, and the minutes of both.

    `minutes`: None if it was interrupted and went on.
    `load`: processes that wanted a CPU just before, a CPU; `runs`: names of the run and the bisection.
    """

    date: str
    machine: str
    load: float
    minutes: float | None
    rows: tuple[Row, ...]
    traced: dict[str, float] = Field(default_factory=dict)
    traced_minutes: float | None = None
    runs: tuple[str, ...]

    @property
    def quiet(self) -> bool:
        """Whether nothing else ran when it began."""
        return self.load < QUIET


class Begun(Part):
    """What `make museum` is at: `stamp` begins the names of its runs, `load` is that before each exhibit began."""

    names: tuple[str, ...]
    stamp: str
    load: dict[str, float] = Field(default_factory=dict)
    done: tuple[str, ...] = ()


def exhibits() -> dict[str, Exhibit]:
    """Return all exhibits by name."""
    written = yaml.safe_load(EXHIBITS.read_text(encoding="utf-8"))
    return {name: Exhibit.model_validate(fields) for name, fields in written.items()}


def shown(name: str, results: Path | None) -> Shown | None:
    """Return the result of the last run in ``results``, or else the kept result; None if it was never run."""
    for path in (*([results / HOME / f"{name}.json"] if results else []), KEPT / f"{name}.json"):
        if path.exists():
            return Shown.model_validate_json(path.read_text(encoding="utf-8"))
    return None


def chosen(names: list[str]) -> list[str]:
    """Return the exhibits of these names, or all; a UserError for a name that there is not."""
    by_name = exhibits()
    for name in names:
        if name not in {*by_name, ALL}:
            raise UserError(f"{name}: no exhibit of the museum; there are {', '.join(by_name)}, or {ALL}")
    return list(by_name) if ALL in names else names


def run(names: Sequence[str], environment: Mapping[str, str], results: Path) -> list[str]:
    """Run exhibits, and return what failed; the same names again go on with what was interrupted, or failed."""
    path, failed = results / HOME / "begun", []
    begun = Begun.model_validate_json(path.read_bytes()) if path.exists() else None
    if begun and begun.names == tuple(names):
        done = f"{len(begun.done)} of {len(names)} exhibits are done"
        sys.stderr.write(f"museum: going on, {done}; to begin anew, remove {path}\n")
    else:
        begun = Begun(names=tuple(names), stamp=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    for name in (name for name in names if name not in begun.done):
        anew = name not in begun.load
        if anew:
            load = round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)
            begun = begun.model_copy(update={"load": {**begun.load, name: load}})
            _store(begun, path)
        try:
            _run(name, environment, results, begun, anew=anew)
        except UserError as error:
            failed.append(f"{name}: {error}")
        else:
            begun = begun.model_copy(update={"done": (*begun.done, name)})
            _store(begun, path)
    if not failed:
        path.unlink(missing_ok=True)
    return failed


def _run(name: str, environment: Mapping[str, str], results: Path, begun: Begun, *, anew: bool) -> None:
    """Run an exhibit, trace it if it has `bisect:`, and store the result; a UserError if it failed."""
    exhibit, path = exhibits()[name], results / HOME / f"{name}.json"
    experiment, run_name = f"EXPERIMENT=experiments/museum/{name}.yml", f"{begun.stamp}-{name}"
    minutes = _typed(environment, "tsbs", f"RUN={run_name}", experiment)
    document = files.read_json(results / run_name / "stats/comparison.json")
    rows = [row for row in document["rows"] if (row["metric"], row["query_type"]) == (exhibit.metric, exhibit.type)]
    if not rows:
        raise UserError(f"{results / run_name}: no row {exhibit.metric} {exhibit.type}, which exhibits.yaml names")
    # Of a study, the runs beside it have the machine.
    host = files.read_json(next(results.glob(f"{run_name}*/raw/host*.json")))
    done = Shown(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        machine=f"{host['cpus']} CPUs, {host['cpu_model']}",
        load=begun.load[name],
        minutes=minutes if anew else None,
        rows=tuple(Row(**{field: row[field] for field in Row.model_fields if field in row}) for row in rows),
        runs=(run_name,),
    )
    # A search that fails, or is killed, keeps what was measured.
    _store(done, path)
    if exhibit.bisect:
        search, role = f"{run_name}-bisect", {"ROLE": exhibit.type} if exhibit.type else {}
        knobs = {"METRIC": exhibit.metric, **role, **exhibit.bisect}
        words = (f"{knob}={value}" for knob, value in knobs.items())
        took = _typed(environment, "bisect", f"RUN={search}", experiment, *words)
        found = {"traced": _traced(results, search), "runs": (run_name, search)}
        _store(done.model_copy(update={**found, "traced_minutes": took if anew else None}), path)


def _store(what: Part, path: Path) -> None:
    files.private_directory(path.parent)
    files.write(path, what.model_dump_json(indent=1) + "\n")


def keep(results: Path) -> list[str]:
    """Copy results of quiet machines to docs/museum, for the page; return a sentence for each exhibit."""
    sentences = []
    for path in sorted((results / HOME).glob("*.json")):
        done = Shown.model_validate_json(path.read_text(encoding="utf-8"))
        if done.quiet:
            files.write(KEPT / path.name, done.model_dump_json(indent=1) + "\n")
        sentences.append(
            f"{path.stem}: {'kept' if done.quiet else f'not kept: {done.load:g} processes a CPU ran beside it'}"
        )
    return sentences


def _typed(environment: Mapping[str, str], command: str, *words: str) -> float:
    """Run a command of tsduel; return its minutes."""
    own = {k: v for k, v in environment.items() if k not in {"RUN", "EXHIBIT"}}
    begin = time.monotonic()
    sys.stdout.flush()
    code = children.call([sys.executable, "-m", "tsduel", command, *words], own)
    if codes.interrupted(code):
        raise KeyboardInterrupt
    if code not in codes.REPORTED:
        raise UserError(f"{command} {' '.join(words)} ended with exit code {code}, see above")
    return round((time.monotonic() - begin) / 60, 1)


def _traced(results: Path, search: str) -> dict[str, float]:
    """Return the commits that are likely steps, with their chances; two commits may have one subject."""
    directory = results / BISECTIONS / search
    named = {each.ref: f"{each.label} {each.subject}".strip() for each in Bisection.load(directory).revisions}
    with (directory / "revisions.csv").open(encoding="utf-8", newline="") as stream:
        chances = {row["ref"]: float(row["chance"] or 0) for row in csv.DictReader(stream)}
    best = max(chances, key=lambda ref: chances[ref])
    return {named[ref]: chance for ref, chance in chances.items() if chance > LIKELY or ref == best}
