"""What can be known of a query's text without the database, by the parser of its language (host/expressions)."""

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from tsduel.core.errors import UserError
from tsduel.core.wording import last_line
from tsduel.workloads.own import agent


@dataclass(frozen=True)
class Reading:
    """`wrong` says in a phrase why a query is refused, "" if it is not.

    `lacks`: a name that the data do not have, without which it has no answer. `back_s`: how far before its time it
    reads.
    """

    wrong: str = ""
    lacks: str = ""
    back_s: float = 0.0


_ENDLESS = Reading("takes its parser more than ten seconds, or a gigabyte of memory: write less")


def examine(texts: Iterable[str], language: str, names: Iterable[str] = ()) -> dict[str, Reading]:
    """Examine queries whose placeholders are filled; `language`: metricsql, promql or influxql.

    ``names``: all that the data have; none if they are not known.
    """
    found: dict[str, Reading] = {}
    waiting = list(dict.fromkeys(texts))
    asked = {"language": language, "names": list(names)}
    while waiting:
        done = subprocess.run(
            [*agent.go("host"), "./expressions"],
            input=json.dumps({**asked, "texts": waiting}), capture_output=True, text=True, check=False,
        )  # fmt: skip
        begun, *lines = done.stdout.splitlines() or [""]
        if not begun:
            raise UserError(f"the parsers of queries cannot be built: {last_line(done.stderr)}")
        found |= {text: Reading(**json.loads(line)) for text, line in zip(waiting, lines, strict=False)}
        if left := waiting[len(lines) :]:
            found[left[0]] = _ENDLESS
        waiting = left[1:]
    return found
