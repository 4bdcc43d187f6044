"""The structures of the learners: a batch of events."""

from __future__ import annotations

from typing import Any

import numpy as np

from riata.base.arrays import BOOL, U32
from riata.native.library import struct


def rows_struct(batch: Any, skip: BOOL, hashes: U32 | None = None) -> Any:
    """Return the `riata_rows` of a `Batch`; `hashes` are read instead of its own. Rows with a true `skip` are predicted only.

    Raises `ValueError` if the lengths of the arrays do not fit.
    """
    hashes, n = batch.hash if hashes is None else hashes, len(batch.label)
    if not len(batch.indptr) - 1 == n == len(batch.weight) <= len(skip) or len(hashes) != len(batch.value):
        raise ValueError("the arrays of a batch do not have the same lengths")
    return struct(
        "riata_rows",
        indptr=np.ascontiguousarray(batch.indptr, np.int64),
        hash=np.ascontiguousarray(hashes, np.uint32),
        value=np.ascontiguousarray(batch.value, np.float64),
        label=np.ascontiguousarray(batch.label, np.float64),
        weight=np.ascontiguousarray(batch.weight, np.float64),
        skip=skip,
        n=n,
        features=len(hashes),
    )
