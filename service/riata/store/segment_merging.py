"""Merging small neighbouring segments, so that an archive has few files however small the segments were when they were closed.

An event is copied about once for each MERGED-fold growth of its segment. The merged file is durable before its parts are deleted;
after a crash in between, the parts are ignored, since all their events are in another file (`segments.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from riata.base.directories import sync_directory
from riata.base.errors import Corrupt
from riata.store import segment
from riata.store.segment import Pace, Segment, SegmentBuilder, map_segment
from riata.store.segments import Segments

MERGED: Final = 8  # neighbours at once


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
