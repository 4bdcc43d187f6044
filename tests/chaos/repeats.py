"""How often a row of the fault matrix is repeated: once or a few times in `make test-all`, twenty times in a soak.

CHAOS_REPEATS=200 in the environment makes it two hundred: a night's work.
"""

from __future__ import annotations

import os

import pytest
from _pytest.mark import ParameterSet

SOAK = int(os.environ.get("CHAOS_REPEATS", "20"))


def repeats(quick: int, soak: int = SOAK) -> list[int | ParameterSet]:
    """Seeds for `pytest.mark.parametrize`: those after the first `quick` are slow."""
    return [*range(quick), *(slow(seed) for seed in range(quick, soak))]


def slow(*values: object) -> ParameterSet:
    """Values for `pytest.mark.parametrize` that only a soak runs."""
    return pytest.param(*values, marks=pytest.mark.slow)
