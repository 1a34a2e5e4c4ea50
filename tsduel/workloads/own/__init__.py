"""The user's own queries (queries.file, .log, .rules) and data (workload.file): read, checked, written as requests."""
