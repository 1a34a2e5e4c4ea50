"""Making the data file and feeding the loader, against the pipelines of VictoriaMetrics' benchmarks/Makefile."""

import statistics
import subprocess
from pathlib import Path
from typing import Any

from bench.figures import PROJECT, Cost, Figure, alternate, median_ratio, run

TIMES = 5
# make-workload's own function, with nothing around it but what it needs. (make-workload then unpacks and counts what it
# packed, which the other side never does: 0.4 s here.)
OURS = """
RUN_DIR=$1 WORK=$2 TSBS_BIN=$3
. "$4/scripts/lib/common.sh"
. "$4/scripts/lib/workload.sh"
read_plan workload
cd -- "$WORK/empty"
pack_data
"""
THEIRS = """
set -o pipefail
cd -- "$2/empty"
"$3/tsbs_generate_data" "${@:4}" | gzip >"$2/data.gz"
"""
FEED = 'set -o pipefail; cat "$1" | gunzip | "$2/tsbs_load_victoriametrics" "${@:3}"'
# Stands before the loader on the way of scripts/targets/victoriametrics/load, which knows nothing of --do-load.
READ_ONLY = '#!/bin/sh\nexec {} --do-load=false "$@"\n'


def generation(run_dir: Path, plan: dict[str, Any], bin_dir: Path, work: Path) -> list[Figure]:
    """Return the ratio of samples/s and of file sizes. Leaves both files in `work`."""
    load = plan["workload"]
    (work / "empty").mkdir(parents=True, exist_ok=True)
    flags = [
        f"--format={load['format']}", f"--use-case={load['use_case']}", f"--scale={load['scale']}",
        f"--seed={load['seed']}", f"--timestamp-start={load['start']}", f"--timestamp-end={load['end']}",
        f"--log-interval={load['interval']}",
    ]  # fmt: skip
    ours, theirs = alternate(
        TIMES,
        lambda: run(["bash", "-c", OURS, "ours", run_dir, work, bin_dir, PROJECT], cwd=work),
        lambda: run(["bash", "-c", THEIRS, "theirs", run_dir, work, bin_dir, *flags], cwd=work),
    )
    rate = [load["samples"] / statistics.median(c.wall_s for c in side) / 1e6 for side in (ours, theirs)]
    size = [(work / name).stat().st_size for name in ("new", "data.gz")]
    speed = median_ratio([c.wall_s for c in theirs], [c.wall_s for c in ours])
    return [
        Figure("data file: samples/s, over `| gzip`", speed, 4, at_most=False, unit="x",
               detail=f"{rate[0]:.2f} against {rate[1]:.2f} M samples/s, medians of {TIMES}"),
        Figure("data file: bytes, over `| gzip`", size[0] / size[1], 1, at_most=True, unit="x",
               detail=f"{size[0] / 1e6:.1f} against {size[1] / 1e6:.1f} MB"),
    ]  # fmt: skip


def feeding(plan: dict[str, Any], bin_dir: Path, work: Path) -> Figure:
    """Return the ratio of CPU seconds of the client processes; the loader reads and does not send."""
    load = plan["workload"]
    wrapped = work / "bin"
    wrapped.mkdir(exist_ok=True)
    loader = wrapped / "tsbs_load_victoriametrics"
    loader.write_text(READ_ONLY.format(bin_dir / loader.name), encoding="utf-8")
    loader.chmod(0o755)
    data, empty = work / "data.zst", work / "empty"
    (work / "new").replace(data)
    # As make-workload does where the memory allows: once a run, which is left out here (0.4 s for all its rounds).
    lines = work / "feed.lines"
    with lines.open("wb") as stream:
        subprocess.run(["zstd", "-dcq", data], check=True, stdout=stream)
    workers, batch = str(load["workers"]), str(load["batch_size"])
    adapter = PROJECT / "scripts/targets/victoriametrics/load"
    flags = ["--urls=http://127.0.0.1:1/write", f"--workers={workers}", f"--batch-size={batch}", "--do-load=false"]

    def ours() -> Cost:
        env = {"TSBS_BIN": str(wrapped), "DB_PORT": "1"}
        return run([adapter, lines, workers, batch, work / "load.json"], cwd=empty, env=env)

    mine, theirs = alternate(
        TIMES, ours, lambda: run(["bash", "-c", FEED, "feed", work / "data.gz", bin_dir, *flags], cwd=empty)
    )
    each = [statistics.median(c.cpu_s for c in side) / load["samples"] * 1e9 for side in (mine, theirs)]
    ratio = median_ratio([c.cpu_s for c in mine], [c.cpu_s for c in theirs])
    return Figure("feeding the loader: CPU, over `gunzip |`", ratio, 0.5, at_most=True, unit="x",
                  detail=f"{each[0]:.0f} against {each[1]:.0f} ns a sample, medians of {TIMES}")  # fmt: skip
