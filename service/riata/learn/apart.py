"""Values that stand for a missing one, such as 999: they are set apart when rows are learnt and predicted, and stay in the log.

A value that is set apart counts as if its feature were absent, and the row gets an indicator of that feature and value in its
place, so that what the absence says is learnt too.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.errors import Corrupt
from riata.learn.frozen import check_numbers
from riata.learn.slot_table import HASH_BITS
from riata.maths.hashing import FIELD_EQUALS
from riata.native.reading import hash_of
from riata.wire.batch import Batch

EVERY: Final = -1  # in place of a hash: all features
PARTS: Final = ("apart_feature", "apart_value")
INDICATORS_KEPT: Final = 4096


@dataclass(frozen=True, slots=True)
class Apart:
    """Values that are set apart.

    feature : i64[r]  the hash of the feature, or EVERY
    value   : f64[r]
    """

    feature: I64
    value: F64
    of: Mapping[float, frozenset[int]] = field(init=False, compare=False, repr=False)  # the features of each value

    def __post_init__(self) -> None:
        pairs = list(zip(self.value.tolist(), self.feature.tolist(), strict=True))
        object.__setattr__(self, "of", {value: frozenset(f for v, f in pairs if v == value) for value, _ in pairs})

    def hits(self, hash_: U32, value: F64) -> BOOL | None:
        """Which of some features have a value that is set apart; None for none of them."""
        found: BOOL | None = None
        for apart, features in self.of.items():
            equal = value == apart
            if equal.any():
                hit = equal if EVERY in features else equal & np.isin(hash_, list(features))
                found = hit if found is None else found | hit
        return None if found is None or not found.any() else found

    def rows(self, batch: Batch) -> Batch:
        """Rows as they are learnt and predicted: with an indicator in place of each value that is set apart."""
        hit = self.hits(batch.hash, batch.value)
        if hit is None:
            return batch
        hash_, value = batch.hash.copy(), batch.value.copy()
        pairs, of_pair = np.unique(np.stack([hash_[hit].astype(np.float64), value[hit]]), axis=1, return_inverse=True)
        indicators = np.array([indicator_of(int(feature), apart) for feature, apart in pairs.T.tolist()], np.uint32)
        hash_[hit], value[hit] = indicators[of_pair.ravel()], 1.0
        row = np.repeat(np.arange(batch.n), np.diff(batch.indptr))
        changed = np.zeros(batch.n, np.bool_)
        changed[row[hit]] = True
        at = np.flatnonzero(changed[row])
        order = at[np.lexsort((hash_[at], row[at]))]
        hash_[at], value[at] = hash_[order], value[order]
        return replace(batch, hash=hash_, value=value)

    def row(self, named: Sequence[tuple[int, float, list[str]]]) -> list[tuple[int, float, list[str], str]]:
        """One row likewise: hash, value and names of each feature, and what it is about, by increasing hash."""
        hits = self.hits(np.array([h for h, _, _ in named], np.uint32), np.array([x for _, x, _ in named], np.float64))
        made = [
            (indicator_of(h, x), 1.0, [f"{name} is {x:.17g}" for name in names], " + ".join(names))
            if hit
            else (h, x, names, " + ".join(names))
            for (h, x, names), hit in zip(named, [False] * len(named) if hits is None else hits.tolist(), strict=True)
        ]
        return sorted(made, key=lambda one: one[0])

    def parts(self) -> Arrays:
        """Copies of the arrays, by PARTS."""
        return dict(zip(PARTS, (np.array(self.feature), np.array(self.value)), strict=True))

    def document(self) -> list[dict[str, Any]]:
        """The same as JSON; a hash is null for all features."""
        pairs = zip(self.feature.tolist(), self.value.tolist(), strict=True)
        return [{"hash": None if feature == EVERY else feature, "value": value} for feature, value in pairs]


@lru_cache(maxsize=INDICATORS_KEPT)
def indicator_of(feature: int, value: float) -> int:
    """The hash of the indicator of a feature's value."""
    return hash_of(struct.pack("<d", value), feature, FIELD_EQUALS) >> HASH_BITS


def read_apart(arrays: Arrays) -> Apart:
    """Return what `parts` wrote. Raises `Corrupt`."""
    feature, value = (arrays[name] for name in PARTS)
    if feature.dtype != np.int64 or feature.ndim != 1:
        raise Corrupt("the features with values set apart are not a list of hashes")
    features = feature.astype(np.int64)
    if bool(((features < EVERY) | (features >= 2**HASH_BITS)).any()):
        raise Corrupt("a feature with values set apart is none")
    check_numbers(PARTS[1], value, len(features))
    return Apart(features, value.astype(np.float64))
