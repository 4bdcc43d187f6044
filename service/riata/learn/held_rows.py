"""The first rows of a stream, held by a learner that learns them again whenever their number has doubled."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, Arrays
from riata.base.errors import Corrupt
from riata.learn.frozen import check_counts, check_numbers
from riata.learn.learner import Stepped, Wrapped, join_steps, step_each
from riata.wire.batch import Batch, join_batches, select_rows, slice_rows, take_rows

_PARTS: Final = ("indptr", "hash", "value", "label", "weight")
PREFIX: Final = "first"
FEATURES: Final = 2**17  # of the rows held, 1.5 MiB; checked whenever their number has doubled
_LEAST: Final = 1e-12  # weight of a forgotten row, so that any number of alarms leaves it above zero


def names_of(prefix: str) -> tuple[str, ...]:
    """The names of `arrays_of`."""
    return tuple(f"{prefix}_{part}" for part in _PARTS)


NAMES: Final = names_of(PREFIX)


class FirstRows:
    """The learnt rows of a stream, up to a number of them, or earlier if they are much to learn again. Then none are held.

    `ended` says that they were enough. It is not among `arrays`, so it must be restored by who holds them.
    """

    def __init__(self, rows: int) -> None:
        """rows : how many are enough, a power of two; fewer, if they have FEATURES features when their number has doubled"""
        self.ended = False
        self._rows = rows
        self._n = 0
        self._held: list[Batch] = []

    def step(
        self, batch: Batch, skip: BOOL | None, learn: Callable[[Batch, BOOL], Stepped], again: Callable[[Batch], None]
    ) -> Stepped:
        """Have a learner learn the events of `batch` in order, and hold those that it has learnt.

        learn : predicts and learns rows; it is told which to skip
        again : called with all rows held whenever their number has doubled, before the next row is learnt
        """
        skip = np.zeros(batch.n, np.bool_) if skip is None else skip
        done: list[Stepped] = []
        start = 0
        while start < batch.n or not done:
            stop = batch.n if self.ended else min(batch.n, start + _until_doubled(self._n))
            part = slice_rows(batch, start, stop)
            stepped = learn(part, skip[start:stop])
            done.append(stepped)
            if not self.ended and not stepped.refused.all():
                self._hold(select_rows(part, ~stepped.refused), again)
            start = stop
        return replace(join_steps(done), label=batch.label, weight=batch.weight)

    def forget(self, keep: float) -> None:
        """Let the rows held count for a share `keep` of what they counted when they are learnt again."""
        self._held = [forgotten(rows, keep) for rows in self._held]

    def arrays(self) -> Arrays:
        """Return copies of the rows held, as in `Batch`."""
        return arrays_of(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes of `arrays`."""
        return nbytes_of(self._n, sum(rows.nnz for rows in self._held))

    def restore(self, rows: Batch, ended: bool) -> None:
        """Hold the rows that `rows_of` returned."""
        self._held, self._n, self.ended = [rows] if rows.n else [], rows.n, ended

    def _hold(self, rows: Batch, again: Callable[[Batch], None]) -> None:
        self._held.append(copied(rows))  # readers use the memory of a batch again
        self._n += rows.n
        if self._n & (self._n - 1):
            return
        held = join_batches(self._held)
        self._held = [held]
        again(held)
        if held.n >= self._rows or held.nnz >= FEATURES:
            self._held, self._n, self.ended = [], 0, True


class Around(Wrapped):
    """A learner around another one, made anew while the first rows are held. Answers are those of the learner inside."""

    _first: FirstRows

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Learn the events of all batches: one batch at a time while rows are held."""
        return self._inside.step_all(batches, skip) if self._first.ended else step_each(self, batches, skip)

    def forget(self, keep: float) -> None:
        """Let the past count for a share `keep` of what it counted, also when the rows held are learnt again."""
        self._inside.forget(keep)
        self._first.forget(keep)


def arrays_of(held: Sequence[Batch], prefix: str = PREFIX) -> Arrays:
    """Return copies of the rows of batches, as in `Batch`, by the names of its parts after `prefix` and an underscore."""
    rows = join_batches(held) if held else no_rows()
    return {f"{prefix}_{part}": np.array(getattr(rows, part)) for part in _PARTS}


def nbytes_of(rows: int, features: int) -> int:
    """Bytes of the arrays of so many rows."""
    indptr, label, weight = 8 * (rows + 1), 8 * rows, 8 * rows
    return indptr + label + weight + 12 * features


def rows_of(arrays: Arrays, prefix: str = PREFIX) -> Batch:
    """Return the rows that `arrays_of` wrote. Raises `Corrupt` unless they are those of a batch."""
    indptr, hash_, value, label, weight = (arrays[f"{prefix}_{part}"] for part in _PARTS)
    check_counts(f"{prefix}_indptr", indptr, len(indptr))
    ends = indptr.astype(np.int64)
    if not len(ends) or ends[0] != 0 or bool((np.diff(ends) < 0).any()) or hash_.dtype != np.uint32:
        raise Corrupt(f"learner state: the {prefix} rows are not rows")
    nnz, n = int(ends[-1]), len(ends) - 1
    check_numbers(f"{prefix}_value", value, nnz)
    check_numbers(f"{prefix}_label", label, n)
    check_numbers(f"{prefix}_weight", weight, n, least=0.0)
    starts = np.zeros(nnz + 1, np.bool_)
    starts[ends] = True
    if hash_.shape != (nnz,) or bool((~starts[1:-1] & (np.diff(hash_.astype(np.int64)) <= 0)).any()):
        raise Corrupt(f"learner state: the features of the {prefix} rows are not in order")
    x, y, w = (array.astype(np.float64) for array in (value, label, weight))
    return Batch(ends, hash_.astype(np.uint32), x, y, w, np.zeros((n, 0), np.uint8), np.zeros(n, np.bool_))


def no_first_rows() -> Arrays:
    """The arrays of a learner that holds no rows."""
    return FirstRows(1).arrays()


def _until_doubled(rows: int) -> int:
    """How many rows are missing to the next power of two."""
    return (1 << rows.bit_length()) - rows


def no_rows() -> Batch:
    """A batch of no rows."""
    nothing = np.zeros(0)
    no_hash = np.zeros(0, np.uint32)
    return Batch(np.zeros(1, np.int64), no_hash, nothing, nothing, nothing, np.zeros((0, 0), np.uint8), np.zeros(0, np.bool_))


def without_ids(rows: Batch) -> Batch:
    """Rows without what is not learnt."""
    no_ids = np.zeros((rows.n, 0), np.uint8)
    return Batch(rows.indptr, rows.hash, rows.value, rows.label, rows.weight, no_ids, rows.has_id)


def copied(rows: Batch) -> Batch:
    """A copy of rows without what is not learnt. To take all of them by their numbers takes several times as long."""
    of_features, no_ids = (rows.hash.copy(), rows.value.copy()), np.zeros((rows.n, 0), np.uint8)
    return Batch(rows.indptr.copy(), *of_features, rows.label.copy(), rows.weight.copy(), no_ids, rows.has_id.copy())


def forgotten(rows: Batch, keep: float) -> Batch:
    """Rows that count for a share `keep` of what they counted."""
    return replace(rows, weight=np.maximum(keep * rows.weight, _LEAST))


# Samples of the rows of a stream, evenly spaced; also with the margins about which a learner linearised them.


ROWS: Final = 256
_PREFIX: Final = "sample"
MET: Final = "sample_met"
MARGIN: Final = "sample_margin"


class RowSample:
    """Rows 0, `stride`, 2 `stride`, ... of a stream. The stride doubles where they would reach a number of rows or features."""

    def __init__(self, rows: int, features: int = sys.maxsize) -> None:
        self.stride = 1
        self._rows_end, self._features_end = rows, features
        self._held: list[Batch] = []
        self._rows = self._features = 0

    def add(self, batch: Batch, learnt: I64, before: int) -> I64:
        """Add those rows of `batch` that belong to the sample, and return their numbers; others may leave it.

        learnt : numbers of the rows that have been learnt, after `before` others
        """
        kept = learnt[-before % self.stride :: self.stride]
        if not len(kept):
            return kept
        rows = copied(batch) if len(kept) == batch.n else take_rows(without_ids(batch), kept)  # readers use its memory again
        self._held.append(rows)
        self._rows, self._features = self._rows + rows.n, self._features + rows.nnz
        while self._rows > 1 and (self._rows >= self._rows_end or self._features >= self._features_end):
            held = self.rows()
            held = select_rows(held, np.arange(held.n) % 2 == 0)
            self.hold(join_batches([held]), 2 * self.stride)
        return kept

    def rows(self) -> Batch:
        """The sample."""
        if len(self._held) > 1:
            self._held = [join_batches(self._held)]
        return self._held[0] if self._held else no_rows()

    def hold(self, rows: Batch, stride: int) -> None:
        """Be the sample of `rows`."""
        self._held, self._rows, self._features, self.stride = [without_ids(rows)], rows.n, rows.nnz, stride

    def drop(self) -> None:
        """Hold no rows."""
        self._held, self._rows, self._features = [], 0, 0

    def arrays(self, prefix: str) -> Arrays:
        """Return copies of the rows as `arrays_of` names them."""
        return arrays_of(self._held, prefix)

    @property
    def nbytes(self) -> int:
        """Bytes of `arrays`."""
        return nbytes_of(self._rows, self._features)


class LinearisedSample:
    """A sample of at most ROWS rows.

    margin : f64[rows]  about which each was linearised
    """

    def __init__(self) -> None:
        self._sample, self._met = RowSample(ROWS + 1), 0
        self.margin = np.zeros(0)

    @property
    def rows(self) -> Batch:
        """The rows."""
        return self._sample.rows()

    @property
    def met(self) -> int:
        """How many rows were learnt."""
        return self._met

    def add(self, batch: Batch, margin: F64, learnt: BOOL) -> None:
        """Go on with the rows of `batch` that were learnt."""
        stride, numbers = self._sample.stride, np.flatnonzero(learnt)
        added = self._sample.add(batch, numbers, self._met)
        self._met += len(numbers)
        self.margin = np.concatenate([self.margin, margin[added]])[:: self._sample.stride // stride].copy()

    def arrays(self) -> Arrays:
        """Return copies of its state: sample_met i64[1], sample_margin f64[rows], and the rows as `arrays_of` names them."""
        return {MET: np.array([self._met]), MARGIN: self.margin.copy(), **self._sample.arrays(_PREFIX)}

    def restore(self, arrays: Arrays) -> None:
        """Restore a state. Raises `Corrupt`, with nothing changed."""
        check_counts(MET, arrays[MET])
        rows, met = rows_of(arrays, _PREFIX), int(arrays[MET].astype(np.int64)[0])
        stride = 1 << (-(-met // ROWS) - 1).bit_length() if met > ROWS else 1
        check_numbers(MARGIN, arrays[MARGIN], rows.n)
        if rows.n != -(-met // stride):
            raise Corrupt(f"learner state: {rows.n} rows are not the sample of {met}")
        self._sample.hold(rows, stride)
        self.margin, self._met = arrays[MARGIN].astype(np.float64), met

    @property
    def nbytes(self) -> int:
        """Bytes of `arrays`."""
        return self._sample.nbytes + self.margin.nbytes + 8
