"""Nothing is rented that nobody agreed to: MAX_COST, YES, or an answer on the terminal."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from tsduel.core import rundir
from tsduel.core.errors import UserError
from tsduel.places.gcp import place, prices

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tsduel.places.gcp.settings import Gcp


def offer(plan: dict[str, Any], settings: Gcp, environment: Mapping[str, str]) -> None:
    """Complete a plan's ``place`` with machine, lifetime and price, and have the user agree to it."""
    plan["place"] = place.complete(
        plan["place"], settings, run=plan["run"], disk=plan["estimate"], seconds=plan["duration"]["total_s"]
    )
    plan["host"]["machine"] = settings.machine
    ask(plan["place"], environment)


def offer_again(run_dir: Path, plan: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Have the user agree once more where a run that is gone on with would rent a machine again."""
    run = rundir.open_run(run_dir)
    if not run.json("host/outputs.json").get("provisioned") and not run.json("host/fetched.json"):
        ask(plan["place"], environment)


def ask(place: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Print machine, hours and price, and return if the user agrees; else a UserError."""
    for line in prices.describe(place):
        print(line, flush=True)
    worst = place["price"]["worst"]
    limit = _limit(environment.get("MAX_COST", "").strip())
    if worst > limit:
        raise UserError(
            f"MAX_COST: it costs {worst:.2f} USD at worst, and MAX_COST allows {limit:.2f}; take a smaller machine "
            "(gcp.machine), fewer blocks (BLOCKS=), or a shorter life (gcp.lifetime_h), or raise MAX_COST"
        )
    agreed = environment.get("YES", "").strip()
    if agreed not in {"", "0", "1"}:
        raise UserError(f"YES: {agreed!r} is neither 1 nor 0")
    if agreed == "1":
        return
    if not sys.stdin.isatty():
        raise UserError("nobody is there to agree to this price (no terminal); add YES=1, and MAX_COST= for a limit")
    if input("Rent it? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise UserError("not rented; nothing was made")


def _limit(text: str) -> float:
    if not text:
        return math.inf
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise UserError(f"MAX_COST: {text!r} is no amount of USD; write it like MAX_COST=5")
    return limit
