"""A simulation that does not detect a removed safeguard proves nothing: each safeguard is removed, and the simulation must
fail.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.simulation.history import simulate, simulating
from tests.simulation.lua_host import Scripts
from tests.simulation.mutants import MUTANTS, applied
from tests.simulation.runner import mode_of

FIRST: Final = 50_000
SEEDS_MAX: Final = 1500
# The first history from FIRST that shows a rare one. It is tried first; if the code has changed and it no longer shows anything,
# the others are tried, which takes longer and proves the same.
SHOWN_BY: Final[dict[str, int]] = {
    "no_chain_in_commit": FIRST + 24,
    "no_generation_watch": FIRST + 1818,
    "no_scrub": FIRST + 12,
    "miscounted": FIRST + 15,
    "upgrade_lost": FIRST + 102,
    "upgrade_of_lost": FIRST + 15,
    "not_again": FIRST + 1,
    "upgrade_twice": FIRST + 30,
}


# Several hundred histories from FIRST on do not show these any more: they are looked for in the long run.
RARE: Final = {"rot_counts", "no_recheck", "trim_between"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in RARE else name for name in MUTANTS])
def test_a_missing_safeguard_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    scripts = Scripts(mutant.scripts)
    seeds = dict.fromkeys([SHOWN_BY.get(name, FIRST), *range(FIRST, FIRST + SEEDS_MAX)])
    with simulating(), applied(mutant):
        noticed = any(simulate(seed, mode_of(seed), scripts, restores=mutant.restores).violation for seed in seeds)
    assert noticed, f"{mutant.row}: {SEEDS_MAX} histories, and nobody missed it"


def test_a_change_of_a_script_that_changes_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"append\.lua has no"):
        Scripts({"append": [("no such line", "")]}).of("append")
