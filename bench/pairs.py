"""The pairs of the yardstick and their truth: experiments/yardstick/pairs.yaml."""

import os
from typing import Literal

import yaml
from pydantic import ValidationError

from bench import zeros
from bench.figures import PROJECT
from tsduel.calibrate import planted
from tsduel.core import caches
from tsduel.core.errors import UserError
from tsduel.core.sections import Part, first_error

TRUTH = PROJECT / "experiments/yardstick/pairs.yaml"
VICTORIAMETRICS = "https://github.com/VictoriaMetrics/VictoriaMetrics"


class Question(Part):
    """The rows that answer what is asked, each `METRIC TYPE`: of a duel, of counted work, of TSBS's own tools."""

    ours: tuple[str, ...]
    work: tuple[str, ...]
    tsbs: str


class Load(Part):
    """Data and queries, and what each of our judges sets so that it takes about the same time."""

    experiment: str
    role: str = ""
    set: str = ""
    quick: str
    gate: str
    one: str
    five: str


class Pair(Part):
    """Two programs, what is asked of them, and the truth: without a sign they do not differ."""

    load: str
    baseline: str
    candidate: str
    asked: str
    sign: Literal["+", "-", ""] = ""
    size_pct: float | None = None
    source: str


class Truth(Part):
    """The file of pairs."""

    minutes: float
    questions: dict[str, Question]
    loads: dict[str, Load]
    pairs: dict[str, Pair]


def truth() -> Truth:
    """Return the pairs."""
    # YAML's list is a tuple here, as in JSON.
    written = yaml.safe_load(TRUTH.read_text(encoding="utf-8"))
    try:
        return Truth.model_validate(written, strict=False)
    except ValidationError as error:
        raise UserError(f"{TRUTH}: {first_error(error)}") from None


def sources(pair: Pair) -> dict[str, str]:
    """Return BASELINE and CANDIDATE of a pair; what is planted is made if it is missing."""
    found = {"BASELINE": pair.baseline, "CANDIDATE": pair.candidate}
    for name in ("victoriametrics", "planted", "checkout"):
        if any(f"{{{name}}}" in text for text in found.values()):
            found = {side: text.replace(f"{{{name}}}", _place(name)) for side, text in found.items()}
    return found


def _place(name: str) -> str:
    if name == "planted":
        return str(planted.repository(caches.directory(os.environ)))
    return VICTORIAMETRICS if name == "victoriametrics" else zeros.KINDS["checkout"]().aged.removeprefix("path:")
