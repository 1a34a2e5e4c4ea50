"""The written question: experiment files, knobs, and what is refused."""
