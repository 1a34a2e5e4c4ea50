"""The first stage: all values and the order of all blocks, before anything starts."""
