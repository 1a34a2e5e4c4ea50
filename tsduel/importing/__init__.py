"""Logs that people have already -> a run."""
