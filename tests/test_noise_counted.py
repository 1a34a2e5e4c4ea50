"""What disturbs a round from outside, counted from a /proc of the test's own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
SCRIPTS = PROJECT / "scripts"
KERNEL_THREAD = 2097152
# Two edges in one shell, whose own CPU stands where /proc has it: EDGES lists directories to be used as /proc in turn.
EDGES = """
. "$1/lib/common.sh"
SERVER_PID=$2
. "$1/lib/noise.sh"
for edge in before after; do
  TSDUEL_PROC=$3/$edge
  [[ ! -e $TSDUEL_PROC/own ]] || mv -- "$TSDUEL_PROC/own" "$TSDUEL_PROC/$$"
  noise_edge "$3/$edge.json"
done
jq -n -L "$1/lib" --slurpfile a "$3/before.json" --slurpfile b "$3/after.json" 'include "noise"; noise($a[0]; $b[0])'
"""


def process(directory, name="x", flags=0, ticks=(0, 0, 0, 0), parent=1):
    """Write the /proc/PID of a process: its user and system ticks, and those of its children."""
    directory.mkdir()
    before, after = f"S {parent} 1 1 0 -1 {flags} 0 0 0 0", "20 0 1 0 11 0 0"
    (directory / "stat").write_text(f"{directory.name} ({name}) {before} {' '.join(map(str, ticks))} {after}\n")


def proc(directory, *, cpu, uptime, switches=0, swap=(0, 0), pressure=(0, 0, 0), server=None, own=(0, 0, 0, 0)):
    """Write a /proc of two CPUs; `cpu`: ticks of user nice system idle iowait irq softirq steal; `pressure` in µs."""
    directory.mkdir(parents=True)
    ticks = " ".join(map(str, cpu))
    (directory / "stat").write_text(f"cpu  {ticks} 0 0\ncpu0 1\ncpu1 1\nintr 9 9 9\nctxt {switches}\n")
    (directory / "uptime").write_text(f"{uptime} 99.0\n")
    (directory / "vmstat").write_text(f"nr_free_pages 5\npswpin {swap[0]}\npswpout {swap[1]}\n")
    (directory / "pressure").mkdir()
    for name, total in zip(("cpu", "io", "memory"), pressure, strict=True):
        text = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 total=1\n"
        (directory / "pressure" / name).write_text(text)
    process(directory / "own", "bash", ticks=own)
    if server is not None:
        process(directory / "77", "victoria (x) 1", ticks=(*server, 500, 500))
    return directory


def edges(root, server="77", **env):
    """Take both edges and return their difference."""
    done = subprocess.run(
        ["bash", "-c", EDGES, "edges", SCRIPTS, server, root],
        env={"PATH": "/usr/bin:/bin", "TSDUEL_SYS": str(root / "sys")} | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TestCounted:
    """lib/noise.sh and lib/noise.jq."""

    def test_every_share_is_what_the_kernel_counted(self, tmp_path):
        """Foreign CPU is user + nice + system without the server, the client and us, and kernel threads."""
        before = proc(tmp_path / "before", cpu=(1000, 10, 500, 9000, 7, 1, 2, 30), uptime=100.0, server=(40, 4))
        after = proc(
            tmp_path / "after",
            cpu=(1500, 30, 680, 9900, 19, 1, 2, 130),
            uptime=112.5,
            switches=5000,
            swap=(3, 4),
            pressure=(2_500_000, 1_000_000, 1),
            server=(240, 64),
            own=(10, 5, 120, 30),
        )
        process(before / "9", "kworker/0:1", KERNEL_THREAD | 64, (20, 20, 0, 0), parent=2)
        process(after / "9", "kworker/0:1", KERNEL_THREAD | 64, (25, 35, 0, 0), parent=2)
        zone = tmp_path / "sys/class/thermal/thermal_zone0"
        zone.mkdir(parents=True)
        (zone / "temp").write_text("61500\n")
        found = edges(tmp_path)
        assert abs(found.pop("clock_step_s") + 12.5) < 5  # the clock of the wall did not go on meanwhile
        assert found == {
            "seconds": 12.5,
            "cpus": 2,
            "busy_s": 7.0,
            "steal_s": 1.0,
            "iowait_s": 0.12,
            "server_s": 2.6,
            "own_s": 1.65,
            "kernel_s": 0.2,
            "foreign_s": 2.55,
            "context_switches": 5000,
            "swap_pages": 7,
            "temperature_c": 61.5,
            "pressure_s": {"cpu": 2.5, "io": 1, "memory": 0.000001},
        }

    def test_what_a_host_does_not_have_is_null_and_not_zero(self, tmp_path):
        """No sensor, no pressure files, no server: no figure."""
        for name, at in (("before", 1), ("after", 2)):
            directory = proc(tmp_path / name, cpu=(at, 0, 0, 0, 0, 0, 0, 0), uptime=at)
            for file in (directory / "pressure").iterdir():
                file.unlink()
        found = edges(tmp_path, server="")
        assert (found["server_s"], found["foreign_s"], found["temperature_c"]) == (None, None, None)
        assert found["pressure_s"] == {}
        assert found["steal_s"] == 0

    def test_kernel_threads_are_known_by_their_flag_and_one_by_one(self, tmp_path):
        """In a container pid 2 may be anybody's parent; a thread that ends takes no ticks from the others."""
        ticks = (0, 0, 0, 0, 0, 0, 0, 0)
        before = proc(tmp_path / "before", cpu=ticks, uptime=1, server=(0, 0))
        after = proc(tmp_path / "after", cpu=(900, *ticks[1:]), uptime=10, server=(0, 0))
        process(before / "10", "kworker/1:0", KERNEL_THREAD, (0, 5000, 0, 0), parent=2)  # ends
        process(after / "11", "kworker/1:1", KERNEL_THREAD, (0, 100, 0, 0), parent=2)  # begins
        process(before / "12", "kswapd0) R 2", KERNEL_THREAD, (0, 50, 0, 0), parent=2)
        process(after / "12", "kswapd0) R 2", KERNEL_THREAD, (0, 250, 0, 0), parent=2)
        process(after / "13", "burner", 0, (600, 0, 0, 0), parent=2)
        found = edges(tmp_path)
        assert (found["kernel_s"], found["foreign_s"]) == (3.0, 6.0)

    def test_ticks_that_do_not_quite_add_up_are_no_negative_cpu(self, tmp_path):
        """Processes and host are counted in two ways: less than nothing is nothing."""
        ticks = (0, 0, 0, 0, 0, 0, 0, 0)
        proc(tmp_path / "before", cpu=ticks, uptime=1, server=(0, 0))
        proc(tmp_path / "after", cpu=(9, *ticks[1:]), uptime=2, server=(10, 1))
        assert edges(tmp_path)["foreign_s"] == 0

    @pytest.mark.parametrize(("product", "said"), [("Google Compute Engine", "MIGRATE"), ("Standard PC", ""), ("", "")])
    def test_maintenance_is_asked_of_google_only(self, tmp_path, product, said):
        """The metadata server is asked with a limit of a second, and only where the machine says that there is one."""
        if product:
            (tmp_path / "class/dmi/id").mkdir(parents=True)
            (tmp_path / "class/dmi/id/product_name").write_text(f"{product}\n")
        curl = tmp_path / "curl"
        curl.write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/asked\nprintf MIGRATE\n')
        curl.chmod(0o755)
        script = '. "$1/lib/common.sh"; . "$1/lib/noise.sh"; maintenance'
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TSDUEL_SYS": str(tmp_path)}
        done = subprocess.run(["bash", "-c", script, "x", SCRIPTS], env=env, capture_output=True, text=True, check=True)
        assert done.stdout == said
        assert (tmp_path / "asked").exists() == bool(said)
        if said:
            assert "--max-time 1 -H Metadata-Flavor: Google" in (tmp_path / "asked").read_text()
