"""Logs of VictoriaMetrics' own `make tsbs`: nothing is planned, built or run, only read."""
