"""`make calibrate`: the smallest differences that this machine shows, tested with planted differences."""
