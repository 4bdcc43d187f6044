"""Learns the log of a model in a Redis store again, and compares every stored checkpoint: `riata replay --verify` for a server.

    python -m tests.chaos.replaying URL NAMESPACE MODEL

Exit code 0 if the log is whole and every checkpoint holds the same bits.
"""

from __future__ import annotations

import sys

from riata.run.state.replay import replay
from riata.store.redis.store import open_redis
from tests.settings import redis_settings


def main(url: str, namespace: str, model: str) -> int:
    store = open_redis(url, redis_settings(namespace=namespace, timeout_ms=60_000))
    try:
        report = replay(store, model)
    finally:
        store.close()
    for one in report.compared:
        verdict = one.problem or ("equal" if one.equal else f"DIFFERENT: stored {one.stored}, replayed {one.replayed}")
        sys.stdout.write(f"{model}: snapshot {one.generation} at event {one.applied}: {verdict}\n")
    return 0 if report.equal else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
