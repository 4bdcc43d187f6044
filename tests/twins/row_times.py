"""Whether rows may have times, in plain Python."""

from __future__ import annotations

TWINS_OF = ("wire/row_times",)


def may_have_times(data: bytes, stop: int) -> bool:
    """Whether a string begins with the key, or an escape of a character below 4096 is there."""
    return b'"ts' in data[:stop] or b"\\u0" in data[:stop]
