"""Penalties of single features. A configuration names the features; a learner identifies them by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from riata.base.arrays import I64
from riata.learn.taylor_sketch.config import TaylorSketchConfig, key_bits
from riata.learn.taylor_sketch.kernel_state import Own, key_map
from riata.maths.hashing import FIELD_EQUALS, FIELD_NAMESPACE, FIELD_WORD, NUMBER
from riata.native.library import core
from riata.native.reading import hash_of

_FINGERPRINT_BITS: Final = 64
_PLACES_MIN: Final = 16


def places_for(keys: int) -> I64:
    """Return an empty map (`key_map`) for `keys` keys. It is at most an eighth full, so a lookup rarely needs a second probe."""
    return np.zeros(max(_PLACES_MIN, 1 << (8 * keys - 1).bit_length()), np.int64)


def own_penalties(config: TaylorSketchConfig, bits: int, hash_key: int) -> Own:
    """Return the penalties of `gamma_of` by key. If two names share a key, the later one applies."""
    width = key_bits(config, bits)
    gamma: dict[int, float] = {}
    for own in config.gamma_of:
        for fingerprint in fingerprints_of(own.feature.encode(), hash_key):
            gamma[fingerprint >> (_FINGERPRINT_BITS - width)] = float(own.gamma)
    key = np.array(list(gamma), np.int64)
    place = places_for(len(key))
    core.fill_key_map(key_map(place), key, len(key))
    return Own(place, key, np.array(list(gamma.values()), np.float64))


def fingerprints_of(name: bytes, hash_key: int) -> Iterator[int]:
    """Yield every fingerprint that a feature with this displayed name may have: `age`, `country=de`, `subject:free`, `user^age`.

    A name is ambiguous: a numeric feature may be called "country=de". All readings are yielded. Readings that occur in no event
    have no effect.
    """
    yield from _readings(name, hash_key)
    space, found, rest = name.partition(b"^")
    if found:
        yield from _readings(rest, hash_of(space, hash_key, FIELD_NAMESPACE))


def _readings(name: bytes, prefix: int) -> Iterator[int]:
    yield hash_of(name, prefix, NUMBER)
    for separator, tag in ((b"=", FIELD_EQUALS), (b":", FIELD_WORD)):
        field, found, said = name.partition(separator)
        if found:
            yield hash_of(said, hash_of(field, prefix, tag), NUMBER)
