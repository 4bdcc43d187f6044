"""Bytes of a checkpoint: as they come, and with the digests made right again so that what they cover is reached."""

from __future__ import annotations

import contextlib
import struct
from typing import Final

import numpy as np

from riata.base.errors import Corrupt
from riata.store import layout
from riata.store.records import canonical_json

RAW: Final = 0x52  # the first byte of RIATACKP: input as it comes
TOKENS: Final = (
    b"RIATACKP", b'{"arrays":[', b'"name":"', b'"dtype":"<f8"', b'"dtype":"|b1"', b'"shape":[', b'"digest":"', b'],"header":{}}',
    b"1e999", b"NaN", b"18446744073709551616", b"-1", b"\\ud800", b"1.0", b"-0.0", b"<u4", b"<i8", b"<f4", b"|u1",
)  # fmt: skip


def one_input(data: bytes) -> None:
    """Accepted input encodes to the same bytes; other input is refused as `Corrupt`."""
    if data[:1] != bytes([RAW]):
        data = signed(data)
    with contextlib.suppress(Corrupt):
        header, arrays = layout.decode_checkpoint(data)
        if layout.encode_checkpoint(header, arrays) != data:
            raise AssertionError("a checkpoint was read that was never written")


def signed(data: bytes) -> bytes:
    """Read `data` as length of the header, header, body: a checkpoint of these with its header's digest right.

    Digests of the arrays, which the header holds, are put in where it has a run of 64 zeros, in turn.
    """
    length = int.from_bytes(data[1:3], "little")
    text, body = data[3 : 3 + length], data[3 + length :]
    digest = layout.checkpoint_digest(body[:8]).hex().encode()
    text = text.replace(b"0" * 64, digest)
    gap = bytes(-(56 + len(text)) % 8)
    prefix = struct.pack("<8sIIQ", layout.MAGIC, layout.FORMAT, len(text), 56 + len(text) + len(gap) + len(body))
    return prefix + layout.checkpoint_digest(prefix + text) + text + gap + body


def starts() -> list[bytes]:
    """A checkpoint as written, and the same to be signed again."""
    header = {"model": "m", "config": {"eta": 0.1}, "applied": 12}
    whole = layout.encode_checkpoint(header, {"a": np.array([0.1]), "b": np.array([True, False])})
    text = canonical_json({"arrays": [{"name": "a", "dtype": "<f8", "shape": [1], "digest": "0" * 64}], "header": header})
    return [whole, layout.encode_checkpoint({}, {}), b"\0" + len(text).to_bytes(2, "little") + text + struct.pack("<d", 0.1)]
