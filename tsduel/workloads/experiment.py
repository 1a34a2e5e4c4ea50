"""What every kind of experiment may say; each workload has a schema of its own on top of it."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from tsduel.core.sections import DesignAsked, GoVersion, GoWatchdog, Machine, Noise, Part, Watchdog
from tsduel.places.gcp.settings import Gcp

VARIANT_NAME = re.compile(r"^[a-z][a-z0-9-]{0,30}$")
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
# What each source needs; anything else of the three would have no effect.
_NEEDED = {"module": {"ref"}, "git": {"repo", "ref"}, "path": {"path"}, "binary": {"path"}}
_REVISION = ("ref", "repo", "path")


class Component(Part):
    """One process: where its program comes from, and what it is started with.

    `files`: name -> text, in the directory that it starts in, so that a flag names a file by its name alone.
    """

    role: str = "server"
    source: Literal["module", "git", "path", "binary"] = "module"
    ref: str = ""
    repo: str = ""
    path: str = ""
    go: GoVersion = "local"
    flags: tuple[str, ...] = ()
    env: dict[str, str] = {}
    files: dict[str, str] = {}

    @field_validator("files")
    @classmethod
    def _file_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not FILE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a plain name of a file, like relabel.yml")
        return value

    @field_validator("env")
    @classmethod
    def _env_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"{name!r} is not a name of an environment variable")
        return value

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if not self.is_plain:
            return self
        for field in _REVISION:
            given, needed = bool(getattr(self, field)), field in _NEEDED[self.source]
            if needed and not given:
                raise ValueError(f"source {self.source} needs `{field}:`")
            if given and not needed:
                raise ValueError(f"source {self.source} has no use for `{field}:`; change `source:`, or leave it out")
        return self

    @property
    def is_plain(self) -> bool:
        """Whether the fields here say where the program comes from, as they do of all but a variant of components."""
        return True


class Variant(Component):
    """One side of the comparison, in the short form: one component."""

    target: str = ""
    package: str = ""
    bench: str = ""

    @property
    def parts(self) -> tuple[Component, ...]:
        """Its components, the one that takes clients first."""
        return (self,)


class Experiment(Part):
    """The written question, as far as it is the same for all kinds."""

    needs: ClassVar[tuple[str, ...]] = ("baseline", "candidate")

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")]
    question: str = ""
    kind: str
    smoke: bool = False
    variants: Mapping[str, Variant]
    design: DesignAsked = DesignAsked()
    noise: Noise = Noise()
    watchdog: Watchdog | GoWatchdog = Watchdog()
    host: Machine = Machine()
    gcp: Gcp = Gcp()

    @property
    def topology(self) -> dict[str, tuple[str, ...]]:
        """What each host does, where components have hosts of their own."""
        return {}

    @field_validator("variants", check_fields=False)
    @classmethod
    def _variant_names(cls, value: Mapping[str, Variant]) -> Mapping[str, Variant]:
        for name in value:
            if not VARIANT_NAME.fullmatch(name):
                raise ValueError(f"{name!r}: a variant's name is lower-case letters, digits and dashes")
        for name in cls.needs:
            if name not in value:
                raise ValueError(f"`{name}` is needed ({name.upper()}=v1.2.3)")
        return value
