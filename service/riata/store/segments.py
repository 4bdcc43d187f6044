"""The segments of one model: the files of a directory `<data>/segments/<model>`.

Segments that are used are consecutive: each begins after the one before, with the chain at which that one ends. The last one
is bound to the log by the record that follows it. A file that does not fit, because it is damaged, of another log or encoder, of
a history that was taken back, or after a gap, is stale. If the log still has its events it is deleted, since it can be made
again. Otherwise it is renamed to `*.stale`, so that it can be inspected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from riata.base.directories import sync_directory
from riata.base.errors import Corrupt
from riata.store import segment
from riata.store.records import next_chain
from riata.store.segment import SUFFIX, UNFINISHED, Origin, Pace, Segment, SegmentBuilder, Size, map_segment
from riata.store.store import Head, Record

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
