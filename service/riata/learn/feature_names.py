"""The hashes of features that settings name."""

from __future__ import annotations

from collections.abc import Iterator

from riata.maths.hashing import FIELD_EQUALS, FIELD_NAMESPACE, FIELD_WORD, NUMBER
from riata.native.reading import hash_of


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


def hashes_of(name: str, hash_key: int) -> list[int]:
    """Return the same as the hashes of 32 bits that rows have."""
    return [fingerprint >> 32 for fingerprint in fingerprints_of(name.encode(), hash_key)]
