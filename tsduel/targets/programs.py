"""How to get and build a database: the one place that knows. Its adapter is scripts/targets/NAME."""

from __future__ import annotations

from dataclasses import dataclass

from tsduel.core.errors import UserError


@dataclass(frozen=True)
class Target:
    """One database that can be measured."""

    name: str
    module: str  # Go module path, for `source: module`
    package: str  # the main package inside it
    output: str  # what the project's own build command writes, relative to the checkout
    own_command: tuple[str, ...]  # the project's own build command, for `source: git` and `source: path`
    version_variable: str  # Go variable that the linker sets, so that the binary says which version it is
    version_prefix: str
    tsbs_format: str  # --format of tsbs_generate_*, and the ending of tsbs_load_* and tsbs_run_queries_*
    default_flags: tuple[str, ...]  # before the variant's own flags
    go_minimum: str

    def build_command(self, source: str, version: str) -> tuple[str, ...]:
        """Return the command that builds a checkout or module directory; empty for a ready binary.

        ``{output}`` stands for a path outside the sources: a module's directory is not to be written into.
        """
        if source == "binary":
            return ()
        if source != "module":
            return self.own_command
        # As the project's own Makefile does it.
        stamp = f"-X '{self.version_variable}={self.version_prefix}{version}'"
        go_build = ("go", "build", "-ldflags", stamp, "-o", "{output}", self.package)
        return ("env", "CGO_ENABLED=1", *go_build)


TARGETS = {
    target.name: target
    for target in (
        Target(
            name="victoriametrics",
            module="github.com/VictoriaMetrics/VictoriaMetrics",
            package="./app/victoria-metrics",
            output="bin/victoria-metrics",
            own_command=("make", "victoria-metrics"),
            version_variable="github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version",
            version_prefix="victoria-metrics-",
            tsbs_format="victoriametrics",
            # Pinned dates are older than the default retention; such samples would be dropped silently.
            default_flags=("-retentionPeriod=100y",),
            go_minimum="1.25.5",
        ),
    )
}


def find_target(name: str) -> Target:
    """Return the target called ``name``; a UserError lists those that exist."""
    try:
        return TARGETS[name]
    except KeyError:
        raise UserError(f"unknown target '{name}'; there are: {', '.join(sorted(TARGETS))}") from None
