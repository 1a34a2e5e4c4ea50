"""What tsduel/targets/NAME.py says of a database as `DATABASE`; the adapter is in scripts/targets/NAME."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tsduel.core import defaults
from tsduel.core.target import Counter, Target

PROMQL_TYPES = (
    *("single-groupby-1-1-1", "single-groupby-1-1-12", "single-groupby-1-8-1"),
    *("single-groupby-5-1-1", "single-groupby-5-1-12", "single-groupby-5-8-1"),
    *("cpu-max-all-1", "cpu-max-all-8", "cpu-max-all-32-24"),
    *("double-groupby-1", "double-groupby-5", "double-groupby-all"),
)
"""The query types of TSBS's format victoriametrics, which panics on the other types of cpu-only."""

FIELDS = (
    *("usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait", "usage_irq", "usage_softirq"),
    *("usage_steal", "usage_guest", "usage_guest_nice"),
)
"""The fields of cpu-only; a database may put a prefix before them."""

GO_WORK = {
    "objects": Counter(name="go_memstats_mallocs_total"),
    "object_bytes": Counter(name="go_memstats_alloc_bytes_total"),
    "gc_runs": Counter(name="go_gc_duration_seconds_count"),
}
"""What a Go program counts of its own work, by the names of Prometheus' clients (docs/work.md)."""

MOST_REPLICAS = 9


def replicas(role: str, count: int = MOST_REPLICAS) -> tuple[str, ...]:
    """Return the names of so many components of a role: vmstorage, vmstorage-2, vmstorage-3."""
    return (role, *(f"{role}-{number}" for number in range(2, count + 1)))


def replicated(name: str) -> str:
    """Return the role of such a name."""
    return re.sub(r"-[2-9]$", "", name)


@dataclass(frozen=True)
class Program:
    """Where one program comes from and how it is built. In a command ``{output}`` is a path outside the sources."""

    name: str
    module: str  # Go module path, for `source: module`
    package: str  # the main package inside it
    output: str  # what the project's own build command writes, relative to the checkout
    own_command: tuple[str, ...]  # the project's own build command, for `source: git` and `source: path`
    go_minimum: str = defaults.GO_MINIMUM
    version_variable: str = ""  # the Go variable of the binary's version, which the linker sets
    version_prefix: str = ""
    tags: str = ""  # of Go's build, with commas
    cgo: bool = True

    def build_command(self, source: str, version: str) -> tuple[str, ...]:
        """Return the command that builds a checkout or module directory; empty for a ready binary."""
        if source == "binary":
            return ()
        if source != "module":
            return self.own_command
        # The project's own Makefile sets the version in the same way.
        stamp = ("-ldflags", f"-X '{self.version_variable}={self.version_prefix}{version}'")
        flags = (*(("-tags", self.tags) if self.tags else ()), *(stamp if self.version_variable else ()))
        return ("env", f"CGO_ENABLED={int(self.cgo)}", "go", "build", *flags, "-o", "{output}", self.package)


@dataclass(frozen=True)
class Needs:
    """The least bytes of disk and memory of a server, and more for each series and sample: above what was measured."""

    disk_least: int
    disk_a_series: int
    disk_a_sample: int
    memory_least: int
    memory_a_series: int
    memory_a_component: int = 256 << 20  # of each component without data: a proxy, an agent

    def disk(self, series: int, samples: int) -> int:
        """Return bytes of a loaded data directory."""
        return max(self.disk_least, self.disk_a_series * series + self.disk_a_sample * samples)

    def memory(self, series: int, components: int = 1) -> int:
        """Return bytes of all components of a variant with so many series."""
        return self.memory_least + self.memory_a_series * series + (components - 1) * self.memory_a_component


@dataclass(frozen=True)
class Database:
    """One database: its components, and the query types that it can answer.

    `programs`: role -> program. The component that clients ask comes first, then the components that it asks. `main` is
    the role of a variant's short form: this component is required and keeps the data, the others are optional. If
    `main` is empty, all components are required, and the short form is all of them from one revision.
    """

    target: Target
    programs: Mapping[str, Program]
    query_types: tuple[str, ...]
    needs: Needs
    load_samples_s: int = 1_500_000
    """Samples a second that it loads, roughly: for the duration of a run."""
    late_s: int | None = None
    """Seconds by which a sample may be older than the newest sample; None for any age."""
    main: str = "server"
    has_tenants: bool = False
    replicated: tuple[str, ...] = ()
    """Roles of which a variant may have several; `ports` and `queues` of the target name all of them."""

    @property
    def required(self) -> tuple[str, ...]:
        """Roles of the required components."""
        return (self.main,) if self.main else tuple(self.programs)
