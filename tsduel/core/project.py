"""Where this checkout lies: scripts, roles and experiments are found from here."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
