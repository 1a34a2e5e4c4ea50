"""What a report says of imported logs, where it cannot say how tsduel measured."""

from plots import markup, numbers
from tsduel.core.rundir import Run
from tsduel.importing.logs_to_run import UNKNOWN

STANDING = (
    "**One round each: no verdict.** These are two logs of one run each, imported and not measured here; how much a "
    "difference is worth is not known. `make tsbs` repeats and interleaves the rounds, and gives an answer."
)


def known(run: Run) -> list[tuple[str, str]]:
    """Return what the logs say of both sides, and which logs they were."""
    workload = run.plan["workload"]
    window = f"{workload['start']} to {workload['end']} every {workload['interval']}"
    parts = [workload["use_case"], f"{workload['scale']} hosts", window, f"seed {workload['seed']}"]
    samples = f"{numbers.count(workload['samples'])} samples"
    data = ", ".join([*(part for part in parts if UNKNOWN not in part), samples])
    return [
        ("data", data),
        ("tsduel", " ".join(str(part) for part in run.plan["tsduel"].values() if part)),
    ]


def identities(run: Run) -> list[str]:
    """Return which logs they were, and what has read them."""
    said = [
        f"{name}: a log with sha256 {markup.code(log['sha256'])}" for name, log in run.plan["imported"]["logs"].items()
    ]
    commit = " ".join(str(part) for part in run.plan["tsduel"].values() if part)
    return [*said, f"tsduel {markup.text(commit)}"]


def notes(run: Run) -> list[str]:
    """Return what import found doubtful."""
    return [f"{markup.text(note)}." for note in (run.plan.get("imported") or {}).get("notes", [])]


def method(run: Run) -> list[str]:
    """Say what each figure was taken from."""
    workers = run.plan["queries"]["workers"]
    logs = (
        "Imported from one terminal log a side, of `make tsbs` as in VictoriaMetrics' benchmarks/Makefile. The logs as "
        "they were are in `raw/logs/`."
    )
    load = (
        f"Load: {run.plan['workload']['workers']} workers; rate and time are those of the loader's own summary, the "
        "curve is its CSV."
    )
    process = (
        "CPU, memory and bytes: the process_* lines of /metrics, read once after the load. They are what the server "
        "had counted since its start, not differences over the load."
    )
    queries = (
        f"Queries: {workers} workers in a closed loop; q/s, mean and median service time are those of the summary that "
        "run_queries prints. It prints no other percentiles."
    )
    checks = "Checks: only what a log shows was checked. The others were not made, which says nothing either way."
    return [logs, load, process, queries, checks]
