"""Finishing a row with sorted lists and plain sums."""

from __future__ import annotations

import itertools
import math

from riata.base.limits import VALUE_ABS_MAX
from riata.wire.codes import DUPLICATE_KEY, OK, OUT_OF_RANGE, TOO_MANY_IN_ROW
from tests.twins.crossing import NONE, Crosses, cross_row

TWINS_OF = ("rows",)

Record = tuple[int, float, int]  # fingerprint, value, kind
KEY = 4
SMALLEST_NORMAL = 2.0**-1022


def repeated_key(records: list[Record]) -> bool:
    """Whether two records of kind KEY have one fingerprint."""
    keys = [fingerprint for fingerprint, _, kind in records if kind & KEY]
    return len(set(keys)) < len(keys)


def sum_row(records: list[Record]) -> tuple[int, list[int], list[float]]:
    """(code, hashes, sums): equal hashes summed in the order they came."""
    hashes: list[int] = []
    sums: list[float] = []
    ordered = sorted(records, key=lambda record: record[0] >> 32)  # sorted() keeps the order of equals
    for feature, group in itertools.groupby(ordered, key=lambda record: record[0] >> 32):
        members = list(group)
        if repeated_key(members):
            return DUPLICATE_KEY, [], []
        total = members[0][1]
        for _, value, _ in members[1:]:
            total += value
        if not abs(total) <= VALUE_ABS_MAX:
            return OUT_OF_RANGE, [], []
        if abs(total) >= SMALLEST_NORMAL:
            hashes.append(feature)
            sums.append(total)
            if len(sums) > 10_000:
                return TOO_MANY_IN_ROW, [], []
    return OK, hashes, sums


def normalise_l2(hashes: list[int], values: list[float]) -> tuple[list[int], list[float]]:
    """Divide by the 2-norm, tiny rows lifted first; what becomes subnormal is dropped."""
    if not values:
        return [], []
    lift, squares = 1.0, 0.0
    for value in values:
        squares += value * value
    if squares < 2.0**-900:
        lift, squares = 2.0**600, 0.0
        for value in values:
            squares += (value * lift) * (value * lift)
    scaled = [value * lift / math.sqrt(squares) for value in values]
    kept = [(feature, value) for feature, value in zip(hashes, scaled, strict=True) if abs(value) >= SMALLEST_NORMAL]
    return [feature for feature, _ in kept], [value for _, value in kept]


def finish_row(records: list[Record], l2: bool, crosses: Crosses = NONE) -> tuple[int, list[int], list[float]]:
    """(code, hashes, values) of one row."""
    with_crossed = cross_row(records, crosses)
    if isinstance(with_crossed, int):
        return with_crossed, [], []
    code, hashes, values = sum_row(with_crossed)
    if code == OK and l2:
        hashes, values = normalise_l2(hashes, values)
    return code, hashes, values


def list_new(records: list[Record], seen: set[int]) -> list[int]:
    """Fingerprints of the records that are features and not in the table."""
    return [fingerprint for fingerprint, value, _ in records if value != 0.0 and fingerprint not in seen]
