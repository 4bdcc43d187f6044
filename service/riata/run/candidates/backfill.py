"""What a challenger learns before it follows: what the log of its leader still has, under settings of its own.

    events of the leader    oldest ............. C │ C + 1 ....... E - 1 │ E
                            learnt beside the      │ copied, a few       │ names the challenger; each append
                            service, at low        │                     │ of rows makes a copy from here on
                            priority               │                     │

The log of the challenger gets a `restore` event with the state after event C, the rows C + 1 .. E - 1, and the event that says
whom it follows. These and event E are one transaction, made between two appends: no event is left out or learnt twice, and a
process that is killed has logged all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from riata.base.dataclass import dataclass
from riata.base.errors import Busy, LogGap
from riata.run.candidates.backtest import OWN, Contestant, compare, turns
from riata.run.candidates.pairs import BACKFILL
from riata.run.candidates.promotion import BEHIND_MAX
from riata.run.log.effective_log import chain_at, read_effective_log
from riata.run.log.log_reading import PACED_BYTES, Call, read_log
from riata.run.state.config import ModelConfig, change_from_payload
from riata.store import records
from riata.store.control_events import Counted
from riata.store.payload import decode_batch
from riata.store.store import Append, Record, Store
from riata.wire.batch import Batch

TAIL_ROWS: Final = 2000  # rows that are left to be copied
ROUNDS: Final = 8  # over what came meanwhile


@dataclass(frozen=True, slots=True)
class Past:
    """What a challenger has learnt: a checkpoint of the state, as of an event of the leader's log.

    theirs, ours : the settings of the leader, which held all the time, and of the challenger
    source       : how many events were learnt, and how the losses compare with those under the settings of the leader
    """

    content: bytes
    leader: str
    through: records.Through
    theirs: ModelConfig
    ours: ModelConfig
    source: dict[str, Any]


def learn_past(call: Call, leader: str, theirs: ModelConfig, ours: ModelConfig, advance: Callable[[float], None]) -> Past | None:
    """Learn the log of `leader` under the settings `ours`; None if no event of it counts.

    advance : called with the share of the work that is done; what it raises ends the work
    Raises `Busy` (code `changed_meanwhile`) if the leader was changed or its log trimmed, `candidate_behind` if the log grows
    faster than it is learnt, and what reading a log raises.
    """
    both = [Contestant(OWN, theirs), Contestant(BACKFILL, ours)]
    try:
        log = read_effective_log(call, leader, bytes_max=PACED_BYTES)
        if log.window().events == 0:
            return None
        after, last, counted = log.first - 1, log.last, log.counted()
        chain = chain_at(call, leader, last) or b""
        rows = 0
        for _ in range(ROUNDS):
            for turn in turns(call, leader, after, last, counted, PACED_BYTES):
                for contestant in both:
                    contestant.take(turn)
                compare(both)
                advance(turn.last / last)
            after, rows, through = last, 0, records.Through(last, chain)
            for record in checked(read_log(call, leader, after, PACED_BYTES), through, theirs):
                last, chain, rows = record.last, record.chain, rows + record.count
            if rows <= TAIL_ROWS:
                break
            counted = Counted(np.array([[after + 1, last]]), np.zeros(0, np.int64))
        if rows > BEHIND_MAX:
            raise Busy(f"model {leader}: its log grows faster than it is learnt; try when fewer events come", "candidate_behind")
    except LogGap as error:
        raise changed(leader, error.detail) from error
    other = both[1]
    told = {"events": other.state.progressive.examples, "compared": other.difference.events, "measure": other.measure}
    source = {BACKFILL: leader, "through": through.seq, **told, **other.compared()}
    return Past(other.state.freeze().encode(), leader, through, theirs, ours, source)


def at_the_seam(store: Store, past: Past, model: str, now_ms: int) -> list[Append]:
    """Return what the log of the challenger gets: the state, and the rows of its leader that came after it. Raises `Busy` (code
    `changed_meanwhile`). In the thread of the store."""
    tail: list[Append] = []
    after = past.through
    try:
        while found := store.read(past.leader, after.seq, PACED_BYTES):
            for record in checked(found, after, past.theirs):
                if record.kind == "observe":
                    tail.append(Append(model, "observe", record.accepted_ms, _without_ids(decode_batch(record.payload))))
                after = records.Through(record.last, record.chain)
    except LogGap as error:
        raise changed(past.leader, error.detail) from error
    if after.chain != store.head(past.leader).chain:
        raise changed(past.leader, "it has another log now")
    return [Append(model, "restore", now_ms, payload=records.encode_restore(past.source, past.content)), *tail]


def checked(found: Iterable[Record], after: records.Through, theirs: ModelConfig) -> Iterator[Record]:
    """Yield the records after an event of a log. Raises `Busy` if one of them says anything of the events before it."""
    chain = after.chain
    for record in found:
        if record.chain != records.next_chain(chain, record.digest):
            raise changed(record.model, "it has another log now")
        chain = record.chain
        same = record.kind == "config" and change_from_payload(record.payload).config == theirs
        if not (record.kind == "observe" or same):
            raise changed(record.model, f"event {record.first} is of kind {record.kind}")
        yield record


def changed(leader: str, why: str) -> Busy:
    """The error for a leader that is no longer what it was when the learning began."""
    return Busy(f"model {leader} was changed while its log was learnt: {why}; try again", "changed_meanwhile")


def _without_ids(batch: Batch) -> Batch:
    """A follower remembers no ids: whatever its leader has accepted is accepted."""
    return replace(batch, has_id=np.zeros(batch.n, np.bool_), event_id=np.zeros((batch.n, 16), np.uint8))
