"""Since when? A row of ordinary runs, each of which is decided by what those before it have shown."""
