"""Reading a log in order through the store's thread: once to learn it, and again from where a promoted state ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from riata.base.errors import LogFork
from riata.run.writer.turn_size import runs
from riata.store import records
from riata.store.store import Head, Record, Store

Call = Callable[[Callable[[Store], Any]], Future[Any]]

READ_BYTES: Final = 2**24
PACED_BYTES: Final = 2**21  # while events are acknowledged: these wait for as long as one call takes


@dataclass(frozen=True, slots=True)
class Again:
    """The events that a promoted state has not learnt.

    skips : events that a skip event excludes, wherever in the log it is
    runs  : the records between the event that the state has reached and the event that promotes it, cut as by `turn_size.runs`
    """

    skips: frozenset[int]
    runs: list[list[Record]]


ReadAgain = Callable[[Record, records.Through], Again | None]


def read_log(call: Call, name: str, after: int, bytes_max: int = READ_BYTES) -> Iterator[Record]:
    """Yield every record after event `after`, in order; read about `bytes_max` at a time, the next while some are applied."""
    reading = _reading(call, name, after, bytes_max)
    while True:
        found: list[Record] = reading.result()
        if not found:
            return
        after = found[-1].last
        reading = _reading(call, name, after, bytes_max)
        yield from found
        if not reading.result():  # the end was read before the last records were applied, which may have appended to the log
            reading = _reading(call, name, after, bytes_max)


def read_again(call: Call, promotion: Record, through: records.Through, bytes_max: int = READ_BYTES) -> Again | None:
    """Read the events between a promoted state and the event `promotion` that carries it.

    None if the log no longer has them, or never was the log that the state has learnt. Both are so for every reader: from the
    moment when a promotion is in a log, the log is not trimmed beyond `through` while a state before the promotion is retained.
    Raises `LogFork` if the log no longer has the promotion, and what reading the log raises.
    """
    name = promotion.model
    head: Head = call(lambda s: s.head(name)).result()
    if not head.first_seq - 1 <= through.seq < promotion.first:
        return None
    before: list[Record] = []
    skips: set[int] = set()
    chain, promoted = through.chain, False
    for record in read_log(call, name, through.seq, bytes_max):
        if chain and (record.first != through.seq + 1 or record.chain != records.next_chain(chain, record.digest)):
            return None
        chain = b""  # checked: the store checks the others
        if record.kind == "skip":
            skips.add(records.decode_skip(record.payload)[0])
        if record.last < promotion.first:
            before.append(record)
        promoted |= record.chain == promotion.chain
    if not promoted:
        raise LogFork(f"log of {name!r}: it no longer has event {promotion.first}", event=promotion.first)
    return Again(frozenset(skips), list(runs(before)))


def _reading(call: Call, name: str, after: int, bytes_max: int) -> Future[list[Record]]:
    return call(lambda s: s.read(name, after, bytes_max))
