"""The scripts of this package at full length; the fault matrix of `make test-all` runs a small part of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.failover import failovers
from tests.chaos.redis_kills import kills
from tests.chaos.soak import soak
from tests.redis_server import redis_version

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(redis_version() < (7,), reason="the service needs Redis 7"),
]


def test_a_hundred_failovers_lose_nothing_and_fail_no_prediction(tmp_path: Path) -> None:
    took, counts = failovers(tmp_path, times=100, lease_ms=1500, seed=1)
    assert len(took) == 100
    assert (counts["of them lost"], counts["of them twice"], counts["of them failed"]) == (0, 0, 0)


def test_sixty_kills_of_the_redis_lose_nothing(tmp_path: Path) -> None:
    took, counts = kills(tmp_path, times=60, seed=1)
    assert len(took) == 60
    assert (counts["of them lost"], counts["of them twice"]) == (0, 0)
    assert counts["of them during a rewrite"] > 20


@pytest.mark.parametrize("seed", range(3))
def test_ten_minutes_of_mixed_faults_lose_nothing(seed: int, tmp_path: Path) -> None:
    injected, _, counts = soak(tmp_path, minutes=10, seed=seed)
    assert injected.total() > 50
    assert (counts["of them lost"], counts["of them twice"]) == (0, 0)
