"""The fourth stage, seen from here: the blocks started, attended, shown, stopped."""
