"""The report of a run of Go benchmarks."""
