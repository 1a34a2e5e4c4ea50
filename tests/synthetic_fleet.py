"""A synthetic fleet: a synthetic run for each host, put into one directory, the hosts' blocks in turn."""

import json
import shutil
from dataclasses import replace

import renting
import synthetic

from tsduel.core import tables

SPEC = synthetic.Spec(blocks=2, query_types=synthetic.TWO_TYPES, load_s=6, exchanges=60)
NAME = "20261122T140000Z-fleet"
INTEL, AMD = "Intel(R) Xeon(R) CPU @ 2.20GHz", "AMD EPYC 7B12"


def service(*ratios, cpu=INTEL):
    """Return hosts on which the candidate takes so many times the baseline's service time and CPU."""
    return [{"factors": {"candidate": {"service": one, "query_cpu": one}}, "cpu": cpu} for one in ratios]


def write(path, kinds, spec=SPEC):
    """Write a fleet; `kinds`: type of machine -> what is another on each of its hosts, fields of the Spec and `cpu`."""
    run, rows = path / NAME, []
    place = renting.asked(machines=tuple(kinds), HOSTS=str(len(next(iter(kinds.values())))), price_h=1.0)
    several = len(kinds) > 1
    of = [(f"machine={kind}" if several else "", own) for kind, hosts in kinds.items() for own in hosts]
    for at, (host, (cell, own)) in enumerate(zip(place.hosts, of, strict=True)):
        changes = {name: value for name, value in own.items() if name != "cpu"}
        alone = synthetic.write_run(path / host, replace(spec, name="fleet", seed=spec.seed + at, **changes))
        if at == 0:
            shutil.copytree(alone, run, ignore=shutil.ignore_patterns("raw"))
        apart = run / "raw" / host
        apart.mkdir(parents=True)
        number_of = {
            block: turn * len(of) + at + 1 - spec.warmup_blocks
            for turn, (block, _) in enumerate(synthetic.planned(spec))
        }
        for block, kind in synthetic.planned(spec):
            number = number_of[block]
            rows.append((number, cell, host, kind, *synthetic.listed(spec, block, kind)))
            if (raw := alone / f"raw/host1/{block:03}").exists():
                synthetic.edit(raw / "block.json", block=number, cell=cell, host=host)
                raw.rename(apart / f"{number:03}")
        noise = json.loads((alone / "raw/host1/noise.json").read_text())
        seen = {
            kept: [one | {"block": number_of[one["block"]]} for one in noise[kept]] for kept in ("blocks", "signals")
        }
        (apart / "noise.json").write_text(json.dumps(seen))
        for name in ("workload.json", "calibration.json"):
            shutil.copy(alone / "raw/host1" / name, apart / name)
        (run / "raw" / f"{host}.json").write_text(json.dumps(synthetic.HOST | {"host": host, "cpu_model": own["cpu"]}))
        shutil.rmtree(alone)
    lines = ["\t".join(tables.BLOCKS_TSV), *("\t".join(map(str, row)) for row in sorted(rows))]
    (run / "plan/blocks.tsv").write_text("\n".join(lines) + "\n")
    plan = json.loads((run / "plan/experiment.json").read_text())
    cells = [{"name": f"machine={kind}", "set": {"gcp.machine": kind}} for kind in kinds]
    synthetic.edit(
        run / "plan/experiment.json", run=NAME, place=json.loads(place.model_dump_json()), hosts=list(place.hosts),
        screen=False, design=plan["design"] | {"blocks": spec.blocks * len(of) // len(kinds)},
        cells=cells if several else plan["cells"],
    )  # fmt: skip
    return run
