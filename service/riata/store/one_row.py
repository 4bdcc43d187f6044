"""Many records of one row each, decoded at once: a long log of them is read an order of magnitude sooner than one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64, U8, U32
from riata.base.limits import VALUE_ABS_MAX
from riata.store.records import IDS, decode_batch
from riata.wire.batch import Batch

_VERSION: Final = 1
_HEAD: Final = 16  # bytes of the head, with which the payload of any number of rows begins
_FIRST: Final = _HEAD + 4  # the length of the row stands between head and features
_FEATURE: Final = 8
_ID: Final = 16
_TRUE: Final = 0x80  # a byte of one truth value


def decode_batches(payloads: Sequence[bytes]) -> list[Batch]:
    """Return batches whose rows, one behind the other, are those of `payloads`: one where every payload is of one plain row, else
    one for each payload. Raises `Corrupt` where `decode_batch` does."""
    joined = decode_rows(payloads) if len(payloads) > 1 else None
    return [decode_batch(payload) for payload in payloads] if joined is None else [joined]


def decode_rows(payloads: Sequence[bytes]) -> Batch | None:
    """Return what `decode_batch` gives for each of `payloads`, joined; None where one is not of one row of version 1 with
    float32 values, label 0 or 1 and weight 1, or where anything is wrong with it: then one by one they tell more."""
    length = np.fromiter(map(len, payloads), np.int64, len(payloads))
    if not payloads or int(length.min()) <= _FIRST:
        return None
    whole = np.frombuffer(b"".join(payloads), np.uint8)
    start = np.cumsum(length) - length
    first, n, nnz, total, features = _numbers(whole, start, _FIRST // 4).T.astype(np.int64)
    with_id = first == _VERSION | IDS << 8
    end = start + _FIRST + _FEATURE * nnz
    fits = (with_id | (first == _VERSION)) & (n == 1) & (features == nnz) & (total == length)
    if not bool((fits & (start + length == end + 1 + (1 + _ID) * with_id)).all()):
        return None
    label, marked = whole[end], whole[end[with_id] + 1]
    if bool((label & ~np.uint8(_TRUE)).any()) or bool((marked != _TRUE).any()):
        return None
    indptr = np.concatenate(([0], np.cumsum(nnz)))
    at = np.repeat(start + _FIRST - 4 * indptr[:-1], nnz) + 4 * np.arange(indptr[-1])  # where each hash stands
    hashes = _numbers(whole, at, 1)[:, 0].astype(np.uint32)
    value = _numbers(whole, at + np.repeat(4 * nnz, nnz), 1).view("<f4")[:, 0].astype(np.float64)
    if not _right(indptr, hashes, value):
        return None
    event_id = np.zeros((len(payloads), _ID), np.uint8)
    event_id[with_id] = whole[(end[with_id] + 2)[:, None] + np.arange(_ID)]
    return Batch(indptr, hashes, value, (label == _TRUE).astype(np.float64), np.ones(len(payloads)), event_id, with_id)


def _numbers(whole: U8, at: I64, count: int) -> U32:
    """u32[len(at), count]: so many numbers of four bytes from each of these places on."""
    numbers: U32 = whole[at[:, None] + np.arange(4 * count)].view("<u4")
    return numbers


def _right(indptr: I64, hashes: U32, value: F64) -> bool:
    """Whether hashes rise within every row and values are within their bounds; not, where one is not a number."""
    rising = np.ones(len(hashes) + 1, np.bool_)
    rising[1:-1] = hashes[1:] > hashes[:-1]
    rising[indptr] = True  # a row may begin anywhere
    return bool(rising.all() and (np.abs(value) <= VALUE_ABS_MAX).all())
