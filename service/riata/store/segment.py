"""A segment: consecutive events of one log as arrays in a file, written once and mapped to be read.

Theory of operation
    Whoever passes over the examples of a log many times, or after the log was trimmed, reads segments. A segment is in the
    container of checkpoints (`layout.py`), whose arrays begin at multiples of 8 bytes, so a mapped file is used as it is.

        header   what, version                  "segment", 1
                 model, lineage, encoder        the log, and the fingerprint of the encoder that made the features
                 first, last, before, after     its events, and the chain of the log before and after them ("" if not known)
                 rows, nnz, zeros, ones         examples, their features, and how many labels are 0 and 1
        arrays   indptr    u32[n + 1]           features of row i: indptr[i]:indptr[i + 1]
                 hash      u32[nnz]             as in a payload
                 value     f32[nnz] | f64[nnz]  not there if every value is 1; f64 if some value is not exact in f32
                 label     u8[n] | f64[n]       f64 if some label is neither 0 nor 1
                 weight    f64[n]               not there if every weight is 1
                 time      i64[m, 2]            row, and the time at which it and the rows after it were accepted, unix ms
                 control.* i64                  its control events (`control_events.py`)

    Event ids are not kept. The digests of the container find changed bytes. The chains bind a segment to its log: one that does
    not continue it is stale, and is made again.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import F64, I64, U32
from riata.base.directories import sync_directory
from riata.base.errors import Corrupt, Unavailable
from riata.store import layout, segment
from riata.store.control_events import ChainAt, ControlEvents, ControlEventsSeen
from riata.store.payload import decode_batch, is_narrow
from riata.store.records import next_chain
from riata.store.store import Head, Record
from riata.wire.batch import Batch

WHAT: Final = "segment"
VERSION: Final = 1
SUFFIX: Final = ".seg"
UNFINISHED: Final = ".part"
ROWS_MAX: Final = 2**20  # a segment with as many is full
FEATURES_MAX: Final = 2**21  # as many: 16 MiB in float32, and about three times as much memory while it is made
ROW_BYTES: Final = 13  # of a weight, a label of one byte and an entry of indptr
TIME_BYTES: Final = 16
FEATURE_BYTES: Final = 8  # whose value is exact in f32
STEP_BYTES: Final = 2**20  # written and synced before `pace` is called: the sync of an append waits for no more than this
_NUMBERS: Final = ("version", "first", "last", "rows", "nnz", "zeros", "ones")
_TEXTS: Final = ("model", "lineage", "encoder", "before", "after")
_CONTROL: Final = "control."
_NO_ID: Final = np.zeros((1, 16), np.uint8)
_FULL_DISK: Final = (28, 122)  # ENOSPC, EDQUOT

Pace = Callable[[int], None]  # called after this many bytes were read or written; may wait, and may raise to give up


@dataclass(frozen=True, slots=True)
class Size:
    """When a segment is full: at this many rows, or about this many bytes; at ROWS_MAX and FEATURES_MAX in any case."""

    rows: int = ROWS_MAX
    bytes: int = 2**63


@dataclass(frozen=True, slots=True)
class Origin:
    """The log that segments are of, and the fingerprint of the encoder that made its features."""

    model: str
    lineage: bytes
    encoder: str


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A mapped segment. Its arrays are read-only and are described at the top of this module."""

    path: Path
    origin: Origin
    first: int
    last: int
    before: bytes
    after: bytes
    zeros: int
    ones: int
    bytes: int
    indptr: U32
    hash: U32
    value: NDArray[Any] | None
    label: NDArray[Any]
    weight: F64 | None
    time: I64
    control: ControlEvents

    @property
    def rows(self) -> int:
        """Number of examples."""
        return len(self.label)

    @property
    def is_full(self) -> bool:
        """Whether no more events would have been added to it."""
        return self.rows >= ROWS_MAX or len(self.hash) >= FEATURES_MAX

    def events(self, start: int, stop: int) -> I64:
        """Return the numbers of the events that are rows start:stop."""
        rows = np.arange(start, stop, dtype=np.int64)
        ahead = self.control.seq - self.first - np.arange(len(self.control.seq))  # rows before each control event
        return self.first + rows + np.searchsorted(ahead, rows, "right")

    def accepted_ms(self, start: int, stop: int) -> I64:
        """Return when the rows start:stop were accepted, unix ms."""
        at = np.searchsorted(self.time[:, 0], np.arange(start, stop), "right") - 1
        accepted: I64 = self.time[at, 1]
        return accepted

    def batch(self, start: int, stop: int) -> Batch:
        """Return copies of the rows start:stop. No event has an id."""
        low, high = int(self.indptr[start]), int(self.indptr[stop])
        n = stop - start
        return Batch(
            indptr=self.indptr[start : stop + 1].astype(np.int64) - low,
            hash=self.hash[low:high].copy(),
            value=np.ones(high - low) if self.value is None else self.value[low:high].astype(np.float64),
            label=self.label[start:stop].astype(np.float64),
            weight=np.ones(n) if self.weight is None else self.weight[start:stop].copy(),
            event_id=np.broadcast_to(_NO_ID, (n, _NO_ID.shape[1])),
            has_id=np.zeros(n, np.bool_),
        )


class SegmentBuilder:
    """Collects records of a log, in order, and writes them as one segment.

    after, chain : the event before the first record, and the chain of the log there; empty if it is not known
    size         : when it is full
    """

    def __init__(self, origin: Origin, after: int, chain: bytes, chain_at: ChainAt, size: Size | None = None) -> None:
        self._origin = origin
        self._size = size or Size()
        self._first, self.last = after + 1, after
        self._before, self._after = chain, chain
        self._control = ControlEventsSeen(origin.lineage, chain_at)
        self._batches: list[Batch] = []
        self._times: list[tuple[int, int]] = []
        self.rows = self.nnz = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to write."""
        size = self.rows * ROW_BYTES + len(self._times) * TIME_BYTES + self.nnz * FEATURE_BYTES
        return self.rows >= min(self._size.rows, ROWS_MAX) or self.nnz >= FEATURES_MAX or size >= self._size.bytes

    @property
    def is_empty(self) -> bool:
        """Whether no record was added."""
        return self.last < self._first

    def add(self, record: Record) -> None:
        """Add the next record. Raises `Corrupt`."""
        self._control.note(record)
        if record.kind == "observe":
            self.add_rows(decode_batch(record.payload), record.accepted_ms)
        self.last, self._after = record.last, record.chain

    def add_rows(self, batch: Batch, accepted_ms: int) -> None:
        """Add rows that are in no log. Their numbers follow those before."""
        if not self._times or self._times[-1][1] != accepted_ms:
            self._times.append((self.rows, accepted_ms))
        self._batches.append(batch)
        self.rows += batch.n
        self.nnz += batch.nnz
        self.last = self._first + self.rows - 1

    def add_segment(self, one: Segment) -> None:
        """Add the segment that follows."""
        self._control.add(one.control)
        self._times += [(self.rows + row, accepted_ms) for row, accepted_ms in one.time.tolist()]
        self._batches.append(one.batch(0, one.rows))
        self.rows += one.rows
        self.nnz += len(one.hash)
        self.last, self._after = one.last, one.after

    def write(self, directory: Path, pace: Pace, durable: bool = True) -> Path:
        """Write the segment to `directory`, under its final name at once, and return its path. Raises `OSError`, and
        `Unavailable` (code `disk_full`).

        durable : sync it; a segment that no restart will need is not synced
        """
        label = _one([batch.label for batch in self._batches], np.float64)
        zeros, ones = int((label == 0.0).sum()), int((label == 1.0).sum())
        arrays = self._arrays(label, zeros + ones == len(label))
        header = {
            "what": WHAT,
            "version": VERSION,
            "model": self._origin.model,
            "lineage": self._origin.lineage.hex(),
            "encoder": self._origin.encoder,
            "first": self._first,
            "last": self.last,
            "before": self._before.hex(),
            "after": self._after.hex(),
            "rows": self.rows,
            "nnz": self.nnz,
            "zeros": zeros,
            "ones": ones,
        }
        path = directory / name_of(self._first, self.last)
        write_file(path, layout.checkpoint_parts(header, arrays), pace, durable)
        return path

    def _arrays(self, label: F64, is_binary: bool) -> dict[str, NDArray[Any]]:
        batches = self._batches
        ends = _one([np.diff(batch.indptr) for batch in batches], np.int64).cumsum()
        value = _one([batch.value for batch in batches], np.float64)
        weight = _one([batch.weight for batch in batches], np.float64)
        arrays: dict[str, NDArray[Any]] = {
            "indptr": np.concatenate(([0], ends)).astype(np.uint32),
            "hash": _one([batch.hash for batch in batches], np.uint32),
            "label": label.astype(np.uint8) if is_binary else label,
            "time": np.array(self._times, np.int64).reshape(-1, 2),
        }
        if not bool((value == 1.0).all()):
            arrays["value"] = value.astype("<f4") if is_narrow(value) else value
        if not bool((weight == 1.0).all()):
            arrays["weight"] = weight
        control = self._control.collected()
        return arrays | {_CONTROL + key: part for key, part in control._asdict().items()}


def _one(parts: list[Any], kind: Any) -> Any:
    """Return the parts as one array of this type, also if there are none."""
    return np.concatenate(parts) if parts else np.zeros(0, kind)


def name_of(first: int, last: int) -> str:
    """Return the name of the file with these events. Names sort like events."""
    return f"{first:020}-{last:020}{SUFFIX}"


def write_file(path: Path, parts: list[layout.Part], pace: Pace, durable: bool) -> None:
    """Write a file atomically; if it is to be durable, in steps that are synced one by one.

    Raises `OSError`, and `Unavailable` (code `disk_full`).
    """
    beside = path.with_suffix(UNFINISHED)
    try:
        with beside.open("wb") as file:
            for chunk in layout.split_chunks(parts, STEP_BYTES):
                file.write(chunk)
                file.flush()
                if durable:
                    os.fdatasync(file.fileno())
                pace(len(chunk))
            if durable:
                os.fsync(file.fileno())
        beside.replace(path)
        if durable:
            sync_directory(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        if error.errno in _FULL_DISK:
            raise Unavailable(f"{path}: no space is left for this segment", "disk_full") from None
        raise
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def map_segment(path: Path, verify: bool = True) -> Segment:
    """Map the segment in `path`. Raises `Corrupt` if it is not what was written, `OSError`.

    verify : compare every array with its digest, for which the whole file is read; otherwise only the header is
    """
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise Corrupt(f"{path}: an empty file is no segment")
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    try:
        header, arrays = layout.view_checkpoint(mapped, verify=verify)
        return _segment(path, len(mapped), header, arrays)
    except Corrupt as error:
        raise Corrupt(f"{path}: {error.detail}", error.code) from None


def _segment(path: Path, size: int, header: layout.Header, arrays: dict[str, NDArray[Any]]) -> Segment:
    numbers = {key: header.get(key) for key in _NUMBERS}
    texts = {key: header.get(key) for key in _TEXTS}
    if header.get("what") != WHAT or any(type(number) is not int or number < 0 for number in numbers.values()):
        raise Corrupt("the file is no segment")
    if header["version"] > VERSION:
        what = f"segment of version {header['version']}, this program reads up to {VERSION}: use a newer program"
        raise Corrupt(what, "newer_format")
    try:
        lineage, before, after = (bytes.fromhex(str(texts[key])) for key in ("lineage", "before", "after"))
        control = ControlEvents(*(_typed(arrays, _CONTROL + key, "<i8") for key in ControlEvents._fields))
        value, weight = arrays.get("value"), arrays.get("weight")
        segment = Segment(
            path, Origin(str(texts["model"]), lineage, str(texts["encoder"])), header["first"], header["last"], before, after,
            header["zeros"], header["ones"], size, _typed(arrays, "indptr", "<u4"), _typed(arrays, "hash", "<u4"), value,
            arrays["label"], weight, _typed(arrays, "time", "<i8"), control,
        )  # fmt: skip
    except (KeyError, ValueError):
        raise Corrupt("the file lacks parts that a segment has") from None
    _check(segment, header["rows"], header["nnz"])
    return segment


def _typed(arrays: dict[str, NDArray[Any]], name: str, kind: str) -> Any:
    """Return an array of this type. Raises `KeyError`, `ValueError`."""
    if arrays[name].dtype.str != kind:
        raise ValueError(name)
    return arrays[name]


def _check(segment: Segment, rows: int, nnz: int) -> None:
    """Raise `Corrupt` if lengths do not agree, so that no reader can leave an array."""
    s = segment
    lengths = (len(s.indptr), len(s.label), len(s.weight) if s.weight is not None else rows)
    features = (len(s.hash), len(s.value) if s.value is not None else nnz, int(s.indptr[-1]) if len(s.indptr) else -1)
    flat = s.control.restored.ndim == 2 and s.time.ndim == 2 and s.indptr.ndim == s.hash.ndim == s.label.ndim == 1
    counted = s.last - s.first + 1 - len(s.control.seq)
    if lengths != (rows + 1, rows, rows) or features != (nnz, nnz, nnz) or not flat or counted != rows:
        raise Corrupt("the lengths of its parts do not agree")


# The segments of one model: the files of a directory `<data>/segments/<model>`.
#
# Segments that are used are consecutive: each begins after the one before, with the chain at which that one ends. The last one
# is bound to the log by the record that follows it. A file that does not fit, because it is damaged, of another log or encoder,
# of a history that was taken back, or after a gap, is stale. If the log still has its events it is deleted, since it can be made
# again. Otherwise it is renamed to `*.stale`, so that it can be inspected.

FOLDER: Final = "segments"  # in the data directory
STALE: Final = ".stale"

ReadAfter = Callable[[int], Sequence[Record]]  # at least the record after this event, if there is one

MERGED: Final = 8  # neighbours at once


class Segments:
    """The files of one model. One process writes them, others may have them mapped: a deleted file stays readable to those.

    verify : read every byte of a file and compare it with its digest before it is used
    size   : when a segment that is made here is full
    """

    def __init__(self, directory: Path, verify: bool = False, size: Size | None = None) -> None:
        self.directory = directory
        self._verify = verify
        self.size = size or Size()
        self.damaged: list[str] = []  # files that were found not to be what was written, and why

    def prepare(self) -> None:
        """Make the directory, and remove what a crash left unfinished."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in self.directory.glob(f"*{UNFINISHED}"):
            path.unlink(missing_ok=True)

    def usable(self, origin: Origin, head: Head, read_after: ReadAfter) -> list[Segment]:
        """Return the segments that fit the log, oldest first. Changes no file. They begin at most where the log does, and end at
        most one event before the rest of it; empty if none fit."""
        found = [segment for segment in self._mapped() if segment.origin == origin]
        for chain in (_linked(found[::-1])[::-1], _linked(found)):
            while chain and not _binds(chain[-1], head, read_after):
                chain.pop()
            if chain and chain[0].first <= head.first_seq:
                return chain
        return []

    def remove_stale(self, used: Iterable[Segment], first_seq: int) -> list[str]:
        """Remove every file but those of `used`; the log begins at `first_seq`. Returns the names of those files."""
        kept = {segment.path for segment in used}
        gone = [path for path in self._paths() if path not in kept]
        for path in gone:
            first = path.stem.partition("-")[0]
            if first.isdigit() and int(first) >= first_seq:
                path.unlink(missing_ok=True)
            else:
                path.replace(path.with_suffix(STALE))
        if gone:
            sync_directory(self.directory)
        return [path.name for path in gone]

    def bytes(self) -> int:
        """Return the size of all files, stale ones included."""
        return sum(map(_size, (*self.directory.glob(f"*{STALE}"), *self._paths()))) if self.directory.is_dir() else 0

    def drop(self, bytes_max: int) -> list[str]:
        """Delete files until the rest has at most `bytes_max` bytes, stale ones first, then the oldest. Returns their names."""
        stale = sorted(self.directory.glob(f"*{STALE}")) if self.directory.is_dir() else []
        files = [*stale, *self._paths()]
        sizes = [_size(path) for path in files]
        total, dropped = sum(sizes), []
        for path, size in zip(files, sizes, strict=True):
            if total <= bytes_max:
                break
            path.unlink(missing_ok=True)
            total -= size
            dropped.append(path.name)
        if dropped:
            sync_directory(self.directory)
        return dropped

    def _mapped(self) -> list[Segment]:
        """Map every file that is a segment, oldest first, but none whose events are all in another one."""
        found: dict[int, Segment] = {}
        for path in self._paths():
            try:
                segment = map_segment(path, self._verify)
            except FileNotFoundError:
                continue
            except Corrupt as error:
                self.damaged.append(error.detail)
                continue
            if segment.first not in found or found[segment.first].last < segment.last:
                found[segment.first] = segment
        kept: list[Segment] = []
        for first in sorted(found):
            if not kept or found[first].last > kept[-1].last:
                kept.append(found[first])
        return kept

    def _paths(self) -> list[Path]:
        return sorted(self.directory.glob(f"*{SUFFIX}")) if self.directory.is_dir() else []


def _linked(found: Sequence[Segment]) -> list[Segment]:
    """Return the first segments of `found`, in either direction, as long as each is the neighbour of the one before."""
    chain = list(found[:1])
    for neighbour in found[1:]:
        older, newer = sorted((chain[-1], neighbour), key=lambda one: one.first)
        if newer.first != older.last + 1 or newer.before != older.after:
            break
        chain.append(neighbour)
    return chain


def _binds(segment: Segment, head: Head, read_after: ReadAfter) -> bool:
    """Return whether the log continues this segment."""
    if segment.last < head.first_seq - 1 or segment.last > head.seq:
        return False
    if segment.last == head.seq:
        return segment.after == head.chain
    following = read_after(segment.last)
    return (
        bool(following)
        and following[0].first == segment.last + 1
        and following[0].chain == next_chain(segment.after, following[0].digest)
    )


def _size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


# Merging small neighbouring segments, so that an archive has few files however small the segments were when they were closed.
#
# An event is copied about once for each MERGED-fold growth of its segment. The merged file is durable before its parts are
# deleted;
# after a crash in between, the parts are ignored, since all their events are in another file (`segments.py`).


def merge_small(segments: Segments, found: Sequence[Segment], pace: Pace) -> int:
    """Merge neighbours of about the same size as long as there are any. Returns how often.

    found : consecutive segments of `segments`, oldest first, of events that no log has any more
    A merged one has at most the bytes of `segments.size`, and is never larger than a full one of any size. Files that are
    damaged stay as they are. Raises `OSError`, and `Unavailable` (code `disk_full`).
    """
    left, merged = list(found), 0
    at = len(left) - MERGED
    while at >= 0:
        parts = left[at : at + MERGED]
        if _belong_together(parts, segments.size.bytes) and (one := _merge(segments.directory, parts, pace)) is not None:
            left[at : at + MERGED] = [one]
            merged += 1
            at = min(at, len(left) - MERGED)
        else:
            at -= 1
    return merged


def _belong_together(parts: Sequence[Segment], bytes_max: int) -> bool:
    """Whether to merge these: each event is then in a segment at least twice as large as before."""
    sizes = [one.bytes for one in parts]
    rows, features = sum(one.rows for one in parts), sum(len(one.hash) for one in parts)
    fits = sum(sizes) <= bytes_max and rows <= segment.ROWS_MAX and features <= segment.FEATURES_MAX
    return fits and 2 * max(sizes) <= sum(sizes)


def _merge(directory: Path, parts: Sequence[Segment], pace: Pace) -> Segment | None:
    """Merge the parts into one file and delete theirs; None if one of them is not what was written."""
    try:
        read = [map_segment(one.path, verify=True) for one in parts]
    except Corrupt:
        return None
    first = read[0]
    builder = SegmentBuilder(first.origin, first.first - 1, first.before, lambda _event: None)
    for one in read:
        builder.add_segment(one)
        pace(one.bytes)
    made = map_segment(builder.write(directory, pace), verify=False)
    for one in parts:
        one.path.unlink(missing_ok=True)
    sync_directory(directory)
    return made
