"""Learns the log of a model in a Redis store again, and compares every stored checkpoint: `riata replay --verify` for a server.

    python -m tests.chaos.replaying URL NAMESPACE MODEL

Exit code 0 if the log is whole and every checkpoint holds the same bits.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from riata.run.state.replay import ReplayReport, replay
from riata.store.redis.store import open_redis
from riata.store.sqlite.store import read_sqlite
from tests.settings import redis_settings


def replayed(directory: Path, model: str = "m") -> ReplayReport:
    """The replay of a model in a directory, which has checkpoints, all equal."""
    with closing(read_sqlite(directory)) as store:
        report = replay(store, model)
    assert report.equal
    assert report.compared
    return report


def main(url: str, namespace: str, model: str) -> int:
    with closing(open_redis(url, redis_settings(namespace=namespace, timeout_ms=60_000))) as store:
        report = replay(store, model)
    for one in report.compared:
        verdict = one.problem or ("equal" if one.equal else f"DIFFERENT: stored {one.stored}, replayed {one.replayed}")
        sys.stdout.write(f"{model}: snapshot {one.generation} at event {one.applied}: {verdict}\n")
    return 0 if report.equal else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
