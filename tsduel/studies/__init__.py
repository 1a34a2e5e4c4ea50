"""Runs in a row: a rule says which comes next."""
