"""Goes back and forth: now and then it takes any stored generation, from before or after the last restore, and restores it.

Events that a restore undid may be sent again, corrected or not, and each is in every state at most once: the oracle keeps the ids
of every state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from riata.base.errors import RiataError
from riata.store.records import encode_restore
from riata.store.store import Append, Generation, SharedStore
from tests.simulation.world import EPOCH_MS, Process, World

TRIES: Final = 10
EVERY_MS: Final = 350.0


class Replacer:
    """Tries to put another state in force, `tries` times, one every `every_ms` in the mean."""

    def __init__(
        self,
        world: World,
        open_store: Callable[[Process], Callable[[], SharedStore]],
        model: str,
        name: str,
        tries: int,
        every_ms: float,
    ) -> None:
        self.world = world
        self.process = Process(world, name)
        self.done = False
        self.model = model
        self._open_store = open_store(self.process)
        self._tries, self._every_ms = tries, every_ms

    def start(self) -> None:
        self.process.spawn(self._live)

    def replace(self, store: SharedStore, generation: Generation) -> None:
        """Append the event that does it."""
        raise NotImplementedError

    def pause(self) -> None:
        """Let others act between looking and writing."""
        self.world.sleep(self.world.rng.choice((0.0, 50.0, 800.0)) * self.world.rng.random())

    def _live(self) -> None:
        world, store = self.world, None
        for _ in range(self._tries):
            world.sleep(world.rng.expovariate(1 / self._every_ms))
            try:
                store = store or self._open_store()
                if kept := store.generations(self.model):
                    self.replace(store, world.rng.choice(kept))
            except RiataError:  # whether it was logged or not, the log has it at most once
                continue
        self.done = True


class Restorer(Replacer):
    """Restores a generation."""

    def __init__(self, world: World, open_store: Callable[[Process], Callable[[], SharedStore]], model: str) -> None:
        super().__init__(world, open_store, model, "restorer", TRIES, EVERY_MS)

    def replace(self, store: SharedStore, generation: Generation) -> None:
        content = store.open_generation(self.model, generation.gen)
        self.pause()
        payload = encode_restore({"gen": generation.gen}, content)
        store.append([Append(self.model, "restore", EPOCH_MS + int(self.world.now), payload=payload)])
