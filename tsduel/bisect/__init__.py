"""Finds the first bad revision by ordinary runs; the results so far decide each next run."""
