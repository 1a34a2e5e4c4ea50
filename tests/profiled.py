"""Profiles as tsduel-host leaves them below raw/, of stacks that a test thinks up."""

import gzip
import json

MODULE = "github.com/VictoriaMetrics/VictoriaMetrics"
ROOT = ("net/http.(*conn).serve", f"{MODULE}/lib/httpserver.handlerWrapper")
EXEC = (*ROOT, f"{MODULE}/app/vmselect.RequestHandler", f"{MODULE}/app/vmselect/promql.Exec")
PLANTED = (*ROOT, f"{MODULE}/app/vmselect.planted", "time.Since", "runtime.nanotime")
SEARCH = (*EXEC, f"{MODULE}/lib/storage.(*Search).NextMetricBlock", "runtime.memmove")
BASELINE = {SEARCH: 600, (*EXEC, "runtime.mallocgc"): 300, ("runtime.gcBgMarkWorker", "runtime.scanobject"): 100}
CANDIDATE = {**BASELINE, PLANTED: 60, SEARCH: 610}
PERIOD, EXCHANGES = 10_000_000, 2000


def entry(variant, work="queries", kind="cpu", **more):
    """Return an entry of profiles.json."""
    file = f"{variant}.{work}.server.{kind}"
    return {
        "variant": variant, "work": work, "role": "server", "kind": kind, "file": file, "operations": EXCHANGES,
        "seconds": 12.5, "why": "",
    } | more  # fmt: skip


def write(run_dir, profiles, host="host1"):
    """Write profiles: pairs of an entry and, of one that could be had, its stacks with their numbers of samples."""
    directory = run_dir / "raw" / host / "profiles"
    directory.mkdir(exist_ok=True)
    for of, stacks in profiles:
        if not of["file"]:
            continue
        functions = list(dict.fromkeys(name for stack in stacks for name in stack))
        samples = [
            {"of": [functions.index(name) for name in stack], "values": [count * PERIOD]}
            for stack, count in stacks.items()
        ]
        values = {"values": ["cpu"], "units": ["nanoseconds"]}
        if of["kind"] == "heap":
            values = {"values": ["alloc_space", "inuse_space"], "units": ["bytes", "bytes"]}
            for one in samples:
                one["values"] *= 2
        found = {"period": PERIOD, **values, "functions": functions, "stacks": samples}
        path = directory / of["file"]
        path.with_name(f"{path.name}.stacks.json.gz").write_bytes(gzip.compress(json.dumps(found).encode()))
        path.with_name(f"{path.name}.pprof").write_bytes(b"x")
    (directory / "profiles.json").write_text(json.dumps({"schema": 1, "profiles": [of for of, _ in profiles]}))
