"""The written question: what an experiment file may say, and what is allowed in it.

An experiment is YAML. Every field but `name` has a default; unknown keys, wrong types and impossible
values are refused with the file, the key and a sentence that says what is allowed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tsduel.core import defaults, metrics
from tsduel.core.errors import UserError
from tsduel.core.machine import Machine
from tsduel.places.gcp.settings import Gcp
from tsduel.question import refusals
from tsduel.question.noise import Noise
from tsduel.targets.programs import TARGETS
from tsduel.workloads.tsbs import queries as tsbs_queries

VARIANT_NAME = re.compile(r"^[a-z][a-z0-9-]{0,30}$")
INTERVAL = re.compile(r"^([1-9][0-9]*)(s|m|h)$")
SECONDS = {"s": 1, "m": 60, "h": 3600}
AnyVariant = TypeVar("AnyVariant", bound="Part")


class Part(BaseModel):
    """A section of an experiment: strict, nothing unknown in it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def check_env_names(value: dict[str, str]) -> dict[str, str]:
    """Validate the names of a variant's environment variables."""
    for name in value:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"{name!r} is not a name of an environment variable")
    return value


def needs_source(variant: AnyVariant) -> AnyVariant:
    """Validate that a variant says where it comes from."""
    source = variant.source  # type: ignore[attr-defined]  # both kinds of variants have it, and share no class that does
    for field in {"module": ["ref"], "git": ["repo", "ref"], "path": ["path"], "binary": ["path"]}[source]:
        if not getattr(variant, field):
            raise ValueError(f"source {source} needs `{field}:`")
    return variant


class Variant(Part):
    """One side of the comparison: which revision of which database, built how, started with what."""

    target: str = "victoriametrics"
    source: Literal["module", "git", "path", "binary"] = "module"
    ref: str = ""
    repo: str = ""
    path: str = ""
    flags: list[str] = []
    env: dict[str, str] = {}
    go: Annotated[str, Field(pattern=r"^(local|go1\.[0-9]+(\.[0-9]+)?)$")] = "local"

    @field_validator("target")
    @classmethod
    def _known_target(cls, value: str) -> str:
        if value not in TARGETS:
            raise ValueError(f"unknown database; allowed: {', '.join(sorted(TARGETS))}")
        return value

    _env_names = field_validator("env")(check_env_names)
    _source_is_complete = model_validator(mode="after")(needs_source)


class Workload(Part):
    """The data: TSBS use case, simulated hosts, pinned window [start, end), interval, seed, loader."""

    use_case: str = "cpu-only"
    scale: Annotated[int, Field(ge=1, le=10_000_000)] = 4000
    start: str = "2025-06-10T00:00:00Z"
    end: str = "2025-06-11T00:00:00Z"
    interval: str = "80s"
    seed: Annotated[int, Field(ge=1)] = 8428  # 0 would mean "the current time" to TSBS
    workers: Annotated[int, Field(ge=1, le=1024)] = 4
    batch_size: Annotated[int, Field(ge=1)] = 10_000

    @field_validator("use_case")
    @classmethod
    def _known_use_case(cls, value: str) -> str:
        if value not in tsbs_queries.USE_CASES:
            raise ValueError(f"unknown use case; allowed: {', '.join(tsbs_queries.USE_CASES)}")
        return value

    @field_validator("start", "end", mode="before")
    @classmethod
    def _utc_time(cls, value: object) -> str:
        """Accept a YAML timestamp or a string; store RFC 3339 in UTC, whole seconds."""
        try:
            when = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
            in_utc = when.astimezone(UTC)
        except (ValueError, OverflowError):
            raise ValueError("not a time; write it like 2025-06-10T00:00:00Z") from None
        if when.tzinfo is None or when.microsecond:
            raise ValueError("write the time in whole seconds with its zone, like 2025-06-10T00:00:00Z")
        return in_utc.strftime("%Y-%m-%dT%H:%M:%SZ")

    @field_validator("interval")
    @classmethod
    def _interval(cls, value: str) -> str:
        if not INTERVAL.fullmatch(value):
            raise ValueError("write it like 80s, 1m or 1h")
        return value

    @property
    def interval_s(self) -> int:
        """The time between two samples of a series, in seconds."""
        match = INTERVAL.fullmatch(self.interval)
        assert match is not None  # noqa: S101 - the validator has seen to it
        return int(match[1]) * SECONDS[match[2]]

    @property
    def window_s(self) -> int:
        """The length of the data's window, in seconds."""
        return int((datetime.fromisoformat(self.end) - datetime.fromisoformat(self.start)).total_seconds())

    @model_validator(mode="after")
    def _window(self) -> Workload:
        if self.window_s < self.interval_s:
            raise ValueError(f"the window {self.start} to {self.end} is shorter than one interval of {self.interval}")
        return self


class Queries(Part):
    """The query phases: types, client workers, how many queries, state of the database's caches."""

    types: Annotated[list[str], Field(min_length=1)] = list(tsbs_queries.PARTITION_INDEX_TYPES)
    workers: Annotated[int, Field(ge=1, le=1024)] = 4
    count: Annotated[int, Field(ge=1)] | None = None
    seconds: Annotated[float, Field(gt=0, le=3600)] = 15.0
    max_count: Annotated[int, Field(ge=20)] = 20_000
    cache: Literal["as-loaded", "cold", "warm", "off"] = "as-loaded"
    seed: Annotated[int, Field(ge=1)] = 8428
    shared_seed: bool = False
    responses: Annotated[int, Field(ge=1, le=1000)] = 20

    @field_validator("seconds", mode="before")
    @classmethod
    def _whole_seconds(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("types")
    @classmethod
    def _known_types(cls, value: list[str]) -> list[str]:
        for name in value:
            tsbs_queries.window_hours(name)
        if len(set(value)) != len(value):
            raise ValueError("a query type is named twice")
        return value


class Settle(Part):
    """When a loaded database counts as quiet: `polls` polls in a row, `poll_s` seconds apart."""

    mode: Literal["natural", "merged"] = "natural"
    timeout_s: Annotated[int, Field(ge=1)] = 600
    polls: Annotated[int, Field(ge=1)] = 3
    poll_s: Annotated[int, Field(ge=1)] = 2


class Design(Part):
    """How many blocks, in which order; fixed in the plan before the first round."""

    blocks: Annotated[int, Field(ge=1, le=99)] = 10
    warmup_blocks: Annotated[int, Field(ge=0, le=1)] = 1
    seed: Annotated[int, Field(ge=0)] = 1
    max_failed_rounds: Annotated[int, Field(ge=0)] = 2
    thresholds: dict[str, Annotated[float, Field(gt=0, lt=100)]] = {}

    @field_validator("thresholds")
    @classmethod
    def _known_metrics(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            if name not in metrics.METRICS:
                raise ValueError(f"{name!r} is no metric; allowed: {', '.join(sorted(metrics.METRICS))}")
        return value


class Watchdog(Part):
    """After how many seconds without progress a phase is ended."""

    health_s: Annotated[int, Field(ge=1)] = 60
    load_stall_s: Annotated[int, Field(ge=2)] = 20
    query_stall_s: Annotated[int, Field(ge=2)] = 60
    stop_s: Annotated[int, Field(ge=1)] = 120


class Host(Machine):
    """The measured machine."""

    port: Annotated[int, Field(ge=1024, le=65535)] = defaults.PORT
    drop_caches: bool = False


class Report(Part):
    """What the report dwells on. `shift`: on the shift in service time; None for where one build is compared twice."""

    shift: bool | None = None


class Experiment(Part):
    """The whole written question."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")]
    question: str = ""
    kind: Literal["tsbs"] = "tsbs"
    smoke: bool = False
    variants: dict[str, Variant] = {
        "baseline": Variant(ref="v1.132.0"),
        "candidate": Variant(ref="v1.133.0"),
    }
    workload: Workload = Workload()
    queries: Queries = Queries()
    settle: Settle = Settle()
    design: Design = Design()
    watchdog: Watchdog = Watchdog()
    noise: Noise = Noise()
    host: Host = Host()
    report: Report = Report()
    gcp: Gcp = Gcp()

    @field_validator("variants")
    @classmethod
    def _variant_names(cls, value: dict[str, Variant]) -> dict[str, Variant]:
        for name in value:
            if not VARIANT_NAME.fullmatch(name):
                raise ValueError(f"{name!r}: a variant's name is lower-case letters, digits and dashes")
        if not {"baseline", "candidate"} <= set(value):
            raise ValueError("both `baseline` and `candidate` are needed")
        return value

    @model_validator(mode="after")
    def _queries_fit(self) -> Experiment:
        for name in self.queries.types:
            hours = tsbs_queries.window_hours(name)
            if hours * 3600 >= self.workload.window_s:
                raise ValueError(
                    f"queries.types: {name} reads {hours} h, which must be strictly shorter than the data's "
                    f"window of {self.workload.window_s / 3600:g} h (workload.start, workload.end)",
                )
        if self.queries.count is None and self.design.warmup_blocks == 0:
            raise ValueError(
                "queries.count: needed when design.warmup_blocks is 0, since the warm-up block is where "
                "the count that fills queries.seconds is found",
            )
        return self


def read(path: Path) -> dict[str, Any]:
    """Read an experiment file as a mapping, not yet validated."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        known = ", ".join(sorted(str(p) for p in Path("experiments").glob("*.yml")))
        raise UserError(f"{path}: {error.strerror}; experiments here: {known or 'none'}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from None
    try:
        data = yaml.safe_load(text)
    # PyYAML raises a bare ValueError for a date like 2025-13-45.
    except (yaml.YAMLError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        raise UserError(f"{path}{line}: not YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: an experiment is a mapping that starts with `name:`")
    return data


Question = TypeVar("Question", bound=BaseModel)


def validate(data: dict[str, Any], where: str) -> Experiment:
    """Check a mapping against the schema of databases; `where` names its origin in messages."""
    return validate_as(Experiment, data, where)


def validate_as(model: type[Question], data: dict[str, Any], where: str) -> Question:
    """Check a mapping against a schema; question.validate knows which one it needs."""
    for key, text in refusals.strings(data):
        # No file's name, flag or variable can hold one, and between flags it would be a separator.
        if "\0" in text:
            raise UserError(f"{where}: {key}: {text!r} contains a NUL character, which no program can be given")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        sentences = [refusals.sentence(item, model) for item in error.errors()]
        raise UserError("\n".join(f"{where}: {sentence}" for sentence in sentences)) from None
