"""Rank 0: what every room may lean on. Errors, limits, the clock, array checks, settings."""
