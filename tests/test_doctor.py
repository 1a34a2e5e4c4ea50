"""`make doctor` as a whole: here, on a fresh clone, and for machines elsewhere; and nothing is changed by it."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from fakecompute import PROJECT as GOOGLE_PROJECT
from listening import free_port
from plans import SMALL_WORKLOAD
from plans import write as write_plan

from tsduel.core.plan import Duel, Estimate, Host
from tsduel.core.sections import Pins
from tsduel.doctor import __main__ as doctor
from tsduel.doctor import subject
from tsduel.places.ssh import probe

PROJECT = Path(__file__).resolve().parent.parent
KNOBS = (
    *("EXPERIMENT", "BASELINE", "CANDIDATE", "RUN", "SET", "TARGET"),
    *("SSH_HOST", "GCP_PROJECT", "SSH_FROM", "KIND", "TF"),
)


def run_doctor(mode, cwd=PROJECT, **environment):
    """Run scripts/doctor with these knobs and no others."""
    clean = {k: v for k, v in os.environ.items() if k not in KNOBS and not k.startswith(("TSDUEL", "TSBS_", "GOOGLE_"))}
    clean |= {"TSDUEL_SAMPLE_S": "0.2"} | environment
    command = [cwd / "scripts" / "doctor", mode]
    return subprocess.run(command, env=clean, capture_output=True, text=True, check=False, timeout=120)


def levels(done):
    """Return the level of each thing that was looked at."""
    lines = [line.split() for line in done.stdout.splitlines() if line.split()[:1] and line.split()[0] in doctor.LEVELS]
    return {line[1]: line[0] for line in lines}


class TestDoctor:
    """The whole of it."""

    def test_nothing_is_in_the_way_here(self, tmp_path):
        """Exit code 0 with or without warnings; every part is looked at."""
        done = run_doctor("full", SET=f"host.port={free_port()}", TSDUEL_CACHE=str(tmp_path))
        assert done.returncode == 0, done.stdout + done.stderr
        assert {"python", "experiment", "git", "make", "packages", "go", "cpu", "pin", "governor", "memory", "disk",
                "port", "clock", "steal", "processes"} <= set(levels(done))  # fmt: skip
        assert done.stdout.splitlines()[-1].startswith("nothing is in the way of a run")
        assert not list(tmp_path.iterdir())

    def test_an_experiment_names_the_port_and_the_disk(self, tmp_path):
        """A port that is taken is passed over, a disk that is too small is in the way: exit code 2."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            knobs = f"host.port={port} workload.scale=9000000 workload.interval=1s"
            done = run_doctor("full", SET=knobs, TSDUEL_CACHE=str(tmp_path))
        assert done.returncode == 2
        assert (levels(done)["port"], levels(done)["disk"]) == ("warning", "error")
        assert f"{port} on 127.0.0.1 is in use by another program" in done.stdout
        assert "-> the next free one is taken; " in done.stdout
        assert done.stdout.splitlines()[-1].startswith("1 in the way of a run")

    def test_a_run_is_looked_at_by_its_plan(self, tmp_path):
        """Its port, its disk, its place, memory for all that stand beside each other; data that is there takes none."""
        estimate = Estimate(data_bytes=3 << 30, database_bytes=1 << 30)
        write_plan(tmp_path / "r", workload=SMALL_WORKLOAD, duel=Duel(), host=Host(port=12345), estimate=estimate)
        found = subject.of_run(tmp_path / "r")
        assert (found.port, found.place, found.residents, found.pin) == (12345, {"kind": "local"}, 2, "auto")
        assert found.memory
        assert f"disk_mib={4096 + 7}" in found.asked(on_top_mib=7)
        assert "disk_mib=1024" in found.asked(cached=True)
        write_plan(tmp_path / "alone", duel=Duel(enabled=False), host=Host(pin=Pins(server=(0,), client=(1,))))
        alone = subject.of_run(tmp_path / "alone")
        assert (alone.port, alone.memory, alone.residents, alone.pin) == (None, None, 1, "fixed")

    def test_a_question_is_looked_at_by_what_it_asks(self):
        """Of a duel all servers are there at once; of Go benchmarks none is."""
        default = subject.of_question({"KIND": "tsbs"})
        assert (default.residents, default.port, default.pin) == (2, 8428, "auto")
        solo = "duel.enabled=false design.load=solo workload.solo_scale=null host.pin=off"
        alone = subject.of_question({"KIND": "tsbs", "SET": f"{solo} workload.scale=425"})
        # Of a large load alone (850 hosts: five times 170) each server has half of it to share with the other.
        assert (alone.residents, alone.pin, alone.memory) == (1, "off", default.memory)
        bench = subject.of_question({"EXPERIMENT": "experiments/search-smoke.yml"})
        assert (bench.residents, bench.port, bench.memory) == (1, None, None)

    def test_a_question_that_is_wrong_is_a_line(self):
        """In words; the fast look leaves it to the plan, which says it too."""
        done = run_doctor("full", SET="nonsense")
        assert done.returncode == 2
        assert "error    experiment    SET: 'nonsense' is not field=value" in done.stdout
        assert run_doctor("fast", SET="nonsense").returncode == 0

    @pytest.mark.parametrize("target", ["tsbs", "gobench"])
    def test_make_looks_first_and_stops_on_errors_only(self, target, tmp_path):
        """`make -n` shows that it comes first; what it prints are warnings and errors."""
        done = subprocess.run(["make", "-n", target], cwd=PROJECT, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[0] == "scripts/doctor fast"
        found = run_doctor("fast", SET="workload.scale=9000000 workload.interval=1s", TSDUEL_CACHE=str(tmp_path))
        assert found.returncode == 2
        assert found.stdout == ""
        assert "error    disk" in found.stderr
        assert "ok " not in found.stderr
        assert found.stderr.endswith("tsduel: nothing was started; 'make doctor' looks at all of it\n")

    def test_a_fresh_clone_without_anything(self, tmp_path):
        """Python alone: no .venv, no library of ours; and not a file is there afterwards that was not before."""
        python = shutil.which("python3", path="/usr/bin:/bin")
        done = subprocess.run([python or "false", "--version"], capture_output=True, text=True, check=False)
        if done.returncode or done.stdout.split()[1].split(".") < ["3", "11"]:
            pytest.skip("no Python 3.11 beside the one of .venv")
        listed = subprocess.run(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=PROJECT, capture_output=True, check=True
        )
        for name in listed.stdout.decode().split("\0"):
            if name.startswith(
                ("scripts/", "tsduel/", "host/", "ansible/", "requirements", "terraform/", "experiments/", "Makefile")
            ):
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / name, tmp_path / name)
        before = sorted(tmp_path.rglob("*"))
        home = tmp_path.parent / f"{tmp_path.name}-home"
        home.mkdir()
        go = shutil.which("go")
        environment = {"PATH": f"/usr/bin:/bin:{Path(go).parent if go else ''}", "HOME": str(home)}
        done = subprocess.run(
            ["make", "doctor"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert "not read before there is .venv" in done.stdout, done.stderr
        assert "ok       python        3." in done.stdout
        assert sorted(tmp_path.rglob("*")) == before
        assert not list(home.rglob("*"))

    def test_without_any_python_it_still_has_a_sentence(self, tmp_path):
        """Said by the shell, in the same form."""
        (tmp_path / "bin").mkdir()
        for name in ("bash", "env", "cat", "cmp"):
            (tmp_path / "bin" / name).symlink_to(shutil.which(name))
        (tmp_path / "project").mkdir()
        shutil.copytree(PROJECT / "scripts", tmp_path / "project" / "scripts")
        done = run_doctor("full", cwd=tmp_path / "project", PATH=str(tmp_path / "bin"))
        assert done.returncode == 2
        assert done.stdout.startswith("error    python        none of version 3.11 or newer on PATH\n")
        assert done.stderr == ""


class TestElsewhere:
    """TARGET=ssh and TARGET=gcp: what is needed here, and what can be seen there."""

    def test_ssh_that_does_not_connect(self):
        """The sentence of ssh's own module, with the command to try by hand."""
        done = run_doctor("full", TARGET="ssh", SSH_HOST=f"127.0.0.1:{free_port()}")
        assert done.returncode == 2
        assert "error    ssh           127.0.0.1 cannot be reached (" in done.stdout

    def test_the_fast_look_opens_no_connection(self):
        """The stages do that, a second later."""
        assert run_doctor("fast", TARGET="ssh", SSH_HOST=f"127.0.0.1:{free_port()}").returncode == 0

    def test_a_run_elsewhere_that_is_gone_on_with_needs_nothing_here(self, monkeypatch, tmp_path):
        """Its rounds may all be at home; what is asked of a new one is not asked of it."""
        where = {"kind": "gcp", "project": "p", "ssh_via": "iap", "hosts": {}}
        monkeypatch.setattr(doctor, "_subject", lambda *_, **__: (subject.Subject("r", where, planned=True), None))
        found = list(doctor._here({"PATH": str(tmp_path)}, fast=True))
        assert [line.what for line in found] == ["python"]
        monkeypatch.setattr(doctor, "_subject", lambda *_, **__: (subject.Subject("r", where), None))
        found = list(doctor._here({"PATH": str(tmp_path)}, fast=True))
        assert doctor.ERROR in {line.level for line in found}

    def test_ssh_needs_a_host(self):
        """As the plan says it."""
        done = run_doctor("full", TARGET="ssh")
        assert "error    experiment    TARGET=ssh needs to know the machine" in done.stdout

    def test_no_credentials(self, tmp_path):
        """Neither a token nor Google's own defaults."""
        tools = tmp_path / "bin"
        tools.mkdir()
        for name in ("bash", "env", "cat", "cmp", "ssh", "sort", "terraform", "git"):
            if shutil.which(name):
                (tools / name).symlink_to(shutil.which(name))
        done = run_doctor(
            "full", TARGET="gcp", GCP_PROJECT="my-project", HOME=str(tmp_path), SSH_FROM="203.0.113.7", PATH=str(tools),
            PYTHON=str(PROJECT / ".venv/bin/python"),
        )  # fmt: skip
        assert done.returncode == 2
        assert "gcloud auth application-default login" in done.stdout + done.stderr

    def test_a_token_and_a_project_that_answers(self, google):
        """One question to Google's API, and no more; a project that is not there is a sentence."""
        words = {"TARGET": "gcp", "SSH_FROM": "203.0.113.7"} | google.environment()
        done = run_doctor("full", GCP_PROJECT=GOOGLE_PROJECT, **words)
        assert {"credentials": "ok", "project": "ok"}.items() <= levels(done).items(), done.stdout
        done = run_doctor("full", GCP_PROJECT="another-project", **words)
        assert levels(done)["project"] == "error", done.stdout

    def test_a_place_that_cannot_be_used(self, tmp_path):
        """Asked as provision asks, but nothing is made."""
        wanted = tmp_path / "not" / "there"
        said = subprocess.run(
            ["sh", "-s", "--", wanted, "look"], input=probe.QUESTIONS, capture_output=True, text=True, check=True
        )
        facts = dict(line.split("=", 1) for line in said.stdout.splitlines())
        assert facts["usable"] == "yes"
        assert int(facts["free_mib"]) > 0
        assert not (tmp_path / "not").exists()
        assert list(probe.refusals("bench", facts | {"free_mib": "99999"}, str(wanted))) == []
        lacking = facts | {"bash": "", "python": "", "usable": "no", "reason": "", "free_mib": "1"}
        assert len(list(probe.refusals("bench", lacking, str(wanted)))) == 4

    @pytest.mark.parametrize("look", ["", "look"])
    def test_a_directory_that_others_use_is_not_ours(self, tmp_path, look):
        """It stays as open as it was; one with our two alone is made private."""
        tmp_path.chmod(0o755)

        def asked():
            words = ["sh", "-s", "--", str(tmp_path), look]
            said = subprocess.run(words, input=probe.QUESTIONS, capture_output=True, text=True, check=True).stdout
            return dict(line.split("=", 1) for line in said.splitlines())

        (tmp_path / "runs").mkdir()
        assert asked()["usable"] == "yes"
        assert stat.S_IMODE(tmp_path.stat().st_mode) == (0o755 if look else 0o700)
        tmp_path.chmod(0o755)
        (tmp_path / "photos").mkdir()
        (said,) = probe.refusals("bench", asked() | {"free_mib": "99999"}, str(tmp_path))
        assert said.startswith(f"bench: {tmp_path} cannot be used (it has files of others, such as photos); ")
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755

    @pytest.mark.skipif(platform.system() != "Linux", reason="bash and /proc")
    def test_what_is_sent_over_ssh_is_what_runs_here(self, tmp_path):
        """The same text, in a shell that has nothing of ours; a command of its own cannot eat the rest of it."""

        class Here:
            """A host that is this machine."""

            name = "here"

            @staticmethod
            def run(*words, text):
                environment = {"PATH": os.environ["PATH"], "TSDUEL_SAMPLE_S": "0.2"}
                return subprocess.run(words, input=text, env=environment, capture_output=True, text=True, check=False)

        words = subject.Subject("", {}).asked()
        found = list(doctor._there(Here, doctor._text("examine-host"), "mode=full", f"dir={tmp_path}", *words))
        assert [line.what for line in found][-1] == "processes"
        assert doctor.ERROR not in {line.level for line in found}
        (packages,) = doctor._there(Here, doctor._text("ensure-packages"), "--look", "nosuch=nosuch-package")
        assert packages.what == "packages"
        assert "nosuch-package" in packages.finding

    def test_a_look_that_breaks_off_is_an_error(self):
        """Never a silent half of it."""
        done = subprocess.CompletedProcess([], 1, "ok\tcpu\t2 CPUs\t\nWelcome!\n", "line 3: df: not found")
        lines = list(doctor._lines("examine-host", done))
        assert [line.level for line in lines] == ["ok", "error"]
        assert "df: not found" in lines[1].finding
