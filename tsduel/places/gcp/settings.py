"""What an experiment may say about the machine that is rented: its section ``gcp``."""

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from tsduel.core.sections import Part
from tsduel.places.gcp.prices import region_of

# The newest Debian 12 when this was written; pinned, since a family would change from run to run.
IMAGE = "projects/debian-cloud/global/images/debian-12-bookworm-v20261006"
ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z]")


class Gcp(Part):
    """The rented machine, for TARGET=gcp; what Terraform refuses is refused in terraform/variables.tf."""

    machine: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{2,40}$")] = "e2-standard-8"
    # Tried in this order while a zone has no such machine left.
    zones: Annotated[list[str], Field(min_length=1)] = [
        "us-central1-a",
        "us-central1-b",
        "us-central1-c",
        "us-central1-f",
    ]
    spot: bool = False
    image: Annotated[str, Field(pattern=r"^projects/[a-z0-9.:-]+/global/images/[a-z][a-z0-9-]*$")] = IMAGE
    disk_type: Literal["pd-balanced", "pd-ssd", "hyperdisk-balanced"] = "pd-balanced"
    disk_gb: Annotated[int, Field(ge=20, le=65536)] | None = None
    lifetime_h: Annotated[float, Field(ge=0.2, le=2880)] | None = None
    price_h: Annotated[float, Field(gt=0, le=1000)] | None = None

    @field_validator("lifetime_h", "price_h", mode="before")
    @classmethod
    def _whole_numbers(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

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
