"""The protocol core: which action may happen next to one model. No I/O, no clock, no threads.

Theory of operation
    A model's state is a function of its log. The core is the part of that rule that can be tested without a disk: its methods
    report what happened (a record was logged, a record was applied, a checkpoint was committed), and it returns what to do next.

    Rule 1. A record is applied only if first == applied + 1 and its chain continues ours. Anything else is a gap or a fork: the
            core stops permanently, and never skips.
    Rule 2. A published model and a checkpoint are taken only between records, so both are the state after events 1..applied.
    Rule 3. Publishing and checkpointing never change the state. Their times depend on the time passed in, so two runs over the
            same log publish at different moments and end with the same bits.
    Rule 4. One checkpoint at a time. A refused commit (fenced, forked) stops this writer.

    Inputs are method calls, outputs are values of `Action`. Invalid calls raise and change nothing.

                      logged(record)            applied(record)                due(now)
        log  ──────────────────────►  Rule 1  ───────────────►  dirty  ───────────────────►  PUBLISH, CHECKPOINT
                                          │                                                      │
                                          └── LogGap, LogFork: stopped             committed(verdict) ──► may start another
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from riata.base.errors import Conflict, LogFork, LogGap
from riata.base.frozen_dataclass import frozen_dataclass
from riata.store.records import next_chain
from riata.store.store import Record, Verdict

REST_PARTS: Final = 9  # of the time, to one for publications that nobody waits for
RETRY_MS: Final = 10_000  # delay after a checkpoint that could not be written


class Action(Enum):
    """An action that is due now."""

    PUBLISH = "publish"
    CHECKPOINT = "checkpoint"


@frozen_dataclass(frozen=True, slots=True)
class Schedule:
    """How often to publish and checkpoint; from the model's configuration."""

    publish_every_ms: int
    checkpoint_every_ms: int
    checkpoint_every_events: int


class Core:
    """The protocol of one model. `applied` and `chain` are the position of its state in the log. `saved` is the event of the
    newest scheduled checkpoint: checkpoints that callers request do not count, so that they cannot delay the schedule."""

    def __init__(self, applied: int, chain: bytes, schedule: Schedule, now_ms: int, saved: int | None = None) -> None:
        self.applied = applied
        self.chain = chain
        self.schedule = schedule
        self.stopped: str | None = None
        self._published = applied
        self._published_ms = now_ms - schedule.publish_every_ms  # the first event is published at once
        self._rest_ms = 0  # at least so long after that
        self._saved = applied if saved is None else saved
        self._saved_ms = now_ms
        self._saving: int | None = None
        self._failed = False  # the last checkpoint was abandoned
        self._requested = False  # the checkpoint under way was requested by a caller

    def checkpoint_is_overdue(self, now_ms: int) -> None:
        """Have a checkpoint due as soon as there is something to save: events that were replayed have missed theirs already."""
        self._saved_ms = now_ms - self.schedule.checkpoint_every_ms

    def logged(self, record: Record) -> None:
        """Check that `record` is the next of the log (Rule 1). Otherwise stops, and raises `LogGap` or `LogFork`."""
        self._require_running()
        if record.first != self.applied + 1:
            self._stop(LogGap(f"expected event {self.applied + 1}, the log has {record.first}", event=self.applied + 1))
        if record.chain != next_chain(self.chain, record.digest):
            self._stop(LogFork(f"the chain breaks at events {record.first} to {record.last}", event=record.first))

    def logged_all(self, records: Sequence[Record]) -> None:
        """Like `logged`, for records that are applied together: each has to follow the one before."""
        self.logged(records[0])
        seq, chain = records[0].last, records[0].chain
        for record in records[1:]:
            if record.first != seq + 1:
                self._stop(LogGap(f"expected event {seq + 1}, the log has {record.first}"))
            if record.chain != next_chain(chain, record.digest):
                self._stop(LogFork(f"the chain breaks at events {record.first} to {record.last}", event=record.first))
            seq, chain = record.last, record.chain

    def advanced(self, record: Record) -> None:
        """Record that `record`, checked by `logged`, is now part of the state."""
        self._require_running()
        self.applied = record.last
        self.chain = record.chain

    def due(self, now_ms: int, wanted: bool = False) -> list[Action]:
        """Return what is due. `wanted`: a request waits until the present state is served."""
        actions = []
        if self.unpublished and (wanted or now_ms >= self.publish_from_ms()):
            actions.append(Action.PUBLISH)
        if self._saving is None and self.unsaved and self._checkpoint_due(now_ms):
            actions.append(Action.CHECKPOINT)
        return actions

    @property
    def full(self) -> bool:
        """Whether a checkpoint is due because of the number of events since the last one."""
        return self.applied - self._saved >= self.schedule.checkpoint_every_events

    def publish_from_ms(self) -> int:
        """Return from when on a new state may be served that no request waits for."""
        return self._published_ms + max(self.schedule.publish_every_ms, self._rest_ms)

    def publish_due_ms(self) -> int | None:
        """Return when a publication will be due if nothing else happens; None for never."""
        return self.publish_from_ms() if self.unpublished else None

    def save_due_ms(self) -> int | None:
        """Return when a checkpoint will be due if nothing else happens; None for never."""
        return self._saved_ms + self._pause_ms() if self._saving is None and self.unsaved else None

    @property
    def unpublished(self) -> bool:
        """Whether the state is ahead of what is served."""
        return self.applied > self._published

    @property
    def unsaved(self) -> bool:
        """Whether the state is ahead of the newest scheduled checkpoint."""
        return self.applied > self._saved

    def published(self, now_ms: int, took_ms: int = 0) -> None:
        """Record that the present state is now served, and how much processor time that took: of a model with millions of weights
        it takes as long as learning for 0.1 s."""
        self._published = self.applied
        self._published_ms, self._rest_ms = now_ms, REST_PARTS * took_ms

    def checkpoint_started(self, now_ms: int, requested: bool = False) -> int:
        """Record that a checkpoint of the present state began; return its `applied`. `requested`: only because a caller asked.
        Raises `Conflict` if one is under way."""
        self._require_running()
        if self._saving is not None:
            raise Conflict("a snapshot is already being written", "checkpoint_running")
        self._saving, self._requested = self.applied, requested
        if not requested:
            self._saved_ms = now_ms
        return self.applied

    def may_save(self) -> bool:
        """Whether a checkpoint can begin now."""
        return self._saving is None and self.stopped is None

    def committed(self, verdict: Verdict) -> None:
        """Record how the checkpoint ended (Rule 4)."""
        saved, self._saving = self._saving, None
        self._failed = False
        if verdict is Verdict.OK and saved is not None:
            self._saved = self._saved if self._requested else saved
        elif verdict in (Verdict.FENCED, Verdict.FORK, Verdict.CONFLICT):
            self.stopped = f"snapshot {verdict.value}"

    def abandoned(self) -> None:
        """Record that the checkpoint could not be written. It is retried after a pause, whatever the number of unsaved events."""
        self._saving = None
        self._failed = True

    def reschedule(self, schedule: Schedule) -> None:
        """Adopt another schedule; this changes no state."""
        self.schedule = schedule

    def _checkpoint_due(self, now_ms: int) -> bool:
        return now_ms - self._saved_ms >= self._pause_ms() or (self.full and not self._failed)

    def _pause_ms(self) -> int:
        """Milliseconds between the starts of two checkpoints."""
        every_ms = self.schedule.checkpoint_every_ms
        return min(every_ms, RETRY_MS) if self._failed else every_ms

    def _require_running(self) -> None:
        if self.stopped is not None:
            raise Conflict(f"this model's writer has stopped: {self.stopped}", "writer_stopped")

    def _stop(self, error: LogGap | LogFork) -> None:
        self.stopped = error.detail
        raise error
