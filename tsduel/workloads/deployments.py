"""Servers that run already: their URLs, and what of an experiment goes with them."""

from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import urlsplit

LOCAL = ("localhost", "127.0.0.1", "::1")


def checked(url: str, others: Collection[str]) -> None:
    """Raise a ValueError if a URL is none that clients can use, or the ``given`` keys have no effect beside it."""
    if without := {"source", "ref", "repo", "path", "go", "flags", "env", "files", "replicas"} & set(others):
        raise ValueError(
            f"{min(without)}: what has a `url:` runs already, and is neither built nor started: leave it out"
        )
    parts = urlsplit(url)
    try:
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole or parts.query or parts.fragment or any(map(str.isspace, url)):
        raise ValueError("url: write it like http://HOST:PORT, with a path if one is before those of the database")
    if parts.scheme != "http":
        raise ValueError(
            f"url: {parts.scheme} is not spoken to servers: give their address behind what ends TLS, http://HOST:PORT"
        )


def label(url: str) -> str:
    """Return host, port and path of a URL."""
    parts = urlsplit(url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def is_local(url: str) -> bool:
    """Whether a server is on the client's host, where its CPU cannot be told from that of others."""
    return urlsplit(url).hostname in LOCAL


def refused(urls: list[str], against: dict[str, bool]) -> Iterator[str]:
    """Yield why an experiment cannot be about servers that run already; ``against``: keys that do not go with them."""
    if any(urls) and not all(urls):
        yield "variants: either all of them run already and have a `url:`, or none does"
    for key, is_so in against.items():
        if is_so and any(urls):
            yield (
                f"{key}: servers that run already (`url:`) are asked in turn, and nothing of them is started, stopped, "
                "wiped or held: leave it out"
            )


def settled(experiment: Any) -> dict[str, Any]:
    """Return the sections that servers which run already change: no fresh starts, no turns, and nothing is pinned."""
    duel = {"hold": False, "sittings": 1} | ({"load_s": None} if experiment.design.load == "in_turn" else {})
    changed = {
        "duel": experiment.duel.model_copy(update=duel),
        "design": experiment.design.model_copy(update={"reload": "once"}),
        "host": experiment.host.model_copy(update={"pin": "off"}),
    }
    if any(is_local(part.url) for variant in experiment.variants.values() for part in variant.parts):
        noise = {"foreign_cpu_pct": None, "foreign_cpu_flag_pct": None}
        changed["noise"] = experiment.noise.model_copy(update=noise)
    return changed
