"""Rank 4: test-then-train figures of every event, beside those of the base rate."""
