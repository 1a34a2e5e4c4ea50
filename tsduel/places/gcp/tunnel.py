"""Connects ssh to a machine without a public address, by gcloud's tunnel with the credentials that rented it."""

import os
import sys

from tsduel.core.errors import UserError
from tsduel.places.gcp import credentials


def main(instance: str, port: str, project: str, zone: str) -> None:
    """Become gcloud, with a fresh token: a token is valid for an hour, and a run may take longer."""
    command = ["gcloud", "compute", "start-iap-tunnel", instance, port, "--listen-on-stdin", "--verbosity=warning"]
    command += [f"--project={project}", f"--zone={zone}"]
    try:
        os.execvpe(command[0], command, credentials.gcloud_environment(os.environ))  # noqa: S606 - ssh has its streams
    except FileNotFoundError:
        raise UserError("there is no gcloud on PATH, whose tunnel it is") from None


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except UserError as error:
        # ssh shows the last line.
        sys.exit(f"tsduel: {error}")
