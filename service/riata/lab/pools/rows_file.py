"""The rows file: which rows of which segments are the data of a problem, for a worker that has the segments.

    header   what, version                 "rows", 2
             bits, rho, by_label, rows, nnz   as those of `SegmentData`
             segments                      file, and the first 56 bytes of each: its length and the digest of all its content
    arrays   piece    i64[m, 4]            part, segment, first row, row after the last; in order
             age      i64[parts]           rows after each part
             slots    u32[features]        slot of each rank
             spans, skipped                which events count

A worker makes the same parts from it, without counting the features again. It refuses a segment with another content.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from riata.base.arrays import I64, U32, Arrays
from riata.base.errors import Conflict, Corrupt
from riata.lab.batch.segment_data import Piece, RankMap, SegmentData, SegmentPart, move_entries
from riata.store import layout
from riata.store.control_events import Counted
from riata.store.segment import Segment, map_segment

VERSION: Final = 2
_HASH_BITS: Final = 32
_PRELUDE_BYTES: Final = 56  # of a container: lengths, and the digest of its header, which has those of all arrays


def encode_rows(data: SegmentData) -> bytes:
    """Return the rows file of some data."""
    segments: dict[Path, int] = {}
    pieces = []
    for number, part in enumerate(data.parts):
        for piece in part.pieces:
            at = segments.setdefault(piece.segment.path, len(segments))
            pieces.append((number, at, piece.start, piece.stop))
    first = data.parts[0]
    header = {
        "what": "rows",
        "version": VERSION,
        "bits": data.bits,
        "rho": first.rho,
        "by_label": list(first.by_label),
        "rows": data.rows,
        "nnz": data.nnz,
        "segments": [{"file": str(path), "prelude": _prelude(path).hex()} for path in segments],
    }
    arrays: Arrays = {
        "piece": np.array(pieces, np.int64),
        "age": np.array([part.age for part in data.parts], np.int64),
        "slots": data.slots,
        "spans": first.counted.spans,
        "skipped": first.counted.skipped,
    }
    return layout.encode_checkpoint(header, arrays)


def decode_rows(content: bytes) -> SegmentData:
    """Return the data, whose segments are mapped and verified.

    Raises `Conflict` (code `stale_part`) if a segment is missing or has another content, and `Corrupt` if one is damaged.
    """
    header, arrays = layout.decode_checkpoint(content)
    if header.get("what") != "rows" or header.get("version") != VERSION:
        raise Corrupt("the file is no rows file that this version can read")
    segments = [_mapped(one) for one in header["segments"]]
    slots = cast(U32, arrays["slots"].copy())
    ranks = RankMap(_HASH_BITS - header["bits"], _places(slots), slots)
    counted = Counted(cast(I64, arrays["spans"]), cast(I64, arrays["skipped"]))
    pieces: list[list[Piece]] = [[] for _ in range(len(arrays["age"]))]
    for number, at, start, stop in arrays["piece"].tolist():
        pieces[number].append(Piece(segments[at], start, stop))
    negative, positive = header["by_label"]
    parts = [
        SegmentPart(tuple(own), counted, ranks, header["rho"], age, (negative, positive))
        for own, age in zip(pieces, arrays["age"].tolist(), strict=True)
    ]
    return SegmentData(header["rows"], header["nnz"], parts, slots, header["bits"])


def _mapped(one: dict[str, Any]) -> Segment:
    path = Path(one["file"])
    try:
        found = _prelude(path).hex()
    except OSError as error:
        raise Conflict(f"{path}: {error.strerror}; the rows file needs this segment", "stale_part") from None
    if found != one["prelude"]:
        raise Conflict(f"{path}: the segment has another content than the rows file was made from", "stale_part")
    return map_segment(path)


def _places(slots: U32) -> I64:
    """The map of `RankMap`, from the slots by rank."""
    entries = (slots.astype(np.int64) << _HASH_BITS) | np.arange(1, len(slots) + 1)
    place: I64 = np.zeros(2 << max(len(slots), 1).bit_length(), np.int64)
    move_entries(entries, place)
    return place


def _prelude(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_PRELUDE_BYTES)
