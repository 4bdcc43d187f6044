"""Records that are learnt in one step: so a backlog of requests of one row each costs little more than one of large ones.

A learner's state does not depend on how events are cut into batches, nor does anything else that `ModelState` holds. So records
that follow one another are joined as it suits whoever has them, and no bit changes.

Where a learner takes many batches in one call of its kernel, nothing is joined: by the truncated gradient, 60 records of a row
are learnt in 4.4 µs a row if they are joined and in 2.3 as they are, 20 of sixteen rows in 1.4 and 0.7. Else small records are.
Large records are not joined, for that would copy them; but what Python does once for all of a turn holds the interpreter's lock,
and predictions wait for it. So the writer takes up more of them in one turn as long as it stays short (`Turn`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

from riata.store.store import Record

ROWS_TOGETHER: Final = 1024  # learnt in about a millisecond; more make a row no cheaper
TURN_ROWS_MAX: Final = 16 * ROWS_TOGETHER  # by then what is done once for all of a turn does not count any more
TURN_MS: Final = 10  # of a turn; what is served is at least some tens of milliseconds behind


class Turn:
    """How many rows of one model are learnt in a turn at the most: as many as take TURN_MS, and ROWS_TOGETHER in any case."""

    def __init__(self) -> None:
        self.rows_max = ROWS_TOGETHER

    def took(self, rows: int, milliseconds: int) -> None:
        """Note how long a turn with so many rows has taken."""
        if milliseconds > TURN_MS:
            self.rows_max = max(ROWS_TOGETHER, self.rows_max // 2)
        elif rows > self.rows_max // 2 and 2 * milliseconds <= TURN_MS:
            self.rows_max = min(TURN_ROWS_MAX, 2 * self.rows_max)


def runs(records: Iterable[Record], stops: Container[int] = frozenset()) -> Iterator[list[Record]]:
    """Cut a log into runs, in order: observe records of up to ROWS_TOGETHER rows in all, or any record alone.

    stops : events that nothing is to be learnt together with what comes after them
    """
    run: list[Record] = []
    rows = 0
    for record in records:
        if run and (record.kind != "observe" or rows + record.count > ROWS_TOGETHER):
            yield run
            run, rows = [], 0
        run.append(record)
        rows += record.count
        if record.kind != "observe" or record.last in stops:
            yield run
            run, rows = [], 0
    if run:
        yield run
