"""Riata: an online-learning service. Sparse linear classifiers learn from every labelled event."""

from importlib import import_module
from typing import Any

__version__ = "0.3.0"


def __getattr__(name: str) -> Any:
    """`from riata import Model` loads the learners, which `import riata` does not."""
    if name == "Model":
        return import_module("riata.model").Model
    raise AttributeError(f"module 'riata' has no attribute {name!r}")
