"""Puts other states of the log in force: now and then it takes a stored generation, changes its weights, and promotes it.

The events that the state has learnt, their order included, are in the digest of the toy, which it keeps. So after the promotion
the digest has to be that of every event of the log, each once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from riata.base.errors import RiataError
from riata.run.state.config import ModelConfig, config_payload
from riata.store.layout import decode_checkpoint, encode_checkpoint
from riata.store.records import Through, encode_restore
from riata.store.store import Append, SharedStore
from tests.simulation.world import EPOCH_MS, Process, World

TRIES: Final = 12
EVERY_MS: Final = 400.0


class Promoter:
    """Tries to promote a state this many times, and sometimes changes the configuration in between: then nothing is promoted."""

    def __init__(
        self, world: World, open_store: Callable[[Process], Callable[[], SharedStore]], model: str, config: ModelConfig
    ) -> None:
        self.world = world
        self.process = Process(world, "promoter")
        self.done = False
        self._open_store = open_store(self.process)
        self._model = model
        self._config = config

    def start(self) -> None:
        self.process.spawn(self._live)

    def _live(self) -> None:
        world, store = self.world, None
        for _ in range(TRIES):
            world.sleep(world.rng.expovariate(1 / EVERY_MS))
            try:
                store = store or self._open_store()
                self._promote(store)
            except RiataError:  # whether it was logged or not, the log has it at most once
                continue
        self.done = True

    def _promote(self, store: SharedStore) -> None:
        rng = self.world.rng
        kept = store.generations(self._model)
        if not kept:
            return
        generation = rng.choice(kept)
        header, arrays = decode_checkpoint(store.open_generation(self._model, generation.gen))
        weights = {"learner.beta": arrays["learner.beta"].astype(np.float64) * 0.5 + 1.0}
        payload = encode_restore(
            {"gen": generation.gen},
            encode_checkpoint(header, {**arrays, **weights}),
            Through(generation.applied, generation.chain),
        )
        self.world.sleep(rng.choice((0.0, 50.0, 800.0)) * rng.random())
        now_ms = EPOCH_MS + int(self.world.now)
        if rng.random() < 0.15:
            store.append([Append(self._model, "config", now_ms, payload=config_payload(self._config))])
        store.append([Append(self._model, "restore", now_ms, payload=payload)])
