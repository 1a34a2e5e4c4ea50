"""The sections of a report, by the names that a workload lists; one without text is left out."""

from collections.abc import Callable

from plots.pictures import Pictures
from plots.sections import (
    bench,
    blocks,
    checks,
    compared,
    components,
    duel,
    hosts,
    method,
    moved,
    noise,
    profiles,
    rates,
    solo,
    sweep,
    upgrade,
)
from plots.source import Source

Section = Callable[[Source, Pictures], str]
SECTIONS: dict[str, tuple[str, Section]] = {
    "compared": ("What differs", compared.section),
    "moved": ("What moved with it", moved.section),
    "mixed": ("Writes and queries at once, at a fixed rate", rates.mixed),
    "capacity": ("Response time against rate", rates.capacity),
    "duel": ("Queries, asked of both in turn", duel.section),
    "upgrade": ("Before and after the upgrade", upgrade.section),
    "load": ("Load", solo.load),
    "components": ("By component", components.section),
    "server": ("The server's process and its database", solo.server),
    "queries": ("Queries of several workers", solo.queries),
    "benchmarks": ("Benchmarks", bench.benchmarks),
    "benchstat": ("benchstat's view", bench.benchstat),
    "profiles": ("Profiles of the difference", profiles.section),
    "changed": ("What changed in the sources", profiles.changed),
    "sweep": ("By cell", sweep.section),
    "cells": ("Each cell", sweep.cells),
    "hosts": ("Host by host", hosts.section),
    "blocks": ("Block by block", blocks.section),
    "noise": ("Noise", noise.section),
    "checks": ("Checks", checks.section),
    "method": ("How it was measured", method.text("method", "Blocks, phases and statistics")),
    "upgrade-method": ("How it was measured", method.text("upgrade-method", "Blocks, phases and statistics")),
    "bench-method": ("How it was measured", method.text("bench-method", "Blocks, phases and statistics")),
    "import-method": ("Where the figures come from", method.text("import-method", "Blocks, phases and statistics")),
    "reproduce": ("How to reproduce", method.reproduce),
    "limits": ("Limitations", method.text("limits")),
    "upgrade-limits": ("Limitations", method.text("upgrade-limits")),
    "bench-limits": ("Limitations", method.text("bench-limits")),
    "import-limits": ("Limitations", method.text("import-limits")),
}
