"""The section ``k8s`` of an experiment: the size of each pod, and what an hour of it costs."""

from typing import Annotated

from pydantic import Field

from tsduel.core.sections import Part


class K8s(Part):
    """A pod, for TARGET=k8s; all of a run are alike."""

    # Whole CPUs, since a node with a static CPU manager gives no others of their own.
    cpus: Annotated[int, Field(ge=1, le=1024)] = 2
    memory_gb: Annotated[int, Field(ge=1, le=24576)] = 4
    # None: twice the database, the data, and the programs.
    disk_gb: Annotated[int, Field(ge=2, le=65536)] | None = None
    # A cluster that makes nodes on demand takes minutes.
    wait_s: Annotated[int, Field(ge=5, le=7200)] = 300
    lifetime_h: Annotated[float, Field(ge=0.2, le=2880)] | None = None
    # Of one pod, in USD.
    price_h: Annotated[float, Field(gt=0, le=1000)] | None = None
