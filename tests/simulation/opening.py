"""How the simulation opens a store: the production client, with simulated calls, time and random numbers."""

from __future__ import annotations

from riata.store.redis.link import Calls
from riata.store.redis.session import Chance
from riata.store.redis.store import RedisStore
from tests.settings import redis_settings
from tests.simulation.world import World

TIMEOUT_MS = 800
DEDUPE_EVENTS = 500


def open_simulated(calls: Calls, world: World) -> RedisStore:
    """Open the store of `world` over `calls`. Raises the same errors as `open_redis`."""
    chance = Chance(lambda: int(world.now), world.sleep, world.rng.random)
    settings = redis_settings(timeout_ms=TIMEOUT_MS, dedupe_events=DEDUPE_EVENTS, attested=True)
    store = RedisStore(calls, settings, chance, world.rng.randbytes)
    store.attach()
    return store
