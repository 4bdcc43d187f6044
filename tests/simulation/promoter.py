"""Puts other states of the log in force: now and then it takes a stored generation, changes its weights, and promotes it.

The events that the state has learnt, their order included, are in the digest of the toy, which it keeps. So after the promotion
the digest has to be that of every event of the log, each once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from riata.run.state.config import Change, ModelConfig
from riata.store.layout import decode_checkpoint, encode_checkpoint
from riata.store.records import Through, encode_restore
from riata.store.store import Append, Generation, SharedStore
from tests.simulation.restorer import Replacer
from tests.simulation.world import EPOCH_MS, Process, World

TRIES: Final = 12
EVERY_MS: Final = 400.0


class Promoter(Replacer):
    """Promotes a state, and sometimes changes the configuration in between: then nothing is promoted."""

    def __init__(
        self, world: World, open_store: Callable[[Process], Callable[[], SharedStore]], model: str, config: ModelConfig
    ) -> None:
        super().__init__(world, open_store, model, "promoter", TRIES, EVERY_MS)
        self._config = config

    def replace(self, store: SharedStore, generation: Generation) -> None:
        header, arrays = decode_checkpoint(store.open_generation(self.model, generation.gen))
        weights = {"learner.beta": arrays["learner.beta"].astype(np.float64) * 0.5 + 1.0}
        payload = encode_restore(
            {"gen": generation.gen},
            encode_checkpoint(header, {**arrays, **weights}),
            Through(generation.applied, generation.chain),
        )
        self.pause()
        now_ms = EPOCH_MS + int(self.world.now)
        if self.world.rng.random() < 0.15:
            store.append([Append(self.model, "config", now_ms, payload=Change(self._config).payload())])
        store.append([Append(self.model, "restore", now_ms, payload=payload)])
