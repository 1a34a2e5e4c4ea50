"""Programs of ours in Go that a plan needs at home: they are built when they are first asked, or have changed."""

import contextlib
import shlex
import subprocess
from collections.abc import Sequence

from tsduel.core import defaults
from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.core.wording import last_line


def go(module: str) -> list[str]:
    """Return the command that runs a program of a module of ours, which Go builds if it has changed."""
    run = ("env", "CGO_ENABLED=0", "go", "run", "-C", str(PROJECT / module), "-mod=readonly")
    return [str(PROJECT / "scripts/with-go"), defaults.GO_MINIMUM, "local", *run]


def said(*words: str, feed: Sequence[str] = ()) -> str:
    """Return what the agent of this checkout says, which may read what ``feed`` does. Its mistakes are UserErrors."""
    with contextlib.ExitStack() as stack:
        fed = stack.enter_context(subprocess.Popen(feed, stdout=subprocess.PIPE)) if feed else None
        command = [*go("host"), ".", *words]
        done = subprocess.run(command, stdin=fed.stdout if fed else None, capture_output=True, text=True, check=False)
    failed = fed and fed.returncode
    generator = f"workload.use_case: TSBS's generator failed (exit code {failed}): {shlex.join(feed)}"
    if done.returncode:
        sentences = [line.removeprefix("tsduel: ") for line in done.stderr.splitlines() if line.startswith("tsduel: ")]
        # Who reads no more ends the generator, so the agent's own sentence comes first.
        sentences = sentences or [f"the agent cannot be built: {last_line(done.stderr)}"]
        raise UserError("\n".join([*sentences, *([generator] if failed else [])]))
    if failed:
        raise UserError(generator)
    return done.stdout
