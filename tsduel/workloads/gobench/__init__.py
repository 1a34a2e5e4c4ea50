"""Go benchmarks side by side: the workload of `kind: gobench` in an experiment."""
