"""The export of a model: one checkpoint with the names of its features, which is all that another service needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt, Malformed
from riata.learn.learner import Weights
from riata.learn.slot_table import HASH_BITS
from riata.run.state.model_state import ModelState
from riata.store import layout
from riata.wire.names import NOTHING_NAMED, Names

NAMES = "names."  # prefix of the arrays that hold the names of an export's weights
_FINGERPRINT_BITS = 64


def write_export(header: Mapping[str, Any], arrays: Arrays, names: Names, weights: Weights) -> bytes:
    """Return the bytes of an export: a checkpoint with those `names` whose slot has a weight, or that are of a column with a
    shape."""
    in_use = np.isin(names.fingerprint >> np.uint64(_FINGERPRINT_BITS - weights.bits), weights.slot)
    if weights.cells is not None:
        in_use |= np.isin(names.fingerprint >> np.uint64(_FINGERPRINT_BITS - HASH_BITS), weights.cells.column)
    return layout.encode_checkpoint(header, {**arrays, **pack_names(names.take(in_use.view(np.uint8)))})


def read_export(content: bytes) -> tuple[ModelState, Names]:
    """Return the state in an export, and its names. Raises `Malformed` (code `not_an_export`)."""
    try:
        header, arrays = layout.decode_checkpoint(content)
        state = ModelState.thaw(header, arrays)
    except Corrupt as error:
        raise Malformed(f"not an export of a model, or damaged: {error.detail}", "not_an_export") from None
    return state, _unpack_names(arrays)


def pack_names(names: Names) -> Arrays:
    """Return names as the arrays of an export."""
    return {NAMES + "fingerprint": names.fingerprint, NAMES + "length": names.length, NAMES + "text": names.text}


def _unpack_names(arrays: Arrays) -> Names:
    if NAMES + "text" not in arrays:
        return NOTHING_NAMED
    names = Names.of_arrays(*(arrays.get(NAMES + part, np.zeros(0)) for part in ("fingerprint", "length", "text")))
    if names is None:
        raise Malformed("the lengths of the names in this export do not add up", "not_an_export")
    try:
        for _, name in names:
            name.decode()
    except UnicodeDecodeError:
        raise Malformed("a name in this export is not UTF-8", "not_an_export") from None
    return names
