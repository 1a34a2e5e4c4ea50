"""A run on another machine: how it is reached, what is brought there, and how it is followed from here."""
