"""The names of features in the rows that other processes append to a shared store: fetched by the process that learns them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from riata.base.errors import NotFound
from riata.run.engine_context import EngineContext
from riata.store.store import SharedStore, Standing

NAMES_EVERY_MS: Final = 1000


class TailNames:
    """Fetches names from time to time. Those of requests to this process are known already. For one thread."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._named_ms = 0

    def step(self, store: SharedStore, standings: Mapping[str, Standing]) -> None:
        """Fetch the new names of every served model, unless that was done a moment ago."""
        now_ms = self._context.clock.monotonic_ms()
        if now_ms - self._named_ms < NAMES_EVERY_MS:
            return
        self._named_ms = now_ms
        for name, served_model in self._context.catalogue.served_models.items():
            seq = standings[name].head.seq if name in standings else 0
            if seq > served_model.named:
                try:
                    served_model.learn_names(list(store.names(name, served_model.named)))
                except NotFound:
                    continue
                served_model.named = seq
