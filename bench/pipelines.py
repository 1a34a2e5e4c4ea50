"""Making the data file and feeding the loader, against the pipelines of VictoriaMetrics' benchmarks/Makefile."""

import statistics
from pathlib import Path
from typing import Any

from bench.figures import PROJECT, Cost, Figure, alternate, at_least, at_most, compiled, median_ratio, run

TIMES = 5
THEIRS = """
set -o pipefail
cd -- "$2/empty"
"$3/tsbs_generate_data" "${@:4}" | gzip >"$2/data.gz"
"""
FEED = 'set -o pipefail; cat "$1" | gunzip | "$2/tsbs_load_victoriametrics" "${@:3}"'
# Called by scripts/targets/victoriametrics/load in place of the loader, since it cannot pass --do-load.
READ_ONLY = '#!/bin/sh\nexec {} --do-load=false "$@"\n'


def generation(run_dir: Path, plan: dict[str, Any], bin_dir: Path, work: Path) -> list[Figure]:
    """Return the ratios of samples/s and of file sizes. Both files stay in `work`, and ours unpacked."""
    load = plan["workload"]
    (work / "empty").mkdir(parents=True, exist_ok=True)
    flags = [
        f"--format={load['data'][0]['format']}", f"--use-case={load['use_case']}", f"--scale={load['scale']}",
        f"--seed={load['seed']}", f"--timestamp-start={load['start']}", f"--timestamp-end={load['end']}",
        f"--log-interval={load['interval']}",
    ]  # fmt: skip
    ours_alone = [*compiled("workload", work), "-test.benchtime=1x", "-test.bench=^BenchmarkData$"]
    ours, theirs = alternate(
        TIMES,
        lambda: run(ours_alone, cwd=work, env={"RUN_DIR": str(run_dir), "WORK": str(work)}),
        lambda: run(["bash", "-c", THEIRS, "theirs", run_dir, work, bin_dir, *flags], cwd=work),
    )
    rate = [load["samples"] / statistics.median(c.wall_s for c in side) / 1e6 for side in (ours, theirs)]
    size = [(work / name).stat().st_size for name in ("data.zst", "data.gz")]
    # The driver unpacks once a run, where memory allows; that time is not counted.
    run(["zstd", "-qdf", work / "data.zst", "-o", work / "feed.lines"], cwd=work)
    speed = median_ratio([c.wall_s for c in theirs], [c.wall_s for c in ours])
    return [
        at_least("data file: samples/s, over `| gzip`", speed, 4, "x",
                 f"{rate[0]:.2f} against {rate[1]:.2f} M samples/s, medians of {TIMES}"),
        at_most("data file: bytes, over `| gzip`", size[0] / size[1], 1, "x",
                f"{size[0] / 1e6:.1f} against {size[1] / 1e6:.1f} MB"),
    ]  # fmt: skip


def feeding(plan: dict[str, Any], bin_dir: Path, work: Path) -> Figure:
    """Return the ratio of the CPU seconds of the client processes; the loader reads and sends nothing."""
    load = plan["workload"]
    wrapped = work / "bin"
    wrapped.mkdir(exist_ok=True)
    loader = wrapped / "tsbs_load_victoriametrics"
    loader.write_text(READ_ONLY.format(bin_dir / loader.name), encoding="utf-8")
    loader.chmod(0o755)
    empty = work / "empty"
    workers, batch = str(load["workers"]), str(load["batch_size"])
    adapter = PROJECT / "scripts/targets/victoriametrics/load"
    flags = ["--urls=http://127.0.0.1:1/write", f"--workers={workers}", f"--batch-size={batch}", "--do-load=false"]

    def ours() -> Cost:
        env = {"TSBS_BIN": str(wrapped), "DB_URL": "http://127.0.0.1:1", "LOAD_FILE": str(work / "feed.lines")}
        env |= {"LOAD_WORKERS": workers, "LOAD_BATCH_SIZE": batch, "LOAD_RESULTS": str(work / "load.json")}
        return run([adapter], cwd=empty, env=env)

    feeders, theirs = alternate(
        TIMES, ours, lambda: run(["bash", "-c", FEED, "feed", work / "data.gz", bin_dir, *flags], cwd=empty)
    )
    each = [statistics.median(c.cpu_s for c in side) / load["samples"] * 1e9 for side in (feeders, theirs)]
    ratio = median_ratio([c.cpu_s for c in feeders], [c.cpu_s for c in theirs])
    detail = f"{each[0]:.0f} against {each[1]:.0f} ns a sample, medians of {TIMES}"
    return at_most("feeding the loader: CPU, over `gunzip |`", ratio, 0.5, "x", detail)
