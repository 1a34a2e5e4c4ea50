"""Go benchmarks side by side: what `kind: gobench` in an experiment changes, which is what a round does."""
