"""Synthetic runs of several parts in one directory, the blocks of the parts in turn; and a sweep, of a part a cell."""

import json
import shutil
from dataclasses import replace

import synthetic

from tsduel.core import tables

SPEC = synthetic.Spec(blocks=6, query_types=synthetic.TWO_TYPES, load_s=6, exchanges=60)
NAME = "20261121T140000Z-scaling"


def write(path, cells, spec=SPEC, key="workload.scale"):
    """Write a sweep over a key of the workload; `cells`: its value -> fields of the cell's Spec."""
    run, field = path / NAME, key.rpartition(".")[2]
    parts = [
        (f"{field}={value}", "host1", replace(spec, name="scaling", seed=spec.seed + at, **own))
        for at, (value, own) in enumerate(cells.items())
    ]
    settings = [
        {"name": name, "set": {key: value}, "workload": plan["workload"] | {field: value}}
        for (name, _, _), value, plan in zip(parts, cells, join(run, parts), strict=True)
    ]
    synthetic.edit(run / "plan/experiment.json", run=NAME, cells=settings)
    return run


def join(run, parts):
    """Write a run of several parts (the cell, the host and the Spec of each), and return the plan of each alone."""
    rows, noise, plans = [], {}, []
    for at, (cell, host, spec) in enumerate(parts):
        alone, raw = synthetic.write_run(run.parent / f"part{at}", spec), run / "raw" / host
        if at == 0:
            shutil.copytree(alone, run, ignore=shutil.ignore_patterns("raw"))
        if host not in noise:
            noise[host] = {"signals": [], "blocks": []}
            shutil.copytree(alone / "raw/host1", raw, ignore=shutil.ignore_patterns("[0-9][0-9][0-9]"))
            shutil.copy(alone / "raw/host1.json", f"{raw}.json")
        plans.append(json.loads((alone / "plan/experiment.json").read_text()))
        seen = json.loads((alone / "raw/host1/noise.json").read_text())
        for turn, (block, kind) in enumerate(synthetic.planned(spec)):
            number = turn * len(parts) + at + 1 - spec.warmup_blocks
            rows.append((number, cell, host, kind, *synthetic.listed(spec, block, kind)))
            if (done := alone / f"raw/host1/{block:03}").exists():
                synthetic.edit(done / "block.json", block=number, cell=cell, host=host)
                done.rename(raw / f"{number:03}")
            for kept, own in noise[host].items():
                own += [one | {"block": number} for one in seen[kept] if one["block"] == block]
        shutil.rmtree(alone)
    for host, found in noise.items():
        synthetic.edit(run / f"raw/{host}/noise.json", **found)
    lines = ["\t".join(tables.BLOCKS_TSV), *("\t".join(map(str, row)) for row in sorted(rows))]
    (run / "plan/blocks.tsv").write_text("\n".join(lines) + "\n")
    return plans
