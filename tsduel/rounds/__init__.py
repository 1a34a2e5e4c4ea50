"""The fourth stage on our side: start, attend, show and stop the blocks."""
