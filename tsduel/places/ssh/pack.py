"""Packs what goes to the other machine: the program and scripts, the plan, sources and data that only exist here.

The adapters are copied into the run first, wherever its blocks run: no later change of this checkout reaches them.
"""

import gzip
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tsduel.core import caches, files
from tsduel.core.errors import UserError
from tsduel.core.plan import Component
from tsduel.core.project import PROJECT
from tsduel.core.repository import files_of, git, says
from tsduel.core.rundir import open_run

ADAPTERS = ("scripts/lib", "scripts/targets")
KEPT, ARCHIVE = "project", "host/project.tar.gz"
_BUILD = (*(f"ansible/{name}.py" for name in ("build", "builder", "checkout", "wholefiles")), "ansible/roles")
PARTS = ("scripts", "host", *_BUILD, "requirements-go.lock")


def main(run_dir: Path, *, sources: bool = True) -> None:
    """Write host/project.tar.gz (the same bytes for the same files), host/data/KEY, and host/sources/BUILD_KEY."""
    keep_adapters(run_dir)
    _write_archive(run_dir)
    _bring_data(run_dir)
    brought = run_dir / "host" / "sources"
    brought.mkdir(parents=True, exist_ok=True)
    plan = open_run(run_dir).plan
    for variant in plan.variants if sources and not plan.deployed else ():
        for component in variant.components:
            target = brought / component.build_key
            if not target.exists():
                _bring(component, target)


def keep_adapters(run_dir: Path) -> None:
    """Copy this checkout's adapters into the run, unless it may have blocks: then it goes on with its own."""
    kept = run_dir / KEPT
    refuse_other_adapters(run_dir)
    if kept.exists() and _has_begun(run_dir):
        return
    partial = files.partial_of(kept)
    for part in ADAPTERS:
        shutil.copytree(PROJECT / part, partial / part)
    shutil.rmtree(kept, ignore_errors=True)
    partial.rename(kept)


def refuse_other_adapters(run_dir: Path) -> None:
    """Raise a UserError if a run that has begun would go on with other adapters than its own, unless KEPT=1."""
    if not (run_dir / KEPT).exists() or not _has_begun(run_dir):
        return
    run = open_run(run_dir)
    before, now = _adapters(run_dir / KEPT), _adapters(PROJECT)
    other = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    whole = all((run_dir / f"raw/{row.host}/{row.name}/block.json").exists() for row in run.due)
    if other and not whole and os.environ.get("KEPT", "").strip() != "1":
        raise UserError(
            f"{run_dir}: this checkout has other adapters ({', '.join(other[:3])}) than the run's blocks: new blocks "
            f"could not be compared with them. To go on with those of the run: make {run.plan.kind} RUN={run_dir.name} "
            "KEPT=1. To start anew with these: the same command without RUN="
        )


def _has_begun(run_dir: Path) -> bool:
    """Return whether there may be blocks: where our archive was brought, some may be finished that are not here yet."""
    return (run_dir / ARCHIVE).exists() or any(run_dir.glob("raw/*/[0-9]*/block.json"))


def _adapters(root: Path) -> dict[str, bytes]:
    paths = (path for part in ADAPTERS for path in (root / part).rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def _bring_data(run_dir: Path) -> None:
    """Take the user's own data from the cache, where they were read when the run was planned."""
    brought, cache = run_dir / "host" / "data", caches.directory(os.environ) / "workload"
    brought.mkdir(parents=True, exist_ok=True)
    plan = open_run(run_dir).plan
    for key in {file.key for file in plan.workload.data} if plan.workload and plan.workload.own_data else ():
        target = brought / key
        target.mkdir(exist_ok=True)
        for name in ("data.zst", "data.zst.json"):
            try:
                shutil.copyfile(cache / key / name, target / name)
            except FileNotFoundError as error:
                raise UserError(f"{error.filename}: the data are no longer in the cache: start a new run") from None


def _files(run_dir: Path) -> Iterator[tuple[Path, str]]:
    for top, parts in ((PROJECT, PARTS), (run_dir / KEPT, ADAPTERS)):
        for root in (top / part for part in parts):
            for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
                name = str(path.relative_to(top))
                ours = top == PROJECT and name.startswith(tuple(f"{part}/" for part in ADAPTERS))
                if path.is_file() and "__pycache__" not in path.parts and not ours:
                    yield path, f"project/{name}"


def _write_archive(run_dir: Path) -> None:
    packed = io.BytesIO()
    planned = [(path, f"plan/{path.name}") for path in sorted((run_dir / "plan").iterdir())]
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, name in [*_files(run_dir), *planned]:
            # Without owner and time, so that equal files give equal bytes.
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with path.open("rb") as content:
                archive.addfile(entry, content)
    made = run_dir / ARCHIVE
    made.touch(mode=0o600)
    made.write_bytes(packed.getvalue())


def _bring(component: Component, target: Path) -> None:
    partial = files.partial_of(target)
    if component.source == "binary":
        shutil.copyfile(component.path, partial)
    elif component.source == "path":
        _pack_checkout(component, partial)
    elif component.source == "git" and component.repo.startswith("/"):
        _pack_commit(component, partial)
    else:
        return
    partial.rename(target)


def _pack_checkout(component: Component, target: Path) -> None:
    """Pack the files of a checkout, as plan/sources.py finds them, and its last commit; the build needs no history."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        done = git("clone", "--quiet", "--depth=1", "--no-checkout", f"file://{component.path}", copy)
        if done.returncode != 0:
            raise UserError(f"{component.path} cannot be cloned: {says(done.stderr)}")
        if files_of(component.path, copy)["changes"] != component.dirty:
            raise UserError(f"{component.path} changed since the plan was made; plan again")
        _archive(copy, target)


def _pack_commit(component: Component, target: Path) -> None:
    """Pack one commit of a repository of this machine, with its submodules."""
    with tempfile.TemporaryDirectory() as copy:
        for words in (
            ("init", "--quiet"),
            ("fetch", "--quiet", "--depth=1", f"file://{component.repo}", component.revision),
            ("checkout", "--quiet", "--detach", component.revision),
            ("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive"),
        ):
            done = git("-C", copy, *words)
            if done.returncode != 0:
                raise UserError(f"{component.repo}: {component.revision} cannot be packed: {says(done.stderr)}")
        _archive(Path(copy), target)


def _archive(directory: Path, target: Path) -> None:
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for path in sorted(directory.iterdir()):
            archive.add(path, path.name)
