"""The measured machine, as far as an experiment of any kind may speak of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Machine(BaseModel):
    """Its name in reports, and what the cache on it may take, in GB; None for no limit."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    machine: str = "local"
    cache_limit_gb: Annotated[float, Field(gt=0, le=1_000_000)] | None = 20
