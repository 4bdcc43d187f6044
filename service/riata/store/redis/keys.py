"""The names of all keys of a Redis store, and the sizes that decide them.

Every key begins with the same braced tag, so all of a store lies in one slot of a cluster: one script may touch any of them,
and any surviving prefix of the server's log is a consistent cut through all of them.
"""

from __future__ import annotations

import re
from typing import Final

from riata.base.errors import BadInput

FORMAT: Final = 1  # of the keys and what is in them
NAMESPACE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
BUCKET_IDS_MAX: Final = 100  # on average: a lookup reads half of it, and Redis keeps up to 512 in one compact block
BUCKET_BITS_MAX: Final = 24


class Keys:
    """Names of the keys of one namespace."""

    def __init__(self, namespace: str) -> None:
        """Raises `BadInput` (code `bad_namespace`) unless it is 1 to 64 letters, digits, `_`, `.` and `-`."""
        if not NAMESPACE.fullmatch(namespace):
            raise BadInput(f"namespace {namespace!r}: expected 1 to 64 letters, digits, _ . and -", "bad_namespace")
        self.prefix = f"{{riata:{namespace}}}:".encode()
        self.own = self.prefix + b"own"
        self.models = self.prefix + b"models"
        self.dead = self.prefix + b"dead"

    def ticket(self, source: str) -> bytes:
        """The last answer to one store object that appends."""
        return self.prefix + b"p:" + source.encode()

    def of(self, number: int) -> ModelKeys:
        """The keys of one incarnation of a model."""
        return ModelKeys(self.prefix + b"m:%d:" % number)


class ModelKeys:
    """Names of the keys of one incarnation of a model."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.meta = prefix + b"meta"
        self.log = prefix + b"log"
        self.names = prefix + b"names"
        self.gens = prefix + b"gens"
        self.stage = prefix + b"stage"
        self.editions = prefix + b"ed"
        self.rows = prefix + b"r"
        self.times = prefix + b"rt"

    def chunks(self, gen: int) -> bytes:
        """The chunks of a generation, by index."""
        return self.prefix + b"c:%d" % gen

    def pieces(self, number: int) -> bytes:
        """The pieces of an edition, by index."""
        return self.prefix + b"e:%d" % number

    def bitmap(self, span: int) -> bytes:
        """Which buckets of a range of events have been begun."""
        return self.prefix + b"d:%d" % span

    def bucket(self, span: int, bucket: int) -> bytes:
        """The ids of a range of events whose leading bits are `bucket`."""
        return self.prefix + b"d:%d:%d" % (span, bucket)


def bucket_bits(window: int) -> int:
    """How many leading bits of an id choose its bucket, where `window` events are remembered."""
    return min(max((window - 1) // BUCKET_IDS_MAX, 0).bit_length(), BUCKET_BITS_MAX)


def bucket_of(event_id: bytes, bits: int) -> int:
    """The bucket of an id."""
    return int.from_bytes(event_id[:4], "big") >> (32 - bits)
