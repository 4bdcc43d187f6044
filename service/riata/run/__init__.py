"""Rank 5: the protocol core, the writer's queue, group commit, the single writer and recovery."""
