"""TSBS loads and queries."""
