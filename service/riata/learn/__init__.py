"""Rank 4: the `Learner` protocol and one folder per online algorithm."""
