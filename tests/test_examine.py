"""scripts/examine-host: its warnings and errors, on machines of files and on this one."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from asking import free_port

from tsduel.doctor import __main__ as doctor
from tsduel.doctor import subject

EXAMINE = Path(__file__).resolve().parent.parent / "scripts" / "examine-host"
LIMITS = ("steal_pct=5", "steal_flag_pct=1", "foreign_cpu_flag_pct=2", "clock_step_s=60")
# With priority over other processes, if root.
BURNER = "import os, signal; signal.alarm(60); os.geteuid() or os.nice(-15)\nwhile True: pass"
LISTENER = "import socket, time; s = socket.create_server(('127.0.0.1', {})); print('on', flush=True); time.sleep(60)"


CPU = "sys/devices/system/cpu"
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"


def meminfo(available=8_000_000, swap=0):
    """Return the text of /proc/meminfo of a machine with 8 GiB."""
    return f"MemTotal: 8388608 kB\nMemAvailable: {available} kB\nSwapTotal: {swap} kB\n"


class Machine:
    """A machine of files: two idle CPUs, 8 GiB, a running clock; `steal` is a share of its CPU time."""

    def __init__(self, root):
        self.proc, self.sys, self.bin = root / "proc", root / "sys", root / "bin"
        self.steal, self.busy = 0.0, {}
        self.write("proc/meminfo", meminfo())
        self.write("proc/cpuinfo", "processor: 0\nmodel name\t: Fast CPU\n")
        self.write("proc/loadavg", "0.10 0.20 0.30 1/100 12345\n")
        self.write(f"{CPU}/cpu0/cpufreq/scaling_governor", "performance\n")
        self.write(CLOCK, "tsc\n")
        self.write("sys/fs/cgroup/cpu.max", "max 100000\n")
        self.program("nproc", "echo 2")
        self.program("python3", "echo 0")  # adjtimex: synchronised
        self.ran(0)

    def write(self, name, text):
        """Write a file of the machine, at once."""
        path = self.proc.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(text)
        partial.replace(path)

    def program(self, name, body):
        """Put a program first on PATH."""
        self.bin.mkdir(exist_ok=True)
        (self.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(0o755)

    def process(self, pid, name, share, *, kernel=False):
        """Add a process that takes this share of one CPU."""
        self.busy[pid] = (name, share, kernel)
        self.write(f"proc/{pid}/comm", f"{name}\n")

    def ran(self, run):
        """Write the counters after so many seconds."""
        stolen = int(run * 2 * 100 * self.steal)
        self.write("proc/stat", f"cpu  100 0 100 {int(run * 100)} 0 0 0 {stolen} 0 0\ncpu0 1\ncpu1 1\n")
        for pid, (name, share, kernel) in self.busy.items():
            flags = 0x200000 if kernel else 0
            self.write(
                f"proc/{pid}/stat", f"{pid} ({name}) R 1 1 1 0 -1 {flags} 0 0 0 0 {int(run * 100 * share)} 0 0 0\n"
            )

    def look(self, tmp_path, *words, mode="full", step_s=0.0, sample_s=0.5, limits=LIMITS):
        """Return examine-host's lines about it, by subject. Its counters are those of the moment of each reading.

        The time since boot is a pipe: who reads it waits until the other files are written. `step_s`: of the clock
        between the two readings.
        """
        self.ran(0)
        uptime = self.proc / "uptime"
        pipes = [self.proc / f"uptime.{number}" for number in (1, 2)]
        for pipe in pipes:
            os.mkfifo(pipe)
        pipes[0].replace(uptime)

        def live():
            began = time.time()
            with uptime.open("w") as first:
                pipes[1].replace(uptime)
                first.write("1000.00 0.00\n")
            with uptime.open("w") as second:
                run = max(0.1, time.time() - began - step_s)
                self.ran(run)
                second.write(f"{1000 + run:.2f} 0.00\n")

        environment = os.environ | {
            "TSDUEL_PROC": str(self.proc), "TSDUEL_SYS": str(self.sys), "TSDUEL_SAMPLE_S": str(sample_s),
            "PATH": f"{self.bin}:{os.environ['PATH']}",
        }  # fmt: skip
        threading.Thread(target=live, daemon=True).start()
        return examine(f"mode={mode}", f"dir={tmp_path}", *limits, *words, environment=environment)


def examine(*words, environment=None):
    """Run examine-host; return {what: (level, finding, remedy)}, and require four columns a line."""
    done = subprocess.run([EXAMINE, *words], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    found = {}
    for line in done.stdout.splitlines():
        level, what, *rest = line.split("\t")
        assert level in doctor.LEVELS
        assert len(rest) <= 2
        assert level == "ok" or rest[1], f"no remedy: {line}"
        found[what] = (level, *[*rest, ""][:2])
    return found


@pytest.fixture
def machine(tmp_path):
    """Return a machine without faults."""
    return Machine(tmp_path)


class TestMachineOfFiles:
    """Findings from /proc and /sys."""

    def test_all_is_well(self, machine, tmp_path):
        """Every line is ok; a process with a percent of one CPU is not named."""
        machine.process(7, "quiet", 0.01)
        found = machine.look(tmp_path)
        assert {what: one[0] for what, one in found.items()} == dict.fromkeys(
            ("cpu", "pin", "governor", "memory", "disk", "clock", "clock-step", "steal", "processes"), "ok"
        )
        assert found["cpu"][1] == "2 CPUs (Fast CPU)"
        assert found["clock"][1] == "synchronised, source tsc"

    @pytest.mark.parametrize(
        ("file", "text", "said"),
        [
            (f"{CPU}/cpu0/cpufreq/scaling_governor", "powersave\n", "governor: powersave: the clock rate"),
            (f"{CPU}/cpu1/cpufreq/scaling_governor", "schedutil\n", "governor: performance, schedutil: "),
            ("sys/fs/cgroup/cpu.max", "150000 100000\n",
             "cpu: 2 CPUs (Fast CPU), but this container may use 150 % of one"),
            (CLOCK, "hpet\n", "clock-source: hpet, which is slow"),
            ("proc/meminfo", meminfo(available=100_000),
             "memory: 97 of 8192 MiB are available, and the servers will need"),
            ("proc/meminfo", meminfo(available=3_000_000),
             "memory: 2929 of 8192 MiB are available: other programs take"),
            ("proc/meminfo", meminfo(swap=1_048_576), "swap: 1024 MiB of swap are on"),
        ],
    )  # fmt: skip
    def test_what_will_show_in_the_figures(self, machine, tmp_path, file, text, said):
        """Each gives a warning with a remedy."""
        machine.write(file, text)
        what, _, sentence = said.partition(": ")
        level, finding, _ = machine.look(tmp_path, "memory_mib=400")[what]
        assert (level, finding[: len(sentence)]) == ("warning", sentence)

    def test_one_cpu_or_no_right_to_choose(self, machine, tmp_path):
        """It warns that nothing is pinned."""
        machine.program("nproc", "echo 1")
        assert machine.look(tmp_path)["pin"][:2] == ("warning", "one CPU: servers and client share it")
        machine.program("nproc", "echo 2")
        machine.program("taskset", "[ $1 = -cp ] && echo 'list: 0,1'")
        assert machine.look(tmp_path)["pin"][1].startswith("choosing CPUs for processes is not permitted here")

    def test_a_machine_without_a_governor(self, machine, tmp_path):
        """Most virtual machines cannot see it: no warning."""
        shutil.rmtree(machine.sys / "devices/system/cpu")
        unseen = "cannot be seen here: the host decides, as on most virtual machines"
        assert machine.look(tmp_path)["governor"] == ("ok", unseen, "")

    def test_a_clock_that_nobody_steers(self, machine, tmp_path):
        """By adjtimex; if that cannot be called, there is no warning."""
        machine.program("python3", "echo 5")
        unsteered = "nothing synchronises it (source tsc): it may be wrong, and be set while a block runs"
        assert machine.look(tmp_path)["clock"][:2] == ("warning", unsteered)
        machine.program("python3", "exit 1")
        assert machine.look(tmp_path)["clock"][0] == "ok"

    def test_a_clock_that_steps(self, machine, tmp_path):
        """The wall clock and the time since boot differ, here by more than a minute."""
        level, finding, _ = machine.look(tmp_path, step_s=-300.0)["clock-step"]
        assert level == "warning"
        step = float(finding.removeprefix("the clock was set by ").split(" ")[0])
        assert step == pytest.approx(-300, abs=60)

    @pytest.mark.parametrize(
        ("share", "sentence"), [(0.2, "that spoils blocks (noise.steal_pct)"), (0.03, "it will be flagged")]
    )
    def test_steal(self, machine, tmp_path, share, sentence):
        """The limits are those of the experiment."""
        machine.steal = share
        level, finding, _ = machine.look(tmp_path)["steal"]
        assert level == "warning"
        assert sentence in finding
        assert float(finding.split(" ")[0]) == pytest.approx(100 * share, abs=2)

    def test_busy_processes_are_named(self, machine, tmp_path):
        """With pid and CPU, the busiest first; without kernel threads; a tab in a name makes no column."""
        machine.process(7, "zzz", 0.0)
        machine.process(8, "com\tpiler", 0.5)
        machine.process(9, "browser", 0.9)
        machine.process(10, "kworker", 1.0, kernel=True)
        level, finding, remedy = machine.look(tmp_path)["processes"]
        assert level == "warning"
        assert finding.index("browser (pid 9, ") < finding.index("com piler (pid 8, ")
        assert "kworker" not in finding
        assert "zzz" not in finding
        assert remedy
        share = float(finding.removeprefix("other programs take ").split(" ")[0])
        assert share == pytest.approx(70, abs=8)

    def test_a_limit_of_null_is_never_reached(self, machine, tmp_path):
        """Without a limit there is no warning."""
        machine.steal = 0.3
        noise = dict.fromkeys(("steal_pct", "steal_flag_pct"))
        words = subject.Subject("x", {}, noise=noise).asked()
        assert not any(word.startswith("steal") for word in words)
        level, finding, _ = machine.look(tmp_path, *words, limits=())["steal"]
        assert level == "ok"
        assert float(finding.split(" ")[0]) == pytest.approx(30, abs=3)

    @pytest.mark.parametrize(("load", "cpus"), [("1.50", 2), ("0.90", 1)])
    def test_the_fast_part_takes_no_sample(self, machine, tmp_path, load, cpus):
        """It uses the load average: a sample would take an hour here."""
        machine.program("nproc", f"echo {cpus}")
        machine.write("proc/loadavg", f"{load} 0.20 0.30 1/100 12345\n")
        found = machine.look(tmp_path, mode="fast", sample_s=3600)
        assert found["load"][:2] == ("warning", f"{load} processes ran or waited over the last minute, on {cpus} CPUs")
        assert not {"steal", "processes", "clock"} & set(found)


@contextlib.contextmanager
def listener(port, **environment):
    """Run a process that listens at a port of this machine."""
    command = [sys.executable, "-c", LISTENER.format(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | environment) as process:
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


class TestThisMachine:
    """Findings about this machine."""

    def test_a_burner_is_found(self, tmp_path):
        """A process that takes a CPU is named with its pid."""
        burner = subprocess.Popen([sys.executable, "-c", BURNER])
        try:
            environment = os.environ | {"TSDUEL_SAMPLE_S": "0.5"}
            level, finding, _ = examine("mode=full", f"dir={tmp_path}", *LIMITS, environment=environment)["processes"]
        finally:
            burner.kill()
            burner.wait()
        assert level == "warning"
        assert f"(pid {burner.pid}, " in finding

    def test_a_port_that_is_taken(self, tmp_path):
        """A warning names the process and the remedy."""
        port = free_port()
        with listener(port) as process:
            found = examine("mode=fast", f"dir={tmp_path}", f"port={port}", *LIMITS)["port"]
        assert found[0] == "warning"
        assert found[1].startswith(f"{port} on 127.0.0.1 is in use by another program (")
        assert found[1].endswith(f", pid {process.pid})")
        assert found[2] == "the next free one is taken; if it is a database that works meanwhile, stop it"

    def test_a_port_that_a_run_of_ours_has(self, tmp_path):
        """The warning names our run, and not another program."""
        port = free_port()
        with listener(port, TSDUEL_SCRATCH=str(tmp_path)):
            found = examine("mode=fast", f"dir={tmp_path}", f"port={port}", *LIMITS)["port"]
        assert found[:2] == ("warning", f"{port} on 127.0.0.1 is used by a run of tsduel that is going on here")

    def test_a_directory_that_is_not_there_yet(self, tmp_path):
        """It reports the free space of the nearest existing directory, and makes none."""
        found = examine("mode=fast", f"dir={tmp_path}/a/b", *LIMITS)["disk"]
        assert found[0] == "ok"
        assert f" MiB are free in {tmp_path} (" in found[1]
        assert not (tmp_path / "a").exists()

    @pytest.mark.skipif(os.geteuid() != 0, reason="a small disk to fill has to be mounted, which needs root")
    def test_a_disk_that_is_full_or_none(self, tmp_path):
        """Too little is an error; memory in place of a disk is a warning."""
        small = tmp_path / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], check=True)
        try:
            found = examine("mode=fast", f"dir={small}", "disk_mib=5", *LIMITS)["disk"]
            roomy = examine("mode=fast", f"dir={small}", "disk_mib=1", *LIMITS)["disk"]
        finally:
            subprocess.run(["umount", small], check=True)
        needed = "data, databases and results need about 5 MiB"
        assert found[:2] == ("error", f"4 MiB are free in {small}, and {needed}")
        assert roomy[:2] == ("warning", f"4 MiB are free in {small}, which is on tmpfs: not a disk of this machine")

    @pytest.mark.skipif(os.geteuid() != 0, reason="to become somebody else needs root")
    def test_a_directory_of_somebody_else(self):
        """The error names the user."""
        # The user nobody cannot read pytest's directories, and perhaps not this checkout.
        copy = Path(tempfile.mkdtemp(dir="/tmp"))
        try:
            shutil.copytree(EXAMINE.parent, copy / "scripts")
            copy.chmod(0o755)
            words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", copy / "scripts/examine-host"]
            done = subprocess.run(
                [*words, "mode=fast", "dir=/root/none", *LIMITS], capture_output=True, text=True, check=True, cwd="/"
            )
        finally:
            shutil.rmtree(copy)
        assert "error\tdisk\t/" in done.stdout
        assert " cannot be written to by nobody\t" in done.stdout
