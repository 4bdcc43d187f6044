"""Rank 1: kernels over plain arrays. No classes, no I/O."""
