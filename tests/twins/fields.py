"""The slow twin of the table of fields: kinds by name in a dictionary, and names taken apart at each place where they may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from riata.wire.given import ABSENT
from tests.twins.hashing import TAGS, hash_name

TWINS_OF = ("fields",)
SPLITS_MAX = 8


def fields_of(names: Iterable[tuple[int, bytes]], key: int) -> list[tuple[bytes, str]]:
    """Return the fields that names tell, each with the kind of the first name of it."""
    found: dict[int, tuple[bytes, str]] = {}
    for fingerprint, name in names:
        field = field_of(fingerprint, name, key)
        if field is not None:
            found.setdefault(field[0], field[1:])
    return list(found.values())


def field_of(fingerprint: int, name: bytes, key: int) -> tuple[int, bytes, str] | None:
    """Return the hash of the field, its name and the kind that a name tells; None if it tells none."""
    found = _field_in(fingerprint, name, key, b"=")
    for space, inner in () if found else _splits(name, b"^"):
        if inside := _field_in(fingerprint, inner, hash_name(space, key, TAGS["namespace"]), b":"):
            return inside[0], space + b"^" + inside[1], inside[2]
    return found


def _field_in(fingerprint: int, name: bytes, key: int, between: bytes) -> tuple[int, bytes, str] | None:
    if hash_name(name, key, TAGS["number"]) == fingerprint:
        return fingerprint, name, "number"
    for field, value in _splits(name, between):
        if hash_name(value, hash_name(field, key, TAGS["equals"]), TAGS["number"]) == fingerprint:
            return None if value.decode().lower() in ABSENT else (hash_name(field, key, TAGS["number"]), field, "category")
    return None


def _splits(name: bytes, at: bytes) -> Iterator[tuple[bytes, bytes]]:
    parts = name.split(at)
    for k in range(1, min(len(parts), SPLITS_MAX + 1)):
        yield at.join(parts[:k]), at.join(parts[k:])
