"""Pods of Kubernetes, in which blocks run: each host of a run is a Job with one pod."""
