"""Synthetic runs of several hosts in one directory; and a study of settings, of a synthetic run each."""

import json
import shutil
from dataclasses import replace

import synthetic

from tsduel.core import tables
from tsduel.core.plan import Asked
from tsduel.studies.settings import Step, Sweep

SPEC = synthetic.Spec(blocks=6, query_types=synthetic.TWO_TYPES, load_s=6, exchanges=60)
NAME = "20261121T140000Z-scaling"


def write(path, settings, spec=SPEC, key="workload.scale"):
    """Write a study over a key of the workload; `settings`: its value -> fields of the Spec of its run."""
    field, sets = key.rpartition(".")[2], []
    for at, (value, own) in enumerate(settings.items()):
        run = synthetic.write_run(
            path / f"{NAME}-{at + 1:02d}", replace(spec, name="scaling", seed=spec.seed + at, **own)
        )
        synthetic.edit(run / "plan/experiment.json", run=run.name)
        plan = json.loads((run / "plan/experiment.json").read_text())
        synthetic.edit(run / "plan/experiment.json", workload=plan["workload"] | {field: value})
        sets.append((f"{field}={value}", {key: value}))
    return study(path / NAME, sets)


def study(directory, settings):
    """Write the file of a study whose runs are there; `settings`: the name of each, and what it sets."""
    steps = tuple(
        Step(run=f"{directory.name}-{at:02d}", name=name, set=own) for at, (name, own) in enumerate(settings, 1)
    )
    asked = Asked(experiment="experiments/scaling.yml")
    order = tuple(range(len(steps)))
    Sweep(
        name=directory.name,
        created="2026-11-21T14:00:00Z",
        kind="tsbs",
        given={},
        asked=asked,
        steps=steps,
        order=order,
    ).write(directory)
    return directory


def join(run, parts):
    """Write a run of several hosts (each with its Spec), and return the plan of each alone."""
    rows, noise, plans = [], {}, []
    for at, (host, spec) in enumerate(parts):
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
            rows.append((number, host, kind, *synthetic.listed(spec, block, kind)))
            if (done := alone / f"raw/host1/{block:03}").exists():
                synthetic.edit(done / "block.json", block=number, host=host)
                done.rename(raw / f"{number:03}")
            for kept, own in noise[host].items():
                own += [one | {"block": number} for one in seen[kept] if one["block"] == block]
        shutil.rmtree(alone)
    for host, found in noise.items():
        synthetic.edit(run / f"raw/{host}/noise.json", **found)
    lines = ["\t".join(tables.BLOCKS_TSV), *("\t".join(map(str, row)) for row in sorted(rows))]
    (run / "plan/blocks.tsv").write_text("\n".join(lines) + "\n")
    return plans
