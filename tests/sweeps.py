"""A synthetic sweep: a synthetic run for each cell, put into one directory with the blocks of the cells in turn."""

import json
import shutil
from dataclasses import replace

import synthetic

from tsduel.core import tables

SPEC = synthetic.Spec(blocks=6, query_types=synthetic.TWO_TYPES, load_s=6, exchanges=60)
NAME = "20261121T140000Z-scaling"


def write(path, cells, spec=SPEC, key="workload.scale"):
    """Write a sweep over a key of the workload; `cells`: its value -> fields of the cell's Spec."""
    run, field, rows, noise, settings = path / NAME, key.rpartition(".")[2], [], {"signals": [], "blocks": []}, []
    for at, (value, own) in enumerate(cells.items()):
        of, cell = replace(spec, name="scaling", seed=spec.seed + at, **own), f"{field}={value}"
        alone = synthetic.write_run(path / cell, of)
        if at == 0:
            shutil.copytree(alone, run, ignore=shutil.ignore_patterns("[0-9][0-9][0-9]"))
        plan = json.loads((alone / "plan/experiment.json").read_text())
        settings.append({"name": cell, "set": {key: value}, "workload": plan["workload"] | {field: value}})
        seen = json.loads((alone / "raw/host1/noise.json").read_text())
        for turn, (block, kind) in enumerate(synthetic.planned(of)):
            number = turn * len(cells) + at + 1 - of.warmup_blocks
            rows.append((number, cell, "host1", kind, *synthetic.listed(of, block, kind)))
            if (raw := alone / f"raw/host1/{block:03}").exists():
                synthetic.edit(raw / "block.json", block=number, cell=cell)
                raw.rename(run / f"raw/host1/{number:03}")
            for kept in noise:
                noise[kept] += [one | {"block": number} for one in seen[kept] if one["block"] == block]
    lines = ["\t".join(tables.BLOCKS_TSV), *("\t".join(map(str, row)) for row in sorted(rows))]
    (run / "plan/blocks.tsv").write_text("\n".join(lines) + "\n")
    synthetic.edit(run / "raw/host1/noise.json", **noise)
    synthetic.edit_plan(run, cells=settings)
    return run
