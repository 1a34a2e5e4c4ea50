"""Values that are needed before there is anything but Python itself: `make doctor` runs on a fresh clone."""

PORT = 8428
"""Where a database listens (host.port)."""
STEAL_PCT = 5
STEAL_FLAG_PCT = 1
FOREIGN_CPU_PCT = 5
FOREIGN_CPU_FLAG_PCT = 2
CLOCK_STEP_S = 0.2
"""Limits of noise (MEASUREMENT.md 6); shares are of the whole machine."""
GO_MINIMUM = "1.25.5"
"""The oldest Go that builds TSBS, our agent and the databases that are known."""
LENT_PORT = 100
"""From host.port to where a host is asked that runs components for a driver on another: behind those of databases."""
