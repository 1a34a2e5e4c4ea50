"""The cost of tsduel itself, side by side with what people use today. Run by `make bench`."""
