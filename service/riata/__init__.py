"""Riata: sparse linear classifiers that learn from every labelled event and never lose one."""

__version__ = "0.1.0"
