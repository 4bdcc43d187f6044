"""Slow, obvious twins of the core's `payload.c`: numpy, a pass for each question."""

from __future__ import annotations

import itertools
import struct

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32
from riata.base.limits import LABEL_ABS_MAX, VALUE_ABS_MAX, WEIGHT_MAX
from riata.wire.batch import NO_TIME, Batch

TWINS_OF = ("payload",)

WHOLE_MAX = 2**31 - 1
FORMS = ("<f8", "<f4", "", "u1", "i1", "<u2", "<i2", "<i4")


def look_at(indptr: I64, hashes: U32, value: F64, label: F64, weight: F64, has_id: BOOL, powers: F64, found: I64) -> int:
    lengths = np.diff(indptr)
    if (lengths < 0).any():
        return 1
    events = [hashes[start:stop].astype(np.int64) for start, stop in itertools.pairwise(indptr)]
    found[:4] = [
        sum(bits not in (np.float64(0.0).tobytes(), np.float64(1.0).tobytes()) for bits in map(np.float64.tobytes, label)),
        (weight != 1.0).sum(),
        has_id.sum(),
        lengths.max(),
    ]
    wrong = [
        any((np.diff(event) <= 0).any() for event in events),
        np.isnan(value).any() or (np.abs(value) > VALUE_ABS_MAX).any(),
        np.isnan(label).any() or (np.abs(label) > LABEL_ABS_MAX).any(),
        np.isnan(weight).any() or (weight <= 0.0).any() or (weight > WEIGHT_MAX).any(),
    ]
    if True in wrong:
        return 2 + wrong.index(True)
    if len(value):
        decimals(value, powers, found[4:])
    return 0


def decimals(value: F64, powers: F64, found: I64) -> None:
    found[:] = [-1, 0, 0]
    for digits, power in enumerate(powers):
        whole = [round(float(x) * float(power)) for x in value]
        again = np.array([k / float(power) for k in whole])
        if again.tobytes() == value.tobytes():
            if max(-min(whole), max(whole)) <= WHOLE_MAX:
                found[:] = [digits, min(whole), max(whole)]
            return


def narrowest(value: F64, powers: F64) -> tuple[int, int, bytes]:
    """Form, digits and stored bytes of the values."""
    if (value == 1.0).all():
        return 2, 0, b""
    found = np.zeros(3, np.int64)
    decimals(value, powers, found)
    digits, least, most = found.tolist()
    narrow = value.astype("<f4")
    for form in range(3, 8):
        bounds = np.iinfo(FORMS[form])
        if digits >= 0 and bounds.min <= least and most <= bounds.max and (form != 7 or (narrow != value).any()):
            return form, digits, np.rint(value * powers[digits]).astype(np.int64).astype(FORMS[form]).tobytes()
    return (0, 0, value.astype("<f8").tobytes()) if (narrow != value).any() else (1, 0, narrow.tobytes())


def payload(batch: Batch, powers: F64) -> bytes:
    """The payload of a valid batch."""
    n, lengths = batch.n, np.diff(batch.indptr)
    real = any(x.tobytes() not in (np.float64(0.0).tobytes(), np.float64(1.0).tobytes()) for x in batch.label)
    named = np.zeros(n, np.bool_) if batch.subject is None else batch.subject.any(axis=1)
    timed = batch.time is not None and bool((batch.time != NO_TIME).any())
    is_long, weighted, ids = lengths.max() >= 2**16, (batch.weight != 1.0).any(), batch.has_id.any()
    form, digits, stored = narrowest(batch.value, powers)
    rest = lengths.astype("<u4" if is_long else "<u2").tobytes() + batch.hash.astype("<u4").tobytes() + stored
    rest += batch.label.tobytes() if real else np.packbits(batch.label == 1.0).tobytes()
    rest += batch.weight.tobytes() if weighted else b""
    rest += np.packbits(batch.has_id).tobytes() + batch.event_id[batch.has_id].tobytes() if ids else b""
    if batch.subject is not None and named.any():
        rest += np.packbits(named).tobytes() + batch.subject[named].tobytes()
    if batch.time is not None and timed:
        rest += batch.time.astype("<i8").tobytes()
    flags = 2 * real + 4 * weighted + 8 * ids + 16 * is_long + 32 * named.any() + 64 * timed
    version = 4 if timed else 3 if named.any() else 2
    return struct.pack("<BBBBIII", version, flags, form, digits, n, batch.nnz, 16 + len(rest)) + rest
