"""One side of an experiment of databases: its components, and which values of its fields are refused."""

from collections.abc import Collection
from typing import Literal, Self

from pydantic import field_validator, model_validator

from tsduel.core.wording import allowed
from tsduel.targets import databases
from tsduel.targets.database import replicas
from tsduel.workloads import experiment


def checked(value: str, names: Collection[str], what: str) -> str:
    """Return a value that is known; a ValueError names the nearest that is."""
    if value not in names:
        raise ValueError(f"unknown {what}; {allowed(value, names)}")
    return value


class TsbsVariant(experiment.Variant):
    """One side: one component (its revision, build, flags and environment) of a database, or a list of components."""

    target: str = "victoriametrics"
    package: Literal[""] = ""
    bench: Literal[""] = ""
    components: tuple[experiment.Component, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is in the short form."""
        return not self.components

    @property
    def parts(self) -> tuple[experiment.Component, ...]:
        """Its components. Clients talk to the first, which talks to the others."""
        database = databases()[self.target]
        if self.components:
            roles = list(database.programs)
            ordered = sorted(self.components, key=lambda part: roles.index(part.role))
            return tuple(
                part.model_copy(update={"role": name, "replicas": 1})
                for part in ordered
                for name in replicas(part.role, part.replicas)
            )
        return tuple(self.model_copy(update={"role": role}) for role in database.required)

    _known_target = field_validator("target")(lambda value: checked(value, sorted(databases()), "database"))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        database = databases()[self.target]
        if self.components and (other := self.model_fields_set - {"target", "components"}):
            raise ValueError(f"either `components:` or `{min(other)}:`, which is of the short form")
        of_component = {"role", "replicas", "flags", "env", "files", "url"} & self.model_fields_set
        if of_component and not (self.components or database.main):
            raise ValueError(
                f"{min(of_component)}: {self.target} has several components; say in `components:` whose it is"
            )
        short = (self,) if "role" in self.model_fields_set else ()
        roles = [part.role for part in self.components or short or self.parts]
        for role in roles:
            if role not in database.programs:
                raise ValueError(f"{self.target} has no component {role!r}; allowed: {', '.join(database.programs)}")
            if roles.count(role) > 1:
                raise ValueError(f"component {role!r} is there twice")
        several: tuple[experiment.Component, ...] = (self, *self.components)
        for part in several:
            if part.replicas > 1 and part.role not in database.replicated:
                allowed = ", ".join(database.replicated) or "none"
                raise ValueError(f"replicas: of {part.role} {self.target} has one; allowed for: {allowed}")
        for role in database.required if not any(part.url for part in several) else ():
            if role not in roles:
                raise ValueError(f"components: {role!r} is missing, and without it there is no {self.target}")
        return self

    @model_validator(mode="after")
    def _own_flags(self) -> Self:
        refused = {flag.lstrip("-") for flag in databases()[self.target].target.refused_flags}
        for flag in (flag.partition("=")[0] for part in self.parts for flag in part.flags):
            if flag.lstrip("-") in refused:
                raise ValueError(
                    f"flags: {flag} is ours: every component is given its directory, an address "
                    "that nobody else can reach (host.port: the first port), and those of the others"
                )
        return self
