"""What tsduel/targets/NAME.py has to say of a database as `DATABASE`, beside the adapter in scripts/targets/NAME."""

from collections.abc import Mapping
from dataclasses import dataclass

from tsduel.core import defaults
from tsduel.core.plan import Target


@dataclass(frozen=True)
class Program:
    """How one program is got and built. In a command ``{output}`` is a path outside the sources."""

    name: str
    module: str  # Go module path, for `source: module`
    package: str  # the main package inside it
    output: str  # what the project's own build command writes, relative to the checkout
    own_command: tuple[str, ...]  # the project's own build command, for `source: git` and `source: path`
    go_minimum: str = defaults.GO_MINIMUM
    version_variable: str = ""  # Go variable that the linker sets, so that the binary says which version it is
    version_prefix: str = ""
    tags: str = ""  # of Go's build, with commas
    cgo: bool = True

    def build_command(self, source: str, version: str) -> tuple[str, ...]:
        """Return the command that builds a checkout or module directory; empty for a ready binary."""
        if source == "binary":
            return ()
        if source != "module":
            return self.own_command
        # As the project's own Makefile does it.
        stamp = ("-ldflags", f"-X '{self.version_variable}={self.version_prefix}{version}'")
        wanted = (*(("-tags", self.tags) if self.tags else ()), *(stamp if self.version_variable else ()))
        return ("env", f"CGO_ENABLED={int(self.cgo)}", "go", "build", *wanted, "-o", "{output}", self.package)


@dataclass(frozen=True)
class Needs:
    """Bytes of disk and memory that a server needs at least, for each series and sample; above what was measured."""

    disk_least: int
    disk_a_series: int
    disk_a_sample: int
    memory_least: int
    memory_a_series: int
    memory_a_component: int = 256 << 20  # of each that is not the one with the data: a proxy, an agent

    def disk(self, series: int, samples: int) -> int:
        """Return bytes of a loaded data directory."""
        return max(self.disk_least, self.disk_a_series * series + self.disk_a_sample * samples)

    def memory(self, series: int, components: int = 1) -> int:
        """Return bytes of all components of a variant that holds so many series."""
        return self.memory_least + self.memory_a_series * series + (components - 1) * self.memory_a_component


@dataclass(frozen=True)
class Database:
    """One database: what its components are, and what it can be asked.

    `programs`: role -> program, what clients ask first before what that asks. `main` is the role of a variant's short
    form, which has to be there and keeps the data; the others may be. Where it is empty all have to be there, and the
    short form is all of them from one revision.
    """

    target: Target
    programs: Mapping[str, Program]
    query_types: tuple[str, ...]
    needs: Needs
    load_samples_s: int = 1_500_000
    """How many samples a second it takes, roughly: for how long a run takes."""
    late_s: int | None = None
    """How much older than the newest a sample may be, in seconds, for it to be taken; None for any."""
    main: str = "server"

    @property
    def required(self) -> tuple[str, ...]:
        """Roles without which there is no such database."""
        return (self.main,) if self.main else tuple(self.programs)
