"""`make uninstall TARGET=ssh SSH_HOST=...`: our directory on that machine goes, unless a run is going on there."""

import os
import sys
from collections.abc import Mapping

from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.places import place
from tsduel.places.ssh.ssh import Host

LIBRARY = PROJECT / "scripts" / "lib"
# The same code as on this machine, in the order in which it is read there: what lies there may be of any age.
PARTS = ("cache.sh", "there.sh")
REMOVE_S = 1800.0


def main(environment: Mapping[str, str]) -> int:
    """Say what is there, and remove it unless DRY=1; return the exit code of what did it there."""
    where = place.asked(environment)
    # Nothing in it reads its own text by mistake.
    text = "".join((LIBRARY / part).read_text(encoding="utf-8") for part in PARTS) + 'uninstall_there "$@" </dev/null\n'
    asked = [environment.get(name, "").strip() or "0" for name in ("DRY", "YES")]
    code = 0
    for of in where["hosts"].values():
        host = Host.from_outputs(of | {"config_file": where["config_file"]})
        done = host.run("bash", "-s", "--", of["directory"], *asked, text=text, timeout_s=REMOVE_S)
        sys.stdout.write(done.stdout)
        sys.stderr.write("".join(f"{host.name}: {line}\n" for line in done.stderr.splitlines()))
        code = max(code, done.returncode)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(os.environ))
    except UserError as error:
        sys.stderr.write(f"tsduel: {error}\n")
        sys.exit(2)
