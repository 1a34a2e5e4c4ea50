"""The path of this checkout, with its scripts, roles and experiments."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
