"""Rows with features that a closed vocabulary does not hold are refused before they reach the log."""

from __future__ import annotations

from typing import Final

import numpy as np

from riata.base.arrays import BOOL, U32
from riata.wire.batch import Batch
from riata.wire.parsed import Parsed, RowError, without_rows

CODE: Final = "vocabulary_full"
LARGE: Final = 20_000  # features of a request; to look up more blocks the event loop for too long: about a millisecond


def within(parsed: Parsed, vocabulary: U32, bits: int) -> Parsed:
    """Return `parsed` without the rows that have other features, each of which becomes a row error.

    vocabulary : u32, strictly increasing: hash >> (32 - bits) of the features that may occur
    """
    keep = _known_rows(parsed.batch, vocabulary, bits)
    if bool(keep.all()):
        return parsed
    detail = (
        f"features: the model's vocabulary is full with {len(vocabulary)} features, and this row has another one; create a model"
        " with a larger features_max, or with a learner that accepts any number of features"
    )
    refused = [RowError(int(row), CODE, detail) for row in parsed.row[~keep]]
    return without_rows(parsed, keep, refused)


def _known_rows(batch: Batch, vocabulary: U32, bits: int) -> BOOL:
    """Return for each row whether all of its features are in the vocabulary."""
    keys = batch.hash >> np.uint32(32 - bits)
    at = np.minimum(np.searchsorted(vocabulary, keys), max(len(vocabulary) - 1, 0))
    strange = vocabulary[at] != keys if len(vocabulary) else np.ones(len(keys), np.bool_)
    strangers = np.concatenate([[0], np.cumsum(strange)])
    known: BOOL = strangers[batch.indptr[1:]] == strangers[batch.indptr[:-1]]
    return known
