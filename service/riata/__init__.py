"""Riata: an online-learning service. Sparse linear classifiers learn from every labelled event."""

__version__ = "0.1.0"
