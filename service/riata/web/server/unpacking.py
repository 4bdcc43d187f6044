"""Unpacking of compressed request bodies, part by part as they arrive, in pieces of bounded size."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from riata.base.errors import Malformed, Unsupported

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE_BYTES: Final = 256 * 2**10  # unpacked in less than a millisecond
WINDOW_LOG_MAX: Final = 23  # 8 MiB, the most that a frame may ask a decoder of HTTP content for (RFC 9659)
_GZIP_FORMAT: Final = 16  # of zlib: with the header and the checksum of gzip


class Frame(Protocol):
    """A gzip member or a zstd frame that is being unpacked."""

    @property
    def ended(self) -> bool:
        """Whether all of it was unpacked."""

    def unpack(self, packed: bytes) -> tuple[bytes, bytes]:
        """Return at most PIECE_BYTES, and what of `packed` has to be given again. Nothing of both: more has to arrive."""


class GzipMember:
    """A gzip member."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | _GZIP_FORMAT)

    @property
    def ended(self) -> bool:
        return self._member.eof

    def unpack(self, packed: bytes) -> tuple[bytes, bytes]:
        piece = self._member.decompress(packed, PIECE_BYTES)
        return piece, self._member.unused_data if self._member.eof else self._member.unconsumed_tail


class ZstdFrame:
    """A zstd frame. It keeps the input that it has not used."""

    def __init__(self) -> None:
        self._frame = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG_MAX})

    @property
    def ended(self) -> bool:
        return bool(self._frame.eof)

    def unpack(self, packed: bytes) -> tuple[bytes, bytes]:
        piece = self._frame.decompress(packed, PIECE_BYTES)
        return piece, self._frame.unused_data if self._frame.eof else b""


_FORMATS: Final[dict[bytes, tuple[Callable[[], Frame], str]]] = {
    b"gzip": (GzipMember, "bad_gzip"),
    b"x-gzip": (GzipMember, "bad_gzip"),
    b"zstd": (ZstdFrame, "bad_zstd"),
}


class Unpacker:
    """Unpacks a body of one or more members or frames."""

    def __init__(self, encoding: bytes) -> None:
        """Raises `Unsupported` (unsupported_encoding) for an encoding that is not known."""
        if encoding not in _FORMATS:
            raise Unsupported("Content-Encoding: expected gzip, zstd or identity", "unsupported_encoding")
        self._open, self._code = _FORMATS[encoding]
        self._name = encoding.decode()
        self._frame: Frame | None = None
        self._begun = False

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Unpack the next part of the body, in pieces of at most PIECE_BYTES. Raises `Malformed` if it is damaged."""
        while packed or self._frame is not None:
            frame = self._frame = self._frame or self._open()
            self._begun = True
            try:
                piece, packed = frame.unpack(packed)
            except (zlib.error, zstd.ZstdError):
                raise Malformed(f"the body is not what its Content-Encoding, {self._name}, says", self._code) from None
            if piece:
                yield piece
            if frame.ended:
                self._frame = None
            elif not piece and not packed:
                return

    def finish(self) -> None:
        """Raise `Malformed` if the body ended too early."""
        if not self._begun:
            raise Malformed(f"the body is empty, and its Content-Encoding says {self._name}", self._code)
        if self._frame is not None:
            raise Malformed(f"the body ends before its {self._name} data does", self._code)
