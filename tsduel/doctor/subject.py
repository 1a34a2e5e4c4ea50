"""What `make doctor` looks at a machine for: a run that is planned, an experiment that is asked, or our defaults.

With an experiment it takes YAML and pydantic, which a fresh clone does not have; then it is the defaults.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsduel.core import defaults
from tsduel.core.project import PROJECT
from tsduel.places import place

MIB = 1 << 20


@dataclass(frozen=True)
class Subject:
    """Where the blocks will run, and what they need there; ``planned``: it is a run already.

    ``disk``: bytes by name, as tsduel.core.plan.Estimate; ``memory``: bytes of one server, of which ``residents`` stand
    beside each other; ``pin``: auto, off or fixed.
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
        """Return the words of scripts/examine-host; ``cached``: the data is there, and takes no more disk."""
        disk = sum(count for name, count in self.disk.items() if not (cached and name == "data_bytes"))
        limits = {
            "steal_pct": defaults.STEAL_PCT,
            "steal_flag_pct": defaults.STEAL_FLAG_PCT,
            "foreign_cpu_flag_pct": defaults.FOREIGN_CPU_FLAG_PCT,
            "clock_step_s": defaults.CLOCK_STEP_S,
        }
        words: dict[str, Any] = {
            "port": self.port,
            "disk_mib": disk // MIB + on_top_mib,
            "memory_mib": (self.memory or 0) // MIB,
            "residents": self.residents,
            "pin": self.pin,
        }
        for name, default in limits.items():
            limit = self.noise.get(name, default)
            # Bash knows neither 1e-05 nor more than thousandths.
            words[name] = None if limit is None else f"{limit:.3f}"
        return [f"{name}={value}" for name, value in words.items() if value is not None]


def is_readable() -> bool:
    """Return whether this Python is the project's own, with the libraries that it takes to read an experiment."""
    return Path(sys.prefix) == PROJECT / ".venv"


def of_run(run_dir: Path) -> Subject:
    """Return what a run's plan says; a UserError says why it cannot be read."""
    from tsduel.core.rundir import open_run
    from tsduel.plan import cells

    plan = open_run(run_dir).plan
    return Subject(
        name=str(run_dir),
        place=plan.place.model_dump(),
        port=plan.host.port if plan.workload else None,
        disk=plan.estimate.model_dump(),
        data_keys=tuple(data.key for cell in plan.cells if (load := plan.at(cell.name).workload) for data in load.data),
        memory=cells.memory(plan),
        residents=len(plan.variants) if plan.duels else 1,
        pin=_pin(plan.host.pin),
        noise=plan.noise.model_dump() if plan.noise else {},
        planned=True,
    )


def of_question(environment: Mapping[str, str]) -> Subject:
    """Return what an experiment and the knobs say; a UserError names what is wrong with them."""
    from tsduel.plan import cells
    from tsduel.question import read as question
    from tsduel.workloads import WORKLOADS

    read = question.read(environment)
    asked, kind = read.asked, WORKLOADS[read.asked.kind]
    sections, _, settings = cells.settle(kind, read.cells, len(asked.variants))
    loads = [load for one in settings if (load := one.workload or sections.get("workload"))]
    duel = sections.get("duel")
    return Subject(
        name=read.path or f"make {environment.get('KIND', '')}",
        place=place.asked(read.given),
        port=getattr(asked.host, "port", None),
        disk=sections["estimate"].model_dump(),
        data_keys=tuple(dict.fromkeys(data.key for load in loads for data in load.data)),
        memory=max(
            (
                kind.memory(load, [(one.target, len(one.parts)) for one in asked.variants.values()]) or 0
                for load in loads
            ),
            default=None,
        ),
        residents=len(asked.variants) if duel and duel.enabled else 1,
        pin=_pin(getattr(asked.host, "pin", "off")),
        noise=asked.noise.model_dump(),
    )


def of_nothing(environment: Mapping[str, str]) -> Subject:
    """Return our defaults, and the place that the knobs name."""
    return Subject(name="", place=place.asked(environment))


def _pin(pin: object) -> str:
    return pin if isinstance(pin, str) else "fixed"
