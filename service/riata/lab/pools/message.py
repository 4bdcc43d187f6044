"""What pools and workers send each other, in pipes and in files: a header and named arrays, in the container of checkpoints.

    call     job, and what it is given        {"what": "call", "job": "taylor", "rows": digest of the rows file}
    result   what one part gave               {"what": "result", "part": 3, "of": 7, "call": digest of the call}
    error    why a part gave nothing          {"what": "error", "kind": "Conflict", "code": "stale_part", "detail": "..."}

The container has no texts; an array of texts is in the header.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from riata.base import errors
from riata.base.arrays import I64, U32, Arrays
from riata.base.errors import BadInput, Conflict, Corrupt, RiataError
from riata.lab.batch.data import Part
from riata.lab.batch.passes import JOBS, WALKS, Job, WalkName, run_task, tasks_of
from riata.lab.batch.pool import shared, summed
from riata.lab.batch.segment_data import Piece, RankMap, SegmentData, SegmentPart, move_entries
from riata.store import layout
from riata.store.control_events import Counted
from riata.store.segment import Segment, map_segment

# The rows file: which rows of which segments are the data of a problem, for a worker that has the segments.
#
#     header   what, version                 "rows", 2
#              bits, rho, by_label, rows, nnz   as those of `SegmentData`
#              segments                      file, and the first 56 bytes of each: its length and the digest of all its content
#     arrays   piece    i64[m, 4]            part, segment, first row, row after the last; in order
#              age      i64[parts]           rows after each part
#              slots    u32[features]        slot of each rank
#              spans, skipped                which events count
#
# A worker makes the same parts from it, without counting the features again. It refuses a segment with another content.

FILE_VERSION: Final = 2
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
        "version": FILE_VERSION,
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
    if header.get("what") != "rows" or header.get("version") != FILE_VERSION:
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


VERSION: Final = 1
KINDS: Final = ("BadInput", "Conflict", "TooLarge", "Corrupt", "Unavailable", "NotFound")
_DIGEST_BYTES: Final = 16


def encode(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return a message."""
    texts = {name: array.tolist() for name, array in arrays.items() if array.dtype.kind == "U"}
    numbers = {name: array for name, array in arrays.items() if name not in texts}
    return layout.encode_checkpoint({**header, "version": VERSION, "texts": texts}, numbers)


def decode(content: bytes, what: str) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a message; they can be written to, as those that a kernel's machine code is made for. Raises
    `Corrupt`."""
    header, arrays = layout.decode_checkpoint(content)
    if header.get("what") != what or header.get("version") != VERSION:
        raise Corrupt(f"expected a {what} of version {VERSION}, got {header.get('what')!r} of version {header.get('version')!r}")
    numbers = {name: array.copy() for name, array in arrays.items()}
    return header, {**numbers, **{name: np.array(texts) for name, texts in header["texts"].items()}}


def encode_call(job: Job | WalkName, given: Arrays, rows: str) -> bytes:
    """Return the message that tells a worker what to do. rows : digest of the rows file, so that calls for other rows differ"""
    return encode({"what": "call", "job": job, "rows": rows}, given)


def decode_call(content: bytes) -> tuple[Job | WalkName, Arrays]:
    """Return the job, and what it is given. Raises `Corrupt`."""
    header, given = decode(content, "call")
    if header["job"] not in (*JOBS, *WALKS):
        raise Corrupt(f"{header['job']!r} is no job of this version; those are {', '.join((*JOBS, *WALKS))}")
    return header["job"], given


def encode_error(error: RiataError) -> bytes:
    """Return the message that reports an error."""
    return encode({"what": "error", "kind": type(error).__name__, "code": error.code, "detail": error.detail}, {})


def reported(content: bytes) -> RiataError | None:
    """Return the error that a message reports, if it is one. Raises `Corrupt`."""
    header = layout.checkpoint_header(content)
    if header.get("what") != "error":
        return None
    kind = header["kind"] if header["kind"] in KINDS else "RiataError"
    made: RiataError = getattr(errors, kind)(str(header["detail"]), str(header["code"]))
    return made


def digest_of(content: bytes) -> str:
    """Return what identifies a message or a file."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def result_of(data: SegmentData, job: Job | WalkName, given: Arrays, number: int, call: str) -> bytes:
    """Return the message with the result of one task: of a part, or of a share of a walk. call : digest of the call"""
    tasks = tasks_of(job, given, len(data.parts))
    if not 0 <= number < tasks:
        raise BadInput(f"part {number}: the call has the parts 0 to {tasks - 1}", "bad_option")
    made = run_task(job, data.parts, given, number)
    return encode({"what": "result", "part": number, "of": tasks, "call": call}, made)


def numbers_of(parts: Sequence[Part], data: SegmentData) -> list[int]:
    """Return the numbers of some parts of the data. Raises `BadInput` (code `bad_option`) for parts of other data."""
    number_of = {id(part): number for number, part in enumerate(data.parts)}
    try:
        return [number_of[id(part)] for part in parts]
    except KeyError:
        raise BadInput("this pool has workers for the parts of other data", "bad_option") from None


class RowsPool:
    """The calls of a pool whose workers have all rows in one file, and get tasks by number. `workers` : how many at once

    _data       : whose parts it does
    _rows       : digest of the rows file
    _patience_s : for one part, at first
    """

    workers: int
    _data: SegmentData
    _rows: str
    _patience_s: float

    def fold(self, job: Job, parts: Sequence[Part], given: Arrays) -> Arrays:
        """See `riata.lab.batch.pool.Pool`. Raises `Unavailable` (code `engine_lost`), and errors of `decode_rows`."""
        return summed(self.each(job, parts, given))

    def each(self, job: Job, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """See `riata.lab.batch.pool.Pool`. Raises as `fold`."""
        return self._tasks(encode_call(job, given, self._rows), numbers_of(parts, self._data), self._patience_s)

    def deal(self, walk: WalkName, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """See `riata.lab.batch.pool.Pool`. Raises as `fold`."""
        told, patience_s = shared(given, self.workers), self._patience_s * len(numbers_of(parts, self._data))
        return self._tasks(encode_call(walk, told, self._rows), range(tasks_of(walk, told, len(parts))), patience_s)

    def _tasks(self, content: bytes, numbers: Iterable[int], patience_s: float) -> Iterator[Arrays]:
        """Yield the results of tasks of a call, in order. content : the call"""
        raise NotImplementedError
