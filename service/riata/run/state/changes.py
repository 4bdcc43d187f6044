"""What changed a model: its events that set the configuration or the state, read back from the log.

Only the last `CHANGES_KEPT` of them are known (`ModelState.changes`). Each is read once in the life of a process, because a
restore carries a whole state, and logged events never change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from riata.base.clock import rfc3339
from riata.base.document import write_document
from riata.base.errors import BadInput, Corrupt, LogGap
from riata.base.request_trace import ACTOR
from riata.run.candidates.pairs import BACKFILL
from riata.run.candidates.promotion import TAKEN_OFF
from riata.run.engine import Engine
from riata.run.state.config import ModelConfig, change_from_payload, read_stored
from riata.store import layout, records
from riata.store.control_events import FORGET
from riata.store.store import Record, Store

GONE: Final = "trimmed"  # kind of a change whose record is no longer in the log
KINDS: Final = (
    "created", "configured", "drifted", "named", "followed", "challenged", "restored", "imported", "backfilled", "promoted",
    "forgot", GONE,
)  # fmt: skip
_KINDS: Final = {
    "refit": "promoted",
    "challenger": "promoted",
    "import": "imported",
    BACKFILL: "backfilled",
    FORGET: "forgot",
}  # by the key of a source


@dataclass(frozen=True, slots=True)
class Told:
    """One change. kind: one of KINDS; source: where a state came from, the alarm and how much of the past was kept, the names
    that were found, the models that are followed or follow, or how many rows were forgotten."""

    seq: int
    kind: str
    accepted_ms: int | None = None
    actor: str = ""
    source: dict[str, Any] = field(default_factory=dict)
    config: ModelConfig | None = None

    def document(self, before: ModelConfig | None) -> dict[str, Any]:
        """Return the change as in the HTTP answer. before: the configuration in force until then, None if unknown."""
        return {
            "seq": self.seq,
            "time": None if self.accepted_ms is None else rfc3339(self.accepted_ms),
            "kind": self.kind,
            "actor": self.actor or None,
            "source": self.source,
            "settings": _differences(before, self.config),
        }


class Changes:
    """The changes of every model, each read once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told: dict[str, dict[tuple[bytes, int], Told]] = {}  # by model, then by lineage and event

    async def of(self, model: str) -> list[dict[str, Any]]:
        """Return the changes of a model as documents, newest first. Raises as `told` does."""
        found = await self.told(model)
        before = [None, *(one.config for one in found)]
        return [one.document(config) for one, config in zip(found, before, strict=False)][::-1]

    async def told(self, model: str) -> list[Told]:
        """Return the changes of a model, oldest first. Raises as `Engine.published` and the store do."""
        published = self._engine.published(model)
        lineage, known = published.model.origin.lineage, self._told.get(model, {})
        told = {at: known[at] for seq in published.changes if (at := (lineage, seq)) in known}
        for seq in published.changes:
            if (lineage, seq) not in told:
                told[lineage, seq] = await self._engine.call(partial(read_change, model=model, seq=seq))
        self._told[model] = told
        return [told[lineage, seq] for seq in published.changes]


def read_change(store: Store, model: str, seq: int) -> Told:
    """Read one change from the log. Raises `Corrupt` and `NotFound` as the store does."""
    try:
        (record, *_) = store.read(model, seq - 1, 1)
    except (LogGap, ValueError):
        return Told(seq, GONE)
    return told_by(record) if record.first == seq else Told(seq, GONE)


def told_by(record: Record) -> Told:
    """Return what a record of kind config or restore changes. Raises `Corrupt`."""
    if record.kind == "config":
        change = change_from_payload(record.payload)
        kind = "created" if record.first == 1 else "configured" if change.alarm is None else "drifted"
        alarm = {} if change.alarm is None else change.alarm
        keep = {} if change.forget is None else {"keep": change.forget}
        names = {} if change.names is None else {"names": list(change.names)}
        follow = {} if change.follow is None else {"follow": change.follow}
        several = {} if change.challengers is None else {"challengers": list(change.challengers)}
        kind = "named" if names else "followed" if follow else "challenged" if change.challengers is not None else kind
        source = {**alarm, **keep, **names, **follow, **several}
        return Told(record.last, kind, record.accepted_ms, change.actor, source, change.config)
    source, checkpoint = records.decode_restore(record.payload)
    try:
        config = read_stored(layout.checkpoint_header(checkpoint)["config"])
    except (KeyError, BadInput) as error:
        raise Corrupt(f"event {record.first} restores a configuration that cannot be read: {error!r}") from error
    actor = str(source.pop(ACTOR, ""))
    kind = next((kind for key, kind in _KINDS.items() if key in source), "restored")
    shown: dict[str, Any] = {
        key: source[key]
        for key in (
            "generation",
            "to",
            "at",
            TAKEN_OFF,
            "import",
            "refit",
            "challenger",
            "forced",
            BACKFILL,
            "events",
            "compared",
            "difference",
            "interval",
        )
        if key in source
    }
    shown |= {"rows": source[FORGET]["rows"]} if FORGET in source else {}
    return Told(record.last, kind, record.accepted_ms, actor, shown, config)


def _differences(before: ModelConfig | None, after: ModelConfig | None) -> dict[str, Any]:
    """Return the settings that changed, each as [old, new]; empty if either configuration is unknown."""
    if before is None or after is None:
        return {}
    old, new = _flat(write_document(before)), _flat(write_document(after))
    return {name: [old.get(name), new.get(name)] for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)}


def _flat(document: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the settings of a configuration document by their path, such as `learner.gamma`."""
    flat: dict[str, Any] = {}
    for key, value in document.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
