"""Rank 7: the verbs of the command line."""
