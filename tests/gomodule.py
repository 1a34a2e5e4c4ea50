"""A small Go module for the tests of Go benchmarks, really built and run: stages as make calls them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from checkout import PROJECT, share
from gitrepo import Repository

if TYPE_CHECKING:
    from pathlib import Path

BUILD = PROJECT / "ansible/build.py"
PATIENCE_S = 500.0

# Deterministic but for time: `allocs/op`, `B/op` and `loops/op` are the same in every run of one revision.
WORK = "package work\n\nconst Loops, Allocs, Slow = {loops}, {allocs}, {slow}\n"
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
	for i := 0; i < b.N; i++ {
		sink += uint64(len(text))
	}
	b.ReportMetric(0, "empty/op")
}
"""
BROKEN = {
    "cgo": 'package cgo\n\n// #include <no_such_header.h>\nimport "C"\n',
    "linked": 'package linked\n\n// #cgo LDFLAGS: -lno_such_library\n// int f(void);\nimport "C"\n\nvar _ = C.f()\n',
    "empty": "package empty\n",
}


class Module:
    """A git repository with the module; each commit is a revision of other constants."""

    def __init__(self, path: Path) -> None:
        self.repository = Repository(path)
        self.repository.write("go.mod", "module example.org/small\n\ngo 1.24\n")
        self.repository.write("work/work_test.go", BENCHMARKS)
        self.repository.write("work/testdata/input", "four\n")
        for name, text in BROKEN.items():
            self.repository.write(f"{name}/{name}.go", text)
            if name != "empty":
                self.repository.write(f"{name}/{name}_test.go", f"package {name}\n")
        self.path = str(path)

    def commit(self, *, loops: int = 1000, allocs: int = 10, slow: int = 1000) -> dict[str, str]:
        """Commit the module with these constants; return the commit as a variant of an experiment."""
        self.repository.write("work/work.go", WORK.format(loops=loops, allocs=allocs, slow=slow))
        return {"source": "git", "repo": self.path, "ref": self.repository.commit_all("constants")}


class Run:
    """One run directory below `root`, and the stages on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "results" / "r"
        cache = root / "cache"
        share(cache, "go", "toolchain", "bin", "agent")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("TSDUEL", "GO"))}
        self.env |= {"TSDUEL_CACHE": str(cache), "TSDUEL_LOCK": str(root / "host.lock"), "PYTHONPATH": str(PROJECT)}

    def plan(self, variants: dict[str, Any], *, expect: int = 0, **parts: Any) -> str:
        """Plan an experiment; `parts` are laid over its sections, knobs in capitals are given as such."""
        base: dict[str, Any] = {
            "name": "small",
            "kind": "gobench",
            "variants": variants,
            "gobench": {"package": "./work", "bench": "^BenchmarkWork$", "seconds": 0.05},
            "design": {"blocks": 1, "max_failed_blocks": 0},
            "noise": {"steal_pct": None, "foreign_cpu_pct": None, "canary_pct": None, "clock_step_s": None},
        }
        knobs = {name: parts.pop(name) for name in list(parts) if name.isupper()}
        for section, fields in parts.items():
            base[section] = {**base.get(section, {}), **fields} if isinstance(fields, dict) else fields
        written = self.root / "small.yml"
        written.write_text(json.dumps(base))  # which is YAML
        return self.stage("plan", expect=expect, KIND="gobench", EXPERIMENT=str(written), **knobs)

    def stage(self, name: str, *, expect: int = 0, **more: str) -> str:
        """Run a stage; return what was said."""
        return self.call([sys.executable, "-m", "tsduel", name, "r"], expect=expect, **more)

    def call(self, command: list[str], *, expect: int, **more: str) -> str:
        """Run a command as a stage does."""
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.env | more,
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
        """Provision and build what is planned, as the roles do: that Ansible does so is tested with the databases."""
        self.stage("provision")
        self.call([sys.executable, str(BUILD), str(self.directory)], expect=0)

    def all(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Build, run, tidy, compare and report; return the rows of the first candidate by unit and benchmark."""
        self.build()
        for stage in ("run", "tidy", "compare", "report"):
            self.stage(stage)
        rows = self.json("stats/comparison.json")["rows"]
        return {(row["metric"], row["query_type"]): row for row in rows if row["candidate"] == rows[0]["candidate"]}

    def json(self, name: str) -> Any:
        """Return a JSON file of the run."""
        return json.loads(self.text(name))

    def text(self, name: str) -> str:
        """Return a text file of the run."""
        return (self.directory / name).read_text()
