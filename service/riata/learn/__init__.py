"""Rank 3: the `Learner` protocol and one file per online algorithm."""
