"""From which event on the fields of a model are read by their kinds: as the names in its log, and its changes, tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial

from riata.base.dataclass import dataclass
from riata.base.errors import LogGap
from riata.run.engine import Engine
from riata.run.state.changes import Changes, Told
from riata.run.state.config import ModelConfig
from riata.store.store import Store
from riata.wire.fields import AUTO, Field, FieldKinds


@dataclass(slots=True)
class _Met:
    """By field, the first event of the request that brought a name of it first; in the log up to event `read`."""

    lineage: bytes
    kinds: FieldKinds
    read: int = 0
    events: dict[str, int] = field(default_factory=dict)

    def read_on(self, store: Store, model: str) -> None:
        for event, names in store.names(model, self.read):
            self.read = event
            self.kinds.meet(names)
            if len(self.kinds) > len(self.events):
                first = _first_of(store, model, event)
                self.events = {one.name: self.events.get(one.name, first) for one in self.kinds}


def _first_of(store: Store, model: str, event: int) -> int:
    """Return the first event of the record with `event`; `event` itself if the record is no longer in the log."""
    try:
        (record, *_) = store.read(model, event - 1, 1)
    except (LogGap, ValueError):
        return event
    return record.first


class FieldsSince:
    """For every model. The names of a log are read once in the life of a process, when they are first asked for."""

    def __init__(self, engine: Engine, changes: Changes) -> None:
        self._engine, self._changes = engine, changes
        self._met: dict[str, _Met] = {}

    async def of(self, model: str, fields: Sequence[Field]) -> dict[str, int | None]:
        """Return the event from which on each field has its kind, by name; None where it is no longer known.

        That of a field that was met is the first event of the request which brought it. Raises what reading the store raises.
        """
        published = self._engine.published(model)
        lineage, encoder = published.model.origin.lineage, published.config.encoder
        met = self._met.get(model)
        if met is None or met.lineage != lineage:
            met = self._met[model] = _Met(lineage, FieldKinds(AUTO, encoder.hash_key))
        if any(not one.is_declared and one.name not in met.events for one in fields):
            await self._engine.call(partial(met.read_on, model=model))
        told = await self._changes.told(model)
        return {one.name: _since(one, met.events.get(one.name), told, published.config) for one in fields}


def _since(one: Field, met: int | None, told: Sequence[Told], now: ModelConfig) -> int | None:
    """met : the event of its first name; told : the changes, oldest first"""
    ruled = _ruled_since(one.name, told, now)
    if one.is_declared or ruled is None or met is None:
        return ruled if one.is_declared else met
    return max(ruled, met)


def _ruled_since(name: str, told: Sequence[Told], now: ModelConfig) -> int | None:
    """Return the change from which on the setting says of a field what it says now; None if that is not known."""
    since = None
    for change in reversed(told):
        config = now if since is None else change.config  # what the newest change says is known without its record
        if config is None:
            return None
        if _rule(name, config) != _rule(name, now):
            return since
        since = change.seq
    return since if since == 1 else None


def _rule(name: str, config: ModelConfig) -> str | bool:
    fields = config.encoder.fields
    return dict(fields.declared).get(name, fields.meets)
