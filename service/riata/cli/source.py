"""Reads a file of events for sending: decompresses it, detects its format and splits it into request bodies.

Line numbers are kept with the lines, so that a row that the service rejects is reported with its line number in the file.
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
BODY_BYTES: Final = 4 * 2**20  # a request ends at this size, even with fewer rows than allowed; a quarter of the service's limit
LINE_BYTES_MAX: Final = 2**24  # a line longer than the service's largest body means another kind of file


@dataclass(frozen=True, slots=True)
class Chunk:
    """The lines of one request. `numbers[i]` is the line in the file, from 1, of row i."""

    body: bytes
    numbers: list[int]


@contextmanager
def open_source(name: str) -> Iterator[BufferedReader]:
    """Open a file, or stdin for `-`; gzip is detected by its first bytes and decompressed. Raises `BadInput`, `Malformed`."""
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
    """Yield (line number, line without its line ending) of each row. Blank lines and comment lines are skipped."""
    for number, raw in enumerate(source, start):
        if len(raw) > LINE_BYTES_MAX:
            raise Malformed(f"line {number} is longer than {LINE_BYTES_MAX} bytes")
        line = raw.rstrip(b"\r\n")
        if line.strip() and not line.lstrip().startswith(b"#"):
            yield number, line


@dataclass(frozen=True, slots=True)
class Rows:
    """A file being read. head: its first lines, which `lines` also yields."""

    form: Format
    head: list[bytes]
    lines: Iterator[tuple[int, bytes]]


def read_rows(source: Iterable[bytes], name: str, form: str = "auto") -> Rows:
    """Start reading a file in the format `form`; if that is `auto`, the format is detected from the first lines."""
    lines = numbered_lines(source)
    head = list(islice(lines, SNIFF_LINES))
    first = [line for _, line in head]
    known = next((known for known in CONTENT_TYPES if known == form), None)
    return Rows(known or recognise(first, name), first, chain(head, lines))


def recognise(lines: Iterable[bytes], name: str) -> Format:
    """Detect the format from the first lines of a file. Raises `Malformed` if a line has no known format or they differ."""
    found = {_format_of(line, name) for line in lines}
    if len(found) == 1:
        return found.pop()
    if not found:
        raise Malformed(f"{name}: contains no rows", "empty_body")
    raise Malformed(f"{name}: the first lines mix {' and '.join(sorted(found))}")


def chunks(lines: Iterable[tuple[int, bytes]], rows: int) -> Iterator[Chunk]:
    """Split lines into requests of at most `rows` rows and about `BODY_BYTES` bytes."""
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
        raise Malformed(f"{name}: contains a JSON array; write one object per line")
    if text.startswith(b"{"):
        return "ndjson"
    if b"|" in text:
        return "vw"
    if _is_svmlight(text.split(b"#")[0].split()):
        return "svmlight"
    raise Malformed(f"{name}: unknown format; expected JSON objects, VW text (label | features) or svmlight (label index:value)")


def _is_svmlight(words: list[bytes]) -> bool:
    pairs = [word.partition(b":") for word in words[1:] if not word.startswith(b"qid:")]
    return bool(words) and _is_number(words[0]) and all(index.isdigit() and _is_number(value) for index, _, value in pairs)


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
