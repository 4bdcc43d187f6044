"""Refits of a running service: a child process finds the batch optimum of a model's log, the gate judges it, people get it."""
