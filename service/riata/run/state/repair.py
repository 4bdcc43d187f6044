"""Diagnose damage in a store, say what each way to repair it would lose, and repair it. No service may use the store meanwhile.

    set_aside   the model is moved unchanged into a directory of its own, or in a Redis into a list of its own, and its name is
                free; also one without damage, such as one that cannot be learnt in any time
    cut         the log is cut before the damage: events from there on are lost
    restore     the newest checkpoint that verifies is after the damage: it is restored, the events after it are learnt again, and
                the log begins at it. Nothing of the model is lost except its history

Each is an event of kind `repair` in the model's log, which changes no state. So the log still determines its model afterwards.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

from riata.base.errors import Conflict, Corrupt, LogFork, NotFound
from riata.base.limits import GENERATIONS_KEPT_MIN
from riata.learn.registry import ALGO_VERSION
from riata.run.cluster.accepting import begin_default_again
from riata.run.engine_settings import DEFAULT_MODEL
from riata.run.state.damage import harms_one_model
from riata.run.state.generations import thaw_generation, verifies
from riata.run.state.recovery import Recovery
from riata.run.state.replay import in_this_thread
from riata.run.writer.checkpointer import Checkpointer, Retention
from riata.run.writer.published import generation_info
from riata.store import records
from riata.store.records import encode_document, next_chain
from riata.store.sqlite.offline import RepairStore
from riata.store.sqlite.store import OFFLINE, SqliteSettings, SqliteStore, open_despite_losses
from riata.store.sqlite.witness import Loss, find_losses
from riata.store.store import Append, Generation, Head, Owner, Store, Verdict

Action = Literal["restore", "cut", "set_aside"]
ACTIONS: Final[tuple[Action, ...]] = ("restore", "cut", "set_aside")  # the one that loses least first
READ_BYTES: Final = 2**22
LEASE_MS: Final = 600_000  # of a shared store: longer than a repair takes
BY_REQUEST: Final = "it was set aside without damage"
FRESH: Final = GENERATIONS_KEPT_MIN  # checkpoints that a restore writes, so that the log can be trimmed
OnProgress = Callable[[int, int], None]


class SetsAside(Store, Protocol):
    """A shared store, which keeps what is set aside."""

    def set_aside(self, owner: Owner, model: str, name: str) -> None:
        """Take a model out of the store; it is kept unchanged under `name`, where the commands that read a store find it.

        Raises `NotFound` (`model_not_found`), `Conflict` (`fenced`)."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings about one model. Nothing was changed.

    event   : the first damaged event; None if the log and a checkpoint that leads into it are sound
    newest  : the newest checkpoint that verifies
    rotten  : checkpoints that do not verify
    loses   : the possible repairs, and what each would lose, in words; the one that loses least first. Without damage only
              `set_aside`
    """

    model: str
    head: Head
    event: int | None = None
    what: str = ""
    newest: Generation | None = None
    rotten: list[int] = field(default_factory=list)
    loses: dict[Action, str] = field(default_factory=dict)


def diagnose(store: Store, model: str, on_progress: OnProgress = lambda _done, _of: None) -> Diagnosis:
    """Read everything stored for `model`. Raises `Corrupt` for damage to more than this model."""
    head = store.head(model)
    try:
        generations = store.generations(model)
    except Corrupt as error:
        if not harms_one_model(error):
            raise
        return Diagnosis(model, head, 0, error.detail, loses={"set_aside": _all_lost(head)})
    sound = [generation for generation in generations if verifies(store, model, generation)]
    rotten = [generation.gen for generation in generations if generation not in sound]
    newest = next((generation for generation in sound if generation.applied >= head.first_seq - 1), None)
    first = _first_damage(store, head, (model, head.first_seq - 1, b""), on_progress)
    if first is None and newest is None and head.first_seq > 1:
        why = "every snapshot failed verification" if generations else "it has no snapshot"
        first = (0, f"{why}, and the log begins at event {head.first_seq}")
    after = first
    if newest is not None:
        after = _first_damage(store, head, (model, newest.applied, newest.chain), on_progress)
    harmed = after or first
    if harmed is None:
        return Diagnosis(model, head, newest=newest, rotten=rotten, loses={"set_aside": _all_lost(head)})
    loses: dict[Action, str] = {}
    base = newest.applied if newest is not None else 0
    if after is None and newest is not None:
        loses["restore"] = _history_lost(head, newest)
    elif harmed[0] > max(base, head.first_seq - 1, 1) and (newest is not None or head.first_seq == 1):
        loses["cut"] = _end_lost(head, harmed[0])
    loses["set_aside"] = _all_lost(head)
    return Diagnosis(model, head, *harmed, newest, rotten, loses)


def _first_damage(store: Store, head: Head, start: tuple[str, int, bytes], on_progress: OnProgress) -> tuple[int, str] | None:
    """Return the first event after `start` that cannot be read as written, and why; None if none. An empty chain matches any."""
    model, after, chain = start
    size = READ_BYTES
    while True:
        try:
            records = store.read(model, after, size)
            if records and chain and records[0].chain != next_chain(chain, records[0].digest):
                raise LogFork(f"the log does not continue the snapshot at event {after}", event=after + 1)
        except Corrupt as error:
            if not harms_one_model(error):
                raise
            if size > 1:  # reading one record at a time finds the first damaged one
                size = 1
                continue
            return max(after + 1, error.event or 0), error.detail
        if not records:
            return None
        after, chain = records[-1].last, b""
        on_progress(after, head.seq)


def _history_lost(head: Head, newest: Generation) -> str:
    again = f" and learns events {newest.applied + 1} to {head.seq} again" if newest.applied < head.seq else ""
    return (
        f"loses nothing of the model: it is restored from snapshot {newest.gen}{again}. "
        f"Events {head.first_seq} to {newest.applied} are removed from the log, and older snapshots are deleted"
    )


def _end_lost(head: Head, event: int) -> str:
    lost = head.seq - event + 1
    if not lost:
        return "loses no event: only the recorded end of the log is damaged"
    return f"loses {lost} acknowledged events, {event} to {head.seq}; the model returns to its state after event {event - 1}"


def _all_lost(head: Head) -> str:
    return (
        f"loses the model with all of its {head.seq} events: its stored data is moved to a place of its own, nothing is "
        "deleted, and the name is free for a new model"
    )


class Repairer:
    """Repairs models of one store. Owns the store from its creation until `release`."""

    def __init__(self, store: Store, nonce: bytes, host: str, now_ms: Callable[[], int], shared: bool = False) -> None:
        """Raises `Conflict` (code `owned`) if a service uses a shared store."""
        self._store = store
        self._now_ms = now_ms
        self._shared = shared
        self._owner: Owner = store.acquire(nonce, ALGO_VERSION, host, now_ms(), LEASE_MS if shared else None)
        self._call: Callable[[Callable[[Store], Any]], Future[Any]] = in_this_thread(store)

    def release(self) -> None:
        """Release the store."""
        self._store.release(self._owner)

    def repair(self, found: Diagnosis, action: Action, place: Path, on_progress: Callable[[int], None]) -> str:
        """Do one of the repairs in `found.loses`; return what was done. `place`: where a model is set aside; of a shared store
        only its name counts.

        Raises `Conflict` (code `cannot_repair`) if the store or the damage does not allow it."""
        if action not in found.loses:
            ways = ", ".join(found.loses)
            raise Conflict(f"{found.model}: {action} does not repair this damage; possible repairs: {ways}", "cannot_repair")
        if action == "restore":
            return self._restore(found, on_progress)
        if action == "set_aside":
            return self._set_aside(found, place)
        if not isinstance(self._store, RepairStore):
            raise Conflict(
                f"{found.model}: {action} is not supported on a shared store; set the model aside with --action set_aside, "
                f"drop it with DELETE /models/{found.model}, or restore a backup of the store",
                "cannot_repair",
            )
        return self._cut(self._store, found)

    def _cut(self, store: RepairStore, found: Diagnosis) -> str:
        event, last = found.event or 1, found.head.seq
        lost = last - event + 1
        facts = {
            "action": "cut", "from": event, "to": last, "events": lost, "what": found.what,
            "witnessed_seq": last, "witnessed_chain": found.head.chain.hex(),
        }  # fmt: skip
        store.cut(self._owner, self._append(found.model, facts), event)
        return f"cut: the log now ends at event {event - 1}; {lost} events are lost"

    def _set_aside(self, found: Diagnosis, place: Path) -> str:
        facts = {"action": "set_aside", "from": found.event or 0, "events": found.head.seq, "what": found.what or BY_REQUEST}
        self._store.append([self._append(found.model, facts)])
        if isinstance(self._store, RepairStore):
            self._store.set_aside(self._owner, found.model, place)
            return f"set aside: the model is now in the separate data directory {place}"
        shared = cast(SetsAside, self._store)
        shared.set_aside(self._owner, found.model, place.name)
        if found.model == DEFAULT_MODEL:  # without it the processes take the store for another one
            begin_default_again(shared, found.head, self._now_ms(), secrets.token_bytes)
        return f"set aside: the model is now alone in the store whose URL ends in ?aside={place.name}"

    def _restore(self, found: Diagnosis, on_progress: Callable[[int], None]) -> str:
        store, name, newest = self._store, found.model, found.newest
        if newest is None:
            raise Conflict(f"{name}: there is no snapshot to restore", "cannot_repair")
        recovered = Recovery(self._call, self._owner, self._now_ms).recover(name, on_progress)
        state = recovered.state
        if not newest.verified:
            store.mark_verified(self._owner, name, newest.gen)
        facts = {
            "action": "restore", "from": found.head.first_seq, "to": newest.applied, "generation": newest.gen,
            "relearnt": recovered.replayed, "damaged": found.event, "what": found.what,
        }  # fmt: skip
        record = store.append([self._append(name, facts)])[0].record
        if record is None:
            raise Conflict(f"{name}: the repair could not be written to the log", "cannot_repair")
        state.apply(record)
        events = record.last - newest.applied  # that were learnt again
        checkpointer = Checkpointer(self._call, self._owner, Retention(FRESH, events, older_bytes=0))
        for _ in range(FRESH):
            saved = checkpointer.save(state.freeze(), self._now_ms(), generation_info(state))
            if saved.verdict is not Verdict.OK:
                raise Conflict(f"{name}: the snapshot was not written: {saved.detail or saved.verdict}", "cannot_repair")
        while store.trim(self._owner, name, FRESH, events):
            pass  # each call drops a limited number of records
        first = store.head(name).first_seq
        again = f"{recovered.replayed} events learnt again"
        return f"restored from snapshot {newest.gen}: {again}; the log now begins at event {first}"

    def _append(self, model: str, facts: dict[str, Any]) -> Append:
        return Append(model, "repair", self._now_ms(), payload=encode_document(facts))


# Accept that acknowledged events are lost: find what a data directory has lost, and log the loss as an event.
#
#     for loss in find_losses(directory):  # nothing is changed; the service must be stopped
#         ... loss.why, loss.missing ...   # report to the operator
#     for done in accept(directory, now_ms): ...
#
# A start refuses a directory with losses (`LogGap`, code `events_missing`). `accept` appends this event to the log of each model
# that lost events:
#
#     {"action": "accept_loss", "from": first lost event, "to": last acknowledged event, "missing": how many,
#      "witnessed_seq", "witnessed_chain", "generation": see below, or null}
#
# "to", "missing", "witnessed_seq" and "witnessed_chain" are null if no witness records them. Then the witness is moved to the new
# end of the log. If a model is lost as a whole there is no log to append to: its entry is removed from the witness.
#
# The numbers of the lost events are assigned again. A log has no gaps; the chain distinguishes two events with the same number.
#
# A checkpoint may include events that the log no longer has. Its state is then written to the log in a `restore` event before the
# `repair` event, so that a replay reproduces it. Generations of events that are not in the log are deleted.


@dataclass(frozen=True, slots=True)
class Accepted:
    """What accepting one loss did. seq: number of the repair event, 0 if the model is lost as a whole. generation: the one
    ahead of the log whose state was restored, 0 for none."""

    loss: Loss
    model: str
    seq: int
    generation: int = 0


def accept(directory: Path, now_ms: int, settings: SqliteSettings = OFFLINE) -> list[Accepted]:
    """Accept every loss that `find_losses` returns; does nothing if there is none. Raises like it, and `Unavailable` if the disk
    is full. Can be called again after an interruption: a loss whose event is in the log is not accepted twice."""
    if not find_losses(directory):
        return []
    store, losses = open_despite_losses(directory, settings)
    try:
        done = [one for loss in losses for one in _accept_one(store, loss, now_ms)]
        store.renew_witness()
        return done
    finally:
        store.close()


def _accept_one(store: SqliteStore, loss: Loss, now_ms: int) -> list[Accepted]:
    if loss.gone:
        return [Accepted(loss, loss.model, 0)]
    names = [loss.model] if loss.model else [name for name in store.models() if store.head(name).seq]
    return [_append(store, loss, name, now_ms) for name in names]


def _append(store: SqliteStore, loss: Loss, model: str, now_ms: int) -> Accepted:
    head = store.head(model)
    ahead, content = _newest_ahead(store, model, head.seq)
    document: dict[str, Any] = {
        "action": records.ACCEPT_LOSS,
        "from": head.seq + 1 if loss.missing != 0 else None,
        "to": loss.witnessed_seq if loss.missing else None,
        "missing": loss.missing,
        "witnessed_seq": loss.witnessed_seq,
        "witnessed_chain": loss.witnessed_chain.hex() if loss.witnessed_seq is not None else None,
        "generation": ahead.gen if ahead else None,
    }
    group = [Append(model, "repair", now_ms, payload=records.encode_document(document))]
    if ahead:
        source = {"generation": ahead.gen, "applied": ahead.applied}
        group.insert(0, Append(model, "restore", now_ms, payload=records.encode_restore(source, content)))
    seq = store.append(group)[-1].seq
    store.forget_off_log(model)
    return Accepted(loss, model, seq, ahead.gen if ahead else 0)


def _newest_ahead(store: SqliteStore, model: str, end: int) -> tuple[Generation | None, bytes]:
    """Return the newest readable generation that includes events beyond `end`, and its content; None if there is none."""
    for generation in store.generations(model):
        if generation.applied > end:
            try:
                content = store.open_generation(model, generation.gen)
                thaw_generation(generation, content)
            except (Corrupt, NotFound):
                continue
            return generation, content
    return None, b""
