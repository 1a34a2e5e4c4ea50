"""Kills at drawn moments of a run, one process or all of them as a power cut does it, and what came of them.

A *planned* block is there exactly once in the end: published once, and never touched or begun again after that. One
whose database or loader was killed has failed, and is kept as that; one whose driver was killed is run again.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fakeproject import PATIENCE_S, Project, marked, wait_for

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

RUN_ENDS = ("driver", "stopped driver", "everything", "power")


def planned_blocks(run_dir: Path) -> list[str]:
    """Return the names of the blocks in the plan that are no spares, sorted."""
    rows = [row.split("\t") for row in (run_dir / "plan" / "blocks.tsv").read_text().splitlines()[1:]]
    return sorted(f"{int(row[0]):03d}" for row in rows if row[2] != "spare")


def kill(*pids: int) -> None:
    """Kill processes at once: stopped first, so that none sees the end of another."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


@dataclass
class Disturbed:
    """One run that is disturbed; it begins and goes on by the same command, in ``environment``."""

    project: Project
    victims: Mapping[str, str]  # what is killed -> a part of its command line
    seed: int
    look: Callable[[Iterable[int]], set[str]] | None = None  # at what runs, before each kill
    environment: Mapping[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    looks: int = 0
    process: subprocess.Popen[bytes] | None = None
    kills: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    _published: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Draw from the seed."""
        self.draw = random.Random(self.seed)  # noqa: S311 - moments, no secret
        self.run_dir, self.scratch = self.project.run_dir, self.project.cache / "scratch"

    def disturb(self, kinds: Iterable[str], phases: Iterable[str], longest_s: float = 0.4) -> None:
        """Kill each of the kinds once, in a drawn order, each in a drawn phase."""
        kinds, phases = list(kinds), list(phases)
        self.draw.shuffle(kinds)
        for kind in kinds:
            phase = self.draw.choice(phases)
            if kind not in RUN_ENDS:
                wait_for(self._measures)
            self._wait_for(phase)
            time.sleep(self.draw.uniform(0, longest_s))
            if self.look and (running := marked(self.scratch)):
                self.seen |= self.look(running)
                self.looks += 1
            if killed := self._kill(kind):
                self.kills.append(f"{kind} in {phase}")
            if killed and kind in RUN_ENDS:
                self._ended()
                if kind == "power":
                    self._tear()
            self._look()

    def finish(self) -> str:
        """Let the run come to its end; return all that it said since its last start."""
        for _ in range(3):
            process = self._running()
            said = self.project.end(process)
            if process.returncode == 0:
                break
        assert process.returncode == 0, said
        self._look()
        self.left += self.project.alive()
        return said

    def lost(self) -> list[str]:
        """Return the planned blocks that are not there, and what is there and was not planned."""
        return sorted(set(planned_blocks(self.run_dir)) ^ set(self.project.blocks()))

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None:
            self.process = self.project.start(**self.environment)
        return self.process

    def _measures(self) -> bool:
        """Whether the warm-up block is over: one that fails is the end of a run, since no count could be chosen."""
        self._running()
        return any(e["event"] == "block-start" and e["kind"] == "measured" for e in self.project.events())

    def _wait_for(self, phase: str) -> None:
        """Return when this phase has begun anew: `begin` is the start of the driver, `between` the end of a block."""
        before = self.project.events()
        began = {"begin": "run-start", "prepare": "block-start", "between": "block-end"}.get(phase, "phase-start")
        if phase == "begin" and self.process is not None and self.process.poll() is None:
            # Only a run that is not there can be met at its begin.
            began = "block-start"
        process = self._running()

        def has_begun_or_ended() -> bool:
            nonlocal process
            fresh = [e for e in self.project.events()[len(before) :] if e["event"] == began]
            if process.poll() == 0 or any(began != "phase-start" or e["phase"] == phase for e in fresh):
                return True
            process = self._running()
            return False

        wait_for(has_begun_or_ended)

    def _kill(self, kind: str) -> bool:
        """Kill what was drawn, waiting a moment for it to be there; false if it never was, since the run has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            assert self.process is not None
            if self.process.poll() is not None:
                return False
            ours = marked(self.scratch)
            if kind in {"driver", "stopped driver"}:
                if kind == "stopped driver":
                    self.process.send_signal(signal.SIGSTOP)
                    time.sleep(0.2)
                self.process.kill()
                return True
            if kind in {"everything", "power"}:
                kill(*ours, self.process.pid)
                # What was forked between the look and the kill.
                while rest := marked(self.scratch):
                    kill(*rest)
                return True
            pids = [pid for pid, words in ours.items() if self.victims[kind] in words]
            if pids:
                kill(*pids)
                return True
            time.sleep(0.02)
        return False

    def _ended(self) -> None:
        assert self.process is not None
        self.process.wait(timeout=PATIENCE_S)
        # What the driver has started has this long to end what it has started.
        self.left += self.project.alive(PATIENCE_S)

    def _look(self) -> None:
        """Remember each published block; one that is another one now, or is begun again, was repeated."""
        for name in self.project.blocks():
            block = self.project.block(name)
            if self._published.setdefault(name, block) != block:
                self.repeated.append(name)
        ended: set[str] = set()
        for event in self.project.events():
            if event["event"] == "block-end":
                ended.add(event["block"])
            elif event["event"] == "block-start" and event["block"] in ended:
                self.repeated.append(str(event["block"]))

    def _tear(self) -> None:
        """Leave the last files as a power cut does: half a line, no bytes, zeros, a record of half a block."""
        raw = self.run_dir / "raw/host1"
        events = raw / "events.jsonl"
        if events.exists():
            text = events.read_bytes()
            kept = text[: -self.draw.randrange(1, 40)]
            events.write_bytes(self.draw.choice([kept, kept + bytes(20)]))
        for name in ("noise.json", "calibration.json", "workload.json", "../host1.json"):
            path = raw / name
            if path.exists() and self.draw.random() < 0.7:
                path.write_bytes(path.read_bytes()[: self.draw.choice([0, 5])])
        partial = raw / "001.partial"
        if not (raw / "001").exists():
            partial.mkdir(exist_ok=True)
            (partial / "block.json").write_text('{"status": "fail')
        (raw / "noise.json.partial").write_text("{")
        (self.run_dir / "stop-requested").touch()
