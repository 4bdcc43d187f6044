"""Rank 5: the protocol core, the inbox with group commit, the single writer, recovery."""
