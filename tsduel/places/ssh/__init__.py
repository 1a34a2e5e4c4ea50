"""The rounds on another machine: how it is reached, what is brought there, and how they are followed from here."""
