"""Terraform and its google provider for the tests: the real 7.x where a registry answers, else 4.0.0, built here."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("TSDUEL_CACHE") or PROJECT / ".cache").absolute()
SOURCE = PROJECT / "tests" / "provider"
# Nothing of the user's own Terraform comes through.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "GOOGLE_", "CLOUDSDK_", "GCP_"))}
# But for a mirror of providers, where somebody has one with 7.x in it.
MIRROR = "TF_CLI_CONFIG_FILE"
ENVIRONMENT |= {MIRROR: os.environ[MIRROR]} if Path(os.environ.get(MIRROR, "")).is_file() else {}
ENVIRONMENT |= {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TSDUEL_CACHE": str(CACHE)}
PINNED = """
terraform {
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "4.0.0"
    }
  }
}
"""


@functools.cache
def program() -> str:
    """Return the path of terraform or tofu, or skip the test."""
    done = subprocess.run(
        [PROJECT / "scripts" / "ensure-terraform"], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(
            f"neither terraform nor tofu on PATH, and OpenTofu cannot be built here: {done.stderr.strip()[-300:]}"
        )
    return done.stdout.strip()


@functools.cache
def provider() -> tuple[dict[str, str], str]:
    """Return what to add to Terraform's environment, and the text of an override file (empty for the real 7.x)."""
    if _registry_answers():
        return {}, ""
    mirror = _built()
    config = mirror.with_suffix(".rc")
    text = f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n'
    if not config.exists() or config.read_text() != text:
        partial = config.with_suffix(f".{os.getpid()}")
        partial.write_text(text)
        partial.rename(config)
    return {"TF_CLI_CONFIG_FILE": str(config)}, PINNED


def _registry_answers() -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(PROJECT / "terraform" / "terraform.tf", scratch)
        try:
            done = subprocess.run(
                [program(), "init", "-input=false"],
                cwd=scratch,
                env=ENVIRONMENT,
                capture_output=True,
                check=False,
                timeout=300,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def _built() -> Path:
    """Build tests/provider into a filesystem mirror in the cache, once for its sources; return the mirror."""
    parts = [(SOURCE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go")]
    key = hashlib.sha256(b"".join([*parts, *(host.encode() for host in _hosts())])).hexdigest()[:16]
    mirror = CACHE / "provider" / key
    mirror.parent.mkdir(parents=True, exist_ok=True)
    with (mirror.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mirror.exists():
            _build(mirror)
    return mirror


def _build(mirror: Path) -> None:
    partial = mirror.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    go = [PROJECT / "scripts" / "with-go", "1.26.0", "local", "go"]
    platform = subprocess.run(
        [*go, "env", "GOOS", "GOARCH"], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    directory = "_".join(platform.stdout.split())
    # 2 GB of modules and objects that nothing else needs: they go when it is built.
    scratch = mirror.with_suffix(".scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    (scratch / "toolchain").symlink_to(CACHE / "toolchain")
    binary = partial / "terraform-provider-google_v4.0.0"
    partial.mkdir(parents=True)
    done = subprocess.run(
        [*go, "build", "-C", SOURCE, "-ldflags", "-s -w", "-o", binary, "."],
        env=ENVIRONMENT | {"TSDUEL_CACHE": str(scratch)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    subprocess.run(["rm", "-rf", scratch], check=True)  # 100,000 files, which take Python a minute
    if done.returncode:
        pytest.skip(f"the google provider cannot be built here: {done.stderr.strip()[-300:]}")
    for host in _hosts():
        place = partial / host / "hashicorp" / "google" / "4.0.0" / directory
        place.mkdir(parents=True)
        os.link(binary, place / binary.name)
    partial.rename(mirror)


def _hosts() -> list[str]:
    """Ask Terraform itself where it would look, since that differs between it and OpenTofu."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(PROJECT / "terraform" / "terraform.tf", scratch)
        done = subprocess.run(
            [program(), "providers"], cwd=scratch, env=ENVIRONMENT, capture_output=True, text=True, check=True
        )
    return [line.partition("[")[2].partition("/")[0] for line in done.stdout.splitlines() if "provider[" in line]
