"""The whole way with the real thing: both versions of VictoriaMetrics, the real TSBS, from plan to report."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import time
from importlib import metadata
from types import SimpleNamespace

import pytest
from checkout import BUILDS, PROJECT, QUIET, Checkout, share
from fakeproject import free_port, running
from faults import kill
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# One after the other: they load the machine.
pytestmark = pytest.mark.xdist_group("real")
RUN = "end-to-end"


def said(command, **more):
    """Run a command and return its output; it has to work."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    assert done.returncode == 0, done.stdout
    return done.stdout


def depended(names, found):
    """Add the distributions of .venv with these names to those that are found, and all that they depend on."""
    for name in set(map(canonicalize_name, names)) - set(found):
        found[name] = metadata.distribution(name)
        asked = map(Requirement, found[name].requires or ())
        depended([one.name for one in asked if not one.marker or one.marker.evaluate({"extra": ""})], found)
    return found.values()


@pytest.fixture
def installed(tmp_path):
    """Return how to call a tsduel that is installed from its wheel, in an empty directory.

    To install what it depends on would take a minute, so the files of .venv are linked.
    """
    home, empty = tmp_path / "home", tmp_path / "empty"
    empty.mkdir()
    share(home / "cache/tsduel", *BUILDS)
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    said([sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", home, PROJECT])
    said([sys.executable, "-m", "venv", home / "venv"])
    programs = home / "venv/bin"
    (wheel,) = home.glob("*.whl")
    said([programs / "python", *pip, "install", "--no-deps", wheel])
    (packages,) = home.glob("venv/lib/python*/site-packages")
    (ours,) = metadata.distributions(name="tsduel", path=[str(packages)])
    needed = depended([Requirement(line).name for line in ours.requires], {})
    linked = {one.locate_file(file.parts[0]) for one in needed for file in one.files}
    for path in linked:
        if path.name not in {"..", "__pycache__"}:
            (packages / path.name).symlink_to(path)
    (programs / "ansible-playbook").symlink_to(PROJECT / ".venv/bin/ansible-playbook")
    clean = {k: v for k, v in os.environ.items() if k not in {"TSDUEL_CACHE", "PYTHONPATH", "VIRTUAL_ENV"}}
    xdg = {"HOME": str(home), "XDG_CACHE_HOME": f"{home}/cache", "XDG_DATA_HOME": f"{home}/data"}
    called = {"cwd": empty, "env": clean | xdg, "stdin": subprocess.DEVNULL}
    return SimpleNamespace(
        home=home, empty=empty, called=called, tsduel=programs / "tsduel", results=home / "data/tsduel/results"
    )


def rows(path):
    """Read a CSV file as a list of mappings."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def blocks(run_dir):
    """Return the records of the finished blocks, in order."""
    return [json.loads(path.read_text()) for path in sorted(run_dir.glob("raw/*/*/block.json"))]


def published(run_dir):
    """Return when each block that is finished was."""
    return {path.parent.name: path.stat().st_mtime_ns for path in run_dir.glob("raw/*/*/block.json")}


def started(installed):
    """Return pid -> command line of all that was started of it and still runs."""
    marks = (f"XDG_DATA_HOME={installed.home}/data", f"TSDUEL_SCRATCH={installed.home}/")
    return running(lambda word: word.startswith(marks))


def killed(installed, words, is_there, log):
    """Start a command, and kill it with all that it has started as soon as something is there."""
    with log.open("wb") as stream:
        process = subprocess.Popen([installed.tsduel, *words], stdout=stream, stderr=stream, **installed.called)
    try:
        # Builds may take any time.
        while process.poll() is None and not is_there(started(installed).values()):
            time.sleep(0.05)
        assert process.poll() is None, log.read_text()
    finally:
        kill(process.pid, *started(installed))
        while rest := started(installed):
            kill(*rest)
        process.wait()


def test_an_installed_tsduel_goes_from_an_experiment_to_a_report_and_is_killed_twice(
    installed, tmp_path, record_property
):
    """Of the smoke experiment, from an empty directory: killed in the build and in the second block, it goes on.

    Both versions are loaded and asked, alone and in turn, and all that the report says is there.
    """
    run_dir = installed.results / RUN
    words = ["tsbs", f"RUN={RUN}"]
    # With the closed loop, which the smoke experiment leaves out.
    settings = f"SET=host.port={free_port()} queries.solo=true queries.count=100 {QUIET}"
    asked = [*words, "EXPERIMENT=smoke", settings]
    killed(installed, asked, lambda lines: any("ansible-playbook" in line for line in lines), tmp_path / "first")
    killed(
        installed, words, lambda lines: published(run_dir) and any("-storageDataPath=" in line for line in lines),
        tmp_path / "second",
    )  # fmt: skip
    before = published(run_dir)
    told = said([installed.tsduel, *words], **installed.called)
    after, left = published(run_dir), started(installed)
    record_property("faults", [2, len({"001", "002"} - set(after)), len(before.items() - after.items()), len(left)])
    assert (sorted(after), before.items() - after.items(), left) == (["001", "002"], set(), {})

    found = blocks(run_dir)
    assert [(block["block"], block["status"]) for block in found] == [(1, "ok"), (2, "ok")]
    of_types = [of_type for block in found for of_type in block["duel"]["types"]]
    assert len(of_types) == 2 * 2 * 2  # of each block, type and sitting
    for of_type in of_types:
        assert of_type["exchanges"] == of_type["compared"] >= 8
        assert (of_type["differences"], of_type["errors"], of_type["empty"]) == (0, 0, 0)
    compared = sum(of_type["compared"] for of_type in of_types)
    for expected in (f"Compared {compared:,} of {compared:,} answers, all the same.", "? Ingestion"):
        assert expected in told

    checks = rows(run_dir / "tidy/checks.csv")
    assert {check["check"] for check in checks} >= {
        "samples_stored", "rows_read", "queries_answered", "exchanges_answered", "exchanges_same", "exchanges_empty",
        "equal_start", "same_process", "listens_on_loopback", "server_log",
    }  # fmt: skip
    assert [check for check in checks if check["ok"] != "true"] == []
    figures = {row["metric"]: row for row in rows(run_dir / "stats/comparison.csv") if row["query_type"] != "geomean"}
    for metric in (
        "duel_typical_ms",
        "duel_cpu_us",
        "load_rate",
        "load_cpu_seconds",
        "query_mean_ms",
        "rss_peak_bytes",
    ):
        assert float(figures[metric]["baseline_median"]) > 0, metric
        assert float(figures[metric]["candidate_median"]) > 0, metric

    for side, version in (("baseline", "v1.132.0"), ("candidate", "v1.133.0")):
        built = json.loads((run_dir / f"build/{side}.json").read_text())
        assert built["components"][0]["cgo_enabled"] is True
        printed = said([built["binary"], "-version"])
        assert f"metrics-{version}" in printed

    report = (run_dir / "report.md").read_text()
    for expected in ("v1.132.0", "v1.133.0", "This is not a result", f"Checked {len(checks)} of {len(checks)}, none"):
        assert expected in report
    titles = re.findall(r"^## (.*)$", report, re.MULTILINE)
    assert titles[:4] == ["What differs", "Queries, asked in turn", "Counted work", "Load"]
    assert not re.search(r"\bnan\b|\bNone\b", report)
    for link in re.findall(r"\]\(([^)#:]+)\)", report):
        assert (run_dir / link).stat().st_size > 0, link
    pictures = {path.stem for path in run_dir.glob("plots/*.svg")}
    assert pictures >= {"change", "distributions"}
    page = (run_dir / "report.html").read_text()
    assert [name for name in pictures if f'<g id="{name}-figure_1">' not in page] == []
    # Sentences name commands of tsduel, not of make.
    assert f"tsduel comment RUN={RUN}" in told
    assert list(installed.empty.iterdir()) == []
    assert RUN in said([installed.tsduel, "list"], **installed.called)

    # A second time nothing is run again, and the tables are made anew from what is there.
    before = published(run_dir)
    again = said([installed.tsduel, *words], **installed.called)
    assert " begins" not in again
    assert published(run_dir) == before
    assert (run_dir / "report.md").read_text() == report


@pytest.mark.slow
def test_make_gobench_goes_from_an_experiment_to_a_report(tmp_path):
    """`make gobench` of the smoke experiment runs VictoriaMetrics' search benchmarks of both versions."""
    checkout = Checkout(tmp_path / "checkout")
    run_dir = checkout.results(RUN)
    told = checkout.make("gobench", f"RUN={RUN}", "EXPERIMENT=experiments/search-smoke.yml", f"SET={QUIET}")

    assert [(block["status"], block["kind"]) for block in blocks(run_dir)] == [
        ("ok", "warmup"),
        ("ok", "measured"),
        ("ok", "measured"),
    ]
    calibration = json.loads((run_dir / "raw/host1/calibration.json").read_text())
    assert calibration["rows"][0]["names"] == {
        "baseline": "BenchmarkSearch/MetricNames/CurrOnly/VariableSeries/100",
        "candidate": "BenchmarkSearch/MetricNames/PtOnly/VariableSeries/100",
    }
    names = {"Search/MetricNames/VariableSeries/100", "Search/LabelNames/VariableSeries/100"}
    compared = rows(run_dir / "stats/comparison.csv")
    assert {(r["metric"], r["query_type"]) for r in compared} == {
        (unit, name) for unit in ("sec/op", "B/op", "allocs/op") for name in (*names, "geomean")
    }
    assert {r["verdict"] for r in compared} == {"inconclusive (n < 6)"}
    assert all(float(r["baseline_median"]) > 0 for r in compared)
    assert [c for c in rows(run_dir / "tidy/checks.csv") if c["ok"] != "true"] == []
    report = (run_dir / "report.md").read_text()
    for expected in (
        "v1.132.0",
        "v1.133.0",
        "This is not a result",
        "Search/LabelNames/VariableSeries/100-",
        "│   baseline",
    ):
        assert expected in report
    assert f"Report: results/{RUN}/report.md" in told
    assert f"Exports: results/{RUN}/exports (without those that feed alerts: a smoke run is no result)" in told
    assert {path.stem for path in run_dir.glob("plots/*.png")} >= {"change", "change-in-memory"}
    assert "\n**v1.133.0 against v1.132.0**: ? a first look" in checkout.make("comment", f"RUN={RUN}")
