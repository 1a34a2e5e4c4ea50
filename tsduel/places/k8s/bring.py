"""Brings to the pods what was built at home, the scripts, the plan and data, and blocks that are finished already."""

import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from tsduel.core import caches, rundir, secret_store
from tsduel.core.errors import UserError
from tsduel.core.files import read_json
from tsduel.core.place import K8sPlace
from tsduel.core.plan import Plan
from tsduel.places import directories, hosts
from tsduel.places.k8s.pods import say
from tsduel.places.ssh import pack, untrusted
from tsduel.places.ssh.ssh import Host, NoConnectionError

PROGRAMS = "host/programs.tar.gz"
# A marker, written last: the pod has everything.
BROUGHT = "brought"
# As a user who is not root, tar gives all to that user. The number of CPUs comes last.
UNPACK = 'umask 077; mkdir -p "$0/cache" "$1" && tar -xpzf - -C "$1" && nproc'
# What a pod has written itself is newer than what came home.
RESTORE = (
    'umask 077; cd "$1" && { test -e raw || '
    "{ rm -rf raw.partial && mkdir raw.partial && tar -xzf - -C raw.partial && mv raw.partial raw; }; }"
)


def prepare(run_dir: Path, cache: Path) -> None:
    """Write what goes to every pod of a run: its project, and what was built for it into the cache of this machine."""
    plan = rundir.open_run(run_dir).plan
    assert isinstance(plan.place, K8sPlace)  # noqa: S101 - for mypy
    pack.main(run_dir, sources=False)
    there = directories.on_host(plan, plan.every_host[0])["cache_dir"]
    home, taken = str(cache.absolute()), set[Path]()
    with tarfile.open(run_dir / PROGRAMS, "w:gz", compresslevel=1) as archive:
        for path in sorted((run_dir / "build").glob("*.json")):
            record = read_json(path)
            text = (json.dumps(_moved(record, f"{home}/", f"{there}/"), indent=2) + "\n").encode()
            for name in plan.place.hosts:
                (run_dir / "host" / name / "build").mkdir(parents=True, exist_ok=True)
                (run_dir / "host" / name / "build" / path.name).write_bytes(text)
            _add(archive, f"runs/{plan.run}/build/{path.name}", len(text), io.BytesIO(text))
            taken.update(_directories(record))
        brought = [path for directory in sorted(taken) for path in sorted(directory.rglob("*")) if path.is_file()]
        data = run_dir / "host" / "data"
        inside = {path: path.relative_to(home) for path in brought}
        inside |= {path: "workload" / path.relative_to(data) for path in sorted(data.glob("*/*"))}
        for path, below in inside.items():
            with path.open("rb") as content:
                _add(archive, f"cache/{below}", path.stat().st_size, content)
        _add(archive, f"runs/{plan.run}/{BROUGHT}", 0, io.BytesIO())


def _moved(value: Any, home: str, there: str) -> Any:
    """Return a value of a record with the paths below ``home`` below ``there``."""
    if isinstance(value, dict):
        return {name: _moved(part, home, there) for name, part in value.items()}
    if isinstance(value, list):
        return [_moved(part, home, there) for part in value]
    return there + value.removeprefix(home) if isinstance(value, str) and value.startswith(home) else value


def _directories(record: dict[str, object]) -> Iterator[Path]:
    """Yield the directories of the programs of a record; what a program needs lies beside it."""
    for name, value in record.items():
        if name == "bin_dir":
            yield Path(str(value))
        elif name == "binary":
            yield Path(str(value)).parent
        elif name == "components" and isinstance(value, list):
            for part in value:
                yield from _directories(part)


def _add(archive: tarfile.TarFile, name: str, size: int, content: IO[bytes]) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o755
    archive.addfile(entry, content)


def main(run_dir: Path, names: Iterable[str]) -> None:
    """Bring everything to these hosts, all at once. One that is lost meanwhile is equipped when its blocks begin."""
    with ThreadPoolExecutor() as pool:
        brought = {name: pool.submit(one, run_dir, name) for name in names}
    for name, done in brought.items():
        try:
            done.result()
        except NoConnectionError as error:
            say(f"{name}: {error}; it is tried again when its blocks begin")


def one(run_dir: Path, name: str) -> None:
    """Bring everything to a host."""
    run = rundir.open_run(run_dir)
    place, there = run.plan.place, directories.on_host(run.plan, name)
    assert isinstance(place, K8sPlace)  # noqa: S101 - for mypy
    pod = hosts.known(run_dir)[name]
    host = Host.from_outputs(pod)
    _send(host, UNPACK, there["run_dir"], (run_dir / pack.ARCHIVE).open("rb"))
    if blocks := list((run_dir / "raw" / name).glob("[0-9]*[0-9]/block.json")):
        say(f"{name}: brings {len(blocks)} finished blocks to {host.name}")
        _send(host, RESTORE, there["run_dir"], _of_home(run_dir, name))
    _send(host, UNPACK, place.directory, _secrets(run.plan))
    # Last, since it has the mark of a pod that has all.
    cpus = _send(host, UNPACK, place.directory, (run_dir / PROGRAMS).open("rb"))
    if re.fullmatch(r"\s*\d{1,6}\s*", cpus) and int(cpus) > place.cpus:
        say(
            f"{name}: {pod['node']} gives its pod no CPUs of its own (its kubelet has no static CPU manager): it "
            "runs on any that are free, and a time limit holds it to its share"
        )


def _secrets(plan: Plan) -> IO[bytes]:
    """Return an archive of the secret values of a plan, in a file without a name."""
    home = caches.directory(os.environ) / secret_store.HOME
    packed = tempfile.TemporaryFile("w+b")  # noqa: SIM115 - the caller closes it
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in secret_store.needed(os.environ, plan, builds=False):
            archive.add(home / name, f"cache/{secret_store.HOME}/{name}")
    packed.seek(0)
    return packed


def _of_home(run_dir: Path, name: str) -> IO[bytes]:
    """Return an archive of what a host has written of its finished blocks, as far as it came home."""
    packed = (run_dir / "host" / name / "raw.tar.gz").open("w+b")
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for path in (run_dir / "raw" / name, run_dir / "raw" / f"{name}.json"):
            if path.exists():
                archive.add(path, path.name, filter=lambda entry: None if ".partial" in entry.name else entry)
    packed.seek(0)
    return packed


def _send(host: Host, script: str, into: str, archive: IO[bytes]) -> str:
    root = into.partition("/runs/")[0]
    with archive:
        done = host.run("sh", "-c", script, root, into, feed=archive, timeout_s=untrusted.LONGEST_S)
    if done.returncode:
        raise UserError(f"{host.name}: {done.stderr.strip()[-500:]}: nothing could be brought there")
    return done.stdout
