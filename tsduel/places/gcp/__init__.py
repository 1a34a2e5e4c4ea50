"""A machine rented from Google for one run: what it costs, how it comes, and that it goes."""
