"""Scratch that a thread keeps from one body to the next, so that reading touches no fresh memory.

Fresh memory costs more than reading: the system hands it out page by page, and clears every page. What leaves this room is
copied out of the scratch, so the next body may overwrite it; but the features of a long body, which are most of it, stay where
they are, and the next body gets other memory for its own (`leave_features`): a thread has memory for a few bodies, in turn. A
body above KEPT_BYTES_MAX gets scratch of its own, which bounds what a thread holds on to. Who has many bodies, and is done with
one before long, lends scratch of `Workspaces` to each.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64, U8, U32
from riata.base.limits import ROWS_PER_REQUEST_MAX
from riata.jit.kernel import quick_kernel
from riata.wire.delimiters import FRONT, PADDING
from riata.wire.rows import PLACES, BatchBuilder, RecordScratch, make_row, make_sink, row_capacity

KEPT_BYTES_MAX: Final = 4 * 2**20
_BYTES_MIN: Final = 2**14
_SPARE: Final = 8  # bodies of about one size: an eighth more, and the next fits as well
_SETS_MAX: Final = 4  # of memory for features: batches that wait to be learnt, and the body that is read


@dataclass(slots=True, eq=False)
class Workspace:
    """Scratch for bodies of at most `size` bytes, whose texts have n-grams of at most `ngrams` words; `sink` may change."""

    size: int
    ngrams: int
    data: U8  # FRONT bytes, the body, a newline, as much again for the words of texts, and PADDING
    ends: I64
    row: RecordScratch
    sink: BatchBuilder

    def emptied(self) -> BatchBuilder:
        """The sink, empty, for a reader of lines, which sets all there is to say of a row."""
        self.sink.count[:] = 0
        return self.sink

    def cleared(self, rows: int) -> BatchBuilder:
        """The sink, empty, with room for exactly `rows` rows."""
        sink = self.sink
        clear_rows(sink.count, sink.code, sink.place, sink.label, sink.weight, rows)
        return sink._replace(code=sink.code[:rows], place=sink.place[:rows], label=sink.label[:rows], weight=sink.weight[:rows])

    def room(self, size: int) -> U8:
        """Where a body of `size` bytes lies while it is read; who writes it there himself saves a copy."""
        return self.data[FRONT : FRONT + size]


@quick_kernel
def clear_rows(count: I64, code: I64, place: I64, label: F64, weight: F64, rows: int) -> None:
    """Make a sink empty, as far as `rows` rows reach.

    Parameters
    ----------
    count : i64[3], code : i64[>= rows], place : i64[>= rows, PLACES], label, weight : f64[>= rows]   of a Sink; overwritten
    rows : int

    Returns              nothing
    Cost                 fourteen numbers for each row
    Source               wire.rows, `make_sink`
    """
    count[:] = 0
    for i in range(rows):
        code[i], label[i], weight[i] = 0, np.nan, 1.0
        for k in range(PLACES):
            place[i, k] = 0


def make_workspace(size: int, ngrams: int) -> Workspace:
    """Allocate; pages that no body reaches are never touched."""
    rows = min(size // 2 + 1, ROWS_PER_REQUEST_MAX)
    return Workspace(
        size=size,
        ngrams=ngrams,
        data=np.zeros(FRONT + 2 * size + 2 + PADDING, np.uint8),
        ends=np.empty(size + 3, np.int64),
        row=make_row(row_capacity(size, ngrams)),
        sink=make_sink(size, rows, ngrams),
    )


class _Kept(threading.local):
    def __init__(self) -> None:
        self.held: Workspace | None = None
        self.sets: list[tuple[U32, F64]] = []  # memory for features, that of `held` among them


_kept = _Kept()


def workspace(size: int, ngrams: int) -> Workspace:
    """Scratch of this thread for a body of `size` bytes, to be used before the thread asks again."""
    held = _kept.held
    if held is not None and size <= held.size and ngrams <= held.ngrams:
        return held
    if size > KEPT_BYTES_MAX:
        return make_workspace(size, ngrams)
    if held is not None:
        size, ngrams = max(size, held.size), max(ngrams, held.ngrams)
    made = make_workspace(max(_BYTES_MIN, 1 << (size - 1).bit_length()), ngrams)
    _kept.held, _kept.sets = made, [(made.sink.hash, made.sink.value)]
    return made


def leave_features(sink: BatchBuilder) -> bool:
    """Whether the features in `sink`, of scratch of this thread, may stay where they are, and the next body has other memory.

    Memory is free again when nobody has an array in it any more.
    """
    held = _kept.held
    if held is None or held.sink.hash is not sink.hash:
        return False
    for memory in _kept.sets:
        if _holders(memory) == _HOLDERS_WHERE_FREE:
            break
    else:
        if len(_kept.sets) == _SETS_MAX:
            return False
        memory = np.empty_like(sink.hash), np.empty_like(sink.value)
        _kept.sets.append(memory)
    held.sink = sink._replace(hash=memory[0], value=memory[1])
    return True


def _holders(memory: tuple[U32, F64]) -> int:
    """How many hold either array of `memory`; every array that lies in one of them holds it."""
    return max(sys.getrefcount(memory[0]), sys.getrefcount(memory[1]))


_HOLDERS_WHERE_FREE: Final = _holders((np.empty(0, np.uint32), np.empty(0)))


class Workspaces:
    """Scratch to be lent, for any number of threads. What is given back is lent again."""

    def __init__(self, ngrams: int) -> None:
        self._ngrams = ngrams
        self._free: deque[Workspace] = deque()

    def lend(self, size: int) -> Workspace:
        """Scratch for a body of `size` bytes."""
        try:
            found = self._free.pop()
        except IndexError:
            found = None
        if found is not None and size <= found.size:
            return found
        return make_workspace(max(_BYTES_MIN, size + size // _SPARE), self._ngrams)

    def give(self, back: Workspace) -> None:
        """Nothing that lies in `back` is needed any more."""
        self._free.append(back)
