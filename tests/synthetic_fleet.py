"""A synthetic fleet: a part of a synthetic run for each host."""

import json
from dataclasses import replace

import renting
import synthetic
from sweeps import join, study

SPEC = synthetic.Spec(blocks=2, query_types=synthetic.TWO_TYPES, load_s=6, exchanges=60)
NAME = "20261122T140000Z-fleet"
INTEL, AMD = "Intel(R) Xeon(R) CPU @ 2.20GHz", "AMD EPYC 7B12"


def service(*ratios, cpu=INTEL):
    """Return hosts on which the candidate takes so many times the baseline's service time and CPU."""
    return [{"factors": {"candidate": {"service": one, "query_cpu": one}}, "cpu": cpu} for one in ratios]


def write(path, kinds, spec=SPEC):
    """Write a fleet, or a study of several: type of machine -> on each host, other fields of the Spec and `cpu`."""
    if len(kinds) == 1:
        return _write(path / NAME, *next(iter(kinds.items())), spec)
    for at, (kind, hosts) in enumerate(kinds.items(), 1):
        _write(path / f"{NAME}-{at:02d}", kind, hosts, replace(spec, seed=spec.seed + 10 * at))
    return study(path / NAME, [(f"machine={kind}", {"gcp.machine": kind}) for kind in kinds])


def _write(run, kind, hosts, spec):
    place = renting.asked(machine=kind, HOSTS=str(len(hosts)))
    models = [own["cpu"] for own in hosts]
    parts = [
        (host, replace(spec, name="fleet", seed=spec.seed + at, factors=own["factors"]))
        for at, (host, own) in enumerate(zip(place.hosts, hosts, strict=True))
    ]
    plan, *_ = join(run, parts)
    for host, model in zip(place.hosts, models, strict=True):
        synthetic.edit(run / f"raw/{host}.json", host=host, cpu_model=model)
    synthetic.edit(
        run / "plan/experiment.json", run=run.name, place=json.loads(place.model_dump_json()), hosts=list(place.hosts),
        screen=False, design=plan["design"] | {"blocks": spec.blocks * len(hosts)},
    )  # fmt: skip
    return run
