"""What scripts/run-rounds and scripts/round-tsbs do, seen through a fake database and fake TSBS commands."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from pathlib import Path

import pytest
from fakeproject import TYPES, replace, wait_for


def of_variant(**fields):
    """Return an experiment's `variants` section with fields of baseline's own."""
    binary = {"source": "binary", "path": str(Path(__file__).parent / "fakes" / "database")}
    return {"baseline": binary | fields, "candidate": dict(binary)}


def mode(name):
    """Return a variant that does what FAKE_MODE says."""
    return of_variant(env={"FAKE_MODE": name})


class TestWholeRun:
    """A run from its first round to its last."""

    def test_a_run_goes_through_plan_and_phases_in_order_and_calibrates_once(self, project):
        """Every round calls the adapters in one order; counts are chosen after the warm-up block; again: nothing."""
        nasty_text = "a 'b' \"c\" $(touch x)\nd;e"
        nasty_flags = ["-a=with space", "-b=$(touch x)", "-c='\"`id`", "-d=two\nlines", "-e=*"]
        project.plan(
            design={"blocks": 1, "warmup_blocks": 1},
            queries={"types": TYPES, "seconds": 0.4, "max_count": 70, "count": None},
            variants=of_variant(flags=nasty_flags, env={"FAKE_TEXT": nasty_text}),
        )
        project.run()
        assert project.rounds() == sorted(project.order())
        assert [project.round(name)["failure"] for name in project.order()] == [None] * 4

        counts = json.loads((project.run_dir / "raw" / "calibration.json").read_text())["counts"]
        assert set(counts) == set(TYPES)
        assert all(20 <= count <= 70 for count in counts.values())
        self._check_calls(project, counts)
        self._check_round(project.round(project.order()[-1]), counts)

        baseline = next(name for name in project.rounds() if "baseline" in name)
        # The flags of the adapter itself come before and after the variant's.
        assert project.log(baseline, "argv")[0][2:-1] == nasty_flags
        assert project.log(baseline, "env")[0]["FAKE_TEXT"] == nasty_text
        assert not list(project.root.rglob("x"))

        before = len(project.calls())
        project.run()
        assert len(project.calls()) == before
        events = [json.loads(line) for line in (project.run_dir / "raw" / "events.jsonl").read_text().splitlines()]
        assert [e["round"] for e in events if e["event"] == "round-end"] == project.order()
        assert events[-1]["event"] == "run-end"

    @staticmethod
    def _check_calls(project, counts):
        rounds = "\n".join(call for call in project.calls() if call != "check").split("start\n")[1:]
        assert len(rounds) == 4
        table = (project.run_dir / "plan" / "rounds.tsv").read_text().splitlines()[1:]
        for number, (calls, row) in enumerate(zip(rounds, table, strict=True)):
            types = row.split("\t")[4].split(",")
            seen = [call for call in calls.splitlines() if " 20 1 " not in call or counts.get(call) == 20]
            steps = ["load data.zst 1 10000 load.json", "settle natural 10 1 1"]
            steps += [f"query {t}.gob 2 1 {t}.json --print-responses" for t in types]
            assert seen[: len(steps)] == steps
            assert seen[-2:] == ["stop", "size"]
            if number >= 2:
                timed = [f"query {t}.gob {counts[t]} 1 {t}.json" for t in types]
                assert calls.splitlines()[len(steps) : -2] == timed

    @staticmethod
    def _check_round(result, counts):
        assert result["failure"] is None
        assert result["server_pid"] == result["server_pid_end"] > 0
        phases = result["phases"]
        assert [p["phase"] for p in phases] == ["start", "load", "settle", "responses", "query", "query", "stop"]
        assert {p["query_type"]: p["count"] for p in phases if p["phase"] == "query"} == counts
        assert phases[1]["count"] == 480
        assert result["sizes"]["data_bytes"] >= 8192
        clocks = [clock for phase in phases for clock in (phase["begin"], phase["end"])]
        assert clocks == sorted(clocks)

    def test_a_failed_round_is_kept_with_its_sentence_and_never_repeated(self, project):
        """The run goes on after a failed round, says so, and a second call leaves it as it is."""
        project.plan(variants=mode("bad-flag"), design={"max_failed_rounds": 1})
        said = project.run()
        failed = next(name for name in project.rounds() if "baseline" in name)
        assert f"{failed} FAILED in start" in said
        assert "1 rounds failed" in said
        assert "flag provided but not defined: -nonsense" in project.round(failed)["failure"]["message"]
        before = project.calls()
        assert "begins" not in project.run()
        assert project.calls() == before

    def test_too_many_failed_rounds_stop_the_run(self, project):
        """More than design.max_failed_rounds failures end the run with exit code 3; the rest is not tried."""
        project.plan(variants=mode("bad-flag"), design={"max_failed_rounds": 0, "blocks": 3})
        said = project.run(expect=3)
        assert "1 rounds have failed (design.max_failed_rounds is 0)" in said
        assert project.rounds()[-1].endswith("baseline")
        assert len(project.rounds()) <= 2


class TestCaches:
    """queries.cache: what state the database's caches are in when a type is timed."""

    def test_cold_restarts_the_server_without_its_caches_before_each_type(self, project):
        """Every type is asked of a server that was just started, and whose cache directory was removed."""
        project.plan(queries={"cache": "cold", "types": TYPES})
        result = project.round_alone(expect=0)
        assert result["restarts"] == 2
        assert result["server_pid"] != result["server_pid_end"]
        assert project.log("01-1-baseline", "cache") == ["absent"] * 3

    def test_warm_sends_the_same_queries_twice(self, project):
        """Each type is asked once untimed, then timed; nothing of the first pass is kept."""
        project.plan(queries={"cache": "warm"})
        project.round_alone(expect=0)
        queries = [call.split()[4] for call in project.calls() if call.startswith("query")]
        assert queries == [f"{TYPES[0]}.json", f"{TYPES[0]}.warm.json", f"{TYPES[0]}.json"]
        kept = {path.name for path in (project.run_dir / "raw/01-1-baseline/query").iterdir()}
        assert kept == {f"{TYPES[0]}.{suffix}" for suffix in ("json", "stdout", "stderr")}

    def test_off_starts_the_server_without_its_result_cache(self, project):
        """The database's own flag is given; the address still comes last."""
        project.plan(queries={"cache": "off"})
        project.round_alone(expect=0)
        flags = project.log("01-1-baseline", "argv")[0]
        assert "-search.disableCache" in flags
        assert flags[-1].startswith("-httpListenAddr=127.0.0.1:")


class TestFailures:
    """What can go wrong with a database: the round fails within seconds, with a sentence, and leaves nothing."""

    @pytest.mark.parametrize(
        ("name", "phase", "sentence", "watchdog"),
        [
            ("unhealthy", "start", "the server did not become healthy within 1 s", {"health_s": 1}),
            ("bad-flag", "start", "died: flag provided but not defined: -nonsense", {}),
            ("die-in-load", "load", "died: ", {}),
            ("query-error", "responses", "ended with exit code 2: panic: http request did not return status 200", {}),
            ("hang-query", "responses", "no query was answered for 2 s", {"query_stall_s": 2}),
            ("ignore-term", "stop", "had to be killed: it did not stop within 1 s", {"stop_s": 1}),
        ],
    )
    def test_a_database_that_misbehaves(self, project, name, phase, sentence, watchdog):
        """The sentence says what and the phase says where; the server's log is kept and named."""
        project.plan(variants=mode(name), watchdog=watchdog)
        begin = time.monotonic()
        failure = project.round_alone()["failure"]
        assert time.monotonic() - begin < 40
        assert sentence in failure["message"]
        assert failure["phase"] == phase
        assert not list((project.run_dir / "raw").glob("*.partial"))
        if phase in {"start", "load"}:
            assert str(project.run_dir / "raw" / "01-1-baseline" / "server.log") in failure["message"]

    def test_a_stalled_load_ends_within_its_time(self, project):
        """503 for ever: the load is over at most 10 s after watchdog.load_stall_s."""
        project.plan(variants=mode("503"), watchdog={"load_stall_s": 2})
        result = project.round_alone()
        said = "no sample was acknowledged for 2 s: the server answers HTTP status 503"
        assert said in result["failure"]["message"]
        begin = max(p["end"] for p in result["phases"])  # of the phase before
        assert result["ended"] - begin < 12

    def test_a_server_that_hangs_does_not_take_us_with_it(self, project):
        """/metrics without an answer delays a snapshot, is not taken for a quiet server, and fails the settle phase."""
        project.plan(variants=mode("hang-metrics"), settle={"timeout_s": 60})
        replace(project.scripts / "lib" / "metrics.sh", "SCRAPE_TIMEOUT_S=10", "SCRAPE_TIMEOUT_S=1")
        replace(project.scripts / "targets/victoriametrics/settle", "--max-time 300", "--max-time 2")
        failure = project.round_alone()["failure"]
        assert failure["phase"] == "settle"
        assert "curl: (28) Operation timed out" in failure["message"]

    def test_a_database_that_never_settles(self, project):
        """The settle phase ends at its time limit and says how much was still to do."""
        project.plan(variants=mode("merging"), settle={"timeout_s": 2})
        assert "did not settle within 2 s: 1 still to do" in project.round_alone()["failure"]["message"]

    def test_samples_that_were_not_sent(self, project):
        """A loader that sent less than the plan has fails the round before any query."""
        project.plan()
        failure = project.round_alone(FAKE_LOST_SAMPLES="10")["failure"]
        assert failure["message"] == "the loader says it sent 470 samples, and the plan has 480"

    def test_a_client_that_hangs_at_its_start_is_started_again(self, project):
        """run_queries that sleeps while the server has nothing to do is a fault of the client: a second attempt."""
        project.plan()
        hangs = project.root / "hangs"
        hangs.write_text("timed\n")
        result = project.round_alone(expect=0, FAKE_HANGS=str(hangs))
        assert [p["attempts"] for p in result["phases"] if p["phase"] == "query"] == [2]
        assert "fault of the client" in (project.run_dir / "raw" / "events.jsonl").read_text()

    def test_a_probe_that_fails_keeps_its_sentence(self, project):
        """In a warm-up round the count is probed first; an error there is told like any other."""
        project.plan(design={"warmup_blocks": 1}, queries={"count": None})
        replace(project.scripts / "targets/fake/query", "exec", "[[ $4 != *.probe.json ]] || exit 7; exec")
        failure = project.round_alone()["failure"]
        assert f"queries of {TYPES[0]} ended with exit code 7" in failure["message"]


class TestBeforeTheFirstRound:
    """What is refused before anything is measured, with exit code 2 and what to do next."""

    def test_a_port_in_use(self, project):
        """The sentence names the port and the setting."""
        resolved = project.plan()
        port = resolved["host"]["port"]
        with socket.create_server(("127.0.0.1", port)):
            said = project.run(expect=2)
        assert f"port {port} on 127.0.0.1 is in use" in said
        assert f'SET="host.port={port + 1000}"' in said
        assert project.rounds() == []

    def test_too_little_disk(self, project):
        """What is free and what is needed, before the first round."""
        project.plan()
        fake = project.root / "bin"
        fake.mkdir()
        (fake / "df").write_text("#!/bin/sh\necho Avail\necho 1048576\n")
        (fake / "df").chmod(0o755)
        said = project.run(expect=2, PATH=f"{fake}:{project.env['PATH']}")
        assert "1 MiB are free in" in said
        assert "need about 3" in said
        assert "point TSDUEL_CACHE to a larger disk" in said

    def test_data_that_is_not_ours_is_never_wiped(self, project):
        """A data directory without our marker is left alone, by the driver and by a round."""
        project.plan()
        precious = project.cache / "scratch" / "data" / "precious"
        precious.parent.mkdir(parents=True)
        precious.write_text("mine")
        assert "is not marked as ours" in project.run(expect=2)
        assert "is not marked as ours" in project.round_alone()["failure"]["message"]
        assert precious.read_text() == "mine"

    def test_a_variant_that_was_not_built(self, project):
        """The command that builds it is named."""
        project.plan()
        (project.run_dir / "build" / "candidate.json").unlink()
        assert "candidate is not built: run 'make build RUN=r'" in project.run(expect=2)

    def test_no_such_run(self, project):
        """A directory without a plan is no run."""
        assert "is no run: there is no plan/experiment.json" in project.run(expect=2)


class TestInterrupted:
    """Ctrl-C, SIGTERM, a closed terminal, kill -9: nothing is left running, nothing finished is lost."""

    @pytest.mark.parametrize("kind", ["term", "ctrl-c", "hang-up", "term-round"])
    def test_a_run_that_is_told_to_end_does_so_at_once_and_goes_on_later(self, project, kind):
        """However it is told, at a drawn moment; what kill -9 and power cuts do is in tests/test_faults.py."""
        project.plan(design={"blocks": 2})
        draw = random.Random(kind)  # noqa: S311 - moments, no secret
        kept: dict[str, str] = {}
        for _ in range(2):
            said = self._end(project, kind, draw.uniform(0.1, 4.5))
            for name in project.rounds():
                text = (project.run_dir / "raw" / name / "round.json").read_text()
                assert kept.setdefault(name, text) == text, said
        project.run()
        assert project.rounds() == sorted(project.order())
        for name in project.rounds():
            assert project.round(name)["failure"] is None
            assert kept.get(name) in {None, (project.run_dir / "raw" / name / "round.json").read_text()}
        assert not list((project.run_dir / "raw").glob("*.partial"))

    @staticmethod
    def _end(project, kind, moment):
        process = project.start(FAKE_LOAD_S="1")
        time.sleep(moment)
        of_round = _child(process.pid, "round-tsbs")
        if kind == "term-round" and of_round:
            os.kill(of_round, signal.SIGTERM)
        elif kind in {"term", "term-round"}:
            process.terminate()
        else:  # from the terminal: the whole foreground group gets it
            os.killpg(process.pid, signal.SIGINT if kind == "ctrl-c" else signal.SIGHUP)
        begin = time.monotonic()
        said = project.end(process)
        assert time.monotonic() - begin < 30, (kind, moment, said)
        assert process.returncode in {0, 130}, (kind, moment, said)
        if process.returncode > 0:
            assert "make tsbs RUN=r" in said
        assert project.alive() == [], (kind, moment, said)
        return said

    @pytest.mark.parametrize("where", ["make-workload", "settle"])
    def test_a_long_step_is_ended_at_once(self, project, where):
        """SIGTERM does not wait for a workload that takes hours or a database that never settles."""
        project.plan(variants=mode("merging") | {"candidate": mode("merging")["baseline"]}, settle={"timeout_s": 600})
        if where == "make-workload":
            slow = project.scripts / "make-workload"
            slow.write_text("#!/usr/bin/env bash\n>$TSDUEL_SCRATCH/begun\nsleep 600\n")
        begun = project.cache / "scratch" / "begun"
        process = project.start()
        if where == "make-workload":
            wait_for(begun.exists)
        else:
            wait_for(lambda: project.calls_log.exists() and "settle" in project.calls_log.read_text())
        begin = time.monotonic()
        process.terminate()
        said = project.end(process)
        assert process.returncode == 130, said
        assert "To go on: make tsbs RUN=r" in said
        assert time.monotonic() - begin < 15
        assert project.alive() == []

    def test_what_a_killed_run_left_is_ended_by_the_next(self, project):
        """Driver and round killed at once leave a server and a client; the next run says that it ends them."""
        project.plan()
        process = project.start(FAKE_LOAD_S="60")
        wait_for(lambda: project.calls_log.exists() and "load" in project.calls_log.read_text())
        process.send_signal(signal.SIGSTOP)
        os.kill(_child(process.pid, "round-tsbs"), signal.SIGKILL)
        process.kill()
        project.end(process)
        assert project.alive()
        said = project.run()
        assert "ending what an interrupted round left behind" in said
        assert project.rounds() == sorted(project.order())


def _child(pid, name):
    """Return the pid of a child by a part of its command line, 0 if there is none."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return next((int(c) for c in children if name in Path(f"/proc/{c}/cmdline").read_text()), 0)
    except OSError:
        return 0
