"""Pools of other processes and machines for batch solvers: job names and arrays are sent, never code."""
