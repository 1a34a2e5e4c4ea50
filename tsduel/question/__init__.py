"""The experiment: its file, knobs, and the values that are refused."""
