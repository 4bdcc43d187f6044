"""Reads a file in blocks of whole lines, for `riata fit`. A block fits a core's cache and is parsed in its read buffer."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from io import BufferedReader
from typing import Final, cast

from riata.base.arrays import U8
from riata.base.errors import Malformed
from riata.cli.source import LINE_BYTES_MAX
from riata.run.files.reading import Block, line_ends
from riata.wire.workspace import Workspaces

BLOCK_BYTES: Final = 2**20  # larger ones leave the caches between reading and learning, smaller ones cost more calls
HEAD_BYTES: Final = 2**18
ROWS_AIMED_AT: Final = 8000  # a block of more than 10,000 rows is read twice
_FIRST_BYTES: Final = 2**16  # of the first block of a long file, in addition to its head
_SAMPLE_BYTES: Final = 2**14  # of a block, whose rows are counted to guess how many the next one has


def head_of(source: BufferedReader) -> bytes:
    """Return the beginning of a file with at least its first line. The caller passes it to `blocks`."""
    head = source.read(HEAD_BYTES)
    while b"\n" not in head and len(head) <= LINE_BYTES_MAX and (more := source.read(HEAD_BYTES)):
        head += more
    return head


def blocks(
    source: BufferedReader, scratch: Workspaces, head: bytes = b"", block_bytes: int = BLOCK_BYTES, is_long: bool = False
) -> Iterator[Block]:
    """Yield the lines of `head` and of the rest of `source` in blocks of about `block_bytes`, each in its own scratch memory.

    is_long : begin with small blocks, each at most half as long as all before it. Until the first block is learnt, every
              occurrence of a name is listed, in untouched memory. That takes ten times as long as reading known names.
    Raises `Malformed` if a line is longer than the largest body of the service.
    """
    held, before = head, 0  # held: bytes in no block yet; before: bytes in earlier blocks
    wanted = _wanted(head, block_bytes)
    size = len(head) + _FIRST_BYTES if is_long else max(wanted, 2 * len(head))
    while True:
        lent = scratch.lend(max(wanted, size))
        room = lent.room(size)
        room.data[: len(held)] = held
        got = source.readinto(room[len(held) :].data)
        end = len(held) + got
        stop = _whole_lines(room[:end]) if got else end
        held = room[stop:end].tobytes()
        if stop:
            wanted = _wanted(room[: min(stop, _SAMPLE_BYTES)], block_bytes)
            before += stop
            yield Block(room[:stop], position(source), lent)
        else:
            scratch.give(lent)
        if not got:
            return
        if len(held) > LINE_BYTES_MAX:
            raise Malformed(f"{_place(source, before)} is longer than {LINE_BYTES_MAX} bytes")
        size = max(min(wanted, before // 2) if is_long else wanted, 2 * len(held))


def _wanted(sample: bytes | U8, most: int) -> int:
    """Return the size of a block that does not have too many rows, assuming rows as long as those of `sample`."""
    return min(most, max(len(sample) * ROWS_AIMED_AT // max(line_ends(sample), 1), 1))


def _whole_lines(room: U8) -> int:
    """Return the number of bytes up to and including the last newline."""
    tail = min(_SAMPLE_BYTES, len(room))
    while tail:
        found = room[len(room) - tail :].tobytes().rfind(b"\n") + 1
        if found or tail == len(room):
            return len(room) - tail + found if found else 0
        tail = min(2 * tail, len(room))
    return 0


def _place(source: BufferedReader, before: int) -> str:
    """Name the line after the first `before` bytes. It has a line number if the file is seekable, so lines can be counted."""
    if not source.seekable():
        return f"the line that begins after {before} bytes"
    source.seek(0)
    lines = 1
    while before > 0 and (part := source.read(min(before, BLOCK_BYTES))):
        lines, before = lines + part.count(b"\n"), before - len(part)
    return f"line {lines}"


def position(source: BufferedReader) -> int:
    """Return the bytes of the file read so far, compressed bytes if it is gzipped; 0 if it is not seekable."""
    packed = getattr(source, "fileobj", None) if isinstance(cast(object, source), gzip.GzipFile) else source
    return packed.tell() if packed is not None and packed.seekable() else 0
