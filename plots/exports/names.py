"""Names for other tools, made of units that the author of a benchmark chose: any word may be one."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping

LONGEST = 64
"""Of a slug of Bencher's."""


def safe(said: Mapping[str, str], joiner: str) -> dict[str, str]:
    """Return for each key its words in lower-case letters and digits, with `joiner` between them, at most LONGEST long.

    No two keys get the same name: where words are no help, a part of the key's hash is added, which stays the same from
    run to run.
    """
    plain = {key: re.sub(r"[^a-z0-9]+", joiner, text.lower()).strip(joiner) for key, text in said.items()}
    times = Counter(plain.values())
    return {
        key: text if text and times[text] == 1 and len(text) <= LONGEST else _told_apart(key, text, joiner)
        for key, text in plain.items()
    }


def _told_apart(key: str, text: str, joiner: str) -> str:
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return f"{text[: LONGEST - len(digest) - 1].rstrip(joiner)}{joiner}{digest}".lstrip(joiner)
