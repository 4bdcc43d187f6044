"""How the text of a file is encoded, judged by its first bytes: UTF-16 and UTF-32 are read, a byte order mark is left out."""

from __future__ import annotations

import codecs
from io import BufferedReader, RawIOBase
from typing import IO, Any, Final

from riata.base.errors import Malformed

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
    return BufferedReader(_Decoded(source, name, encoding))


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


class _Decoded(RawIOBase):
    """A text in another encoding as the bytes of UTF-8."""

    def __init__(self, source: IO[bytes], name: str, encoding: str) -> None:
        self._source, self._name, self._encoding = source, name, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer)
        while not self._held:
            part = self._source.read(_PART_BYTES)
            try:
                self._held = memoryview(self._decoder.decode(part, final=not part).encode())
            except UnicodeError:
                told = f"it begins as {self._encoding.upper()}, and is not"
                raise Malformed(f"{self._name}: {told}; write it as UTF-8", "invalid_utf8") from None
            if not part:
                break
        size = min(len(room), len(self._held))
        room[:size] = self._held[:size]
        self._held = self._held[size:]
        return size
