"""A synthetic fleet: a part of a synthetic run for each host."""

import json
from dataclasses import replace

import renting
import synthetic
from sweeps import join

SPEC = synthetic.Spec(blocks=2, query_types=synthetic.TWO_TYPES, load_s=6, exchanges=60)
NAME = "20261122T140000Z-fleet"
INTEL, AMD = "Intel(R) Xeon(R) CPU @ 2.20GHz", "AMD EPYC 7B12"


def service(*ratios, cpu=INTEL):
    """Return hosts on which the candidate takes so many times the baseline's service time and CPU."""
    return [{"factors": {"candidate": {"service": one, "query_cpu": one}}, "cpu": cpu} for one in ratios]


def write(path, kinds, spec=SPEC):
    """Write a fleet; `kinds`: type of machine -> what is another on each of its hosts, fields of the Spec and `cpu`."""
    run, several = path / NAME, len(kinds) > 1
    place = renting.asked(machines=tuple(kinds), HOSTS=str(len(next(iter(kinds.values())))), price_h=1.0)
    of = [(f"machine={kind}" if several else "", dict(own)) for kind, hosts in kinds.items() for own in hosts]
    models = [own.pop("cpu") for _, own in of]
    parts = [
        (cell, host, replace(spec, name="fleet", seed=spec.seed + at, **own))
        for at, (host, (cell, own)) in enumerate(zip(place.hosts, of, strict=True))
    ]
    plan, *_ = join(run, parts)
    for host, model in zip(place.hosts, models, strict=True):
        synthetic.edit(run / f"raw/{host}.json", host=host, cpu_model=model)
    cells = [{"name": f"machine={kind}", "set": {"gcp.machine": kind}} for kind in kinds]
    synthetic.edit(
        run / "plan/experiment.json", run=NAME, place=json.loads(place.model_dump_json()), hosts=list(place.hosts),
        screen=False, design=plan["design"] | {"blocks": spec.blocks * len(of) // len(kinds)},
        cells=cells if several else plan["cells"],
    )  # fmt: skip
    return run
