"""Rank 2: mathematics that learners and predictions share, over plain arrays. No classes, no I/O."""
