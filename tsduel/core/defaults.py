"""Default values without any library, since `make doctor` works on a fresh clone."""

PORT = 8428
"""The port of a database (host.port)."""
STEAL_PCT = 5
STEAL_FLAG_PCT = 1
FOREIGN_CPU_PCT = 5
FOREIGN_CPU_FLAG_PCT = 2
CLOCK_STEP_S = 0.2
"""Limits of noise (docs/blocks.md), in percent of the whole machine, and in seconds."""
FEWEST_BLOCKS = 6
"""Fewer blocks give no verdict, whatever they show (docs/statistics.md)."""
GO_MINIMUM = "1.25.5"
"""The oldest Go that builds TSBS, our agent and all targets."""
