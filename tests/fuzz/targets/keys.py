"""The file of keys, and the header that is to match one."""

from __future__ import annotations

import contextlib
from typing import Final

from riata.base.errors import BadInput
from riata.web.auth.keys import KeyEntry, Unauthenticated, digest_of, entry_text, parse_keys, ring_of

TOKEN: Final = "riata_ci_" + "A" * 43
ENTRY: Final = KeyEntry("ci", digest_of(TOKEN), ["observe", "predict"], ["a", "b-1"], 2.5)
TOKENS: Final = (
    b"[[key]]\n", b'id = "', b'sha256 = "', b'scopes = ["observe", "admin"]', b'models = "*"', b"requests_per_s = 1e6",
    b"expires = 2027-01-31T00:00:00Z", b"0001-01-01T00:00:00+23:59", b"9999-12-31T23:59:59-23:59", b"Bearer riata_", b"inf",
)  # fmt: skip


def one_input(data: bytes) -> None:
    """First byte even: a file, refused as `BadInput` or encoded to one with the same content. Odd: an Authorization header."""
    if data[:1] and data[0] % 2:
        ring = ring_of([ENTRY])
        with contextlib.suppress(Unauthenticated):
            ring.find(data[1:], 0)
            if data[1:].partition(b" ")[2] != TOKEN.encode():
                raise AssertionError("an unknown key was accepted")
        return
    with contextlib.suppress(BadInput):
        entries = parse_keys(data[1:], "keys")
        ring_of(entries)
        if parse_keys("".join(map(entry_text, entries)).encode(), "keys") != entries:
            raise AssertionError("entries do not come back")


def starts() -> list[bytes]:
    """A file of two keys, an empty one, and headers."""
    text = entry_text(ENTRY).encode()
    other = entry_text(KeyEntry("x", "0" * 64, ["admin"], "*")).encode() + b"expires = 2027-01-31T00:00:00Z\n"
    return [b"\0" + text + other, b"\0", b"\1Bearer " + TOKEN.encode(), b"\1bearer riata_x_", b"\1Basic abc"]
