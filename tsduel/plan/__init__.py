"""The first stage: every value resolved and the whole order drawn, before anything starts."""
