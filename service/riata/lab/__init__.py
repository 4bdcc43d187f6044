"""Batch algorithms, trees of curves and pools: for the command line, estimators and the child process of refits."""
