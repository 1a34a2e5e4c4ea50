"""VictoriaMetrics' own history, as far as it lies beside the project: what experiments name by its public address."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PUBLIC = "https://github.com/VictoriaMetrics/VictoriaMetrics"
SHARED = Path(os.environ.get("TSDUEL_TEST_SHARED") or Path(__file__).resolve().parent.parent.parent / "shared")
BUNDLE = SHARED / "history/victoriametrics.bundle"

needed = pytest.mark.skipif(
    not BUNDLE.exists(), reason=f"VictoriaMetrics' history is not here ({BUNDLE}), and tests fetch none"
)


def rewritten() -> dict[str, str]:
    """Return the environment in which git reads the bundle where the public repository is named."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{BUNDLE}.insteadOf",
        "GIT_CONFIG_VALUE_0": PUBLIC,
    }
