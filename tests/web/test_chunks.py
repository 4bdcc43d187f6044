"""Bodies in chunks: their end is found as httptools finds it, however they are cut."""

from __future__ import annotations

import random

import httptools
import pytest

from riata.web.server import bounds
from riata.web.server.bounds import Refused
from riata.web.server.framing import FRAMING_BYTES_MAX, LINE_BYTES_MAX, ChunkedBody

HEAD = b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"


class Seen:
    """A body as httptools reads it."""

    def __init__(self) -> None:
        self.body = b""
        self.done = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(HEAD)

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.done = True


def scanned(data: bytes, cut: random.Random | None = None) -> tuple[ChunkedBody, int]:
    """Scan `data`, in pieces if these are given; returns the scanner and the number of bytes it consumed."""
    scanner, taken = ChunkedBody(), 0
    while taken < len(data) and not scanner.done:
        size = len(data) - taken if cut is None else cut.randint(1, 5)
        taken += scanner.feed(data[taken : taken + size])
    return scanner, taken


def test_the_end_is_found_however_the_body_is_cut() -> None:
    chance = random.Random(3)
    for _ in range(300):
        parts = [bytes(chance.randrange(256) for _ in range(chance.randint(1, 40))) for _ in range(chance.randint(0, 5))]
        sizes = [b"%x%b" % (len(part), chance.choice((b"", b";a", b";a=b", b';a="b c";d'))) for part in parts]
        body = b"".join(b"%b\r\n%b\r\n" % pair for pair in zip(sizes, parts, strict=True)) + b"0\r\n\r\n"
        for cut in (None, chance):
            scanner, taken = scanned(body + b"GET / HTTP/1.1\r\n", cut)
            assert (scanner.done, taken, scanner.size) == (True, len(body), sum(map(len, parts)))
            assert scanner.take() == b"".join(parts)
            assert scanner.framing_bytes == len(body) - scanner.size


MALFORMED = [
    b"g\r\n", b"\r\n", b"-1\r\na\r\n", b"1 \r\na\r\n", b"1\na\n", b"1\r\nab\r\n", b"1\r\na\n0\r\n\r\n", b"1\r\na\rb",
    b"0x1\r\na\r\n", b"f" * 17 + b"\r\n", b"1;\x01\r\na\r\n", b"1;a\x80\r\na\r\n",
]  # fmt: skip
TOO_MUCH = [b"0\r\nA: b\r\n\r\n", b"0\r\nA", b"1;a=" + b"b" * (LINE_BYTES_MAX + 1), b"1;a=b\r\na\r\n" * FRAMING_BYTES_MAX]


@pytest.mark.parametrize(
    ("body", "answer"), [*((b, bounds.MALFORMED) for b in MALFORMED), *((b, bounds.BAD_CHUNKS) for b in TOO_MUCH)]
)
@pytest.mark.parametrize("whole", [True, False])
def test_an_invalid_body_is_refused(body: bytes, answer: bounds.Refusal, whole: bool) -> None:
    if len(body) > 2**18:
        body = body.replace(b"1;a=b\r\na", b"1;" + b"a" * 60 + b"\r\na")
    with pytest.raises(Refused) as refused:
        scanned(body, None if whole else random.Random(1))
    assert refused.value.answer is answer


def test_bodies_that_the_scanner_accepts_are_accepted_by_httptools() -> None:
    chance, ended = random.Random(9), 0
    pieces = [b"\r\n", b"\n", b"\r", b"0", b"1", b"a", b";", b"=", b'"', b" ", b"5\r\nhello\r\n", b"0\r\n\r\n", b"\t", b"\x80"]
    for _ in range(20_000):
        body = bytearray(b"5\r\nhello\r\n3;a=b\r\nyou\r\n0\r\n\r\n")
        for _ in range(chance.randint(0, 2)):
            at = chance.randrange(len(body) + 1)
            body[at : at + chance.choice((0, 1, 1, 2))] = chance.choice(pieces)
        data = bytes(body)
        try:
            scanner, taken = scanned(data)
        except Refused:
            continue
        if scanner.done:
            seen = Seen()
            seen.parser.feed_data(data[:taken])
            assert seen.done, data
            assert scanner.take() == seen.body
            ended += 1
    assert ended > 3000
