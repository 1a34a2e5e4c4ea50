"""A git repository of VictoriaMetrics in which each branch has one known difference, to test the instrument with.

`base` is the released version. `slow-0.5` to `slow-10` make the handler of range queries slower by so many percent,
`type-3` and `type-5` that of double-groupby-1 alone; `burn-2` to `burn-20` burn so many percent of a core all the time;
`memory-8` holds 8 MiB more, beside Go's heap; `wrong-150` and `wrong-500` answer one query of so many wrongly. `object`
allocates one object more a query, `bytes` 2 % more bytes for double-groupby-1 alone, and `sleep` sleeps a millisecond a
query. Slower by 20 % are, in `window-6h`, queries over more than six hours, in `hosts-4` those of more than four hosts,
and in `arriving` those that are asked while batches arrive. The sources come from the Go module proxy. Commits are the
same wherever and whenever they are made, so their builds are cached.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from tsduel.core.defaults import GO_MINIMUM
from tsduel.core.errors import UserError
from tsduel.plan.sources import with_go
from tsduel.targets import databases

PROGRAM = databases()["victoriametrics"].programs["server"]
VERSION = "v1.132.0"
_MOMENT = "2025-06-10T00:00:00Z"
_HANDLER = "err := prometheus.QueryRangeHandler(qt, startTime, w, r); err != nil {"
_SLOWED = """
// planted runs a handler and then spends a share of its time again.
func planted(share float64, handle func() error) error {
	begin := time.Now()
	err := handle()
	for took := time.Since(begin); time.Since(begin) < took+time.Duration(share*float64(took)); {
	}
	return err
}
"""
# A thread of its own, by its own CPU clock: by the wall clock a burn would be over when its process has stood still.
_BURNER = """package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	go func() {
		runtime.LockOSThread()
		for range time.Tick(EVERY * time.Millisecond) {
			for begin := used(); used()-begin < 1e6; {
			}
		}
	}()
}

func used() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return t.Nano()
}
"""
# Not of Go's heap, which would be collected at other times then.
_HOLDER = """package main

import "golang.org/x/sys/unix"

var planted = held(MIB << 20)

func held(size int) []byte {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	for at := 0; at < size; at += 4096 {
		memory[at] = 1
	}
	return memory
}
"""


@dataclass(frozen=True)
class Plant:
    """One branch: in `file`, `old` becomes `new`, and `added` is put at the end; the file is made if it is missing."""

    name: str
    file: str
    old: str = ""
    new: str = ""
    added: str = ""


def _slow(percent: float) -> Plant:
    call = "func() error { return prometheus.QueryRangeHandler(qt, startTime, w, r) }"
    handler = f"err := planted({percent / 100}, {call}); err != nil {{"
    return Plant(f"slow-{percent}", "app/vmselect/main.go", _HANDLER, handler, _SLOWED)


def _burn(percent: int) -> Plant:
    burner = _BURNER.replace("EVERY", str(100 // percent))
    return Plant(f"burn-{percent}", "app/victoria-metrics/planted.go", added=burner)


def _hold(mib: int) -> Plant:
    return Plant(f"memory-{mib}", "app/victoria-metrics/planted.go", added=_HOLDER.replace("MIB", str(mib)))


def _before(name: str, statement: str) -> Plant:
    """Return a plant whose handler does something before each query."""
    call = f"func() error {{ {statement}; return prometheus.QueryRangeHandler(qt, startTime, w, r) }}()"
    return Plant(name, "app/vmselect/main.go", _HANDLER, f"err := {call}; err != nil {{", "\nvar planted []byte\n")


def _slow_where(name: str, share: str, added: str = "") -> Plant:
    """Return a plant whose handler is slower by a share that depends on the query; ``share`` is Go of its `r`."""
    slow = _slow(5)
    return replace(slow, name=name, new=slow.new.replace("planted(0.05,", f"planted({share},"), added=_SLOWED + added)


def _if(condition: str, share: float) -> str:
    return f"map[bool]float64{{true: {share}}}[{condition}]"


def _one_type(percent: int) -> Plant:
    """Return a plant that is slow for double-groupby-1, which alone groups by name and host."""
    of_it = _if('strings.Contains(r.FormValue("query"), "__name__, hostname")', percent / 100)
    return _slow_where(f"type-{percent}", of_it)


def _wrong(every: int) -> Plant:
    """Return a plant that answers for another step than it was asked for, once in so many queries.

    Each process begins somewhere in the count: one that is asked less than so much would never lie else.
    """
    change = f'if planted++; planted%{every} == 0 {{ _ = r.FormValue("step"); r.Form.Set("step", "7m") }}'
    return replace(_before(f"wrong-{every}", change), added=f"\nvar planted = int(time.Now().UnixNano() % {every})\n")


_SLOW = _slow(5)
_WINDOW = """
func lasts(r *http.Request) int64 {
	begin, _ := httputil.GetTime(r, "start", 0)
	end, _ := httputil.GetTime(r, "end", 0)
	return end - begin
}
"""
_ARRIVING = """
var rowsSeen, arrivedAt metrics.Counter

// arriving says whether a batch has come within the last 200 ms.
func arriving() bool {
	rows := metrics.GetOrCreateCounter(`vm_rows_inserted_total{type="influx"}`).Get()
	now := uint64(time.Now().UnixMilli())
	if rows != rowsSeen.Get() {
		rowsSeen.Set(rows)
		arrivedAt.Set(now)
	}
	return now-arrivedAt.Get() < 200
}
"""
_LOADS = (
    _slow_where("window-6h", _if("lasts(r) > 6*3600*1000", 0.2), _WINDOW),
    _slow_where("hosts-4", _if('strings.Count(r.FormValue("query"), "|host_") >= 4', 0.2)),
    _slow_where("arriving", _if("arriving()", 0.2), _ARRIVING),
)
_WORK = (
    _before("object", "planted = make([]byte, 16)"),
    _before(
        "bytes", 'if strings.Contains(r.FormValue("query"), "__name__, hostname") { planted = make([]byte, 3072) }'
    ),
    _before("sleep", "time.Sleep(time.Millisecond)"),
)
PLANTS = (
    _slow(2),
    _slow(3),
    _SLOW,
    _burn(5),
    _burn(2),
    *_WORK,
    _one_type(3),
    _wrong(150),
    _wrong(500),
    _slow(0.5),
    _slow(1),
    _one_type(5),
    _hold(8),
    *_LOADS,
    # For tests, beside which others run.
    _slow(10),
    _burn(20),
)


def repository(cache: Path) -> Path:
    """Return the repository in the cache, made if it is missing: branches `base` and one a plant."""
    plants = hashlib.sha256(repr((VERSION, PLANTS)).encode()).hexdigest()
    directory = cache / "src" / f"{plants[:16]}.git"
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with directory.with_name(f"{plants[:16]}.lock").open("a") as lock:  # as scripts/fetch-git
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.is_dir():
            _make(directory)
    return directory


def _make(directory: Path) -> None:
    for left in directory.parent.glob(f"{directory.name}.partial.*"):  # of a killed one
        shutil.rmtree(left)
    module = f"{PROGRAM.module}@{VERSION}"
    done = with_go(GO_MINIMUM, "local", "go", "mod", "download", "-json", module, cwd=Path("/"))
    if done.returncode != 0:
        raise UserError(f"{module} cannot be downloaded from the Go module proxy: {done.stderr.strip()[-300:]}")
    partial = directory.with_name(f"{directory.name}.partial.{os.getpid()}")
    shutil.copytree(json.loads(done.stdout)["Dir"], partial)  # its files are read-only
    for path in (partial, *partial.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    _git(partial, "init", "--quiet", "--initial-branch=base")
    _commit(partial, f"VictoriaMetrics {VERSION}")
    for plant in PLANTS:
        _git(partial, "checkout", "--quiet", "-b", plant.name, "base")
        _plant(partial / plant.file, plant)
        _commit(partial, f"planted: {plant.name}")
    _git(partial, "checkout", "--quiet", "base")
    subprocess.run(["sync", "-f", partial], check=True)  # after a power cut no object may be empty
    partial.rename(directory)


def course(cache: Path, slow: int, commits: int) -> tuple[Path, str, str]:
    """Return the repository, a branch of so many small commits on `base`, and the hash of the slow commit.

    Each commit adds a counter; number `slow` makes the query handler 5 % slower as well.
    """
    directory, branch = repository(cache), f"course-{slow}-of-{commits}"
    file = directory / _SLOW.file
    (directory / ".git/index.lock").unlink(missing_ok=True)  # of one that was killed between two commits
    _git(directory, "checkout", "--quiet", "--force", "-B", branch, "base")
    wanted = ""
    for number in range(1, commits + 1):
        counter = f'\nvar planted{number} = metrics.NewCounter(`vm_planted_total{{commit="{number}"}}`)\n'
        _plant(file, Plant(f"counter {number}", _SLOW.file, added=counter))
        if number == slow:
            _plant(file, _SLOW)
        head = _commit(directory, f"vmselect: count what {number} of {commits} does")
        wanted = head if number == slow else wanted
    _git(directory, "checkout", "--quiet", "base")
    return directory, branch, wanted


def _plant(path: Path, plant: Plant) -> None:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if plant.old and text.count(plant.old) != 1:
        raise UserError(f"{path}: the place where {plant.name} is planted is not there; it was made for {VERSION}")
    path.write_text(text.replace(plant.old, plant.new) + plant.added, encoding="utf-8")


def _commit(directory: Path, message: str) -> str:
    _git(directory, "add", "--all", "--force")
    _git(directory, "commit", "--quiet", "--message", message)
    return _git(directory, "rev-parse", "HEAD")


def _git(directory: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{role}_{part}": "tsduel" for part in ("NAME", "EMAIL")} | {f"GIT_{role}_DATE": _MOMENT}
    done = subprocess.run(
        ["git", "-C", directory, *words], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()
