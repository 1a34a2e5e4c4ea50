"""Whether a run has all its programs already, so that its machine need not be prepared again to go on."""

import hashlib
import os
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.plan import Plan


def is_whole(run_dir: Path, plan: Plan) -> bool:
    """Return whether every program of the plan was built for this run and is, byte for byte, where its record says.

    What Ansible would do beyond that serves building only: packages and Go. What the blocks themselves need of the
    machine is looked at by tsduel-host. And a program that is as it was must not be built anew in the middle of a run:
    a Go that was updated meanwhile would make another one of the same revision.
    """
    try:
        return _variants(run_dir, plan) and _tsbs(run_dir, plan) and _is_one(_record(run_dir, "agent"))
    except UserError:
        # A record that was cut short is written again by the build.
        return False


def _variants(run_dir: Path, plan: Plan) -> bool:
    for variant in plan.variants:
        built = {part["role"]: part for part in _record(run_dir, variant.name).get("components", [])}
        for component in variant.components:
            record = built.get(component.role, {})
            if record.get("build_key") != component.build_key or not _is_one(record):
                return False
    return True


def _tsbs(run_dir: Path, plan: Plan) -> bool:
    if plan.tsbs is None:
        return True
    record = _record(run_dir, "tsbs")
    programs = record.get("sha256") or {}
    directory = Path(record.get("bin_dir") or "")
    return (
        record.get("version") == plan.tsbs.version
        and bool(programs)
        and all(_is(directory / name, digest) for name, digest in programs.items())
    )


def _record(run_dir: Path, name: str) -> dict[str, Any]:
    path = run_dir / "build" / f"{name}.json"
    return read_json(path) if path.exists() else {}


def _is_one(record: dict[str, Any]) -> bool:
    return _is(record.get("binary"), record.get("sha256"))


def _is(path: str | Path | None, sha256: str | None) -> bool:
    """Return whether an executable is there with this checksum; a hundredth of a second for 30 MB."""
    if not path or not sha256 or not os.access(path, os.X_OK):
        return False
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == sha256
