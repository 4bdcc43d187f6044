"""What learners share that keep a line of a table (`SlotTable`) for each slot: steps, space, and the lists of slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32
from riata.base.errors import BadInput
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn.learner import Learner, Stepped, margin_bounds
from riata.learn.slot_table import SlotList, SlotTable
from riata.native.library import struct
from riata.native.rows import Room, RowsArray, joined
from riata.wire.batch import Batch

LEARNT: Final = 0  # counts: rows learnt so far
N_ALIVE: Final = 1  # entries of the lists
N_SEEN: Final = 2
_ROWS_JOINED_MAX: Final = 1024  # copying more costs more than the calls
_FEATURES_USUAL: Final = 128  # initial space for rows of this many features


class TableLearner(Learner):
    """A learner with a line of a table for each slot. Its kernel has the list `alive` of slots that have a weight, and the list
    `seen` of those that ever had a gradient.

    _table  : what the kernel learns into
    _kernel : the function of the core that learns rows; not used if `step` is another
    """

    _kernel: Callable[..., int]

    def __init__(self, config: Any, bits: int, settings: Any, room: tuple[int, int]) -> None:
        """Make an empty learner. settings : of the kernel. room : columns and rows of its `Room`"""
        if not BITS_MIN <= bits <= BITS_MAX:
            raise BadInput(f"bits: {bits} is not in {BITS_MIN}..{BITS_MAX}", "out_of_range")
        self.config = config
        self.bits = bits
        self._settings = settings
        self._columns = room
        self._room, self._told = Room(_FEATURES_USUAL, *room), struct("riata_told")
        self._start_empty()

    @property
    def learnt(self) -> int:
        """Rows learnt so far; refused rows do not count."""
        return int(self._counts[LEARNT])

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of all batches in order, in one kernel call as long as nothing has to grow."""
        learnt_before = int(self._counts[LEARNT])
        n = sum([len(batch.label) for batch in batches])
        learnt: Sequence[Any] = [joined(batches)] if len(batches) > 1 and n <= _ROWS_JOINED_MAX else batches
        skip = np.zeros(n, np.bool_) if skip is None else np.ascontiguousarray(skip)
        numbers, refused = np.empty((3, n)), np.empty(n, np.bool_)
        told = self._told
        told.number, told.refused, told.n, told.refusals = numbers, refused, n, 0
        hashes = [self._slots.enter(batch.hash) for batch in learnt]
        rows = RowsArray(learnt, skip, hashes)
        done = 0
        while done < len(learnt):
            table = self._make_room(len(hashes[done]))
            listed = len(self._alive), len(self._seen)
            done = self._kernel(table, self._settings, rows, len(learnt), done, self._room.struct, told)
            self._alive.rename(listed[0], self._slots)
            self._seen.rename(listed[1], self._slots)
            if done < 0:
                raise ValueError("the rows of a batch are not inside of its features")
            if told.longest:
                self._room = Room(2 * told.longest, *self._columns)
        bound = margin_bounds(learnt_before, refused, self.config.is_bounded())
        return Stepped(numbers[0], refused, numbers[1], numbers[2], told.refusals, bound=bound)

    def _start_empty(self) -> None:
        """Begin with `_begin`, and what the kernel takes."""
        raise NotImplementedError

    def _begin(self, counts: int, scalars: int, width: int) -> None:
        """Begin with empty lists and a table of lines f64[width]. counts, scalars : how many numbers of each the kernel keeps"""
        self._counts: I64 = np.zeros(counts, np.int64)
        self._scalars: F64 = np.zeros(scalars)
        self._alive, self._seen = SlotList(self._counts, N_ALIVE, self.bits), SlotList(self._counts, N_SEEN, self.bits)
        self._slots = SlotTable(self.bits, width)

    def _take(self, name: str, **more: Any) -> None:
        """Have the kernel learn into a structure of this name. more : its fields beside those of every table"""
        slots = self._slots
        self._table = struct(
            name, line=slots.line, lines=len(slots.line), shift=slots.shift, counts=self._counts, scalars=self._scalars, **more
        )
        self._lists: tuple[Any, ...] = (None, None)

    def _make_room(self, features: int) -> Any:
        """Return the table for kernels, with space in the lists for every feature of a batch.

        Slots that became zero and then non-zero again are listed twice in the first list, so it is sorted once half of it may be
        such entries. That pays, since as many rows as it is long have filled it.
        """
        if len(self._alive) > 2 * self._slots.used or not self._alive.has_room(features):
            self.weights()
        self._alive.make_room(features)
        self._seen.make_room(features)
        return self._present()

    def _present(self) -> Any:
        """The table with the present lists, which are others after they have grown."""
        table, alive, seen = self._table, self._alive.slot, self._seen.slot
        if alive is not self._lists[0] or seen is not self._lists[1]:  # to set a field takes longer than to compare
            self._lists = alive, seen
            table.alive, table.alive_room, table.seen, table.seen_room = alive, len(alive), seen, len(seen)
        return table

    def _collect(self, collect: Callable[..., int], *given: Any, members: Sequence[F64 | None] = ()) -> tuple[U32, F64]:
        """Return the lines of the slots that have a weight, and the weights.

        collect : the function of the core. given, members : its arguments before those that are the same for all, and behind
        """
        listed = self._slots.lines_of(self._alive.sorted())
        line, beta = np.empty(len(listed), np.uint32), np.empty(len(listed))
        kept = collect(*given, listed, len(listed), line, beta, *members)
        line.resize(kept, refcheck=False)  # frees the rest without a copy
        beta.resize(kept, refcheck=False)
        return line, beta

    def _keep_alive(self, slot: U32) -> None:
        """Drop all but these from the list of slots that have a weight: its first entries, or none of them is another."""
        self._alive.slot[: len(slot)] = slot
        self._alive.keep(len(slot))
