"""The feature hash, version 1: 64-bit keyed mixing of a name in parts; its top 32 bits are the feature hash.

Theory of operation
    A name has one or two parts: a field, and its value. The hash of the first part is the key of the second. So a prefix
    (a JSON key, a namespace) is hashed once for all the values under it, and a separator inside a name cannot cause a collision.

        numeric feature      age = 41.5            H(key, NUMBER, "age")
        indicator            country = "de"        H(H(key, FIELD_EQUALS, "country"), NUMBER, "de")     shown as country=de
        word of a text       subject: "hello"      H(H(key, FIELD_WORD, "subject"), NUMBER, "hello")    shown as subject:hello
        namespace of VW      |user age:41          H(H(key, FIELD_NAMESPACE, "user"), NUMBER, "age")    shown as user^age
        cross of a and b     a, b fingerprints     H(a, CROSS, the eight bytes of b)                    service/native/rows.c

    H(key, tag, bytes):
        h = key ^ (length * M1) ^ (tag * M2)
        for each 8 bytes w, little endian, the last padded with zeros:   h = mix((h ^ w) * M1)
        return mix(h * M2)                  mix(h) = h ^ (h >> 32);   all arithmetic modulo 2^64

    The feature hash is the top 32 bits of H; a slot is the top `bits` bits of that. The full 64 bits are the name's
    fingerprint. `tests/golden/feature_hash.json` pins all of it: another function needs another version.
"""

from __future__ import annotations

import numpy as np

M1 = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd
M2 = np.uint64(0xD6E8FEB86659FD93)  # odd, from the same family of well-mixing multipliers
NUMBER = np.uint64(0)
FIELD_EQUALS = np.uint64(1)
FIELD_WORD = np.uint64(2)
FIELD_NAMESPACE = np.uint64(3)
CROSS = np.uint64(4)
