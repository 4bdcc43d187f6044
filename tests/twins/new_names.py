"""New names of a request, with dictionaries and byte strings."""

from __future__ import annotations

TWINS_OF = ("rows",)

_BETWEEN = (b"", b"=", b":", b"^")


def first_found(fingerprints: list[int], kinds: list[int]) -> list[int]:
    """Where each fingerprint comes for the first time, parts (32) left out."""
    whole = [fingerprint for fingerprint, kind in zip(fingerprints, kinds, strict=True) if not kind & 32]
    places = [i for i, kind in enumerate(kinds) if not kind & 32]
    return [place for k, place in enumerate(places) if whole[k] not in whole[:k]]


def shown(data: bytes, kind: int, span: tuple[int, int, int, int], slow: list[bytes]) -> bytes:
    """One name as it is shown."""
    a, b, c, d = span
    if a < 0:
        return slow[b]
    return data[c:d] if kind & 3 == 0 else data[a:b] + _BETWEEN[kind & 3] + data[c:d]
