"""The command `tsduel`: its commands, its knobs, the order of the stages, and a checkout that somebody stands in."""
