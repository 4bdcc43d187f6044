"""A simulation that does not detect a removed safeguard proves nothing: each safeguard is removed, and the simulation must
fail.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from typing import Final

import pytest

from tests.simulation.history import simulate, simulating
from tests.simulation.lua_host import Scripts
from tests.simulation.mutants import MUTANTS, applied
from tests.simulation.runner import mode_of

FIRST: Final = 50_000
SEEDS_MAX: Final = 1500


def seeds_until_noticed(name: str) -> int | None:
    """How many histories it takes to see that a safeguard is missing; None where none of them shows it."""
    mutant = MUTANTS[name]
    scripts = Scripts(mutant.scripts)
    with simulating(), applied(mutant):
        for number in range(SEEDS_MAX):
            seed = FIRST + number
            if simulate(seed, mode_of(seed), scripts).violation:
                return number + 1
    return None


@pytest.fixture(scope="module")
def noticed() -> dict[str, int | None]:
    with multiprocessing.get_context("spawn").Pool() as pool, contextlib.closing(pool):
        return dict(zip(MUTANTS, pool.map(seeds_until_noticed, MUTANTS, chunksize=1), strict=True))


@pytest.mark.alone
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_safeguard_is_noticed(name: str, noticed: dict[str, int | None]) -> None:
    assert noticed[name] is not None, f"{MUTANTS[name].row}: {SEEDS_MAX} histories, and nobody missed it"


def test_a_change_of_a_script_that_changes_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"append\.lua has no"):
        Scripts({"append": [("no such line", "")]}).of("append")
