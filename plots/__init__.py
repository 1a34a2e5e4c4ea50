"""tidy/ and stats/ -> pictures and words."""
