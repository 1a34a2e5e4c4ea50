"""`parameters:` of an experiment: named values for flags, files and env of its variants, written as Jinja has them.

So a sweep goes over one number (`matrix: {parameters.rules: [32, 100, 300]}`) and a file has as many rules.
"""

from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from tsduel.core.errors import UserError

SECTION = "parameters"
_TEMPLATES = SandboxedEnvironment(
    undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
)


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
        return _TEMPLATES.from_string(value).render(values)
    except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
        raise UserError(f"{where}: {error}; parameters are {', '.join(values)}") from None
