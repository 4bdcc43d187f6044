"""Reads a file of events for sending: decompresses it, detects its format and splits it into request bodies.

Line numbers are kept with the lines, so that a row that the service rejects is reported with its line number in the file.
"""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final, cast

from riata.base.errors import BadInput, Malformed
from riata.base.frozen_dataclass import frozen_dataclass
from riata.wire.readers import FILE_READERS, reader_named

_BEFORE_A_ROW: Final = b"\xef\xbb\xbf \t"
GZIP_MAGIC: Final = b"\x1f\x8b"
SNIFF_LINES: Final = 50
BODY_BYTES: Final = 4 * 2**20  # a request ends at this size, even with fewer rows than allowed; a quarter of the service's limit
LINE_BYTES_MAX: Final = 2**24  # a line longer than the service's largest body means another kind of file
LOOKED_AT: Final = 64  # bytes
_PART_BYTES: Final = 2**16
_LEAST: Final = 8  # bytes of a file without a mark that are judged
_ZEROS_MIN: Final = 0.75  # of every second byte: the others are of another script
# UTF-32 before UTF-16, whose mark in little-endian order is the beginning of that of UTF-32.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ONE_BYTE: Final = ("cp1252", "latin1")  # as `iconv` calls them; every byte is a character of the second one


@frozen_dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one request. `numbers[i]` is the line in the file, from 1, of row i, and `lines[i]` the row."""

    body: bytes
    numbers: list[int]
    lines: list[bytes]


@contextmanager
def open_source(name: str) -> Iterator[BufferedReader]:
    """Open a file, or stdin for `-`. By its first bytes gzip is decompressed, and text in UTF-16 or UTF-32 read as UTF-8.
    Raises `BadInput`, `Malformed`."""
    try:
        raw = sys.stdin.buffer if name == "-" else Path(name).open("rb")  # noqa: SIM115 closed below
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror}", "no_file") from None
    plain = raw if isinstance(raw, BufferedReader) else BufferedReader(cast("RawIOBase", raw))
    try:
        packed = plain.peek(2)[:2] == GZIP_MAGIC
        unpacked = gzip.GzipFile(fileobj=cast("IO[bytes]", plain)) if packed else plain
        yield in_utf8(cast("BufferedReader", unpacked), name)
    except IsADirectoryError:
        raise BadInput(f"{name}: is a directory", "no_file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Malformed(f"{name}: the gzip stream is damaged: {error}") from None
    finally:
        if name != "-":
            plain.close()


def can_go_back(source: IO[bytes]) -> bool:
    """Whether a file can be read twice; gzip says that it can, and cannot if it comes through a pipe."""
    packed = source.fileobj if isinstance(source, gzip.GzipFile) else source
    return packed is not None and packed.seekable()


def numbered_lines(source: Iterable[bytes], start: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line without its line ending) of each row. Blank lines and comment lines are skipped."""
    for number, raw in enumerate(source, start):
        if len(raw) > LINE_BYTES_MAX:
            raise Malformed(f"line {number} is longer than {LINE_BYTES_MAX} bytes")
        line = raw.rstrip(b"\r\n")
        if line.strip() and not line.lstrip().startswith(b"#"):
            yield number, line


@frozen_dataclass(frozen=True, slots=True)
class Rows:
    """A file being read.

    form   : name of its format, in `FILE_READERS`
    head   : its first rows, which `lines` also yields
    header : its first line, if the format has a header; `lines` does not yield it
    """

    form: str
    head: list[bytes]
    lines: Iterator[tuple[int, bytes]]
    header: bytes = b""


def read_rows(source: Iterable[bytes], name: str, form: str = "auto") -> Rows:
    """Start reading a file in the format `form`; if that is `auto`, the format is detected from the first lines."""
    lines = numbered_lines(source)
    head = list(islice(lines, SNIFF_LINES))
    first = [line for _, line in head]
    known = form if form in FILE_READERS else recognise(first, name)
    if head and FILE_READERS[known].has_header:
        return Rows(known, first[1:], chain(head[1:], lines), first[0])
    return Rows(known, first, chain(head, lines))


def recognise(lines: Sequence[bytes], name: str) -> str:
    """Detect the format from the first lines of a file, and from its name if a line has no known format.

    Raises `Malformed` if no format is found, or more than one.
    """
    if not lines:
        raise Malformed(f"{name}: contains no rows", "empty_body")
    headed = [form for form, reader in FILE_READERS.items() if reader.has_header and _sniff(form, lines[0], name)]
    found = set(headed) or {_format_of(line, name) for line in lines}
    if len(found) > 1:
        raise Malformed(f"{name}: the first lines mix {' and '.join(sorted(found))}")
    return found.pop()


def line_type(form: str) -> str:
    """Return the media type under which lines of this format are sent."""
    return FILE_READERS[form].line_type


def cut_header(head: bytes) -> tuple[bytes, bytes, int]:
    """Cut the header off the beginning of a file: the header, what follows it, and how many lines were cut off."""
    for number, line in numbered_lines(head.split(b"\n")):
        return line, b"\n".join(head.split(b"\n")[number:]), number
    return b"", head, 0


def body_of(rows: bytes, header: bytes) -> bytes:
    """Return the body with these rows: the header before them, if there is one."""
    return header + b"\n" + rows if header else rows


def chunks(lines: Iterable[tuple[int, bytes]], rows: int, header: bytes = b"") -> Iterator[Chunk]:
    """Split lines into requests of at most `rows` rows and about `BODY_BYTES` bytes, each with the header if there is one."""
    held: list[bytes] = []
    numbers: list[int] = []
    size = 0
    for number, line in lines:
        if held and (len(held) == rows or size + len(line) > BODY_BYTES):
            yield Chunk(body_of(b"\n".join(held) + b"\n", header), numbers, held)
            held, numbers, size = [], [], 0
        held.append(line)
        numbers.append(number)
        size += len(line) + 1
    if held:
        yield Chunk(body_of(b"\n".join(held) + b"\n", header), numbers, held)


def _format_of(line: bytes, name: str) -> str:
    for form, reader in FILE_READERS.items():
        if not reader.has_header and _sniff(form, line, name):
            return form
    for form, reader in FILE_READERS.items():
        if name.removesuffix(".gz").endswith(reader.suffixes):
            return form
    shapes = either([*(reader.shape for reader in FILE_READERS.values()), "a table (--format csv)"])
    raise Malformed(f"{name}: unknown format; expected {shapes}")


def _sniff(form: str, line: bytes, name: str) -> bool:
    try:
        return reader_named(form)[1].sniff(line.lstrip(_BEFORE_A_ROW))
    except Malformed as error:
        raise Malformed(f"{name}: {error}") from None


def either(names: Sequence[str]) -> str:
    """Join names as "a, b or c"."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


# How the text of a file is encoded, judged by its first bytes: UTF-16 and UTF-32 are read, a byte order mark is left out.


def encoding_of(first: bytes) -> str:
    """Return the encoding of a text that begins with these bytes, as Python calls it; utf-8 unless they say otherwise.

    Without a mark, text of Latin letters in UTF-16 has a zero byte in every second place.
    """
    for mark, encoding in _MARKS:
        if first.startswith(mark):
            return encoding
    pairs = first[: len(first) // 2 * 2]
    low, high = pairs[::2], pairs[1::2]
    if len(pairs) < _LEAST:
        return "utf-8"
    if 0 not in low and high.count(0) >= _ZEROS_MIN * len(high):
        return "utf-16-le"
    return "utf-16-be" if 0 not in high and low.count(0) >= _ZEROS_MIN * len(low) else "utf-8"


def in_utf8(source: BufferedReader, name: str) -> BufferedReader:
    """Return a file of text as UTF-8 without a byte order mark; another encoding is read as what it is.

    Reading raises `Malformed` (code `invalid_utf8`) if the bytes are not of the encoding that they began as.
    """
    encoding = encoding_of(source.peek(LOOKED_AT)[:LOOKED_AT])
    if encoding == "utf-8":
        return source
    if encoding == "utf-8-sig":
        source.read(len(codecs.BOM_UTF8))
        return source
    return BufferedReader(Parts(_decoded(source, name, encoding)))


def not_utf8(name: str, error: UnicodeDecodeError) -> Malformed:
    """Return the error for a file that is not UTF-8, with the command that converts it."""
    return Malformed(f"{name}: not UTF-8: {advice(error.object[error.start : error.end + _PART_BYTES])}", "invalid_utf8")


def advice(wrong: bytes) -> str:
    """Say how to convert bytes that are not UTF-8."""
    encoding = next(one for one in _ONE_BYTE if _reads(wrong, one))
    byte = next(byte for byte in wrong if byte > 0x7F)
    shown = bytes([byte]).decode(encoding)
    meant = f"a byte 0x{byte:02x} is {shown!r} in {encoding}" if shown.isprintable() else f"it holds a byte 0x{byte:02x}"
    return f"{meant}; convert it, for example with `iconv -f {encoding} -t utf-8`"


def _reads(wrong: bytes, encoding: str) -> bool:
    try:
        wrong.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _decoded(source: IO[bytes], name: str, encoding: str) -> Iterator[bytes]:
    """Yield a text in another encoding as the bytes of UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)()
    part = b" "
    while part:
        part = source.read(_PART_BYTES)
        try:
            yield decoder.decode(part, final=not part).encode()
        except UnicodeError:
            told = f"it begins as {encoding.upper()}, and is not"
            raise Malformed(f"{name}: {told}; write it as UTF-8", "invalid_utf8") from None


class Parts(RawIOBase):
    """Parts of bytes, one after the other, as a file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer)
        while not self._held:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._held = memoryview(part)
        size = min(len(room), len(self._held))
        room[:size] = self._held[:size]
        self._held = self._held[size:]
        return size
