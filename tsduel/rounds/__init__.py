"""The fourth stage, seen from here: started, attended, shown, stopped."""
