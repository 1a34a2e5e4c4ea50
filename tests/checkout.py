"""A checkout of the project for one test, with results of its own: what is typed there touches nobody's runs."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fakeproject import FAKES, UNJUDGED

if TYPE_CHECKING:
    from collections.abc import Iterator


PROJECT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("TSDUEL_CACHE") or PROJECT / ".cache").absolute()
(_WORDS,) = re.findall(r'CACHE_WORDS="(.*)"', (PROJECT / "scripts/lib/cache.sh").read_text())
MARK = f"printf '%s\\n' '{_WORDS}' >.tsduel-cache"
"""Marks the directory in which a shell is as a cache of ours."""
LEFT_OUT = ("results/", "docs/", "tests/")
QUIET = " ".join(f"noise.{name}=null" for name in UNJUDGED)
"""For SET=: no block is spoilt, since other tests run beside, and there is no canary."""
BUILDS = ("go", "toolchain", "bin", "agent", "tsbs", "variants")
"""What may be shared of a cache. One run at a time uses it, so a test that runs something has one of its own."""


def share(cache: Path, *parts: str) -> None:
    """Make a cache of a test's own, whose parts of these names are the project's."""
    # Marked as ours, before it holds anything.
    environment = os.environ | {"TSDUEL_CACHE": str(cache)}
    subprocess.run([PROJECT / "scripts/mark-cache"], env=environment, check=True)
    for name in parts:
        (CACHE / name).mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(CACHE / name)


def build(run_dir: Path, *names: str) -> None:
    """Build what a planned run needs in the project's cache, unless it is there, with records in the run."""
    command = [sys.executable, PROJECT / "ansible/build.py", run_dir, *names]
    subprocess.run(command, env=os.environ | {"TSDUEL_CACHE": str(CACHE)}, stdout=subprocess.DEVNULL, check=True)


def checks_of(run_dir: Path) -> list[dict[str, str]]:
    """Return all checks of a run, of which none has failed."""
    with (run_dir / "tidy/checks.csv").open(newline="") as stream:
        checks = list(csv.DictReader(stream))
    assert [check for check in checks if check["ok"] != "true"] == []
    return checks


class Checkout:
    """The files that git knows of, with the project's own libraries and builds, and a cache of its own."""

    def __init__(self, path: Path, cache: Path | None = None, *, ansible: bool = True) -> None:
        """Copy them to ``path``; without a ``cache`` there is one in it, with the project's builds.

        Without ``ansible`` the program builds that Ansible would call: some seconds less.
        """
        self.path = path
        self.cache = cache or path / ".cache"
        command = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
        listed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if not name.startswith(LEFT_OUT) and (PROJECT / name).is_file():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, path / name)
        for compiled in [*PROJECT.glob("tsduel/**/__pycache__"), *PROJECT.glob("plots/**/__pycache__")]:
            half_written = shutil.ignore_patterns("*.pyc.*")
            shutil.copytree(compiled, path / compiled.relative_to(PROJECT), ignore=half_written)
        self._make_venv(ansible=ansible)
        self.environment = os.environ | {"TSDUEL_CACHE": str(self.cache)}
        if not cache:
            share(self.cache, *BUILDS)

    def _make_venv(self, *, ansible: bool) -> None:
        """Make a .venv of the project's own programs, stamped as by scripts/bootstrap: none is installed."""
        venv, real = self.path / ".venv", PROJECT / ".venv"
        (venv / "bin").mkdir(parents=True)
        (venv / ".ready").mkdir()
        if ansible:
            for program in ("python", "ansible-playbook"):
                (venv / "bin" / program).write_text(f'#!/bin/sh\nexec {real}/bin/{program} "$@"\n')
                (venv / "bin" / program).chmod(0o755)
        else:
            # A Python that takes this for its own place, and what it calls from here.
            (venv / "bin/python").symlink_to(real / "bin/python")
            (venv / "bin/ansible-playbook").symlink_to(FAKES / "ansible-playbook")
            (venv / "lib").symlink_to(real / "lib")
            shutil.copy(real / "pyvenv.cfg", venv)
        locks = "".join((self.path / name).read_text() for name in ("requirements.lock", "requirements-dev.lock"))
        (venv / ".ready" / "requirements-dev.lock").write_text(
            f"# {venv}\n# {(venv / 'bin/python').resolve()}\n{locks}"
        )

    def results(self, run: str) -> Path:
        """Return the directory of a run."""
        return self.path / "results" / run

    def make(self, *words: str, expect: int = 0, **environment: str) -> str:
        """Type a make command; return all that it said."""
        done = subprocess.run(
            ["make", *words],
            cwd=self.path,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        # make itself ends with 2 for any failure.
        assert bool(done.returncode) == bool(expect), done.stdout
        assert "Traceback" not in done.stdout, done.stdout
        return done.stdout

    def type(self, command: str) -> None:
        """Type a line of shell that has to work."""
        subprocess.run(["bash", "-c", command], cwd=self.path, env=self.environment, check=True)

    @contextlib.contextmanager
    def making(self, log: Path, *words: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a make command in a process group of its own, as a terminal does, its words in a file."""
        with (
            log.open("wb") as stream,
            subprocess.Popen(
                ["make", *words],
                cwd=self.path,
                env=self.environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                process_group=0,
            ) as process,
        ):
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
