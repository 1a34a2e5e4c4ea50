"""The databases. Every module here with a `DATABASE` is a database; there is no other list of them."""

import importlib
import pkgutil
from functools import cache

from tsduel.targets.database import Database

__all__ = ["Database", "databases"]


@cache
def databases() -> dict[str, Database]:
    """Return every database by its name."""
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    found = (getattr(module, "DATABASE", None) for module in modules)
    return {database.target.name: database for database in found if isinstance(database, Database)}
