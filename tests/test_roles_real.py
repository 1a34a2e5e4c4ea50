"""The role of a rented machine over SSH, on a bare Debian 12: a second run changes nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
from barehost import USERS, BareHost, require

from tsduel.core.project import PROJECT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bare")]
# The bare machine has no systemd: what is asked of it, and what runs there, are files.
SYSTEMCTL = r"""#!/bin/sh
echo "$*" >>/run/asked
case $1 in
list-units) cat /run/units ;;
stop) : >/run/units ;;
esac
"""
STOPPED = "apt-daily.timer unattended-upgrades.service"
UNITS = "apt-daily.timer loaded active waiting Daily\\nunattended-upgrades.service loaded active running Upgrades\\n"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: host, tasks_from: quiet.yml}
    - ansible.builtin.import_role: {name: host, tasks_from: tuning.yml}
"""
VARS = {"project_dir": "/p", "cache_dir": "/c", "run_dir": "/r", "go_minimum": "1.25.5", "target": "gcp"}


@pytest.fixture
def bare(tmp_path):
    """Boot a bare machine with a systemctl that says what runs by itself."""
    require()
    host = BareHost(tmp_path / "host")
    try:
        host.start()
        host.ssh(f"cat >/usr/local/bin/systemctl <<'E'\n{SYSTEMCTL}E\nchmod 755 /usr/local/bin/systemctl", user="root")
        host.ssh(f"printf '{UNITS}' >/run/units; : >/run/asked; chmod 666 /run/asked /run/units", user="root")
        yield host
    finally:
        host.stop()


def prepared(bare, tmp_path):
    """Prepare the machine; return how many tasks changed something."""
    play, inventory = tmp_path / "play.yml", tmp_path / "inventory.json"
    play.write_text(PLAY)
    args = f"-F {bare.config}"
    hosts = {"m": {"ansible_host": bare.address, "ansible_user": USERS[0], "ansible_ssh_common_args": args}}
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    environment = os.environ | {
        "ANSIBLE_CONFIG": str(PROJECT / "ansible" / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(PROJECT / "ansible" / "roles"), "ANSIBLE_STDOUT_CALLBACK": "default",
    }  # fmt: skip
    command = [PROJECT / ".venv/bin/ansible-playbook", "-i", inventory, "-e", json.dumps(VARS), play]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(re.search(r"changed=(\d+)", done.stdout)[1])


def test_a_second_run_changes_nothing(bare, tmp_path):
    """The first stops what runs by itself, by name, and makes the user that builds; the second only looks."""
    assert prepared(bare, tmp_path) >= 2
    asked = bare.ssh("cat /run/asked", user="root").stdout.splitlines()
    assert [line for line in asked if line.startswith("stop")] == [
        "stop -- apt-daily.timer unattended-upgrades.service"
    ]
    assert bare.ssh("id -u tsduel-build", user="root").stdout.strip().isdecimal()
    assert prepared(bare, tmp_path) == 0
    assert bare.ssh("grep -c ^stop /run/asked", user="root").stdout == "1\n"
