"""A file as blocks of whole lines, for `riata fit`: large enough that nothing done once a block counts."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from io import BufferedReader
from typing import Final, cast

from riata.base.errors import Malformed
from riata.cli.source import LINE_BYTES_MAX
from riata.run.fit import Block, line_ends

BLOCK_BYTES: Final = 2**20  # stays in the cache from reading to learning
ROWS_AIMED_AT: Final = 8000  # a block of more than 10,000 rows is read twice
_SAMPLE_BYTES: Final = 2**16  # of a block, whose rows are counted to guess how many the next one has
_COMMENT: Final = re.compile(rb"(?m)^[ \t]*#.*$")


def blocks(source: BufferedReader, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the lines of `source` in blocks of about `block_bytes`, lines that are wholly a comment left blank.

    Raises `Malformed` where a line is longer than the largest body of the service.
    """
    room = bytearray(block_bytes)
    held, before = 0, 0  # held: bytes of an unfinished line at the start of `room`
    wanted = _wanted(source.peek(1), block_bytes)
    while True:
        if held > LINE_BYTES_MAX:
            raise Malformed(f"{_place(source, before)} is longer than {LINE_BYTES_MAX} bytes")
        room += bytes(max(held + wanted - len(room), 0))
        with memoryview(room) as view, view[held : held + wanted] as free:
            got = source.readinto(free)
        stop = room.rfind(b"\n", held, held + got) + 1 if got else held
        held += got
        if stop:
            with memoryview(room) as view:
                body = bytes(view[:stop])
            yield Block(_without_comments(body), position(source))
            before += stop
            wanted = _wanted(body[:_SAMPLE_BYTES], block_bytes)
            room[: held - stop] = room[stop:held]
            held -= stop
        if not got:
            return


def _wanted(sample: bytes, most: int) -> int:
    """Bytes of a block that has not too many rows, if they are as long as those of `sample`."""
    return min(most, max(len(sample) * ROWS_AIMED_AT // max(line_ends(sample), 1), 1))


def _place(source: BufferedReader, before: int) -> str:
    """Name the line behind the first `before` bytes: by its number, where what was read can be read again to count."""
    if not source.seekable():
        return f"the line that begins after {before} bytes"
    source.seek(0)
    lines = 1
    while before > 0 and (part := source.read(min(before, BLOCK_BYTES))):
        lines, before = lines + part.count(b"\n"), before - len(part)
    return f"line {lines}"


def position(source: BufferedReader) -> int:
    """Bytes of the file that were read so far, packed ones where it is packed; 0 where it has no positions."""
    packed = getattr(source, "fileobj", None) if isinstance(cast(object, source), gzip.GzipFile) else source
    return packed.tell() if packed is not None and packed.seekable() else 0


def _without_comments(body: bytes) -> bytes:
    return _COMMENT.sub(b"", body) if b"#" in body else body
