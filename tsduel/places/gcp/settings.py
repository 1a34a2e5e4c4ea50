"""The section ``gcp`` of an experiment: the machine to rent."""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tsduel.core.sections import Part
from tsduel.places.gcp.prices import region_of

# The plan replaces the family by its newest image.
IMAGE = "projects/debian-cloud/global/images/family/debian-12"
# Series that take only Hyperdisk, that take none, that have one thread a core, and that are no x86 machines.
HYPERDISK_ONLY = {"c4", "c4d", "h4d", "m4", "n4", "n4d", "x4"}
NO_HYPERDISK = {"c2", "c2d", "e2", "n1", "n2", "n2d", "t2d"}
NO_SMT = {"h3", "h4d", "t2d"}
ARM = {"a4x", "c4a", "n4a", "t2a"}
SHARED = re.compile("e2-(custom-)?(micro|small|medium)(-.*)?|f1-micro|g1-small")
# A type that Google names, or of so many CPUs and MiB: n2-custom-8-32768, of N1 without the series.
MACHINE = re.compile(r"[a-z][a-z0-9]*-[a-z]+-[0-9]+(-[a-z]+)?|([a-z][a-z0-9]*-)?custom-[0-9]+-[0-9]+(-ext)?")
_PROJECT, _NAME = r"^projects/[a-z0-9.:-]+", "[a-z][a-z0-9-]*"
Network = Annotated[str, Field(pattern=rf"{_PROJECT}/global/networks/{_NAME}$")]
Subnetwork = Annotated[str, Field(pattern=rf"{_PROJECT}/regions/{_NAME}/subnetworks/{_NAME}$")]
KmsKey = Annotated[str, Field(pattern=rf"{_PROJECT}/locations/{_NAME}/keyRings/[\w-]+/cryptoKeys/[\w-]+$")]
LabelKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
TagKey = Annotated[str, Field(pattern=r"^tagKeys/[0-9]+$")]
# Fields that an organisation may ask for, passed on as they are.
ORGANISATION = ("network", "subnetwork", "kms_key", "labels", "tags")
ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z]")


class Gcp(Part):
    """The rented machine, for TARGET=gcp."""

    machine: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{2,40}$")] = "e2-standard-8"
    # Tried in this order while a zone has no such machine left.
    zones: Annotated[list[str], Field(min_length=1)] = [f"us-central1-{letter}" for letter in "abcf"]
    spot: bool = False
    image: Annotated[str, Field(pattern=r"^projects/[a-z0-9.:-]+/global/images/(family/)?[a-z][a-z0-9-]*$")] = IMAGE
    # None: the type that the machine takes.
    disk_type: Literal["pd-balanced", "pd-ssd", "hyperdisk-balanced"] | None = None
    disk_gb: Annotated[int, Field(ge=20, le=65536)] | None = None
    lifetime_h: Annotated[float, Field(ge=0.2, le=2880)] | None = None
    price_h: Annotated[float, Field(gt=0, le=1000)] | None = None
    # 1: every CPU is a core; half as many CPUs for the same price.
    threads_per_core: Literal[1, 2] = 2
    os_login: bool = False
    guest_attributes: bool = True
    # What organisations ask for. With a network of theirs none is made, nor a rule that lets SSH in.
    network: Network | None = None
    subnetwork: Subnetwork | None = None
    kms_key: KmsKey | None = None
    labels: dict[LabelKey, str] = {}
    tags: dict[TagKey, str] = {}

    @field_validator("zones")
    @classmethod
    def _one_region(cls, value: list[str]) -> list[str]:
        for zone in value:
            if not ZONE.fullmatch(zone):
                raise ValueError(f"{zone!r} is no zone; write it like us-central1-a")
        if len({region_of(zone) for zone in value}) > 1:
            raise ValueError(
                f"all in one region, since a price is a region's; these are in several: {', '.join(value)}"
            )
        return value

    @model_validator(mode="after")
    def _of_one_machine(self) -> Self:
        series = self.machine.partition("-")[0]
        if SHARED.fullmatch(self.machine):
            raise ValueError(
                f"machine: {self.machine} has no cores of its own, and would measure its neighbours (e2-micro, "
                "e2-small, e2-medium, f1-micro and g1-small share one): take one like e2-standard-8"
            )
        if not MACHINE.fullmatch(self.machine):
            raise ValueError(
                f"machine: {self.machine} is no type of machine: write it like e2-standard-8, or like "
                "n2-custom-8-32768 (CPUs and MiB)"
            )
        if series in ARM:
            raise ValueError(f"machine: a {self.machine} is an Arm machine: take an x86 one, like e2-standard-8")
        if series in HYPERDISK_ONLY and self.disk_type not in {None, "hyperdisk-balanced"}:
            raise ValueError(f"disk_type: a {self.machine} takes hyperdisk-balanced only; leave disk_type away")
        if series in NO_HYPERDISK and self.disk_type == "hyperdisk-balanced":
            raise ValueError(f"disk_type: a {self.machine} takes no Hyperdisk; take pd-balanced or pd-ssd")
        if series in NO_SMT and self.threads_per_core == 1:
            raise ValueError(f"threads_per_core: a {self.machine} has one thread a core already; leave it out")
        return self

    @property
    def disk(self) -> str:
        """The disk's type: `disk_type`, else the type that the machine takes."""
        default = "hyperdisk-balanced" if self.machine.partition("-")[0] in HYPERDISK_ONLY else "pd-balanced"
        return self.disk_type or default
