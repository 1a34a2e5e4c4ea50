"""How the test binary of a package is built: a target for tsduel.plan.sources, though there is no database in it."""

from __future__ import annotations

from dataclasses import dataclass

from tsduel.targets.programs import Target

# The Go on PATH or the pinned one: whichever it is, the same for all variants.
GO_MINIMUM = "1.25.5"
# Where it lies below the project's directory on the measured machine, for which {project} stands.
BUILD_SCRIPT = "{project}/ansible/roles/variant/files/build-benchmarks"


@dataclass(frozen=True)
class TestBinary(Target):
    """The benchmarks of one package: a test binary, and what they read from beside it."""

    __test__ = False  # the name is Go's; this is no test of ours
    files: tuple[str, ...] = ()

    def build_command(self, source: str, version: str) -> tuple[str, ...]:  # noqa: ARG002 - the same from wherever
        """Return the command that builds a checkout or module directory, whatever its source."""
        return (BUILD_SCRIPT, "{output}", self.package, *self.files)


def target(*, module: str, package: str, files: tuple[str, ...]) -> TestBinary:
    """Return how to build the benchmarks of a package; ``files``: paths in the module that they read."""
    return TestBinary(
        name="go",
        module=module,
        package=package,
        output="bench.test",
        own_command=(),
        version_variable="",
        version_prefix="",
        tsbs_format="",
        default_flags=(),
        go_minimum=GO_MINIMUM,
        files=files,
    )
