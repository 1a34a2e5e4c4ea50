"""`make uninstall TARGET=ssh SSH_HOST=...`: removes our directory on that machine, unless a run is going on there."""

import os
import sys
from collections.abc import Mapping

from tsduel.core.errors import UserError
from tsduel.core.project import PROJECT
from tsduel.places import place
from tsduel.places.ssh.ssh import Host

# Sent in this order, since the scripts on that machine may be older.
PARTS = ("cache.sh", "remote.sh")
REMOVE_S = 1800.0


def main(environment: Mapping[str, str]) -> int:
    """Print what is there, and remove it unless DRY=1; return the exit code."""
    where = place.asked(environment)
    text = "".join((PROJECT / "scripts" / "lib" / part).read_text(encoding="utf-8") for part in PARTS)
    arguments = [environment.get(name, "").strip() or "0" for name in ("DRY", "YES")]
    code = 0
    for fields in where["hosts"].values():
        host = Host.from_outputs(fields | {"config_file": where["config_file"]})
        done = host.run("bash", "-s", "--", fields["directory"], *arguments, text=text, timeout_s=REMOVE_S)
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
