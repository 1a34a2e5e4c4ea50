"""A run on another machine: connects to it, copies files there, and follows the run from here."""
