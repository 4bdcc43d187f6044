"""Rank 4: progressive validation (test-then-train) metrics of every event, next to those of a base-rate predictor."""
