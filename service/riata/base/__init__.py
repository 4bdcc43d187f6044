"""Rank 0: what every other package may import. Errors, limits, the clock, array types, settings."""
