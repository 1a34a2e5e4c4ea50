"""A/A: one binary as both variants. docs/method.md says when it passes; MEASUREMENT.md 1 is where that comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsduel.stats.power import ALPHA, FEWEST_BLOCKS
from tsduel.stats.verdict import EQUIVALENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

GATED = {"primary", "secondary"}
MOST_NAMES = 4


def verdict(document: Mapping[str, Any], expected: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    """Judge the comparison of a binary with itself: {"passed": bool, "reasons": why not, a sentence each}.

    `expected` are metrics and query types that have to be there: what has not been tested has not passed.
    """
    rows = [row for row in document["rows"] if row["family"] in GATED]
    reasons = [f"{document['checks']['failed']} checks failed"] if document["checks"]["failed"] else []
    blocks = {name: len(of["valid"]) for name, of in document["blocks"].items()}
    reasons += [
        f"{n} valid blocks, and {FEWEST_BLOCKS} is the fewest that show anything"
        for n in blocks.values()
        if n < FEWEST_BLOCKS
    ]
    reasons += _untested(rows, expected)
    for row in rows:
        size, limit, unit = _difference(row)
        if row["p_adj"] is not None and row["p_adj"] <= ALPHA and size is not None:
            reasons.append(f"{_name(row)}: called different (p {row['p_adj']:.2g}, {size:+.3g} {unit})")
        if size is not None and abs(size) >= limit / 2 > 0:
            reasons.append(
                f"{_name(row)}: the estimate is {size:+.3g} {unit}, half of its threshold is {limit / 2:.3g} {unit}"
            )
    reasons += _order_effects(rows)
    return {"passed": not reasons, "reasons": reasons}


def _difference(row: Mapping[str, Any]) -> tuple[float | None, float, str]:
    """Return a row's estimate, its threshold and their unit: percent, or the metric's own."""
    if native := row["native"]:
        return native["difference"], native["limit"], row["unit"]
    return row["change_pct"], row["threshold_pct"], "%"


def _untested(rows: Sequence[Mapping[str, Any]], expected: Iterable[tuple[str, str]]) -> list[str]:
    there = {(row["metric"], row["query_type"]) for row in rows}
    missing = [f"{metric} {query_type}".rstrip() for metric, query_type in expected if (metric, query_type) not in there]
    # Values that never differ need no test.
    missing += [_name(row) for row in rows if row["p_adj"] is None and row["verdict"] != EQUIVALENT]
    if not rows:
        return ["nothing was tested"]
    if not missing:
        return []
    more = f" and {len(missing) - MOST_NAMES} more" if len(missing) > MOST_NAMES else ""
    return [f"not tested: {', '.join(missing[:MOST_NAMES])}{more}"]


def _order_effects(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Find effects of the order within blocks: p adjusted by Holm, since twenty unadjusted tests find one anywhere."""
    tested = sorted((row for row in rows if row["order_effect_p"] is not None), key=lambda row: row["order_effect_p"])
    found, adjusted = [], 0.0
    for rank, row in enumerate(tested):
        adjusted = max(adjusted, min(1.0, row["order_effect_p"] * (len(tested) - rank)))
        size = row["order_effect_pct"]
        if adjusted <= ALPHA or (size is not None and abs(size) > row["threshold_pct"] / 2):
            how = "" if size is None else f" {size:+.1f} % where it ran second"
            found.append(f"{_name(row)}: order effect{how} (p {row['order_effect_p']:.2g}, {adjusted:.2g} for all)")
    return found


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['metric']} {row['query_type']}".rstrip()
