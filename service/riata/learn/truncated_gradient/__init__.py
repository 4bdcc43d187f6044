"""Truncated gradient (Langford, Li and Zhang 2008): configuration, learner and kernels."""
