"""Whether a run has all its programs already, so that its machine need not be prepared again; why it has not."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tsduel.core import files
from tsduel.core.errors import UserError
from tsduel.core.plan import Plan

AT_FAULT = "the sources do not build"
"""What ansible/builder.py writes last into the log of such a build."""


def is_whole(run_dir: Path, plan: Plan) -> bool:
    """Return whether every program of the plan was built for this run and is, byte for byte, where its record says.

    Packages and Go, which Ansible installs too, serve only building, and tsduel-host checks what the blocks need of the
    machine. An unchanged program must not be built again in the middle of a run: with a Go that was updated meanwhile,
    the same revision would give another program.
    """
    try:
        return all(_is_unchanged(path, sha256) for path, sha256 in _programs(run_dir, plan))
    except UserError:
        # A record that was cut short: the build writes it again.
        return False


def why_none(run_dir: Path, variant: str) -> str:
    """Return the log of a variant whose sources do not build, here or on any host.

    Empty where it was built, and where the network or the machine has failed.
    """
    for build in (run_dir / "build", *sorted(run_dir.glob("host/*/build"))):
        log, record = build / f"{variant}.log", build / f"{variant}.json"
        if log.exists() and not record.exists() and files.end_of(log).rstrip().endswith(AT_FAULT):
            return str(log)
    return ""


def _programs(run_dir: Path, plan: Plan) -> Iterator[tuple[str | Path | None, str | None]]:
    """Yield path and checksum of every program that the plan needs; None if there is no record of it."""
    for variant in plan.variants if not plan.deployed else ():
        built = {part["role"]: part for part in _record(run_dir, variant.name).get("components", [])}
        for component in variant.components:
            record = built.get(component.role, {})
            is_own = record.get("build_key") == component.build_key
            yield record.get("binary") if is_own else None, record.get("sha256")
    if plan.tsbs:
        record = _record(run_dir, "tsbs")
        programs = record.get("sha256") if record.get("version") == plan.tsbs.version else None
        for name, sha256 in (programs or {"": None}).items():
            yield Path(record.get("bin_dir") or "") / name, sha256
    agent = _record(run_dir, "agent")
    yield agent.get("binary"), agent.get("sha256")


def _record(run_dir: Path, name: str) -> dict[str, Any]:
    path = run_dir / "build" / f"{name}.json"
    return files.read_json(path) if path.exists() else {}


def _is_unchanged(path: str | Path | None, sha256: str | None) -> bool:
    """Return whether an executable is there with this checksum; a hundredth of a second for 30 MB."""
    if not path or not sha256 or not os.access(path, os.X_OK):
        return False
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == sha256
