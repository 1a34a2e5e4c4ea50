"""Safe names for other tools, from units of benchmarks, which may be any word."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping

LONGEST = 64
"""Most characters of a slug of Bencher."""


def safe(words: Mapping[str, str], joiner: str) -> dict[str, str]:
    """Return for each key its words in lower-case letters and digits, with `joiner` between them, at most LONGEST long.

    A name that is empty, too long or not unique ends with a part of the key's hash, the same in every run.
    """
    names = {key: re.sub(r"[^a-z0-9]+", joiner, text.lower()).strip(joiner) for key, text in words.items()}
    times = Counter(names.values())
    for key, name in names.items():
        if not name or times[name] > 1 or len(name) > LONGEST:
            digest = hashlib.sha256(key.encode()).hexdigest()[:8]
            names[key] = f"{name[: LONGEST - len(digest) - 1].rstrip(joiner)}{joiner}{digest}".lstrip(joiner)
    return names
