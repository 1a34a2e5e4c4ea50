"""Raw rounds -> rows of checks.csv, which say whether all was stored, answered, and the same from every variant.

A check that could not be made (a file or a counter is missing) is a failed check with an empty `actual`, never a
missing row. The names that databases give their counters are in counters.py.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.rundir import Phase, Round
from tsduel.targets.counters import Counter
from tsduel.tidy.exposition import difference, edge
from tsduel.workloads.tsbs.measure import RawRound
from tsduel.workloads.tsbs.responses import Summary, first_difference

# What there is to check, in the order of a report: how often in a run, and a title for people.
SCOPES = {
    "round_finished": ("round", "the round came to its end"),
    "samples_sent": ("round", "samples sent = samples in the data file"),
    "samples_inserted": ("round", "samples accepted by the database = samples in the data file"),
    "samples_stored": ("round", "samples stored by the database = samples in the data file"),
    "samples_ignored": ("round", "no sample ignored"),
    "samples_invalid": ("round", "no sample invalid"),
    "load_exit": ("round", "the loader exited with 0"),
    "load_retries": ("round", "the loader retried nothing"),
    "responses_answered": ("answers", "every query of the sample was answered with success"),
    "responses_empty": ("answers", "no answer of the sample is empty"),
    "responses_same": ("pairs", "the same series and values as from the first variant"),
    "query_exit": ("type", "the query client exited with 0"),
    "queries_answered": ("type", "queries answered = queries asked for"),
    "rows_read": ("type", "the database read rows for the queries"),
    "server_log": ("round", "no panic and no fatal error in the server's log"),
    "same_process": ("round", "the same server process from start to stop"),
}


@dataclass(frozen=True)
class Check:
    """One line of checks.csv, but for what it shares with all of its round; `message` is a sentence where not ok."""

    check: str
    phase: str
    query_type: str
    expected: str
    actual: str
    ok: bool
    message: str = ""


@dataclass(frozen=True)
class Answers:
    """What is known of the responses files of a round: a summary by query type, or why there is none."""

    path: Path
    summaries: Mapping[str, Summary] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def _equal(
    check: str, phase: str, query_type: str, expected: float, actual: float | None, *, wrong: str, missing: str
) -> Check:
    if actual is None:
        return Check(
            check, phase, query_type, f"{expected:.0f}", "", ok=False, message=f"could not be checked: {missing}"
        )
    ok = actual == expected
    return Check(check, phase, query_type, f"{expected:.0f}", f"{actual:.0f}", ok=ok, message="" if ok else wrong)


def check_round(raw: RawRound, plan: dict[str, Any], answers: Answers) -> list[Check]:
    """Check one round by itself. A failed round gets one row, which says what failed: nothing after it was done."""
    if not raw.round.ok:
        failure = raw.round.failure or {}
        message = failure.get("message") or "the round failed and its record does not say why"
        return [
            Check("round_finished", failure.get("phase", ""), "", "ok", raw.round.status, ok=False, message=message)
        ]
    types = [str(entry["name"]) for entry in plan["queries"]["types"]]
    found = [Check("round_finished", "", "", "ok", "ok", ok=True), *_load(raw, float(plan["workload"]["samples"]))]
    for query_type in types:
        found += _answers(answers, query_type, int(plan["queries"].get("responses") or 0))
    for query_type in types:
        found += _queries(raw, query_type)
    found += [_log(raw), _process(raw.round)]
    return [check for check in found if _in_a_log(check, raw.round, plan)] if plan.get("imported") else found


def _in_a_log(check: Check, found: Round, plan: dict[str, Any]) -> bool:
    """Say whether an imported log could show it: what it cannot show has neither passed nor failed."""
    # `tee` hides the exit codes. What is compared with the baseline's number of samples is not that number itself.
    own = found.variant == "baseline" and plan["imported"]["samples_from"] == "baseline"
    unknown = {"load_exit", "query_exit", *(["samples_sent"] if own else [])}
    return bool(check.actual) and check.check not in unknown


def _exit(phase: Phase | None, check: str, name: str, query_type: str = "") -> Check:
    code = None if phase is None else phase.exit
    what = f"the client of phase {name}{' ' + query_type if query_type else ''}"
    return _equal(
        check, name, query_type, 0, code, wrong=f"{what} exited with {code}", missing="the round has no such phase"
    )


def _load(raw: RawRound, planned: float) -> Iterator[Check]:
    yield _exit(raw.round.phase("load"), "load_exit", "load")
    sent = raw.load.samples if raw.load else None
    yield _equal(
        "samples_sent", "load", "", planned, sent,
        wrong=f"the loader sent {sent} samples, and {planned:.0f} were expected",
        missing=raw.problems.get("load.csv", "the loader printed no summary: it did not finish"),
    )  # fmt: skip
    for check, counter, what in (
        ("samples_inserted", raw.target.inserted, "accepted"),
        ("samples_stored", raw.target.stored, "stored"),
    ):
        grown = _over_load(raw, counter)
        lost = f"the database {what} {grown or 0:.0f} samples of {planned:.0f} ({counter.name}): {_gap(planned, grown)}"
        yield _equal(check, "load", "", planned, grown, wrong=lost, missing=_no_counter(raw, counter))
    for check, counter in (("samples_ignored", raw.target.ignored), ("samples_invalid", raw.target.invalid)):
        grown = _over_load(raw, counter)
        why = f"{grown or 0:.0f} samples were thrown away ({counter.name}), see server.log"
        yield _equal(check, "load", "", 0, grown, wrong=why, missing=_no_counter(raw, counter))
    yield _retries(raw.round.path / "load.stderr")


def _gap(planned: float, grown: float | None) -> str:
    missing = planned - (grown or 0)
    return f"{missing:.0f} are missing" if missing > 0 else f"{-missing:.0f} too many"


def _over_load(raw: RawRound, counter: Counter) -> float | None:
    """Growth from before the load to after the drain: /metrics may be a second old right after the load."""
    begin = edge(raw.snapshots, "load", "begin")
    ends = (("settle", "end"), ("stop", "begin"), ("load", "end"))
    end = next((found for phase, which in ends if (found := edge(raw.snapshots, phase, which))), None)
    if begin is None or end is None:
        return None
    return difference(begin, end, counter)


def _no_counter(raw: RawRound, counter: Counter) -> str:
    return raw.problems.get("metrics.prom.gz", f"{counter.name} is not in the snapshots around the load")


def _retries(path: Path) -> Check:
    if not path.exists():
        return _equal("load_retries", "load", "", 0, None, wrong="", missing=f"{path.name} is missing")
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    first = lines[0][:200] if lines else ""
    wrong = f"the loader complained on {len(lines)} lines of stderr, the first: {first}"
    return _equal("load_retries", "load", "", 0, len(lines), wrong=wrong, missing="")


def _answers(answers: Answers, query_type: str, asked: int) -> Iterator[Check]:
    if asked == 0:
        return
    summary = answers.summaries.get(query_type)
    missing = answers.problems.get(query_type, f"{query_type}.gz is missing")
    count = summary.answers if summary else None
    empty = summary.empty if summary and summary.answers else None
    yield _equal(
        "responses_answered", "responses", query_type, asked, count,
        wrong=f"{count} of {asked} sample queries of {query_type} were answered with success", missing=missing,
    )  # fmt: skip
    yield _equal(
        "responses_empty", "responses", query_type, 0, empty,
        wrong=f"{empty} of {count} answers to {query_type} hold no data",
        missing=missing if summary is None else "nothing was answered",
    )  # fmt: skip


def _queries(raw: RawRound, query_type: str) -> Iterator[Check]:
    phase = raw.round.phase("query", query_type)
    yield _exit(phase, "query_exit", "query", query_type)
    output = raw.queries.get(query_type)
    asked, answered = (phase.count if phase else 0), (output.count if output else None)
    if asked == 0:
        answered = None  # 0 of 0 is no proof of anything
    yield _equal(
        "queries_answered", "query", query_type, asked, answered,
        wrong=f"{answered} of {asked} queries of {query_type} were answered",
        missing=raw.problems.get(f"query/{query_type}.stdout", "no query was asked for"),
    )  # fmt: skip
    edges = (("query", "begin", query_type), ("query", "end", query_type))
    rows = raw.moved(raw.target.rows_read, *edges)
    name = raw.target.rows_read.name
    if rows is None:
        missing = raw.problems.get("metrics.prom.gz", f"{name} is not in the snapshots around the queries")
        yield Check("rows_read", "query", query_type, ">0", "", ok=False, message=f"could not be checked: {missing}")
    else:
        wrong = f"the queries of {query_type} read no data: {name} did not move"
        yield Check(
            "rows_read", "query", query_type, ">0", f"{rows:.0f}", ok=rows > 0, message="" if rows > 0 else wrong
        )


def _log(raw: RawRound) -> Check:
    path, pattern = raw.round.path / "server.log", re.compile(raw.target.panic)
    if not path.exists():
        return _equal("server_log", "", "", 0, None, wrong="", missing="server.log is missing")
    with path.open(encoding="utf-8", errors="replace") as stream:
        bad = [line.strip() for line in stream if pattern.search(line)]
    first = bad[0][:300] if bad else ""
    return _equal(
        "server_log", "", "", 0, len(bad), wrong=f"the server's log has a panic or a fatal error: {first}", missing=""
    )


def _process(found: Round) -> Check:
    begin, end = found.server_pid, found.server_pid_end
    return _equal(
        "same_process", "", "", begin or 0, end if begin else None,
        wrong=f"the server was process {begin} at the start and {end} at the end: it was restarted",
        missing="the round recorded no process id",
    )  # fmt: skip


def same_answers(ours: Answers, first: Answers, query_types: list[str], names: tuple[str, str]) -> Iterator[Check]:
    """Compare the answers of a round with those of the first variant (`names`: ours, first) in the same block."""
    for query_type in query_types:
        a, b = first.summaries.get(query_type), ours.summaries.get(query_type)
        if a is None or b is None:
            why = first.problems.get(query_type) or ours.problems.get(query_type) or f"{query_type}.gz is missing"
            yield Check(
                "responses_same", "responses", query_type, "same", "", ok=False, message=f"could not be checked: {why}"
            )
            continue
        if a.answers == 0 or b.answers == 0:
            why = "could not be checked: a file of answers holds none"
            yield Check("responses_same", "responses", query_type, "same", "", ok=False, message=why)
            continue
        try:
            found = None if a.digest == b.digest else _difference(first.path, ours.path, query_type)
        except UserError as error:
            found = str(error)
        message = f"{names[1]} and {names[0]} answer {query_type} differently: {found}" if found else ""
        yield Check(
            "responses_same",
            "responses",
            query_type,
            "same",
            "differ" if found else "same",
            ok=not found,
            message=message,
        )


def _difference(first: Path, ours: Path, query_type: str) -> str | None:
    return first_difference(first / f"{query_type}.gz", ours / f"{query_type}.gz")
