"""Records that are learnt in one step: so a backlog of requests of one row each costs little more than one of large ones.

A learner's state does not depend on how events are cut into batches, nor does anything else that `ModelState` holds. So records
that follow one another are joined as it suits whoever has them, and no bit changes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

from riata.store.store import Record

ROWS_TOGETHER: Final = 1024  # learnt in about a millisecond; more make a row no cheaper


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
