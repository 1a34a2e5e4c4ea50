"""A small Go module for the tests of Go benchmarks, really built and run: stages as make calls them.

Only the canary is exchanged, which costs two seconds a round and says nothing here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asking import UNJUDGED
from fakeproject import agent
from gitrepo import Repository

from plots import report
from tsduel.plan import resolve
from tsduel.question import read
from tsduel.stats import compare
from tsduel.tidy import tables as tidy

if TYPE_CHECKING:
    from tsduel.core.plan import Plan

PROJECT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("TSDUEL_CACHE", PROJECT / ".cache"))
PATIENCE_S = 500.0

GO_MOD = "module example.org/small\n\ngo 1.24\n"
# Deterministic but for time: `allocs/op`, `B/op` and `loops/op` are the same in every run of one revision.
WORK = """package work

const Loops, Allocs, Slow = {loops}, {allocs}, {slow}
"""
BENCHMARKS = """package work

import (
	"fmt"
	"os"
	"testing"
)

var sink uint64
var kept [][]byte

func spin(n int) {
	for i := 0; i < n; i++ {
		sink ^= sink<<13 + 88172645463325252
		sink ^= sink >> 7
	}
}

func TestMain(m *testing.M) {
	fmt.Println("Unit loops/op better=lower")
	if _, err := os.Stat("left-behind"); err == nil {
		panic("the directory is not clean")
	}
	os.Exit(m.Run())
}

func BenchmarkWork(b *testing.B) {
	b.Run("spin", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			spin(Loops)
		}
		b.ReportMetric(Loops, "loops/op")
	})
	b.Run("slow", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			spin(Slow)
		}
	})
	b.Run("alloc", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			kept = kept[:0]
			for j := 0; j < Allocs; j++ {
				kept = append(kept, make([]byte, 1024))
			}
		}
	})
}

func BenchmarkKeys(b *testing.B) {
	for _, size := range []int{1, 4} {
		for _, batch := range []int{1, 10} {
			b.Run(fmt.Sprintf("size=%d/batch=%d", size, batch), func(b *testing.B) {
				for i := 0; i < b.N; i++ {
					kept = kept[:0]
					for j := 0; j < 10*size/batch+10; j++ {
						kept = append(kept, make([]byte, 1024))
					}
				}
			})
		}
	}
}

func BenchmarkReads(b *testing.B) {
	text, err := os.ReadFile("testdata/input")
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile("left-behind", text, 0o600); err != nil {
		b.Fatal(err)
	}
	for i := 0; i < b.N; i++ {
		sink += uint64(len(text))
	}
	fmt.Printf("rows=%d\\n", len(text))
	b.ReportMetric(0, "empty/op")
}
"""
BAD = """package work

import (
	"os"
	"testing"
	"time"
)

func BenchmarkFails(b *testing.B)  { b.Fatal("the cluster is down") }
func BenchmarkSkips(b *testing.B)  { b.Skip("needs an S3 bucket") }
func BenchmarkPanics(b *testing.B) { panic("index out of range") }
func BenchmarkLeaves(b *testing.B) { os.Exit(0) }
func BenchmarkSleeps(b *testing.B) { time.Sleep(time.Hour) }
func BenchmarkSpins(b *testing.B) {
	for {
		spin(1000)
	}
}
"""


class Module:
    """A git repository with the module; each commit is a revision of other constants."""

    def __init__(self, path: Path) -> None:
        self.repository = Repository(path)
        self.repository.write("go.mod", GO_MOD)
        self.repository.write("work/work_test.go", BENCHMARKS)
        self.repository.write("work/bad_test.go", BAD)
        self.repository.write("work/testdata/input", "four\n")
        self.repository.write("empty/empty.go", "package empty\n")
        self.path = str(path)

    def commit(self, *, loops: int = 1000, allocs: int = 10, slow: int = 1000) -> dict[str, str]:
        """Commit the module with these constants; return the commit as a variant of an experiment."""
        self.repository.write("work/work.go", WORK.format(loops=loops, allocs=allocs, slow=slow))
        return self.variant(self.repository.commit_all("constants"))

    def variant(self, revision: str) -> dict[str, str]:
        """Return a commit as a variant of an experiment."""
        return {"source": "git", "repo": self.path, "ref": revision}


class Run:
    """One run directory, and the stages on it."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "results" / "r"
        self.cache = root / "cache"
        (SHARED / "go").mkdir(parents=True, exist_ok=True)
        self.cache.mkdir(exist_ok=True)
        for name in ("go", "toolchain"):
            if (SHARED / name).exists():
                (self.cache / name).symlink_to(SHARED / name)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("TSDUEL", "GO"))}
        self.env |= {"TSDUEL_CACHE": str(self.cache), "TSDUEL_LOCK": str(root / "host.lock")}
        self.env["TSDUEL_PROJECT"] = str(PROJECT)

    def plan(self, variants: dict[str, Any], *, aa: bool = False, **parts: Any) -> Plan:
        """Write the plan of an experiment; `parts` are laid over its sections."""
        base: dict[str, Any] = {
            "name": "small",
            "kind": "gobench",
            "variants": variants,
            "gobench": {"package": "./work", "bench": "^BenchmarkWork$", "seconds": 0.05},
            "design": {"blocks": 1, "max_failed_blocks": 0},
            "noise": UNJUDGED,
            "watchdog": {"idle_s": 60, "silent_s": 120},
        }
        for section, fields in parts.items():
            base[section] = {**base.get(section, {}), **fields} if isinstance(fields, dict) else fields
        plan = resolve.resolve(read.validate(base, "test"), run="r", aa=aa)
        resolve.write(self.directory, plan, cache=self.cache)
        return plan

    def _call(self, *words: object, expect: int) -> str:
        done = subprocess.run(
            [str(word) for word in words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == expect, done.stdout
        return done.stdout

    def build(self) -> None:
        """Build all variants."""
        for variant in self.json("plan/ansible-vars.json")["variants"]:
            self._build(variant["name"], expect=0)

    def build_first(self, expect: int) -> str:
        """Build the baseline and require the exit code; return what was said."""
        return self._build("baseline", expect)

    def _build(self, name: str, expect: int) -> str:
        return self._call(sys.executable, PROJECT / "ansible/build.py", "variant", self.directory, name, expect=expect)

    def blocks(self, expect: int = 0) -> str:
        """Run the blocks; return what was said."""
        return self._call(agent(), "run", self.directory, expect=expect)

    def read(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Tidy, compare and report; return the rows of the first candidate by unit and benchmark."""
        for stage in (tidy, compare, report):
            stage.main(self.directory)
        rows = self.json("stats/comparison.json")["rows"]
        return {(row["metric"], row["query_type"]): row for row in rows if row["candidate"] == rows[0]["candidate"]}

    def json(self, name: str) -> Any:
        """Return a JSON file of the run."""
        return json.loads((self.directory / name).read_text())

    def text(self, name: str) -> str:
        """Return a text file of the run."""
        return (self.directory / name).read_text()
