"""Rank 3: the `Store` protocol (log, dedupe, checkpoints) and its implementations."""
