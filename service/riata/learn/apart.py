"""Values in whose place rows have others when they are learnt and predicted; the log has them as they were sent.

A value that stands for a missing one, such as 999, is set apart: the row gets an indicator of the feature and the value, so that
what the absence says is learnt too. The feature counts as absent if the value was declared, and as the middle of its column if
it was found (`learn.far`). A value outside of the limits of its column counts as the limit.
"""

from __future__ import annotations

import struct as layout
from collections.abc import Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import F64, I64, U32, Arrays
from riata.base.errors import Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.frozen import check_numbers
from riata.learn.slot_table import HASH_BITS
from riata.maths.hashing import FIELD_EQUALS
from riata.native.library import core, struct
from riata.native.reading import hash_of
from riata.native.rows import features_of
from riata.wire.batch import Batch

EVERY: Final = -1  # in place of a hash: all features
DECLARED: Final = ("apart_feature", "apart_value")
FOUND: Final = ("apart_used", "apart_column", "apart_limit")
PARTS: Final = (*DECLARED, *FOUND)
LIMITS: Final = 2  # of a column
INDICATORS_KEPT: Final = 4096


class Part(NamedTuple):
    """A feature of a row as it is learnt and predicted.

    sent   : the value in whose place it is; None if it was sent so
    column : what it is about
    """

    hash: int
    value: float
    names: list[str]
    column: str
    sent: float | None = None


@frozen_dataclass(frozen=True, slots=True)
class Apart:
    """Values that have another in their place.

    feature : i64[r]     the hash of the feature of each value that is set apart, or EVERY
    value   : f64[r]     that value
    used    : f64[r]     what the feature then counts as; 0: absent, as of EVERY
    column  : u32[c]     hashes of columns with limits, strictly increasing
    limit   : f64[2, c]  the lowest and the highest value; one outside counts as the limit
    """

    feature: I64
    value: F64
    used: F64
    column: U32 = field(default_factory=lambda: np.zeros(0, np.uint32))
    limit: F64 = field(default_factory=lambda: np.zeros((LIMITS, 0)))
    native: Any = field(init=False, compare=False, repr=False)  # riata_apart

    def __post_init__(self) -> None:
        named = np.flatnonzero(self.feature != EVERY)
        order = named[np.argsort(self.feature[named], kind="stable")]
        low, high = np.ascontiguousarray(self.limit)
        native = struct(
            "riata_apart",
            feature=self.feature[order].astype(np.uint32),
            value=self.value[order],
            used=self.used[order],
            anywhere=self.value[self.feature == EVERY],
            column=self.column,
            low=low,
            high=high,
            values=len(order),
            everywhere=len(self.feature) - len(order),
            columns=len(self.column),
        )
        object.__setattr__(self, "native", native)

    def rows(self, batch: Batch) -> Batch:
        """Rows as they are learnt and predicted."""
        made = self._instead(*features_of(batch))
        return batch if made is None else replace(batch, indptr=made[0], hash=made[1], value=made[2])

    def row(self, named: Sequence[tuple[int, float, list[str]]]) -> list[Part]:
        """One row likewise, by increasing hash. named : hash, value and names of each feature"""
        return sorted((part for one in named for part in self._parts(*one)), key=lambda part: part.hash)

    def joined(self, other: Apart) -> Apart:
        """These values, and those of another, whose limits these do not have."""
        feature, value, used = (
            np.concatenate([getattr(one, name) for one in (self, other)]) for name in ("feature", "value", "used")
        )
        return Apart(feature, value, used, other.column, other.limit)

    def parts(self) -> Arrays:
        """Copies of the arrays, by PARTS; only those of DECLARED if nothing was found."""
        declared: Arrays = dict(zip(DECLARED, (np.array(self.feature), np.array(self.value)), strict=True))
        if not (self.used.any() or len(self.column)):
            return declared
        return {**declared, **dict(zip(FOUND, (np.array(self.used), np.array(self.column), self.limit.ravel()), strict=True))}

    def document(self) -> list[dict[str, Any]]:
        """The values that are set apart as JSON; a hash is null for all features, and `used` is left out if it is 0."""
        return [
            {"hash": None if feature == EVERY else feature, "value": value, **({"used": used} if used else {})}
            for feature, value, used in zip(self.feature.tolist(), self.value.tolist(), self.used.tolist(), strict=True)
        ]

    def limits(self) -> list[dict[str, Any]]:
        """The limits of columns as JSON."""
        names = ("hash", "low", "high")
        return [dict(zip(names, one, strict=True)) for one in zip(self.column.tolist(), *self.limit.tolist(), strict=True)]

    @property
    def keeps_features(self) -> bool:
        """Whether rows have the same features, with values within limits: none is set apart or absent."""
        return not len(self.feature) and bool(self.limit.all())

    def limited(self, hash_: U32, value: F64) -> F64:
        """Values within limits, of features by increasing hash, if all features are kept."""
        limited = value.copy()
        core.limit_rows(self.native, np.array([0, len(hash_)]), hash_, limited, 1)
        return limited

    def _instead(self, indptr: I64, hash_: U32, value: F64, n: int, features: int) -> tuple[I64, U32, F64] | None:
        """Rows with other values; None if they have none of those."""
        more = core.count_apart(self.native, indptr, hash_, value, n, features)
        if more == 0:
            return None
        if more < 0:
            raise ValueError("the rows of a batch are not inside of its features")
        if self.keeps_features:
            limited = value.copy()
            core.limit_rows(self.native, indptr, hash_, limited, n)
            return indptr, hash_, limited
        to_indptr, to_hash, to_value = np.empty(n + 1, np.int64), np.empty(features + more, np.uint32), np.empty(features + more)
        core.set_apart(self.native, indptr, hash_, value, n, to_indptr, to_hash, to_value)
        end = int(to_indptr[-1])
        return to_indptr, to_hash[:end], to_value[:end]

    def _parts(self, hash_: int, value: float, names: list[str]) -> list[Part]:
        made = self._instead(np.array([0, 1]), np.array([hash_], np.uint32), np.array([value]), 1, 1)
        column = " + ".join(names)
        if made is None:
            return [Part(hash_, value, names, column)]
        told = [f"{name} is {value:.17g}" for name in names]
        parts = zip(made[1].tolist(), made[2].tolist(), strict=True)
        return [Part(own, x, names if own == hash_ else told, column, value) for own, x in parts]


def declare(feature: Sequence[int], value: Sequence[float]) -> Apart:
    """Values whose features then count as absent."""
    return Apart(np.array(feature, np.int64), np.array(value, np.float64), np.zeros(len(value)))


@lru_cache(maxsize=INDICATORS_KEPT)
def indicator_of(feature: int, value: float) -> int:
    """The hash of the indicator of a feature's value."""
    return hash_of(layout.pack("<d", value), feature, FIELD_EQUALS) >> HASH_BITS


def read_apart(arrays: Arrays) -> Apart:
    """Return what `parts` wrote. Raises `Corrupt`."""
    feature, value = (arrays[name] for name in DECLARED)
    if feature.dtype != np.int64 or feature.ndim != 1:
        raise Corrupt("the features with values set apart are not a list of hashes")
    features = feature.astype(np.int64)
    if bool(((features < EVERY) | (features >= 2**HASH_BITS)).any()):
        raise Corrupt("a feature with values set apart is none")
    check_numbers(DECLARED[1], value, len(features))
    if not set(FOUND) & arrays.keys():
        return declare(features.tolist(), value.astype(np.float64).tolist())
    if not set(FOUND) <= arrays.keys():
        raise Corrupt("a part of the limits of columns is missing")
    used, column, limit = (arrays[name] for name in FOUND)
    check_numbers(FOUND[0], used, len(features))
    if column.dtype != np.uint32 or column.ndim != 1 or bool((np.diff(column.astype(np.int64)) <= 0).any()):
        raise Corrupt("the columns with limits are not increasing hashes")
    check_numbers(FOUND[2], limit, LIMITS * len(column))
    limits = limit.astype(np.float64).reshape(LIMITS, -1)
    if bool((np.diff(limits, axis=0) < 0.0).any()) or bool(used[features == EVERY].any()):
        raise Corrupt("the limits of a column are not in order, or all features count as one number")
    return Apart(features, value.astype(np.float64), used.astype(np.float64), column.astype(np.uint32), limits)
