"""Turn size: records that are learnt in one step, so that many requests of one row cost little more than few large ones.

A learner's state does not depend on how events are cut into batches, nor does anything else in `ModelState`. So consecutive
records may be joined freely, and no bit changes.

If a learner takes many batches in one call of its kernel, nothing is joined: with the truncated gradient, 60 records of a row
are learnt in 4.4 µs a row if they are joined and in 2.3 if not, 20 of sixteen rows in 1.4 and 0.7. For other learners small
records are joined. Large records are not, because joining would copy them. But the Python code that runs once per turn holds the
interpreter's lock, and predictions wait for it. So the writer takes more of them in one turn as long as it stays short (`Turn`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

from riata.store.store import Record

ROWS_TOGETHER: Final = 1024  # learnt in about a millisecond; more make a row no cheaper
TURN_ROWS_MAX: Final = 16 * ROWS_TOGETHER  # at this size the cost per turn is negligible
TURN_MS: Final = 10  # of a turn; what is served is at least some tens of milliseconds old anyway


class Turn:
    """The maximum number of rows of one model learnt in a turn: as many as take TURN_MS, and at least ROWS_TOGETHER."""

    def __init__(self) -> None:
        self.rows_max = ROWS_TOGETHER

    def took(self, rows: int, milliseconds: int) -> None:
        """Adapt to the time that a turn with this many rows took."""
        if milliseconds > TURN_MS:
            self.rows_max = max(ROWS_TOGETHER, self.rows_max // 2)
        elif rows > self.rows_max // 2 and 2 * milliseconds <= TURN_MS:
            self.rows_max = min(TURN_ROWS_MAX, 2 * self.rows_max)


def runs(records: Iterable[Record], stops: Container[int] = frozenset()) -> Iterator[list[Record]]:
    """Cut a log into runs, in order: observe records of up to ROWS_TOGETHER rows in all, or any record alone.

    stops : events after which a run has to end
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
