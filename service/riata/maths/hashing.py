"""The feature hash, version 1: 64-bit keyed mixing of a name in parts; its top 32 bits are the feature hash.

Theory of operation
    A name has one or two parts: a field, and its value. The hash of the first part is the key of the second. So a prefix
    (a JSON key, a namespace) is hashed once for all the values under it, and a separator inside a name cannot cause a collision.

        numeric feature      age = 41.5            H(key, NUMBER, "age")
        indicator            country = "de"        H(H(key, FIELD_EQUALS, "country"), NUMBER, "de")     shown as country=de
        word of a text       subject: "hello"      H(H(key, FIELD_WORD, "subject"), NUMBER, "hello")    shown as subject:hello
        namespace of VW      |user age:41          H(H(key, FIELD_NAMESPACE, "user"), NUMBER, "age")    shown as user^age
        cross of a and b     a, b fingerprints     H(a, CROSS, the eight bytes of b)                    wire.scan.crossing

    H(key, tag, bytes):
        h = key ^ (length * M1) ^ (tag * M2)
        for each 8 bytes w, little endian, the last padded with zeros:   h = mix((h ^ w) * M1)
        return mix(h * M2)                  mix(h) = h ^ (h >> 32);   all arithmetic modulo 2^64

    The feature hash is the top 32 bits of H; a slot is the top `bits` bits of that. The full 64 bits are the name's
    fingerprint. `tests/golden/feature_hash.json` pins all of it: another function needs another version.
"""

from __future__ import annotations

import numpy as np

from riata.base.arrays import U8
from riata.jit.kernel import inline_kernel, kernel
from riata.jit.simd.bytes8 import load_word

M1 = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd
M2 = np.uint64(0xD6E8FEB86659FD93)  # odd, from the same family of well-mixing multipliers
NUMBER = np.uint64(0)
FIELD_EQUALS = np.uint64(1)
FIELD_WORD = np.uint64(2)
FIELD_NAMESPACE = np.uint64(3)
CROSS = np.uint64(4)
_32 = np.uint64(32)
_ALL = np.uint64(2**64 - 1)
_WORD_BYTES, _TWO_WORDS = 8, 16


@inline_kernel
def last_word(data: U8, at: int, stop: int) -> np.uint64:
    """The bytes at:stop, one to seven, padded with zeros. Source: this module's theory of operation."""
    word = np.uint64(0)
    if stop >= 8:  # the word that ends at `stop`, without the bytes before `at`
        word = load_word(data, stop - 8) >> np.uint64(8 * (8 - (stop - at)))
    else:
        for i in range(at, stop):
            word |= np.uint64(data[i]) << np.uint64(8 * (i - at))
    return word


@kernel
def hash_name(data: U8, start: int, stop: int, key: np.uint64, tag: np.uint64) -> np.uint64:
    """Hash the bytes start:stop of `data` under `key` and `tag`.

    Parameters
    ----------
    data : u8[...]     the whole body; read only
    start, stop : int  the name's bytes
    key : u64          the model's key, or the hash of the part before this one
    tag : u64          the kind of this part (NUMBER ends a name)

    Returns            the 64-bit fingerprint
    Cost               one multiplication for each 8 bytes
    Source             this module's theory of operation
    """
    h = key ^ (np.uint64(stop - start) * M1) ^ (tag * M2)
    at = start
    while at + 8 <= stop:
        h = (h ^ load_word(data, at)) * M1
        h ^= h >> _32
        at += 8
    if at < stop:
        h = (h ^ last_word(data, at, stop)) * M1
        h ^= h >> _32
    h *= M2
    return h ^ (h >> _32)


@inline_kernel
def hash_usual(data: U8, start: int, stop: int, key: np.uint64, tag: np.uint64) -> np.uint64:
    """`hash_name` without a loop for names of up to 16 bytes; 8 bytes must exist after `stop`. Source: as `hash_name`."""
    size = stop - start
    if size > _TWO_WORDS or size <= 0:
        return hash_name(data, start, stop, key, tag)
    h = key ^ (np.uint64(size) * M1) ^ (tag * M2)
    word = load_word(data, start)
    if size > _WORD_BYTES:
        h = (h ^ word) * M1
        h ^= h >> _32
        word = load_word(data, stop - _WORD_BYTES)
        word >>= np.uint64(8 * (_TWO_WORDS - size))
    else:
        word &= _ALL >> np.uint64(8 * (_WORD_BYTES - size))
    h = (h ^ word) * M1
    h ^= h >> _32
    h *= M2
    return h ^ (h >> _32)
