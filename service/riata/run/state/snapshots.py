"""What people do with the stored states of a model: list them, save one that is kept until it is deleted, delete it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from riata.base.clock import rfc3339
from riata.base.errors import Conflict, NotFound, Unavailable
from riata.run.engine import Engine
from riata.store.retention import CAUSE, NOTE, is_saved, leads_on
from riata.store.store import Generation, Head


class Snapshots:
    """The stored states of every model."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def listed(self, model: str) -> list[dict[str, Any]]:
        """Return those that are kept, newest first."""
        generations, head = await self._stored(model)
        return [self._shown(generation, head) for generation in generations]

    async def save(self, model: str, note: str) -> dict[str, Any]:
        """Save the present state; it is kept until it is deleted. Returns when it is durable and was read back.

        Raises `Unavailable` (code `saved_full`) if those that were saved leave no room for another of the size of the newest.
        """
        async with self._engine.served_model(model).changing:
            generations, _ = await self._stored(model)
            _require_room(model, generations, self._engine.settings.saved_bytes_max)
            saved = await self._engine.led("a snapshot").save(model, requested=True, note=note)
        if saved.generation is None:
            raise Conflict("the snapshot was not written", "checkpoint_failed")
        head = await self._engine.call(lambda s: s.head(model))
        return {**self._shown(saved.generation, head), "took_ms": saved.took_ms}

    async def delete(self, model: str, gen: int) -> None:
        """Delete one that was saved. Raises `NotFound` (code `generation_not_found`), `Conflict` (code `not_saved`)."""
        learning = self._engine.led("deleting a snapshot")
        async with self._engine.served_model(model).changing:
            generations, _ = await self._stored(model)
            if not is_saved(require_generation(generations, gen)):
                raise Conflict(f"snapshot {gen} of model {model} was not saved by anybody: it goes by itself", "not_saved")
            if gen == generations[0].gen:
                await learning.save(model)  # the newest is what the next one is numbered after
            await learning.delete_saved(model, gen)

    async def _stored(self, model: str) -> tuple[list[Generation], Head]:
        self._engine.served_model(model)
        stored: tuple[list[Generation], Head] = await self._engine.call(lambda s: (s.generations(model), s.head(model)))
        return stored

    def _shown(self, generation: Generation, head: Head) -> dict[str, Any]:
        return {
            "generation": generation.gen,
            "seq": generation.applied,
            "created": rfc3339(generation.created_ms),
            "age_s": max(self._engine.clock.unix_ms() - generation.created_ms, 0) / 1000,
            "bytes": generation.bytes,
            "state_digest": generation.state_digest.hex(),
            "verified": generation.verified,
            "cause": generation.info.get(CAUSE, "schedule"),
            "note": generation.info.get(NOTE, ""),
            "leads_on": leads_on(generation, head),
            "metrics": {key: value for key, value in generation.info.items() if key not in (CAUSE, NOTE)},
        }


def require_generation(generations: Sequence[Generation], gen: int) -> Generation:
    """Return one generation. Raises `NotFound` (code `generation_not_found`) naming those that are kept."""
    for generation in generations:
        if generation.gen == gen:
            return generation
    raise NotFound(f"no snapshot {gen}; kept: {', '.join(str(g.gen) for g in generations) or 'none'}", "generation_not_found")


def _require_room(model: str, generations: Sequence[Generation], bytes_max: int) -> None:
    """Raise `Unavailable` (code `saved_full`) if one more saved generation may exceed the bound."""
    saved = [generation for generation in generations if is_saved(generation)]
    taken, more = sum(generation.bytes for generation in saved), generations[0].bytes if generations else 0
    if taken + more <= bytes_max:
        return
    advice = "raise it"
    if saved:
        said = f", {saved[-1].info[NOTE]!r}" if saved[-1].info.get(NOTE) else ""
        oldest = f"snapshot {saved[-1].gen} of {rfc3339(saved[-1].created_ms)} ({saved[-1].bytes} bytes{said})"
        advice = f"delete one, of which the oldest is {oldest}, or raise it"
    raise Unavailable(
        f"the saved snapshots of model {model} take {taken} bytes, another takes about {more}, and saved_bytes_max is "
        f"{bytes_max}: {advice}",
        "saved_full",
    )
