"""The part of a plan that is about Go benchmarks: what is built and run, and what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsduel.core.errors import UserError
from tsduel.plan.duration import PREPARE_S
from tsduel.workloads.gobench import build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tsduel.workloads.gobench.build import TestBinary
    from tsduel.workloads.gobench.schema import GoExperiment, GoVariant

# Raw text of a round, and what benchmarks may write into their directory; nobody knows before they have run.
ROUND_BYTES = 1 << 20
SCRATCH_BYTES = 2 << 30


def target(asked: GoExperiment, variant: GoVariant) -> TestBinary:
    """Return how the benchmarks of a variant are built."""
    go = asked.gobench
    return build.target(module=go.module, package=variant.package or go.package, files=tuple(go.files))


def planned_target(plan: Mapping[str, Any], variant: Mapping[str, Any]) -> TestBinary:
    """Return the same for what a plan says of a variant."""
    go = plan["gobench"]
    return build.target(module=go["module"], package=variant["package"], files=tuple(go["files"]))


def part(asked: GoExperiment, *, aa: bool) -> dict[str, Any]:
    """Return what plan/experiment.json has of Go benchmarks only."""
    if aa and asked.gobench.pivot:
        raise UserError("AA=1: with gobench.pivot there is one variant, whose columns are not the same benchmark")
    return {"gobench": asked.gobench.model_dump(), "estimate": disk(asked)}


def disk(asked: GoExperiment) -> dict[str, int]:
    """Return plan/experiment.json's ``estimate``: bytes, as tsduel.plan.needs has them of databases."""
    spares = asked.noise.spares(asked.design.blocks)
    rounds = (asked.design.blocks + asked.design.warmup_blocks + spares) * len(asked.variants)
    return {"database_bytes": SCRATCH_BYTES, "results_bytes": rounds * ROUND_BYTES}


def duration(plan: Mapping[str, Any], rounds: int) -> dict[str, int]:
    """Return whole seconds for the parts of a run. Nobody knows how many benchmarks there are.

    So a round is taken to last ``gobench.round_s``, which matters where a machine is rented for the run.
    """
    round_s = int(plan["gobench"]["round_s"])
    return {"prepare_s": PREPARE_S, "workload_s": 0, "round_s": round_s, "total_s": PREPARE_S + rounds * round_s}


def variant_part(asked: GoExperiment, variant: GoVariant) -> dict[str, str]:
    """Return what a planned variant has of Go benchmarks only: its package and pattern, its own or everybody's."""
    return {
        "target": "go",
        "package": variant.package or asked.gobench.package,
        "bench": variant.bench or asked.gobench.bench,
    }


def described(plan: Mapping[str, Any]) -> str:
    """Return the line that says what is run, for the terminal."""
    go = plan["gobench"]
    patterns = list(dict.fromkeys(str(v["bench"]) for v in plan["variants"]))
    lasts = f"{go['count']} operations each" if go["count"] else f"about {go['seconds']:g} s each"
    return f"bench     {go['module'] or 'module'} {go['package']}, {', '.join(patterns)}, {lasts}"
