"""What the cluster is made of, made once and kept in the cache: Kubernetes by Go, tools and images by Debian."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
CACHE = PROJECT / ".cache"
HOME = CACHE / "k8s"
COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
# Only unpacked: installed they would start services, and take the place of a Docker's own containerd.
PACKAGES = ("etcd-server", "containerd", "runc", "containernetworking-plugins", "busybox-static")
SUITE = "bookworm"
# What the machine needs besides: command -> Debian package.
NEEDS = {"debootstrap": "debootstrap", "ip": "iproute2", "openssl": "openssl", "unshare": "util-linux", "gcc": "gcc"}
# Nothing in an image of that name has them either.
SLIM = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache/apt", "var/lib/apt/lists")


class UnbuildableError(Exception):
    """A part cannot be made here: a sentence that says which, and why."""


def run(*words: str | Path, **more: object) -> str:
    """Run a command; return what it said, or raise with its last words."""
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise UnbuildableError(f"{' '.join(command)[:200]}: {(done.stderr + done.stdout).strip()[-1000:]}")
    return str(done.stdout)


def made(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return a directory of the cache that `make` fills once for this key."""
    directory = HOME / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            partial = directory.with_suffix(".partial")
            subprocess.run(["rm", "-rf", partial], check=True)
            partial.mkdir()
            make(partial)
            for older in HOME.glob(f"{name}-*[!l]"):
                subprocess.run(["rm", "-rf", older], check=True)
            partial.rename(directory)
    return directory


def built() -> bool:
    """Return whether Kubernetes' programs are in the cache, of whatever version."""
    return any(path.suffix != ".partial" for path in HOME.glob("programs-*"))


def programs() -> Path:
    """Return the directory of Kubernetes' programs: minutes the first time, and 2 GB that go again."""
    build = HERE / "build"
    module = (build / "go.mod").read_text()
    version = module.split("k8s.io/kubernetes v")[1].split()[0]
    major, minor, _ = version.split(".")
    stamp = "k8s.io/component-base/version.git"
    flags = f"-s -w -X {stamp}Version=v{version} -X {stamp}Major={major} -X {stamp}Minor={minor}"

    def make(partial: Path) -> None:
        scratch = HOME / "scratch"
        scratch.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (scratch / "toolchain").symlink_to(CACHE / "toolchain")
        go = [PROJECT / "scripts/with-go", "1.26.0", "local", "env", "CGO_ENABLED=0", "go"]
        packages = [f"k8s.io/kubernetes/cmd/{command}" for command in COMMANDS]
        environment = os.environ | {"TSDUEL_CACHE": str(scratch)}
        run(*go, "build", "-C", build, "-ldflags", flags, "-o", f"{partial}/", *packages, env=environment)
        module = run(*go, "list", "-C", build, "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes", env=environment).strip()
        source = f"{module}/build/pause/linux/pause.c"
        run("gcc", "-Os", "-static", "-DVERSION=1", "-o", partial / "pause", source)
        subprocess.run(["rm", "-rf", scratch], check=True)

    return made("programs", module + (build / "go.sum").read_text() + flags, make)


def tools() -> Path:
    """Return a root directory with etcd, containerd, runc and what puts pods on a network."""

    def make(partial: Path) -> None:
        if not shutil.which("apt-get"):
            raise UnbuildableError("etcd, containerd and runc come as Debian packages, and there is no apt-get here")
        packages = partial / "packages"
        packages.mkdir()
        try:
            run("apt-get", "download", *PACKAGES, cwd=packages)
        except UnbuildableError:  # a new machine has no lists yet
            run("apt-get", "update", "-qq")
            run("apt-get", "download", *PACKAGES, cwd=packages)
        for package in packages.iterdir():
            run("dpkg", "-x", package, partial)
        shutil.rmtree(packages)

    return made("tools", repr((PACKAGES, SUITE)), make)


def images() -> Path:
    """Return a directory of archives that the nodes import; no registry is asked."""

    def make(partial: Path) -> None:
        tree = partial / "tree"
        asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Label: Debian", f"Codename: {SUITE}"]
        run("debootstrap", "--variant=minbase", SUITE, tree, *run(*asked).split()[:1])
        for name in SLIM:
            shutil.rmtree(tree / name)
            (tree / name).mkdir()
        _archive(partial / "debian.tar", "debian:12-slim", ["bash"], lambda layer: layer.add(tree, "."))
        subprocess.run(["rm", "-rf", tree], check=True)
        busybox = tools() / "bin/busybox"
        names = run(busybox, "--list").split()
        _archive(partial / "busybox.tar", "busybox:1.35", ["sh"], lambda layer: _busybox(layer, busybox, names))
        pause = programs() / "pause"
        _archive(partial / "pause.tar", "tsduel.test/pause:1", ["/pause"], lambda layer: layer.add(pause, "pause"))

    return made("images", repr((SUITE, SLIM)), make)


def _busybox(layer: tarfile.TarFile, program: Path, names: list[str]) -> None:
    for directory in ("bin", "etc", "tmp"):
        entry = tarfile.TarInfo(directory)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755
        layer.addfile(entry)
    layer.add(program, "bin/busybox")
    for name in set(names) - {"busybox"}:
        entry = tarfile.TarInfo(f"bin/{name}")
        entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
        layer.addfile(entry)


def _archive(path: Path, name: str, command: list[str], fill: Callable[[tarfile.TarFile], None]) -> None:
    """Write an image of one layer, as `docker save` does."""
    layer = path.with_suffix(".layer")
    with tarfile.open(layer, "w") as archive:
        fill(archive)
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    config = {
        "architecture": run("dpkg", "--print-architecture").strip(),
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        archive.add(layer, "layer.tar")
        for member, content in (("config.json", config), ("manifest.json", manifest)):
            text = json.dumps(content).encode()
            entry = tarfile.TarInfo(member)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    layer.unlink()
