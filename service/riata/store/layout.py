"""Checkpoint file format: a JSON header and named arrays, with digests over all of it.

Theory of operation
    A checkpoint is written once. It may be read by newer programs and on other machines. It is little endian and holds only
    numbers: nothing in it is executed. Every length in it is compared with the number of bytes present before it is used.

         0                8                12               16                               24
        ┌────────────────┬────────────────┬────────────────┬────────────────────────────────┐
        │ magic RIATACKP │ format u32     │ H u32          │ bytes u64                      │
        ├────────────────┴────────────────┴────────────────┴────────────────────────────────┤  24
        │ BLAKE2b-256 of the 24 bytes above and the H bytes below                           │
        ├───────────────────────────────────────────────────────────────────────────────────┤  56
        │ header: JSON of H bytes, canonical (sorted keys, no spaces, ASCII)                │
        │   {"arrays": [{"name", "dtype", "shape", "digest"}, ...], "header": {...}}        │
        ├───────────────────────────────────────────────────────────────────────────────────┤  next multiple of 8
        │ arrays one after the other in the order of the header, C order,                   │
        │ each padded with zeros to a multiple of 8                                         │
        └───────────────────────────────────────────────────────────────────────────────────┘  bytes

    `bytes` is the length of the whole checkpoint. `digest` is the BLAKE2b-256 of an array's bytes, in hexadecimal, so the
    digest at 24 covers everything except the padding, and padding must be zero: a change of any byte is detected. Arrays have
    no offsets: each begins where the previous one ends, so they cannot overlap, and their lengths must add up to `bytes`.

    Order of checks when reading: lengths, digest of the header, header, shapes against `bytes`, digest of each array, arrays.
    Whether the numbers are finite and sorted is checked by the code that restores state from them.

    Compatibility: any change of the layout, or of the meaning of a name, is a new format. A reader refuses formats newer than its
    own. The tests keep a golden file of every released format. There is no compression: float64 weights hardly compress.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.limits import CHUNK_BYTES_MAX
from riata.store.records import canonical_json, read_json

FORMAT: Final = 1
MAGIC: Final = b"RIATACKP"
HEADER_BYTES_MAX: Final = 4 * 2**20
ARRAYS_MAX: Final = 1000
NAME_CHARS_MAX: Final = 100
DIMENSIONS_MAX: Final = 4
DTYPES: Final = frozenset({"|b1", "|u1", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"})

Header = dict[str, Any]
Part = bytes | memoryview

_PREFIX = struct.Struct("<8sIIQ")
_DIGEST_BYTES = 32
_ALIGN = 8


def encode_checkpoint(header: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """Return the bytes of a checkpoint. Equal headers and arrays give equal bytes, whatever the order of their keys.

    header : JSON-able, finite numbers only, string keys
    arrays : up to ARRAYS_MAX, up to DIMENSIONS_MAX dimensions, of the types in DTYPES
    Raises `BadInput` (code `bad_checkpoint`) for anything else: a checkpoint that could not be read back is never written.
    """
    return b"".join(checkpoint_parts(header, arrays))


def checkpoint_parts(header: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> list[Part]:
    """Return the result of `encode_checkpoint` as consecutive pieces, without copying the arrays or joining the pieces. The
    arrays must not change before the last piece is used."""
    parts: list[Part] = []
    table = []
    for name in sorted(arrays):
        dtype, raw = _raw(name, arrays[name])
        table.append({"name": name, "dtype": dtype, "shape": list(arrays[name].shape), "digest": _digest(raw).hex()})
        parts += [raw, _padding(len(raw))]
    try:
        text = canonical_json({"arrays": table, "header": dict(header)})
    except (TypeError, ValueError) as error:
        raise BadInput(f"snapshot header: {error}", "bad_checkpoint") from None
    if len(text) > HEADER_BYTES_MAX or len(table) > ARRAYS_MAX:
        raise BadInput(f"snapshot header: {len(text)} bytes, {len(table)} arrays", "bad_checkpoint")
    start = _PREFIX.size + _DIGEST_BYTES + len(text)
    gap = _padding(start)
    total = start + len(gap) + sum(map(len, parts))
    prefix = _PREFIX.pack(MAGIC, FORMAT, len(text), total)
    return [prefix + _digest(prefix + text) + text + gap, *parts]


def decode_checkpoint(data: bytes) -> tuple[Header, Arrays]:
    """Return (header, arrays) of a checkpoint.

    Raises `Corrupt` for anything that `encode_checkpoint` did not write (code `newer_format` for a newer format). Lengths are
    checked before memory is allocated.
    """
    header, arrays = view_checkpoint(data)
    return header, {name: array.copy() for name, array in arrays.items()}


def view_checkpoint(data: bytes | mmap.mmap, verify: bool = True) -> tuple[Header, Arrays]:
    """Return the same as `decode_checkpoint`, but the arrays are read-only views of `data`.

    verify : compare the arrays with their digests, for which all of `data` is read; the header always is
    """
    header, table, start = _read_header(data)
    return header, _read_arrays(data, start, table, verify)


def checkpoint_header(data: bytes) -> Header:
    """Return the header of a checkpoint as written; the arrays are not read. Raises `Corrupt` as `decode_checkpoint` does."""
    return _read_header(data)[0]


def _read_header(data: bytes | mmap.mmap) -> tuple[Header, list[Any], int]:
    """Return (header, description of the arrays, end of the header)."""
    if len(data) < _PREFIX.size + _DIGEST_BYTES:
        raise Corrupt(f"snapshot: {len(data)} bytes are too few")
    magic, version, header_bytes, total = _PREFIX.unpack_from(data)
    start = _PREFIX.size + _DIGEST_BYTES + header_bytes
    if magic != MAGIC:
        raise Corrupt("snapshot: the first bytes are not those of a checkpoint")
    if total != len(data) or header_bytes > HEADER_BYTES_MAX or start > len(data):
        raise Corrupt(f"snapshot: the header claims {total} bytes, {header_bytes} of them header; there are {len(data)}")
    text = data[start - header_bytes : start]
    if _digest(data[: _PREFIX.size] + text) != data[_PREFIX.size : _PREFIX.size + _DIGEST_BYTES]:
        raise Corrupt("snapshot: the digest of the header does not match")
    if version > FORMAT:
        raise Corrupt(f"snapshot: format {version}, this program reads up to {FORMAT}: use a newer program", "newer_format")
    document = read_json(text, "snapshot header")
    header, table = document.get("header"), document.get("arrays")
    if not isinstance(header, dict) or not isinstance(table, list) or len(table) > ARRAYS_MAX:
        raise Corrupt("snapshot header: expected an object `header` and a list `arrays`")
    return header, table, start


def state_digest(header: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """Return BLAKE2b-256 over a state: two digests are equal exactly if header and arrays are equal to the last bit."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    described = canonical_json(header)
    digest.update(struct.pack("<Q", len(described)) + described)
    for name in sorted(arrays):
        dtype, raw = _raw(name, arrays[name])
        described = canonical_json({"name": name, "dtype": dtype, "shape": list(arrays[name].shape)})
        digest.update(struct.pack("<Q", len(described)) + described)
        digest.update(raw)
    return digest.digest()


def checkpoint_digest(*parts: Part) -> bytes:
    """Return BLAKE2b-256 over all bytes of a checkpoint: the `digest` of a generation."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def split_chunks(parts: Iterable[Part], chunk_bytes: int = CHUNK_BYTES_MAX) -> Iterator[bytes]:
    """Cut the pieces of a checkpoint into chunks for `Store.stage`, in order: `chunk_bytes` each, except the last."""
    waiting: list[Part] = []
    room = chunk_bytes
    for part in parts:
        view = memoryview(part)
        while len(view) >= room:
            yield b"".join((*waiting, view[:room]))
            waiting, view, room = [], view[room:], chunk_bytes
        waiting.append(view)
        room -= len(view)
    if room < chunk_bytes:
        yield b"".join(waiting)


def _raw(name: str, array: NDArray[np.generic]) -> tuple[str, memoryview]:
    """Return (dtype, little-endian bytes) of an array, after checking that a checkpoint may hold it. The bytes are copied only
    if the array is not contiguous or not little endian."""
    dtype = array.dtype.newbyteorder("<").str
    if dtype not in DTYPES or array.ndim > DIMENSIONS_MAX or not 0 < len(name) <= NAME_CHARS_MAX:
        raise BadInput(
            f"snapshot array {name[:NAME_CHARS_MAX]!r}: {array.ndim} dimensions of {dtype} cannot be stored", "bad_checkpoint"
        )
    return dtype, np.ascontiguousarray(array, dtype).reshape(-1).view(np.uint8).data


def _read_arrays(data: bytes | mmap.mmap, at: int, table: list[Any], verify: bool) -> Arrays:
    if any(data[at : _aligned(at)]):
        raise Corrupt("snapshot: padding after the header is not zero")
    at = _aligned(at)
    arrays: Arrays = {}
    last = ""
    for entry in table:
        name, dtype, shape, digest = _read_entry(entry)
        if name <= last:
            raise Corrupt("snapshot header: the array names are not sorted and unique")
        size = math.prod(shape) * np.dtype(dtype).itemsize  # Python integers: no overflow
        end = at + size
        if end > len(data):
            raise Corrupt(f"snapshot array {name!r}: {size} bytes claimed, {len(data) - at} left")
        raw = memoryview(data)[at:end]
        if verify and (_digest(raw).hex() != digest or any(data[end : _aligned(end)])):
            raise Corrupt(f"snapshot array {name!r}: the bytes differ from what was written")
        if verify and dtype == "|b1" and bool((np.frombuffer(raw, np.uint8) > 1).any()):
            raise Corrupt(f"snapshot array {name!r}: a boolean is neither 0 nor 1")
        try:
            arrays[name] = np.frombuffer(raw, dtype).reshape(shape)
        except ValueError:
            raise Corrupt(f"snapshot array {name!r}: invalid shape {shape}") from None
        at, last = _aligned(end), name
    if at != len(data):
        raise Corrupt(f"snapshot: arrays end at byte {at} of {len(data)}")
    return arrays


def _read_entry(entry: object) -> tuple[str, str, tuple[int, ...], str]:
    if isinstance(entry, dict) and set(entry) == {"name", "dtype", "shape", "digest"}:
        name, dtype, shape, digest = entry["name"], entry["dtype"], entry["shape"], entry["digest"]
        named = isinstance(name, str) and 0 < len(name) <= NAME_CHARS_MAX and isinstance(digest, str)
        typed = isinstance(dtype, str) and dtype in DTYPES
        shaped = isinstance(shape, list) and len(shape) <= DIMENSIONS_MAX and all(type(n) is int and n >= 0 for n in shape)
        if named and typed and shaped:
            return name, dtype, tuple(shape), digest
    raise Corrupt("snapshot header: expected name, dtype, shape and digest of each array")


def _digest(part: bytes | memoryview) -> bytes:
    return hashlib.blake2b(part, digest_size=_DIGEST_BYTES).digest()


def _aligned(at: int) -> int:
    return -(-at // _ALIGN) * _ALIGN


def _padding(at: int) -> bytes:
    return bytes(_aligned(at) - at)
