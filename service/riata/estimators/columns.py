"""From matrices to batches: the columns of a matrix are numeric features, with the hashes that a service would give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse

from riata.base.arrays import F64, I64, U32
from riata.base.limits import VALUE_ABS_MAX, WEIGHT_MAX
from riata.maths.hashing import NUMBER
from riata.native.reading import hash_of, normalise_l2
from riata.wire.batch import Batch
from riata.wire.codes import BAD_NAME, SLUGS
from riata.wire.names import Names
from riata.wire.scan import Refused, check_name

SMALLEST_NORMAL: Final = 2.0**-1022
VALUES_AT_ONCE: Final = 2**20  # of a dense matrix, zeros included: bounds the memory beside the matrix


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of the matrices that an estimator takes.

    names : fingerprint and name of each, in their order
    place : i64[d]  for each column the position of its feature among the features by increasing hash
    hash  : u32[f]  the hashes of the features, strictly increasing; fewer than columns if hashes coincide
    """

    names: Names
    place: I64
    hash: U32

    @classmethod
    def of(cls, names: Sequence[str], hash_key: int, known: Mapping[str, int] | None = None) -> Columns:
        """Make the columns of these names. Raises `ValueError` if a service would refuse a row with them.

        known : fingerprints of names that are not numeric features, such as `country=de`
        """
        pairs: dict[bytes, int] = {}
        for name in names:
            if name.encode() in pairs:
                raise ValueError(f"column {name[:64]!r} comes twice; rename one")
            found = (known or {}).get(name)
            pairs[name.encode()] = hash_of(_checked(name), hash_key, NUMBER) if found is None else found
        listed = Names.of([(fingerprint, name) for name, fingerprint in pairs.items()])
        hashes, place = np.unique((listed.fingerprint >> np.uint64(32)).astype(np.uint32), return_inverse=True)
        return cls(listed, place.astype(np.int64), hashes)

    def batches(self, x: Any, label: F64, weight: F64, l2: bool) -> Iterator[Batch]:
        """Yield the rows of a matrix in order: dense (f64[n, d]), or sparse in CSR form. `x` is not changed.

        label, weight : f64[n]; rows of weight zero are left out. l2 : the encoder's `normalise`

        Raises `ValueError` for values and weights that a service would refuse.
        """
        if float(weight.max(initial=0.0)) > WEIGHT_MAX:
            raise ValueError(f"sample_weight: {weight.max():g} is above {WEIGHT_MAX:g}, the largest importance of a row; divide")
        kept = np.flatnonzero(weight)
        if len(kept) < len(weight):
            x, label, weight = x[kept], label[kept], weight[kept]
        step = max(1, VALUES_AT_ONCE // max(1, x.shape[1])) if isinstance(x, np.ndarray) else max(1, len(label))
        for start in range(0, len(label), step):
            rows = slice(start, start + step)
            yield self._batch(x[rows], label[rows], weight[rows], l2)

    def _batch(self, x: Any, label: F64, weight: F64, l2: bool) -> Batch:
        indptr, place, value = self._summed(x)
        size = np.abs(value)
        if float(size.max(initial=0.0)) > VALUE_ABS_MAX:
            column = int(np.flatnonzero(self.place == place[int(size.argmax())])[0])
            name = self.names[column][1].decode()
            raise ValueError(f"column {name!r}: magnitude {size.max():g} is above {VALUE_ABS_MAX:g}; rescale the column")
        indptr, hashes, value = _without(size < SMALLEST_NORMAL, indptr, self.hash[place], value)
        if l2:
            indptr, hashes, value = _normalised(indptr, hashes, value)
        n = len(label)
        return Batch(indptr, hashes, value, label, weight, np.zeros((n, 16), np.uint8), np.zeros(n, np.bool_))

    def _summed(self, x: Any) -> tuple[I64, I64, F64]:
        """Return rows as (indptr, place, value), places strictly increasing in a row: values of one feature are summed."""
        if isinstance(x, np.ndarray):
            wide = np.zeros((len(x), len(self.hash)))
            if len(self.hash) == x.shape[1]:
                wide[:, self.place] = x
            else:
                np.add.at(wide.T, self.place, x.T)
            row, place = np.nonzero(wide)
            return _starts(row, len(x)), place, wide[row, place]
        shape = (x.shape[0], len(self.hash))
        rows = scipy.sparse.csr_array((x.data.astype(np.float64), self.place[x.indices], x.indptr.astype(np.int64)), shape=shape)
        rows.sum_duplicates()
        return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data


def _checked(name: str) -> bytes:
    """Return the UTF-8 of a name. Raises `ValueError` if a service would refuse it."""
    try:
        if not name:
            raise Refused(BAD_NAME)
        return check_name(name, name)
    except Refused as refused:
        raise ValueError(f"column {name[:64]!r}: {SLUGS[refused.refusal.code][1]}; rename it") from None


def _starts(row: I64, n: int) -> I64:
    return np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))]).astype(np.int64)


def _without(dropped: Any, indptr: I64, hashes: U32, value: F64) -> tuple[I64, U32, F64]:
    if not dropped.any():
        return indptr, hashes, value
    before = np.concatenate([[0], np.cumsum(~dropped)]).astype(np.int64)
    return before[indptr], hashes[~dropped], value[~dropped]


def _normalised(indptr: I64, hashes: U32, value: F64) -> tuple[I64, U32, F64]:
    """Divide each row by its length, as the readers do, so that the bits are those of a service."""
    return _without(normalise_l2(indptr, hashes, value), indptr, hashes, value)
