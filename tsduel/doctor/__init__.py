"""`make doctor`: is all here, and on the measured machine, that a run needs."""
