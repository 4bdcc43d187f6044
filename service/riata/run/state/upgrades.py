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

    A shared store may lose events after a process has learnt them and before it appends its upgrade event. Such an event carries
    the state of a history that the log does not have, and is void too: the log does not continue from the chain of that state.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from riata.base.errors import Corrupt, Unavailable
from riata.run.log.log_reading import Call
from riata.run.state.model_state import ModelState
from riata.run.state.provenance import Provenance, current, read_provenance
from riata.store import layout, records
from riata.store.store import Append, Record

log = logging.getLogger("riata.run")

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

    def __init__(self, call: Call, applied: int) -> None:
        self._call = call
        self._applied = applied  # upgrades that a state after this event already includes are left out
        self.found: list[Upgrade] = []

    def note(self, record: Record) -> None:
        """Read the next record of the log. Raises `Corrupt`, and what reading the log raises."""
        if record.kind != UPGRADE:
            return
        upgrade, chain = _read(record)
        if upgrade.at < (self.found[-1].first if self.found else self._applied):
            return
        if _is_of_log(self._call, record, upgrade.at, chain):
            self.found.append(upgrade)
        else:
            what = "model %s: upgrade event %d is ignored: its state includes events that the store has lost"
            log.warning(what, record.model, record.first)

    def newest(self) -> Upgrade | None:
        """Return the last one; None if there is none."""
        return self.found[-1] if self.found else None


def carried_state(call: Call, model: str, upgrade: Upgrade) -> ModelState:
    """Read the state that an upgrade event carries. Raises `Corrupt`, `Unavailable` if the log no longer has the event, and what
    reading the log raises."""
    record = _record_after(call, model, upgrade.first - 1)
    if record.chain != upgrade.chain:
        raise rolled_back(model)
    state = ModelState.of(records.decode_restore(record.payload)[1])
    state.name = model
    return state


def append_upgrade(call: Call, state: ModelState, accepted_ms: int) -> tuple[int, bytes]:
    """Log that `state` is carried over to the present version and arithmetic; returns the number of the event, and its chain.

    The state itself is not moved. Raises what an append raises, and `Unavailable` if the store has lost events of the state:
    then the event is void, and recovery has to begin again.
    """
    before, after = state.learnt_under, current()
    source = {"at": state.applied, "before": before.document(), "after": after.document()}
    payload = records.encode_restore(source, state.freeze().encode())
    appended = call(lambda s: s.append([Append(state.name, UPGRADE, accepted_ms, payload=payload)])).result()[0]
    if appended.refused is not None:
        raise appended.refused
    if appended.record is None:
        raise Unavailable(f"model {state.name}: the upgrade event could not be logged", "store_failed")
    if not _is_of_log(call, appended.record, state.applied, state.chain):
        raise rolled_back(state.name)
    state.learnt_under = after
    return appended.record.first, appended.record.chain


def rolled_back(model: str) -> Unavailable:
    """Return the error that makes recovery begin again: the log is no longer the one that was read."""
    return Unavailable(f"{model}: the log was rolled back during recovery; try again", "store_contended")


def _is_of_log(call: Call, upgrade: Record, at: int, chain: bytes) -> bool:
    """Return whether the log of an upgrade event has a record that ends at event `at` with `chain`, before that event.

    The record after it is read, since the record itself may have been trimmed. Raises what reading the log raises."""
    if at >= upgrade.first:
        return False
    following = upgrade if upgrade.first == at + 1 else _record_after(call, upgrade.model, at)
    return following.first == at + 1 and following.chain == records.next_chain(chain, following.digest)


def _record_after(call: Call, model: str, seq: int) -> Record:
    found: list[Record] = call(lambda s: s.read(model, seq, 1)).result()
    if not found:
        raise rolled_back(model)
    return found[0]


def _read(record: Record) -> tuple[Upgrade, bytes]:
    """Return what an upgrade event says, and the chain of the log that its state was learnt from. Raises `Corrupt`."""
    source, checkpoint = records.decode_restore(record.payload)
    at, before, after = source.get("at"), source.get("before"), source.get("after")
    if type(at) is not int or at < 0 or type(before) is not dict or type(after) is not dict:
        raise Corrupt(f"event {record.first}: this program cannot read the upgrade event")
    upgrade = Upgrade(at, record.first, read_provenance(before), read_provenance(after), record.chain)
    header = layout.checkpoint_header(checkpoint)
    if header.get("applied") != at or read_provenance(header) != upgrade.after:
        raise Corrupt(f"the state in upgrade event {record.first} of {record.model} does not match its description")
    try:
        return upgrade, bytes.fromhex(header["chain"])
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt(f"the state in upgrade event {record.first} of {record.model} has no chain that can be read") from error
