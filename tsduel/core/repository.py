"""Programs that answer at once, and git among them: asked with settings of ours, its own words passed on."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT

# Enough for a clone of a large project over a slow line.
TIMEOUT_S = 1800.0
NOT_INSTALLED = 127
IS_NONE = "not a git repository"
_BRANCHES = ("HEAD", "master", "main")
_CLUSTER = ("cluster",)


def run(command: Sequence[str | Path], *, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program that cannot ask questions; a UserError if it is missing or does not end."""
    words = [str(word) for word in command]
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    try:
        done = subprocess.run(words, cwd=cwd, stdin=none, stdout=pipe, stderr=pipe, check=False, timeout=TIMEOUT_S)
        # Not as text: a carriage return within a subject is no end of a line.
        out, err = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(words, done.returncode, out, err)
    except FileNotFoundError:
        raise UserError(f"{words[0]} is not installed; install it and try again") from None
    except subprocess.TimeoutExpired:
        program = " ".join(words[:3])
        raise UserError(f"{program} did not end within {TIMEOUT_S:.0f} s; is the network there?") from None


def git(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run git with settings of ours; a UserError if it is not installed."""
    done = run([PROJECT / "scripts" / "git", *words])
    if done.returncode == NOT_INSTALLED:
        raise UserError(done.stderr.strip())
    return done


def says(stderr: str) -> str:
    """Return git's words in one line, with what it advises to type: of another user's checkout, for example."""
    return " ".join(stderr.replace("fatal: ", "").split()) or "no reason given"


def shallow(location: str) -> str:
    """Return the end of a sentence about a clone that lacks older commits; "" of a whole one."""
    if not location.startswith("/") or git("-C", location, "rev-parse", "--is-shallow-repository").stdout != "true\n":
        return ""
    return f"; the clone is shallow, and older commits are missing: git -C {location} fetch --unshallow"


def answer(directory: Path, *words: str) -> str:
    """Return what git says of a directory, "" where it refuses."""
    done = git("-C", directory, *words)
    return done.stdout.strip() if done.returncode == 0 else ""


def module_of(top: Path) -> str:
    """Return the module of a checkout by its go.mod; "" without one."""
    text = ""
    with suppress(OSError):
        text = (top / "go.mod").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"^module\s+(\S+)", text, re.MULTILINE)
    return found[1] if found else ""


def is_cluster(top: Path, revision: str = "") -> bool:
    """Return whether a tree, of a revision or as it lies there, is the branch of VictoriaMetrics' cluster version."""
    listed = answer(top, "ls-tree", "--name-only", revision, "app/").split() if revision else (top / "app").glob("*/")
    apps = {Path(name).name for name in listed}
    return "vmselect" in apps and "victoria-metrics" not in apps


def merge_base(top: Path, example: str, *, unchanged: bool = False) -> str:
    """Return the commit at which a checkout left the main branch, or the branch of VictoriaMetrics' cluster version.

    A UserError, with an example of how to name another baseline, if there is none or, unless ``unchanged``, nothing was
    changed since.
    """
    branches = _CLUSTER if is_cluster(top) else _BRANCHES
    known = [f"{remote}/{name}" for remote in ("upstream", "origin") for name in branches]
    known += [name for name in branches if name != "HEAD"]
    main_branch = next((name for name in known if answer(top, "rev-parse", "--verify", "-q", name)), "")
    if not main_branch:
        raise UserError(f"{top} has no main branch to compare with: name a revision, {example}{shallow(str(top))}")
    base = answer(top, "merge-base", "HEAD", main_branch)
    if not base:
        none = f"{top}: HEAD and {main_branch} have no commit in common"
        raise UserError(f"{none}{shallow(str(top)) or f': name a revision, {example}'}")
    if not unchanged and base == answer(top, "rev-parse", "HEAD") and not answer(top, "status", "--porcelain"):
        raise UserError(
            f"{top} has no changes against {main_branch}: name a revision to compare it with, {example}"
            f"{shallow(str(top))}"
        )
    return base


def files_of(path: str | Path, *copy: Path) -> dict[str, Any]:
    """Return what ansible/checkout.py says of a checkout's files: `changes`, "" if they are its HEAD, and `notes`."""
    done = run([sys.executable, PROJECT / "ansible" / "checkout.py", path, *copy])
    if done.returncode != 0:
        raise UserError(f"the files of a checkout cannot be read: {says(done.stderr)}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
