"""scripts/make-workload: files are whole or absent, the same bytes for all, and used again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FAKES = ROOT / "tests/fakes"
SCRIPT = ROOT / "scripts/make-workload"
SCALE = 4
DATA_LINES = SCALE * 10  # what the fake writes


class Run:
    """A run directory with a plan and a cache of its own."""

    def __init__(self, path: Path, *, bin_dir: Path = FAKES):
        self.dir = path / "a run"
        self.cache = path / "a cache"
        self.log = path / "log"
        self.env = os.environ | {"TSDUEL_CACHE": str(self.cache), "FAKE_LOG": str(self.log)}
        for part in ("plan", "build"):
            (self.dir / part).mkdir(parents=True)
        self.plan = {
            "workload": {
                "use_case": "cpu-only", "scale": SCALE, "start": "2025-06-10T00:00:00Z", "end": "2025-06-10T13:00:00Z",
                "interval": "80s", "interval_s": 80, "seed": 8428, "format": "victoriametrics", "lines": DATA_LINES,
                "samples": DATA_LINES * 10, "data_key": "0123456789abcdef", "estimated_bytes": 4000,
            },
            "queries": {
                "types": [
                    {"name": "cpu-max-all-1", "seed": 8435, "responses_seed": 9435, "key": "c" * 16},
                    {"name": "single-groupby-1-1-1", "seed": 8436, "responses_seed": 9436, "key": "5" * 16},
                ],
                "count": None, "max_count": 50, "responses": 20,
            },
        }  # fmt: skip
        (self.dir / "build/tsbs.json").write_text(json.dumps({"bin_dir": str(bin_dir)}), encoding="utf-8")

    @property
    def files(self) -> Path:
        """Where the script publishes."""
        return self.cache / "workload" / "0123456789abcdef"

    @property
    def data(self) -> Path:
        """The data file."""
        return self.files / "data.zst"

    def start(self, **env: str) -> subprocess.Popen[str]:
        """Start the script with these variables in its environment."""
        (self.dir / "plan/experiment.json").write_text(json.dumps(self.plan), encoding="utf-8")
        return subprocess.Popen(
            [SCRIPT, self.dir], env=self.env | env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def make(self, code: int = 0, **env: str) -> str:
        """Run the script, expect its exit code, return its stderr."""
        process = self.start(**env)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, err
        assert all(re.match(r"\d\d:\d\d:\d\d (data|queries) \d+\.\d s", line) for line in out.splitlines())
        return err

    def workload(self):
        """Return raw/workload.json."""
        return json.loads((self.dir / "raw/workload.json").read_text(encoding="utf-8"))

    def calls(self) -> list[str]:
        """Return one line for each call of a generator."""
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []

    def left(self) -> list[str]:
        """Every file in the cache that is no record and no stamp."""
        files = [p for p in self.cache.rglob("*") if p.is_file() and p.name != ".used"]
        return sorted(p.name for p in files if p.suffix not in {".json", ".lines"})


@pytest.fixture
def run(tmp_path):
    """Return a run of the fake generators."""
    return Run(tmp_path)


def unpacked(path: Path) -> bytes:
    """Return the content of a zstd file."""
    return subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout


def test_makes_every_file_and_says_what_is_in_it(run):
    """raw/workload.json has path, size, checksum and count of every file."""
    run.make()
    workload = run.workload()
    assert workload["data"]["path"] == str(run.data)
    assert workload["data"]["lines"] == DATA_LINES
    assert workload["data"]["samples"] == DATA_LINES * 10
    assert workload["data"]["bytes"] == run.data.stat().st_size
    assert unpacked(run.data).count(b"\n") == DATA_LINES
    sums = subprocess.run(["sha256sum", run.data], check=True, capture_output=True, text=True).stdout
    assert workload["data"]["sha256"] == sums.split()[0]
    first = workload["queries"][0]
    assert [first["type"], first["count"]] == ["cpu-max-all-1", 50]
    assert Path(first["path"]).read_text(encoding="utf-8").count("seed=8435") == 50
    assert Path(first["responses_path"]).read_text(encoding="utf-8").count("seed=9435") == 20


def test_small_data_is_unpacked_for_the_loader(run):
    """Once for all rounds, into the scratch directory; the record of the run says what is fed."""
    run.make()
    feed = Path(run.workload()["data"]["feed_path"])
    assert feed == run.cache / "scratch/feed.lines"
    assert feed.read_bytes() == unpacked(run.data)


def test_without_room_the_loader_gets_the_packed_data(run, tmp_path):
    """It must not take the disk from the database."""
    run.make()
    (tmp_path / "df").write_text("#!/bin/sh\necho Avail\necho 4096\n", encoding="utf-8")
    (tmp_path / "df").chmod(0o755)
    run.make(PATH=f"{tmp_path}:{run.env['PATH']}")
    assert run.workload()["data"]["feed_path"] == str(run.data)
    assert not (run.cache / "scratch/feed.lines").exists()


def test_a_fixed_count_takes_the_place_of_the_largest_one(run):
    """`queries.count` is what is generated, if it is given."""
    run.plan["queries"]["count"] = 7
    run.make()
    assert run.workload()["queries"][1]["count"] == 7


def test_tsbs_runs_in_an_empty_directory(run):
    """It would read ./config.yaml without a word."""
    run.make()
    assert len(run.calls()) == 5
    assert all(" files=0 " in call for call in run.calls())


def test_a_second_run_uses_what_is_there(run):
    """No generator is started and the record is the same."""
    run.make()
    before, workload = run.calls(), run.workload()
    run.make()
    assert run.calls() == before
    assert run.workload() == workload


@pytest.mark.parametrize("harm", ["cut short", "changed", "without its record", "record cut short"])
def test_a_damaged_file_is_made_again(run, harm):
    """A file is good only if its record says the same as its bytes."""
    run.make()
    content = run.data.read_bytes()
    record = run.files / "data.zst.json"
    if harm == "cut short":
        run.data.write_bytes(content[:-9])
    elif harm == "changed":
        run.data.write_bytes(content[:-9] + b"x" + content[-8:])
    elif harm == "without its record":
        record.unlink()
    else:
        record.write_text('{"sha256"', encoding="utf-8")
    err = run.make()
    assert run.data.read_bytes() == content
    assert len([c for c in run.calls() if c.startswith("data")]) == 2
    assert len(run.calls()) == 6
    if harm in {"cut short", "changed"}:
        assert f"{run.data} is not as it was written (cut short, or changed): making it again" in err


def test_only_the_damaged_query_file_is_made_again(run):
    """The other files stay."""
    run.make()
    path = Path(run.workload()["queries"][1]["path"])
    path.write_bytes(path.read_bytes()[:-5])
    run.make()
    assert len(run.calls()) == 6
    assert run.calls()[-1].startswith("queries")


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("error", "wrote 1 lines instead of 40 (exit code 0): invalid use case specified: 'nope'; nothing was kept"),
        ("short", "wrote 6 lines instead of 40 (exit code 0); nothing was kept"),
        ("exit", "wrote 6 lines instead of 40 (exit code 7); nothing was kept"),
    ],
)
def test_data_that_is_not_whole_is_not_kept(run, fault, sentence):
    """The number of lines tells, since the generator says success in any case."""
    assert sentence in run.make(3, FAKE_DATA_FAULT=fault)
    assert run.left() == []
    assert not (run.dir / "raw/workload.json").exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("max-all-1", "invalid query type for use case 'cpu-only': 'max-all-1'"),
        ("lastpoint", "LastPointPerHost not supported in PromQL"),
    ],
)
def test_a_query_type_tsbs_cannot_make_is_named(run, name, sentence):
    """TSBS prints one kind of error and exits 0, and panics at the other."""
    run.plan["queries"]["types"][1]["name"] = name
    err = run.make(2)
    assert f"queries.types: tsbs_generate_queries makes no {name} for cpu-only: {sentence}" in err
    assert "goroutine" not in err
    assert not [file for file in run.left() if file.startswith("5")]


def test_too_few_queries_are_not_kept(run):
    """The count that the generator prints has to be the one asked for."""
    assert "made 49 queries of cpu-max-all-1 instead of 50" in run.make(3, FAKE_QUERIES_FAULT="short")
    assert run.left() == ["data.zst"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("fault", [{"FAKE_DATA_FAULT": "hang"}, {"FAKE_QUERIES_FAULT": "hang"}])
def test_a_kill_in_the_middle_leaves_nothing_that_counts(run, number, fault):
    """A signal ends the generators too; after SIGKILL the next run clears up."""
    process = run.start(**fault)
    waited = 1 if "FAKE_DATA_FAULT" in fault else 2
    deadline = time.monotonic() + 20
    while len(run.calls()) < waited:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    process.stdout.close()
    process.stderr.close()
    assert process.wait(20) == (-9 if number == signal.SIGKILL else 130)
    if number != signal.SIGKILL:
        assert not list(run.files.glob("partial.*"))
        assert generators_in(run.files) == []
    for pid in generators_in(run.files):
        os.kill(pid, signal.SIGKILL)
    assert [f for f in run.left() if not f.startswith(("new", "stderr", "counts", "data.zst"))] == []
    run.make()
    assert not list(run.files.glob("partial.*"))
    assert run.left().count("data.zst") == 1
    assert unpacked(run.data).count(b"\n") == DATA_LINES


def generators_in(directory: Path) -> list[int]:
    """Return the processes whose working directory lies below `directory`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(directory):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_too_little_disk_is_said_before_the_first_byte(run, tmp_path):
    """5 MiB of data and 140 queries of at most 1000 bytes; a `df` on PATH says that 2 MiB are free."""
    run.plan["workload"]["estimated_bytes"] = 5 << 20
    (tmp_path / "df").write_text("#!/bin/sh\necho Avail\necho 2097152\n", encoding="utf-8")
    (tmp_path / "df").chmod(0o755)
    err = run.make(2, PATH=f"{tmp_path}:{run.env['PATH']}")
    assert "about 6 MiB are needed and 2 MiB are free in" in err
    assert str(run.files) in err
    assert "TSDUEL_CACHE" in err
    assert run.calls() == []
    assert run.left() == []


def test_nothing_to_make_needs_no_disk(run, tmp_path):
    """A full disk is no reason to refuse files that are there."""
    run.make()
    (tmp_path / "df").write_text("#!/bin/sh\necho Avail\necho 0\n", encoding="utf-8")
    (tmp_path / "df").chmod(0o755)
    run.make(PATH=f"{tmp_path}:{run.env['PATH']}")


def test_a_run_that_goes_on_refuses_other_bytes(run):
    """Rounds on other data would be compared with those that are there."""
    run.make()
    path = run.dir / "raw/workload.json"
    workload = run.workload()
    workload["data"]["content_checksum"] = "0"
    path.write_text(json.dumps(workload), encoding="utf-8")
    assert "are not those of this run's first rounds" in run.make(2)
    assert run.workload() == workload


def test_a_line_of_text_in_the_plan_is_never_a_command(run, tmp_path):
    """Values of the plan reach the generators as they are."""
    run.plan["workload"]["use_case"] = f'$(touch {tmp_path}/owned); "`touch {tmp_path}/owned`"'
    run.make()
    assert not (tmp_path / "owned").exists()
    assert "$(touch" in run.calls()[0]


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "interval", "interval_s"), [(50, "80s", 80), (14_000, "40m", 2400)])
def test_the_data_is_byte_for_byte_that_of_stock_tsbs(tmp_path, scale, interval, interval_s):
    """Small and large time steps (other zstd options) unpack to what the generator alone writes, in its order."""
    bin_dir = real_tsbs()
    run = Run(tmp_path, bin_dir=bin_dir)
    lines = 13 * 3600 // interval_s * scale
    shape = {"scale": scale, "interval": interval, "interval_s": interval_s, "lines": lines}
    run.plan["workload"] |= shape
    stock = [
        bin_dir / "tsbs_generate_data", "--format=victoriametrics", "--use-case=cpu-only", f"--scale={scale}",
        "--seed=8428", "--timestamp-start=2025-06-10T00:00:00Z", "--timestamp-end=2025-06-10T13:00:00Z",
        f"--log-interval={interval}",
    ]  # fmt: skip
    expected = subprocess.run(stock, check=True, capture_output=True, cwd=run.dir / "build").stdout
    run.make()
    assert unpacked(run.data) == expected
    assert [query["count"] for query in run.workload()["queries"]] == [50, 50]


def real_tsbs() -> Path:
    """Return the directory with TSBS as `make build` leaves it."""
    cache = Path(os.environ.get("TSDUEL_CACHE", ROOT / ".cache"))
    built = sorted(cache.glob("tsbs/*/tsbs_generate_data"), key=lambda path: path.stat().st_mtime)
    if not built:
        pytest.skip("TSBS is not built: make build")
    return built[-1].parent
