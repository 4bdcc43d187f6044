"""What the line formats share, the obvious way."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import U8
from riata.wire.codes import BAD_LABEL, OK
from riata.wire.rows import BatchBuilder, RecordScratch, Refusal, Rules, SlowRow
from riata.wire.scan.reference import ClassLabel, Refused, checked_label

TWINS_OF = ("wire/scan/lines",)


def text_of(data: U8, start: int, stop: int) -> str:
    """The bytes start:stop, one character each."""
    return data[start:stop].tobytes().decode("latin-1")


def is_ascii(data: U8, start: int, stop: int) -> bool:
    """Ask Python."""
    return data[start:stop].tobytes().isascii()


def line_span(data: U8, start: int, stop: int) -> tuple[int, int]:
    """Strip one carriage return at the end and all white space before it."""
    text = text_of(data, start, stop).removesuffix("\r")
    return start + len(text) - len(text.lstrip(" \t")), start + len(text)


def read_label(data: U8, start: int, stop: int, rules: Rules) -> tuple[float, int]:
    """By the slow reader."""
    try:
        label = checked_label(text_of(data, start, stop), rules)
        return (float("nan") if isinstance(label, ClassLabel) else label), OK
    except Refused:
        return 0.0, BAD_LABEL


def close_row(row: RecordScratch, n: int, sink: BatchBuilder, rules: Rules, number: int) -> int:  # noqa: ARG001
    """What is filed for a refused row; good rows are compared through the readers."""
    return -n


def summed(result: SlowRow | Refusal) -> dict[int, float] | int:
    """Features by hash, summed in the order they came, zeros and subnormals dropped; or the code of a refusal."""
    if isinstance(result, Refusal):
        return result.code
    sums: dict[int, float] = {}
    for fingerprint, value, _, _ in result.records:
        slot = fingerprint >> 32
        sums[slot] = sums[slot] + value if slot in sums else value
    smallest = float(np.finfo(np.float64).tiny)
    return {slot: sums[slot] for slot in sorted(sums) if abs(sums[slot]) >= smallest or not np.isfinite(sums[slot])}
