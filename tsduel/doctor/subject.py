"""The needs that `make doctor` checks a machine for: of a planned run, of an experiment, or the defaults.

To read an experiment takes YAML and pydantic. A fresh clone does not have them, and takes the defaults.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsduel.core import defaults
from tsduel.core.project import IS_INSTALLED, PROJECT
from tsduel.places import place

MIB = 1 << 20


@dataclass(frozen=True)
class Subject:
    """Where the blocks will run, and what they need there; ``planned``: the run exists.

    ``disk``: bytes by name, as tsduel.core.plan.Estimate; ``memory``: bytes of one server; ``residents``: how many
    servers run at the same time; ``pin``: auto, off or fixed.
    """

    name: str
    place: dict[str, Any]
    port: int | None = defaults.PORT
    disk: dict[str, int] = field(default_factory=dict)
    data_keys: tuple[str, ...] = ()
    memory: int | None = None
    residents: int = 1
    pin: str = "auto"
    noise: dict[str, Any] = field(default_factory=dict)
    planned: bool = False

    def asked(self, *, on_top_mib: int = 0, cached: bool = False) -> list[str]:
        """Return the arguments of scripts/examine-host; ``cached``: the data is in the cache and takes no more disk."""
        disk = sum(count for name, count in self.disk.items() if not (cached and name == "data_bytes"))
        words: dict[str, Any] = {
            "port": self.port,
            "disk_mib": disk // MIB + on_top_mib,
            "memory_mib": (self.memory or 0) // MIB,
            "residents": self.residents,
            "pin": self.pin,
        }
        for name in ("steal_pct", "steal_flag_pct", "foreign_cpu_flag_pct", "clock_step_s"):
            limit = self.noise.get(name, getattr(defaults, name.upper()))
            # The script reads neither 1e-05 nor more than three decimals.
            words[name] = None if limit is None else f"{limit:.3f}"
        return [f"{name}={value}" for name, value in words.items() if value is not None]


def is_readable() -> bool:
    """Return whether this Python is the project's own, with the libraries that read an experiment."""
    return IS_INSTALLED or Path(sys.prefix) == PROJECT / ".venv"


def of_run(run_dir: Path) -> Subject:
    """Return the subject of a run's plan, of a study that of its next run; a UserError says why it cannot be read."""
    from tsduel.core.rundir import open_run
    from tsduel.studies import settings
    from tsduel.workloads import workload_of

    plan = open_run(settings.now(run_dir) if settings.is_study(run_dir) else run_dir).plan
    return Subject(
        name=str(run_dir),
        place=plan.place.model_dump(),
        port=plan.host.port if plan.workload else None,
        disk=plan.estimate.model_dump(),
        data_keys=tuple(data.key for data in plan.workload.data) if plan.workload else (),
        memory=workload_of(plan).memory(plan.workload, [(side.target, len(side.components)) for side in plan.variants]),
        residents=len(plan.variants) if plan.duels else 1,
        pin=_pin(plan.host.pin),
        noise=plan.noise.model_dump() if plan.noise else {},
        planned=True,
    )


def of_question(environment: Mapping[str, str]) -> Subject:
    """Return the subject of the experiment and the knobs; a UserError says what is wrong with them."""
    from tsduel.question import read as question
    from tsduel.workloads import WORKLOADS

    read = question.read(environment)
    experiment, kind = read.asked, WORKLOADS[read.asked.kind]
    each = [kind.sections(setting.asked, len(setting.asked.variants)) for setting in read.settings]
    # Of a study the largest setting: one at a time has its databases on the disk.
    sections = max(each, key=lambda own: own["estimate"].total)
    loads = [own["workload"] for own in each if "workload" in own]
    sizes = [(variant.target, len(variant.parts)) for variant in experiment.variants.values()]
    duel, runs_already = sections.get("duel"), getattr(experiment, "deployed", False)
    return Subject(
        name=read.source.experiment or f"make {environment.get('KIND', '')}",
        place=place.asked(read.source.knobs),
        port=getattr(experiment.host, "port", None),
        disk=sections["estimate"].model_dump(),
        data_keys=tuple(dict.fromkeys(data.key for load in loads for data in load.data)),
        memory=None if runs_already else max((kind.memory(load, sizes) or 0 for load in loads), default=None),
        residents=len(experiment.variants) if duel and duel.enabled else 1,
        pin=_pin(getattr(experiment.host, "pin", "off")),
        noise=experiment.noise.model_dump(),
    )


def _pin(pin: object) -> str:
    return pin if isinstance(pin, str) else "fixed"
