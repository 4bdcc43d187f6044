"""A file of events as bodies to send: unpacked, its format recognised, cut into requests.

Line numbers are kept beside the lines, so that a row the service refuses is named by its place in the file.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from itertools import chain, islice
from pathlib import Path
from typing import IO, Final, Literal, cast

from riata.base.errors import BadInput, Malformed

Format = Literal["ndjson", "vw", "svmlight"]
CONTENT_TYPES: Final[dict[Format, str]] = {
    "ndjson": "application/x-ndjson",
    "vw": "text/x-vw",
    "svmlight": "text/x-svmlight",
}
GZIP_MAGIC: Final = b"\x1f\x8b"
SNIFF_LINES: Final = 50
BODY_BYTES: Final = 4 * 2**20  # a request is closed at this size although more rows would fit; a quarter of the service's bound
LINE_BYTES_MAX: Final = 2**24  # a line longer than the service's largest body can only be a file of another kind


@dataclass(frozen=True, slots=True)
class Chunk:
    """The lines of one request. `numbers[i]` is the line in the file, from 1, of row i."""

    body: bytes
    numbers: list[int]


@contextmanager
def open_source(name: str) -> Iterator[BufferedReader]:
    """Open a file, or standard input for `-`, unpacking gzip by its first bytes. Raises `BadInput`, `Malformed`."""
    try:
        raw = sys.stdin.buffer if name == "-" else Path(name).open("rb")  # noqa: SIM115 closed below
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror}", "no_file") from None
    plain = raw if isinstance(raw, BufferedReader) else BufferedReader(cast("RawIOBase", raw))
    try:
        packed = plain.peek(2)[:2] == GZIP_MAGIC
        unpacked = gzip.GzipFile(fileobj=cast("IO[bytes]", plain)) if packed else plain
        yield cast("BufferedReader", unpacked)
    except IsADirectoryError:
        raise BadInput(f"{name}: is a directory", "no_file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Malformed(f"{name}: the gzip stream is damaged: {error}") from None
    finally:
        if name != "-":
            plain.close()


def numbered_lines(source: Iterable[bytes], start: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that hold a row, without their ends, with their numbers: not blank, not wholly a comment."""
    for number, raw in enumerate(source, start):
        if len(raw) > LINE_BYTES_MAX:
            raise Malformed(f"line {number} is longer than {LINE_BYTES_MAX} bytes")
        line = raw.rstrip(b"\r\n")
        if line.strip() and not line.lstrip().startswith(b"#"):
            yield number, line


@dataclass(frozen=True, slots=True)
class Rows:
    """A file being read. head: its first lines, which are also the first of `lines`."""

    form: Format
    head: list[bytes]
    lines: Iterator[tuple[int, bytes]]


def read_rows(source: Iterable[bytes], name: str, form: str = "auto") -> Rows:
    """Begin to read a file whose format is `form`, or is told from its first lines where that is `auto`."""
    lines = numbered_lines(source)
    head = list(islice(lines, SNIFF_LINES))
    first = [line for _, line in head]
    known = next((known for known in CONTENT_TYPES if known == form), None)
    return Rows(known or recognise(first, name), first, chain(head, lines))


def recognise(lines: Iterable[bytes], name: str) -> Format:
    """Tell the format from the first lines of a file. Raises `Malformed` where it is none of them, or they disagree."""
    found = {_format_of(line, name) for line in lines}
    if len(found) == 1:
        return found.pop()
    if not found:
        raise Malformed(f"{name}: holds no rows", "empty_body")
    raise Malformed(f"{name}: its first lines look like {' and '.join(sorted(found))}")


def chunks(lines: Iterable[tuple[int, bytes]], rows: int) -> Iterator[Chunk]:
    """Cut lines into requests of at most `rows` rows and about `BODY_BYTES` bytes."""
    held: list[bytes] = []
    numbers: list[int] = []
    size = 0
    for number, line in lines:
        if held and (len(held) == rows or size + len(line) > BODY_BYTES):
            yield Chunk(b"\n".join(held) + b"\n", numbers)
            held, numbers, size = [], [], 0
        held.append(line)
        numbers.append(number)
        size += len(line) + 1
    if held:
        yield Chunk(b"\n".join(held) + b"\n", numbers)


def _format_of(line: bytes, name: str) -> Format:
    text = line.lstrip(b"\xef\xbb\xbf \t")
    if text.startswith(b"["):
        raise Malformed(f"{name}: holds a JSON array; write one object a line")
    if text.startswith(b"{"):
        return "ndjson"
    if b"|" in text:
        return "vw"
    if _is_svmlight(text.split(b"#")[0].split()):
        return "svmlight"
    raise Malformed(f"{name}: not recognised; rows are JSON objects, VW text (label | features) or svmlight (label index:value)")


def _is_svmlight(words: list[bytes]) -> bool:
    pairs = [word.partition(b":") for word in words[1:] if not word.startswith(b"qid:")]
    return bool(words) and _is_number(words[0]) and all(index.isdigit() and _is_number(value) for index, _, value in pairs)


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
