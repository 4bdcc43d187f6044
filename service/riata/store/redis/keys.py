"""Names of all keys of a Redis store, and bucket sizes of the dedupe index.

Every key begins with the same hash tag, so all keys of a store are in one slot of a cluster. One script may use any of them,
and any surviving prefix of the server's append-only file is a consistent snapshot of all of them.
"""

from __future__ import annotations

import re
from typing import Final

from riata.base.errors import BadInput

FORMAT: Final = 1  # of the keys and their content
NAMESPACE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
ASIDE: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
BUCKET_IDS_MAX: Final = 100  # on average; a lookup reads half a bucket, and Redis stores up to 512 in one compact block
BUCKET_BITS_MAX: Final = 24


class Keys:
    """Names of the keys of one namespace. aside : the name under which a model was set aside, for a store that has only it"""

    def __init__(self, namespace: str, aside: str = "") -> None:
        """Raises `BadInput` (code `bad_namespace`) unless it is 1 to 64 letters, digits, `_`, `.` and `-`."""
        if not NAMESPACE.fullmatch(namespace):
            raise BadInput(f"namespace {namespace!r}: expected 1 to 64 letters, digits, _ . and -", "bad_namespace")
        self.prefix = f"{{riata:{namespace}}}:".encode()
        self.own = self.prefix + b"own"
        self.models = self.prefix + (b"aside:" + aside.encode() if aside else b"models")
        self._meta = b"aside" if aside else b"meta"
        self.dead = self.prefix + b"dead"
        self.processes = self.prefix + b"processes"
        self.used = self.prefix + b"used"
        self.subject = self.prefix + b"subject"

    def ticket(self, source: str) -> bytes:
        """Key of the last ticket and answer of one appending store object."""
        return self.prefix + b"p:" + source.encode()

    def of(self, number: int) -> ModelKeys:
        """The keys of one incarnation of a model."""
        return ModelKeys(self.prefix + b"m:%d:" % number, self._meta)


class ModelKeys:
    """Names of the keys of one incarnation of a model."""

    def __init__(self, prefix: bytes, meta: bytes) -> None:
        self.prefix = prefix
        self.meta = prefix + meta
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
        """Bitmap of the buckets that exist for a range of events."""
        return self.prefix + b"d:%d" % span

    def bucket(self, span: int, bucket: int) -> bytes:
        """The ids of a range of events whose leading bits are `bucket`."""
        return self.prefix + b"d:%d:%d" % (span, bucket)


def bucket_bits(window: int) -> int:
    """Return how many leading bits of an id select its bucket, for a dedupe window of `window` events."""
    return min(max((window - 1) // BUCKET_IDS_MAX, 0).bit_length(), BUCKET_BITS_MAX)


def bucket_of(event_id: bytes, bits: int) -> int:
    """Return the bucket of an id."""
    return int.from_bytes(event_id[:4], "big") >> (32 - bits)
