"""`Batch`: the events of one request as compressed sparse rows (CSR). Every other part of the service exchanges events in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U8, U32
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.limits import WEIGHT_MAX

NO_TIME: Final = -(2**63)  # in an array of times: the row says none

ByLabel = tuple[float, float]  # factors of the weights of negative and of positive rows
UNWEIGHTED: Final[ByLabel] = (1.0, 1.0)
_BEGIN: Final = np.zeros(1, np.int64)
_LEAST_WEIGHT: Final = float(np.finfo(np.float64).tiny)  # weights are positive also where a product is not


@frozen_dataclass(frozen=True, slots=True)
class Batch:
    """Checked events of one request: sorted, duplicates summed, finite, bounded.

    Shapes: n events, nnz features in all.

    indptr   : i64[n + 1]  row i is indptr[i]:indptr[i + 1]; indptr[0] == 0
    hash     : u32[nnz]    32-bit keyed hash of the feature name, strictly increasing within a row.
                           Not yet a slot: slot = hash >> (32 - bits), so a log can be relearnt with another table size
    value    : f64[nnz]    finite, |value| <= VALUE_ABS_MAX, zeros dropped
    label    : f64[n]      {0, 1} for classification, any bounded number for squared loss, NaN if there is none
    weight   : f64[n]      importance in (0, WEIGHT_MAX]
    event_id : u8[n, 16]   128-bit digest of the client's id; zeros if `has_id` is false
    has_id   : bool[n]
    subject  : u8[n, 16]   keyed digest of whom the row is about (`wire.codes`), zeros if it is about nobody; None if all are
    time     : i64[n]      when the event happened, unix ms, or NO_TIME; None if no row says it. Not learnt
    """

    indptr: I64
    hash: U32
    value: F64
    label: F64
    weight: F64
    event_id: U8
    has_id: BOOL
    subject: U8 | None = None
    time: I64 | None = None

    @property
    def n(self) -> int:
        """Number of events."""
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """Number of features over all events."""
        return int(self.indptr[-1])


@frozen_dataclass(frozen=True, slots=True)
class Encoded:
    """What the log stores for `batch`, encoded by the thread that read it. Valid only for that very object and that time.

    accepted_ms : unix time, part of what `digest` covers
    payload     : as `store.payload` writes it
    digest      : as `store.records` makes it
    contents    : 16 bytes for each row with an id, in order: a digest of the row's content, as `store.records` makes it
    """

    batch: Batch
    accepted_ms: int
    payload: bytes
    digest: bytes
    contents: Sequence[bytes]


def select_rows(batch: Batch, keep: BOOL) -> Batch:
    """Return the events of `batch` for which `keep` (bool[n]) is true, in order; `batch` itself if all are kept."""
    if bool(keep.all()):
        return batch
    lengths = np.diff(batch.indptr)
    indptr = np.concatenate(([0], np.cumsum(lengths[keep]))).astype(np.int64)
    return _chosen(batch, indptr, np.repeat(keep, lengths), keep)


def join_batches(batches: Sequence[Batch]) -> Batch:
    """Return the events of all `batches`, at least one, concatenated."""
    ends = [batch.indptr[1:] for batch in batches]  # in few calls of numpy: batches of one row are usual
    before = list(accumulate([len(batch.hash) for batch in batches], initial=0))[:-1]
    indptr = np.concatenate([_BEGIN, *ends])
    indptr[1:] += np.repeat(before, [len(each) for each in ends])
    return Batch(
        indptr=indptr,
        hash=np.concatenate([batch.hash for batch in batches]),
        value=np.concatenate([batch.value for batch in batches]),
        label=np.concatenate([batch.label for batch in batches]),
        weight=np.concatenate([batch.weight for batch in batches]),
        event_id=np.concatenate([batch.event_id for batch in batches]),
        has_id=np.concatenate([batch.has_id for batch in batches]),
        subject=_subjects_of(batches),
        time=_times_of(batches),
    )


def _subjects_of(batches: Sequence[Batch]) -> U8 | None:
    if not [True for batch in batches if batch.subject is not None]:
        return None
    return np.concatenate([np.zeros_like(batch.event_id) if batch.subject is None else batch.subject for batch in batches])


def _times_of(batches: Sequence[Batch]) -> I64 | None:
    if not [True for batch in batches if batch.time is not None]:
        return None
    return np.concatenate([np.full(batch.n, NO_TIME) if batch.time is None else batch.time for batch in batches])


def take_rows(batch: Batch, order: I64) -> Batch:
    """Return the events `order` (i64[k], numbers of events) of `batch`, in that order."""
    lengths = np.diff(batch.indptr)[order]
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    entries = np.arange(indptr[-1]) + np.repeat(batch.indptr[order] - indptr[:-1], lengths)
    return _chosen(batch, indptr, entries, order)


def _chosen(batch: Batch, indptr: I64, entries: BOOL | I64, rows: BOOL | I64) -> Batch:
    return Batch(
        indptr=indptr,
        hash=batch.hash[entries],
        value=batch.value[entries],
        label=batch.label[rows],
        weight=batch.weight[rows],
        event_id=batch.event_id[rows],
        has_id=batch.has_id[rows],
        subject=None if batch.subject is None else batch.subject[rows],
        time=None if batch.time is None else batch.time[rows],
    )


def weighted(batch: Batch, by_label: ByLabel) -> Batch:
    """Return `batch` with weights multiplied by the factor of the row's label, and at most WEIGHT_MAX; `batch` itself if both
    factors are 1. Labels are 0 or 1."""
    if by_label == UNWEIGHTED:
        return batch
    weight = batch.weight * np.where(batch.label > 0.0, by_label[1], by_label[0])
    return replace(batch, weight=np.clip(weight, _LEAST_WEIGHT, WEIGHT_MAX))


def in_one_piece(batch: Batch) -> Batch:
    """The same events, with the learner's arrays as kernels need them: contiguous and of the right type."""
    return replace(
        batch,
        indptr=np.ascontiguousarray(batch.indptr, np.int64),
        hash=np.ascontiguousarray(batch.hash, np.uint32),
        value=np.ascontiguousarray(batch.value, np.float64),
        label=np.ascontiguousarray(batch.label, np.float64),
        weight=np.ascontiguousarray(batch.weight, np.float64),
    )


def slice_rows(batch: Batch, start: int, stop: int) -> Batch:
    """Return the events start:stop of `batch`, sharing its memory; `batch` itself if those are all."""
    if start == 0 and stop == batch.n:
        return batch
    low, high = int(batch.indptr[start]), int(batch.indptr[stop])
    return Batch(
        indptr=batch.indptr[start : stop + 1] - low,
        hash=batch.hash[low:high],
        value=batch.value[low:high],
        label=batch.label[start:stop],
        weight=batch.weight[start:stop],
        event_id=batch.event_id[start:stop],
        has_id=batch.has_id[start:stop],
        subject=None if batch.subject is None else batch.subject[start:stop],
        time=None if batch.time is None else batch.time[start:stop],
    )
