"""raw/ -> tidy/: one table a subject."""
