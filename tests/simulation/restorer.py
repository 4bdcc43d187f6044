"""Goes back and forth: now and then it takes any stored generation, from before or after the last restore, and restores it.

Events that a restore undid may be sent again, corrected or not, and each is in every state at most once: the oracle keeps the ids
of every state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from riata.base.errors import RiataError
from riata.store.records import encode_restore
from riata.store.store import Append, SharedStore
from tests.simulation.world import EPOCH_MS, Process, World

TRIES: Final = 10
EVERY_MS: Final = 350.0


class Restorer:
    """Tries to restore a generation this many times."""

    def __init__(self, world: World, open_store: Callable[[Process], Callable[[], SharedStore]], model: str) -> None:
        self.world = world
        self.process = Process(world, "restorer")
        self.done = False
        self._open_store = open_store(self.process)
        self._model = model

    def start(self) -> None:
        self.process.spawn(self._live)

    def _live(self) -> None:
        world, store = self.world, None
        for _ in range(TRIES):
            world.sleep(world.rng.expovariate(1 / EVERY_MS))
            try:
                store = store or self._open_store()
                self._restore(store)
            except RiataError:  # whether it was logged or not, the log has it at most once
                continue
        self.done = True

    def _restore(self, store: SharedStore) -> None:
        rng = self.world.rng
        kept = store.generations(self._model)
        if not kept:
            return
        generation = rng.choice(kept)
        content = store.open_generation(self._model, generation.gen)
        self.world.sleep(rng.choice((0.0, 50.0, 800.0)) * rng.random())
        payload = encode_restore({"gen": generation.gen}, content)
        store.append([Append(self._model, "restore", EPOCH_MS + int(self.world.now), payload=payload)])
