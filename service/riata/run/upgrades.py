"""Upgrades: the events by which a state learnt under another version, or with other arithmetic, becomes part of the log.

Theory of operation
    A state is a function of its log under one version of the algorithms and one arithmetic (`Provenance`). A program that starts
    from a checkpoint of another provenance continues from a state that its own replay of the log would not give. So before it
    serves or learns anything, it appends an `upgrade` event that carries this state: the state after event `at`. From there on
    the state is a function of the log again.

        events   1 ......... at │ at + 1 ... first - 1 │ first     │ first + 1 ...
                 learnt before  │ appended meanwhile   │ upgrade   │
                                └─ learnt from the carried state ──────────────►

    In an embedded store nothing is appended meanwhile: at = first - 1. In a shared store other processes may append. Therefore
    the event itself changes no state: like a skip event it concerns earlier events, and every reader of a log looks ahead for it.

    A process that lost its lease may append its upgrade event late, after its successor did. An upgrade whose state does not
    include the upgrade before it (at < first of that one) was made without knowledge of it, and is void.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from riata.base.errors import Corrupt, Unavailable
from riata.run.model_state import ModelState
from riata.run.provenance import Provenance, current, read_provenance
from riata.store import layout, records
from riata.store.store import Append, Record, Store

Call = Callable[[Callable[[Store], Any]], Future[Any]]
UPGRADE: Final = "upgrade"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One upgrade event of a log."""

    at: int  # the state after this event is carried
    first: int  # number of the event itself
    before: Provenance  # what the state was learnt under, except for events that the start which wrote this had to learn
    after: Provenance  # what learning continues under
    chain: bytes  # of the log after the event


class UpgradesSeen:
    """The upgrades of a log that are in force, collected from its records in order."""

    def __init__(self, applied: int) -> None:
        self._applied = applied  # upgrades that a state after this event already includes are left out
        self.found: list[Upgrade] = []

    def note(self, record: Record) -> None:
        """Read the next record of the log. Raises `Corrupt`."""
        if record.kind != UPGRADE:
            return
        upgrade = _read(record, records.decode_restore(record.payload)[0])
        floor = self.found[-1].first if self.found else self._applied
        if upgrade.at >= floor:
            self.found.append(upgrade)

    def newest(self) -> Upgrade | None:
        """Return the last one; None if there is none."""
        return self.found[-1] if self.found else None


def carried_state(call: Call, model: str, lineage: bytes, upgrade: Upgrade) -> ModelState:
    """Read the state that an upgrade event carries. Raises `Corrupt`, and what reading the log raises."""
    record: Record = call(lambda s: s.read(model, upgrade.first - 1, 1)).result()[0]
    state = ModelState.thaw(*layout.decode_checkpoint(records.decode_restore(record.payload)[1]))
    if (state.applied, state.lineage, state.learnt_under) != (upgrade.at, lineage, upgrade.after):
        raise Corrupt(f"the state in upgrade event {upgrade.first} of {model} does not match its description")
    state.name = model
    return state


def append_upgrade(call: Call, state: ModelState, accepted_ms: int) -> tuple[int, bytes]:
    """Log that `state` is carried over to the present version and arithmetic; returns the number of the event, and its chain.

    The state itself is not moved. Raises what an append raises.
    """
    before, after = state.learnt_under, current()
    source = {"at": state.applied, "before": before.document(), "after": after.document()}
    payload = records.encode_restore(source, state.freeze().encode())
    appended = call(lambda s: s.append([Append(state.name, UPGRADE, accepted_ms, payload=payload)])).result()[0]
    if appended.refused is not None:
        raise appended.refused
    if appended.record is None:
        raise Unavailable(f"model {state.name}: the upgrade event could not be logged", "store_failed")
    state.learnt_under = after
    return appended.record.first, appended.record.chain


def _read(record: Record, source: dict[str, Any]) -> Upgrade:
    at, before, after = source.get("at"), source.get("before"), source.get("after")
    if type(at) is not int or not 0 <= at < record.first or type(before) is not dict or type(after) is not dict:
        raise Corrupt(f"event {record.first}: this program cannot read the upgrade event")
    return Upgrade(at, record.first, read_provenance(before), read_provenance(after), record.chain)
