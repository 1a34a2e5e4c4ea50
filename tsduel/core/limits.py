"""`limits:` of an experiment: what each server may use."""

from typing import Annotated

from pydantic import Field

from tsduel.core.sections import Part


class ServerLimits(Part):
    """What each component of either side may use, by a control group: CPUs on average, memory in MB of 2**20 bytes."""

    cpus: Annotated[float, Field(ge=0.01, le=1024)] | None = None
    memory_mb: Annotated[int, Field(ge=16, le=1 << 24)] | None = None

    @property
    def words(self) -> str:
        """The limits: "0.5 CPUs and 512 MB"; empty without any."""
        cpus = f"{self.cpus:g} CPU{'' if self.cpus == 1 else 's'}" if self.cpus else ""
        return " and ".join(filter(None, [cpus, f"{self.memory_mb} MB" if self.memory_mb else ""]))
