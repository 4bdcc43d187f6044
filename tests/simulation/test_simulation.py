"""Many histories in `make test-all`, none with a broken promise. `make soak` plays more of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.simulation.history import simulate, simulating
from tests.simulation.lua_host import Scripts
from tests.simulation.runner import Summary, run_many
from tests.simulation.server import MODES

SEEDS: Final = 75  # six seconds of processor time on an idle machine
SEEDS_SOAK: Final = 10_000
ROOT: Final = Path(__file__).parents[2]
REGRESSIONS: Final[list[dict[str, Any]]] = json.loads((Path(__file__).parent / "seeds.json").read_text(encoding="utf-8"))


def said(summary: Summary) -> str:
    rate = summary.seeds / summary.wall_s
    failed = [f"seed {one.seed} ({one.mode}): {one.violation}" for one in summary.failed[:10]]
    return "\n".join([f"{summary.seeds} seeds, {rate:.1f} a second, {len(summary.failed)} violations", *failed])


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(SEEDS_SOAK, marks=pytest.mark.slow)])
def test_no_promise_is_broken_in_any_history(seeds: int, capsys: pytest.CaptureFixture[str]) -> None:
    summary = run_many(0, seeds)
    with capsys.disabled():
        sys.stdout.write(f"\nsimulation: {said(summary)}\n")
    assert summary.failed == [], said(summary)
    assert summary.seeds == seeds
    assert summary.promotions > summary.seeds // 3
    assert summary.restores > summary.seeds // 2
    assert summary.again > 0
    for fault in ("writer killed", "server crashed", "failover", "reply lost", "request late", "checkpoint rotted"):
        assert summary.faults[fault] > 0, f"nothing of the kind happened: {fault}"


@pytest.mark.parametrize("case", REGRESSIONS, ids=lambda case: f"{case['seed']}-{case['mode']}")
def test_histories_that_once_broke_a_promise_keep_it(case: dict[str, Any]) -> None:
    with simulating():
        outcome = simulate(int(case["seed"]), case["mode"], Scripts(), case.get("promotes", False), case.get("restores", False))
    assert outcome.violation == "", case["why"]


def test_a_seed_is_one_history_whatever_the_hashes_and_whatever_came_before() -> None:
    """Two processes with different string hashes, one of which has run another seed before."""
    script = (
        "import sys\n"
        "from tests.simulation.history import simulate, simulating\n"
        "from tests.simulation.lua_host import Scripts\n"
        "scripts = Scripts()\n"
        "with simulating():\n"
        "    for seed in map(int, sys.argv[1:]):\n"
        "        print(seed, *[simulate(seed, mode, scripts).trace for mode in ('always', 'everysec', 'failover')])\n"
    )

    def traces(hash_seed: str, *seeds: int) -> set[str]:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'service'}{os.pathsep}{ROOT}"}
        ran = subprocess.run(
            [sys.executable, "-c", script, *map(str, seeds)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return set(ran.stdout.splitlines())

    one, other = traces("1", 7, 8, 9), traces("2", 9, 8)
    assert len(one) == 3
    assert other < one


@pytest.mark.parametrize("mode", MODES)
def test_a_history_has_all_of_its_parts(mode: Any) -> None:
    with simulating():
        outcome = simulate(3, mode, Scripts())
    assert outcome.violation == ""
    assert outcome.events > 30 or outcome.losses
    assert outcome.generations > 0
    assert outcome.editions > 0
