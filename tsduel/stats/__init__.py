"""tidy/ -> stats/: estimates, intervals, verdicts."""
