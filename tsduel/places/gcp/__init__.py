"""A machine rented from Google for one run: its price, its creation, its deletion."""
