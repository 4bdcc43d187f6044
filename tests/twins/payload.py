"""Slow, obvious twins of `riata.store.payload` and `riata.store.payload`: numpy, a pass for each question."""

from __future__ import annotations

import itertools

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U8, U32
from riata.base.limits import LABEL_ABS_MAX, VALUE_ABS_MAX, WEIGHT_MAX

TWINS_OF = ("payload",)

WHOLE_MAX = 2**31 - 1


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


def put_parts(indptr: I64, label: F64, value: F64, power: float, length: U8, bits: U8, stored: U8) -> None:
    width = len(length) // len(label)
    length[:] = np.diff(indptr).astype(f"<u{width}").view(np.uint8)
    if len(bits):
        bits[:] = np.packbits(label == 1.0)
    if len(stored):
        put_whole(value, power, stored)


def decimals(value: F64, powers: F64, found: I64) -> None:
    found[:] = [-1, 0, 0]
    for digits, power in enumerate(powers):
        whole = [round(float(x) * float(power)) for x in value]
        again = np.array([k / float(power) for k in whole])
        if again.tobytes() == value.tobytes():
            if max(-min(whole), max(whole)) <= WHOLE_MAX:
                found[:] = [digits, min(whole), max(whole)]
            return


def put_whole(value: F64, power: float, stored: U8) -> None:
    width = len(stored) // len(value)
    stored[:] = np.rint(value * power).astype(np.int64).astype(f"<i{width}").view(np.uint8)
