"""Rank 4: the immutable `Model`, scoring and explanation."""
