"""The databases: one module each."""
