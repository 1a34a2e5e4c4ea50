"""The fields of every kind of experiment; each workload adds a schema of its own."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from tsduel.core import gobuild
from tsduel.core.gobench import GoWatchdog
from tsduel.core.sections import ComponentAsked, Design, Machine, Noise, Part, Watchdog
from tsduel.places.gcp.settings import Gcp
from tsduel.places.k8s.settings import K8s
from tsduel.targets.database import MOST_REPLICAS
from tsduel.workloads import deployments

REVISION = ("ref", "repo", "path")
# The fields that each source needs; any other of the three would have no effect.
_NEEDED = {"module": {"ref"}, "git": {"repo", "ref"}, "path": {"path"}, "binary": {"path"}}
_Named = TypeVar("_Named", bound=Mapping[str, object])


def names(pattern: str, wrong: str) -> Callable[[_Named], _Named]:
    """Return a validator of a mapping's names; ``wrong`` follows the name in the error."""

    def validate(value: _Named) -> _Named:
        for name in value:
            if not re.fullmatch(pattern, name):
                raise ValueError(f"{name!r}{wrong}")
        return value

    return validate


class Component(ComponentAsked):
    """One process. `replicas`: so many processes of this role, called ROLE, ROLE-2 and so on."""

    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = 1

    _file_names = field_validator("files")(
        names(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}", " is not a plain name of a file, like relabel.yml")
    )
    _env_names = field_validator("env")(names(r"[A-Za-z_][A-Za-z0-9_]*", " is not a name of an environment variable"))

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if not self.is_plain:
            return self
        if self.url:
            deployments.checked(self.url, self.model_fields_set)
            return self
        if self.source == "url":
            raise ValueError("source url needs `url:`, which is enough")
        if why := gobuild.why_not(self.env, self.source):
            raise ValueError(why)
        for field in REVISION:
            present, needed = bool(getattr(self, field)), field in _NEEDED[self.source]
            if needed and not present:
                raise ValueError(f"source {self.source} needs `{field}:`")
            if present and not needed:
                raise ValueError(f"source {self.source} has no use for `{field}:`; change `source:`, or leave it out")
        return self

    @property
    def is_plain(self) -> bool:
        """Whether its own fields say where the program comes from; not so in a variant with `components:`."""
        return True


class Variant(Component):
    """One side of the comparison, in the short form: one component."""

    target: str = ""
    package: str = ""
    bench: str = ""

    @property
    def parts(self) -> tuple[Component, ...]:
        """Its components; clients talk to the first."""
        return (self,)


class Experiment(Part):
    """The fields of an experiment that all kinds have."""

    needs: ClassVar[tuple[str, ...]] = ("baseline", "candidate")

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")]
    question: str = ""
    kind: str
    smoke: bool = False
    variants: Mapping[str, Variant]
    design: Design = Design()
    noise: Noise = Noise()
    watchdog: Watchdog | GoWatchdog = Watchdog()
    host: Machine = Machine()
    # Keys with lists: each setting is validated by itself, without this section (tsduel.question.matrix).
    matrix: Mapping[str, Any] = {}
    gcp: Gcp = Gcp()
    k8s: K8s = K8s()

    @field_validator("variants", check_fields=False)
    @classmethod
    def _variant_names(cls, value: Mapping[str, Variant]) -> Mapping[str, Variant]:
        names(r"[a-z][a-z0-9-]{0,30}", ": a variant's name is lower-case letters, digits and dashes")(value)
        for name in cls.needs:
            if name not in value:
                raise ValueError(f"`{name}` is needed ({name.upper()}=v1.2.3)")
        return value
