"""`make calibrate`: what this machine can tell apart, shown with differences that we planted ourselves."""
