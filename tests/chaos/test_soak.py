"""Minutes of faults against a whole service; the fault matrix of `make test-all` has each of them a few times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.soak import soak
from tests.redis_server import redis_version

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(redis_version() < (7,), reason="the service needs Redis 7"),
]
OF_WRITERS = ("kill of a writer", "sleep of a writer")


@pytest.mark.parametrize(
    ("only", "seed"),
    [((), 0), ((), 1), ((), 2), (OF_WRITERS, 1), (("kill of the Redis in a rewrite",), 1)],
    ids=["mixed 0", "mixed 1", "mixed 2", "writers", "redis"],
)
def test_ten_minutes_of_faults_lose_nothing(only: tuple[str, ...], seed: int, tmp_path: Path) -> None:
    injected, _, counts = soak(tmp_path, minutes=10, seed=seed, only=only)
    assert injected.total() > 50
    assert (counts["of them lost"], counts["of them twice"]) == (0, 0)
    assert only != OF_WRITERS or counts["predictions that failed"] == 0
