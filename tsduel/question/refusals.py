"""pydantic's errors about an experiment, as sentences."""

import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from tsduel.core.wording import did_you_mean

_GONE = {
    "hosts": "components are not started on hosts of their own any more: start them there by your own means, and name "
    "them: `variants: baseline: {url: http://HOST:PORT}` (docs/deployments.md)"
}
"""Keys of earlier versions, and what to write in their place."""
_KNOBS = {
    "variants": ": two revisions, BASELINE=v1.132.0 CANDIDATE=v1.133.0",
    "gobench": ": a package of the module, PACKAGE=./lib/storage",
    "gobench.package": ": a package of the module, PACKAGE=./lib/storage",
}
"""What sets a key that is missing, where a command has no experiment of its own."""


def strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string of a mapping with its key, and also the keys themselves."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from strings(item, f"{key}.{number}")
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{key}.{name}".removeprefix(".")
            yield inner, str(name)
            yield from strings(item, inner)


def sentence(item: Any, root: type[BaseModel]) -> str:
    """Return one of pydantic's errors as a sentence with its key; `root` is the model that was validated."""
    path = [str(part) for part in item["loc"]]
    key = ".".join(path)
    if item["type"] == "extra_forbidden" and key in _GONE:
        return f"{key}: {_GONE[key]}"
    if item["type"] == "extra_forbidden":
        keys = _keys_at(path[:-1], root)
        return f"{key}: unknown key; allowed here: {', '.join(keys)}{did_you_mean(path[-1], keys)}"
    if item["type"] == "value_error":
        message = str(item["ctx"]["error"])
        return f"{key}: {message}" if key else message
    if item["type"] == "missing":
        return f"{key}: is needed{_KNOBS.get(key, '')}"
    near = did_you_mean(item["input"], re.findall(r"'([^']+)'", item["msg"])) if isinstance(item["input"], str) else ""
    return f"{key}: {item['msg'][0].lower()}{item['msg'][1:]} (it is {item['input']!r}){near}"


def _keys_at(path: list[str], root: type[BaseModel]) -> list[str]:
    model = root
    for part in path:
        field = model.model_fields.get(part)
        # A section, or the entries of a mapping or a list (variants, components).
        kinds = (field.annotation, *get_args(field.annotation)) if field else ()
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), model)
    return sorted(model.model_fields)
