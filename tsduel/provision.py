"""The second stage: where the rounds run. On a local target that is this machine, as it is."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def main(run_dir: Path) -> None:
    """Write host/outputs.json (what was provisioned) and host/inventory.json (how Ansible reaches it)."""
    directory = run_dir / "host"
    directory.mkdir(parents=True, exist_ok=True)
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    _write(directory / "outputs.json", {"target": "local", "provisioned": False})
    _write(directory / "inventory.json", {"all": {"hosts": {"local": host}}})


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
