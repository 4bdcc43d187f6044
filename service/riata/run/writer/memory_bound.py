"""The bound on the memory of all models: what would need more is refused by name, before the system kills the process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from riata.base.clock import Clock
from riata.base.errors import Unavailable
from riata.run.served_model import ServedModel

GROWTH: Final = "growth"  # among the parts of a learner's memory: what it takes when its table grows next
NEW_MODEL_BYTES: Final = 512 * 2**10
COUNTED_EVERY_MS: Final = 1000
_WARNED_SHARE: Final = 0.9


def memory_of(served_model: ServedModel) -> dict[str, int]:
    """The bytes of a served model by part, and their total; none before it is published."""
    published = served_model.published
    if published is None:
        return {"total": 0}
    parts = {name: count for name, count in published.memory.items() if name != GROWTH}
    parts |= {"served": sum(published.model.memory().values()), "names": served_model.names.memory()}
    return {**parts, "total": sum(parts.values())}


class MemoryBound:
    """What all models take, counted at most once a second, against the setting `memory_bytes_max`; 0 is no bound."""

    def __init__(self, bytes_max: int, clock: Clock, served_models: Callable[[], Mapping[str, ServedModel]]) -> None:
        self.bytes_max = bytes_max
        self._clock = clock
        self._served_models = served_models
        self._taken = 0
        self._counted_ms: int | None = None

    def taken(self) -> int:
        """Bytes of all models, as of at most a second ago."""
        now_ms = self._clock.monotonic_ms()
        if self._counted_ms is None or now_ms - self._counted_ms >= COUNTED_EVERY_MS:
            self._taken = sum(memory_of(served_model)["total"] for served_model in self._served_models().values())
            self._counted_ms = now_ms
        return self._taken

    def refusal(self, more: int, what: str) -> Unavailable | None:
        """Why nothing may be done that may take `more` bytes; `what` names it. None if there is room."""
        if not self.bytes_max or self.taken() + more < self.bytes_max:
            return None
        return Unavailable(
            f"{what} may take {more} bytes more; all models take {self.taken()}, and memory_bytes_max is {self.bytes_max}: "
            "raise it, drop models, or create them with fewer encoder.bits or a smaller encoder.names_max",
            "memory_full",
        )

    def refusal_to_learn(self, served_model: ServedModel) -> Unavailable | None:
        """Why a model may not learn more; None if it may."""
        published = served_model.published
        if not self.bytes_max or published is None:
            return None
        return self.refusal(published.memory.get(GROWTH, 0), f"learning more in model {served_model.name}")

    def warning(self) -> str | None:
        """What an operator should know before anything is refused."""
        if not self.bytes_max or self.taken() < _WARNED_SHARE * self.bytes_max:
            return None
        taken = f"all models take {self.taken()} bytes of memory"
        return f"{taken}; events and new models are refused from memory_bytes_max, {self.bytes_max}, on"
