"""Time, disk and memory of a run, and the changes that it can show: with the plan, and after each block."""
