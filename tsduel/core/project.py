"""The path of the project's scripts, roles and experiments: in this checkout, or in an installed wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
IS_INSTALLED = (_PACKAGE / "project").is_dir()
PROJECT = _PACKAGE / "project" if IS_INSTALLED else _PACKAGE.parent
