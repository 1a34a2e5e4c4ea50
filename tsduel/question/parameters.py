"""`parameters:` of an experiment: named values for flags, files and env of its variants, written as Jinja has them.

So a sweep goes over one number (`matrix: {parameters.rules: [32, 100, 300]}`) and a file has as many rules.
"""

from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from tsduel.core.bounded import bounded
from tsduel.core.errors import UserError

SECTION = "parameters"
_MOST_BITS = 1 << 16


class _Sandbox(SandboxedEnvironment):
    """Jinja's, with powers of some thousand digits: one of a billion is made in one instruction."""

    intercepted_binops = frozenset({"**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Raise each number to a power."""
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > _MOST_BITS:
            raise ValueError("a power has too many digits")
        return super().call_binop(context, operator, left, right)


_TEMPLATES = _Sandbox(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True)


def filled(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return an experiment's mapping with its parameters in its variants; texts stay as they are without parameters."""
    values = data.get(SECTION)
    if not values or not isinstance(values, dict):
        return dict(data)
    return {**data, "variants": _filled(data.get("variants"), values, f"{where}: variants")}


def _filled(value: Any, values: Mapping[str, Any], where: str) -> Any:
    if isinstance(value, dict):
        return {name: _filled(inner, values, f"{where}.{name}") for name, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, values, f"{where}.{number}") for number, inner in enumerate(value)]
    if not isinstance(value, str):
        return value
    try:
        with bounded(f"{where}: the template"):
            return _TEMPLATES.from_string(value).render(values)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - filters and methods of Python raise whatever they like
        said = str(error) or type(error).__name__
        raise UserError(f"{where}: {said}; parameters are {', '.join(values)}") from None
