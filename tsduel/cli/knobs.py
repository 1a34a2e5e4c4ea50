"""The knobs: options of `tsduel`, words of `make`, and variables of the environment. No library is needed.

`python -m tsduel.cli.knobs` checks the names that a `make` was given, also on a fresh clone.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tsduel.core.errors import UserError
from tsduel.core.wording import did_you_mean


class Knob(NamedTuple):
    """One knob; `group`: which commands take it."""

    group: str
    help: str


_Q, _T, _P, _R, _B, _L = "question", "tsbs", "place", "rented", "search", "logs"
KNOBS: Mapping[str, Knob] = {
    "EXPERIMENT": Knob(_Q, "the question: a name or a file in experiments/ (default: local)"),
    "BASELINE": Knob(_Q, "v1.132.0, git:REPO@REF, path:DIRECTORY or binary:FILE"),
    "CANDIDATE": Knob(_Q, "the same for the other side"),
    "VERSIONS": Knob(_Q, 'several in one run, compared with the first: VERSIONS="v1.128.0 v1.129.0 git:REPO@REF"'),
    "ROLE": Knob(_Q, "of an experiment with components: whose revision is given, ROLE=vmagent"),
    "BLOCKS": Knob(_Q, "how many blocks are measured, each with all variants"),
    "AA": Knob(_Q, "1: the baseline against itself, to see what this machine can tell apart"),
    "FAIL_ON": Knob("code", "regression: end with an error if a metric got worse"),
    "MODULE": Knob(_Q, "of Go benchmarks: the module's path, github.com/VictoriaMetrics/VictoriaMetrics"),
    "PACKAGE": Knob(_Q, "their package inside it, ./lib/storage"),
    "BENCH": Knob(_Q, "their pattern, as -bench takes it: '^BenchmarkSearch$/^Data$'"),
    "PROFILE": Knob(_Q, "cpu,heap,block of databases, cpu,mem of Go benchmarks: where in the code the difference is"),
    "SET": Knob(_Q, 'any field of the experiment: SET="workload.scale=4000 queries.workers=4"'),
    "RUN": Knob("run", "go on with this run, or read it: a directory in results/, or latest"),
    "KEPT": Knob("run", "1: go on with the adapters of the run, where this checkout has others by now"),
    "TSBS_SCALE": Knob(_T, "simulated hosts; these six are the knobs of VictoriaMetrics' own benchmarks/Makefile"),
    "TSBS_START": Knob(_T, "begin of the data, 2025-06-10T00:00:00Z"),
    "TSBS_END": Knob(_T, "end of the data"),
    "TSBS_STEP": Knob(_T, "interval between two samples of a series, 80s"),
    "TSBS_QUERIES": Knob(_T, "queries of each type"),
    "TSBS_WORKERS": Knob(_T, "parallel clients of load and queries"),
    "RUNS": Knob("runs", 'for compare-runs: two runs or more, RUNS="latest 20261120T140000Z-local"'),
    "GOOD": Knob(_B, "for bisect: a revision that is as it was before, v1.131.0 or git:REPO@REF"),
    "BAD": Knob(_B, "for bisect: a later one that is bad, or better"),
    "METRIC": Knob(_B, "for trend, bisect, history: load_rate, duel_typical_ms/cpu-max-all-1, cpu, time, load, memory"),
    "QUERIES": Knob("queries", "for queries-check: a file of queries, a log, or rules"),
    "EXHIBIT": Knob("museum", "for museum: exhibits to run, or all"),
    "TYPE": Knob(_B, "for bisect and history: the query type, or the row of Go benchmarks; all of them unless given"),
    "THRESHOLD": Knob(_B, "for bisect and history: from how many percent on it is bad (default: the metric's own)"),
    "MINUTES": Knob("worst", "for worst: how long it may take, 60"),
    "JUDGE": Knob("project", "for make yardstick: quick, gate, one, five, or a command of yours (docs/yardstick.md)"),
    "FOR": Knob("worst", "for worst: worse (default) or better"),
    "SEED": Knob("worst", "for worst: another draw of the loads, 1"),
    "SPACE": Knob("worst", "for worst: a file with what may be changed (default: experiments/worst/space.yml)"),
    "KIND": Knob(_B, "for bisect and history without a file: gobench"),
    "VIEW": Knob("view", "plain: lines in place of a screen; verbose: a line for each phase too"),
    "TARGET": Knob(
        _P, "local (this machine), ssh (another one, which gets missing packages), gcp (a rented one) or k8s (a pod)"
    ),
    "SSH_HOST": Knob(_P, "with TARGET=ssh, the machine: user@host[:port]; several with commas share the blocks"),
    "SPARE_HOSTS": Knob(_P, "machines that take over from one that is lost; with TARGET=gcp, how many of each type"),
    "SSH_CONFIG": Knob(_P, "with TARGET=ssh, an ssh_config file in place of your own"),
    "REMOTE_DIR": Knob(_P, "with TARGET=ssh, our directory there (default: /var/tmp/tsduel-USER)"),
    "GCP_PROJECT": Knob(_P, "with TARGET=gcp, the ID of the project that pays"),
    "HOSTS": Knob(_P, "with TARGET=gcp, how many machines of each type share the blocks, or pods with TARGET=k8s"),
    "SSH_FROM": Knob(_P, "with TARGET=gcp, from where SSH is let in: your public address, or iap"),
    "KUBE_CONTEXT": Knob(_P, "with TARGET=k8s, the context of your kubeconfig (default: the current one)"),
    "NAMESPACE": Knob(_P, "with TARGET=k8s, the namespace of the pods (default: the context's)"),
    "NODE_SELECTOR": Knob(_P, "with TARGET=k8s, labels of nodes: disktype=ssd,zone=a"),
    "STORAGE_CLASS": Knob(_P, "with TARGET=k8s, a claim of this class for the data, in place of the node's disk"),
    "IMAGE": Knob(_P, "with TARGET=k8s, an image with bash, tar and GNU tail (default: debian:12-slim)"),
    "YES": Knob(_R, "1: rent the machine without asking; reap YES=1: delete"),
    "MAX_COST": Knob(_R, "rent nothing that can cost more than this many USD"),
    "KEEP": Knob(_R, "1: keep the rented machine until its deadline, also when the run has failed"),
    "TF": Knob(_R, "terraform or tofu (default: what is on PATH, else OpenTofu is built)"),
    "ON": Knob("on", "for ssh, which machine of several: host2"),
    "BASELINE_LOG": Knob(_L, "for import: the log of the baseline's run; BASELINE= says what to call it"),
    "CANDIDATE_LOG": Knob(_L, "the same for the candidate"),
    "TSBS_LOAD_RESULT_CSV_FILE": Knob(_L, "for tsbs-plot-load: the CSV of a load, or the whole log"),
    "TSBS_LOAD_RESULT_CSV_FILE_COMPARE": Knob(_L, "a second one, drawn beside it"),
    "TSDUEL_CACHE": Knob("cache", "where toolchain, builds, data and databases' files are kept; all can be made again"),
    "CACHE_LIMIT": Knob(_Q, "GB that the cache may take; the longest unused goes first (default: 20; null: no limit)"),
    "DRY": Knob("remove", "1: clean-cache and uninstall only say what they would remove"),
    "FAST": Knob("project", "for make test, 1: in under a minute, what starts no server and makes no report"),
    "TOPIC": Knob("project", "for make help: commands, knobs, experiments, or a command"),
    "PYTHON": Knob("project", "for make, which python3 .venv is made of"),
}


def refuse_unknown(names: Iterable[str]) -> None:
    """Raise for the first name that is no knob, with the nearest one."""
    for name in names:
        if name not in KNOBS:
            hint = did_you_mean(name, KNOBS) or "; `make help TOPIC=knobs` lists them"
            raise UserError(f"{name} is no knob{hint}")


def refuse_stray(words: Sequence[str], goals: Sequence[str]) -> None:
    """Raise for a word beside a target of `make` that is none: a target alone has a sentence of its own."""
    if words and len(goals) > 1:
        raise UserError(
            f"{words[0]!r} is no target, and no knob, which is NAME=VALUE without spaces: "
            f"make {goals[0]} CANDIDATE=v1.134.0 EXPERIMENT=experiments/quick.yml"
        )


if __name__ == "__main__":
    try:
        refuse_unknown(os.environ.get("TSDUEL_GIVEN", "").split())
        refuse_stray(os.environ.get("TSDUEL_STRAY", "").split(), os.environ.get("TSDUEL_GOALS", "").split())
    except UserError as error:
        sys.exit(f"tsduel: {error}")
