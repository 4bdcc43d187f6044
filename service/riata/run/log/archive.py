"""The archive: what is trimmed from a log of the embedded store stays in segments.

Theory of operation
    A thread of low priority reads the events that a trim is about to take and writes them as segments. It reads through
    the store's thread, in slices, only while nothing else waits there, and at a limited rate; so it delays no acknowledgement.
    A segment is closed when its rows are a quarter of what the log keeps, or its bytes an eighth of the bound, so that the log
    keeps little more than it is to keep, and the oldest segment can go without the others. Small neighbours are merged later, so
    that there are never many files. A trim takes nothing after the last event of the last segment (`bound`): the bound and the
    trim are computed in one call of the store's thread. Whatever happens in between, an event is in the log or in a segment,
    often in both: a process that dies after it wrote a segment trims later.

    Beyond `bytes_max` the oldest segments are deleted, of those whose events the log no longer has. Segments that a refit made of
    events which the log keeps do not count. If a segment cannot be
    written, say because the disk is full, nothing is trimmed after the last one; the service then refuses events like on any
    full disk, until there is space, or the archive is turned off. The space that checkpoints need is not used.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from riata.base.errors import RiataError, Unavailable
from riata.base.limits import GENERATIONS_KEPT_MIN
from riata.base.process import BESIDE, lower_priority
from riata.run.candidates.segment_building import build_segments, segments_of
from riata.run.engine_settings import ArchiveSettings
from riata.run.log.log_reading import Call
from riata.store.retention import oldest_of_newest, trim_bound
from riata.store.segment import STALE, Origin, Segment, Segments, Size, merge_small
from riata.store.store import Head

log = logging.getLogger("riata.run")

EVERY_S: Final = 10.0  # like a checkpoint, and with it a trim
EVENTS_MIN: Final = 250  # fewer are not looked at, and make no segment
KEPT_SHARE: Final = 4  # a segment has at most this part of the events that the log keeps,
BOUND_SHARE: Final = 8  # and this part of the bound
STOP_S: Final = 5.0
DROPPED: Final = ".dropped"


class _Stopped(Exception):
    """The process is stopping."""


class Archive:
    """Writes the segments of every model. `bound` and `drop` may be called by any thread, `step` by one.

    origins : the models to archive
    waiting : how many requests and calls wait for the store's thread
    writing : held while segments are written or deleted
    problem : why the last attempt failed; empty if it did not
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        call: Call,
        origins: Callable[[], Iterable[Origin]],
        waiting: Callable[[], int],
        writing: threading.Lock | None = None,
    ) -> None:
        self.problem = ""
        self._writing = writing or threading.Lock()
        self._settings = settings
        self._call = call
        self._origins = origins
        self._waiting = waiting
        self.trim: Callable[[str], None] = lambda _model: None  # trims the log of a model; set by whoever owns the store
        self._bounds: dict[tuple[str, bytes], int] = {}  # by model and lineage: the last event in a segment
        self._next: dict[bytes, int] = {}  # by lineage: the event that a trim must reach before the log is read again
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="riata-archive", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. A segment under way is given up; its events are in the log. A store that failed may never answer it."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def bound(self, model: str, lineage: bytes) -> int:
        """Return the last event of a model that may be trimmed; 0 until the segments have been looked at."""
        return self._bounds.get((model, lineage), 0)

    def drop(self, model: str) -> None:
        """Delete the segments of a model that was dropped."""
        folder = self._settings.directory / model
        gone = folder.with_name(f"{model}{DROPPED}")
        try:
            folder.replace(gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    def step(self) -> None:
        """Archive what trims are about to take, of every model, and delete what is beyond the bound. Raises `OSError`,
        `RiataError` and `_Stopped`."""
        origins = list(self._origins())
        self._remove_others({origin.model for origin in origins})
        for origin in origins:
            settings = self._settings
            size = Size(max(settings.keep_events // KEPT_SHARE, EVENTS_MIN), settings.bytes_max // BOUND_SHARE)
            segments = Segments(settings.directory / origin.model, size=size)
            head: Head = self._call(lambda s: s.head(origin.model)).result()  # noqa: B023  called at once
            generations = self._call(lambda s: s.generations(origin.model)).result()  # noqa: B023
            until = trim_bound(head, generations, oldest_of_newest(generations, GENERATIONS_KEPT_MIN), settings.keep_events)
            if head.lineage != origin.lineage or until < self._next.get(origin.lineage, EVENTS_MIN):
                continue
            with self._writing:
                self._archive(origin, segments, until)

    def _archive(self, origin: Origin, segments: Segments, until: int) -> None:
        settings = self._settings
        pace = StorePace(settings.directory, settings.reserve_bytes, settings.bytes_per_s, self._waiting, self._rest)
        found = build_segments(self._call, origin, segments, pace, until)
        done = found[-1].last if found else 0
        self._bounds[origin.model, origin.lineage] = done
        self.trim(origin.model)
        first_seq = self._call(lambda s: s.head(origin.model)).result().first_seq
        # What was read without filling a segment is read again: not before it has doubled or fills one, so that this costs at
        # most as much as reading it once.
        begin = max(done, first_seq - 1)
        self._next[origin.lineage] = begin + min(max(2 * (until - begin), EVENTS_MIN), segments.size.rows)
        if merge_small(segments, [one for one in found if one.last < first_seq], pace):
            found = segments_of(self._call, origin, segments)
        _bound_bytes(segments, [one for one in found if one.last <= until], settings.bytes_max, first_seq)

    def _remove_others(self, models: set[str]) -> None:
        """Delete the segments of models that do not exist: their drop was interrupted."""
        if self._settings.directory.is_dir():
            for folder in self._settings.directory.iterdir():
                if folder.is_dir() and folder.name not in models:
                    shutil.rmtree(folder, ignore_errors=True)

    def _rest(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped

    def _run(self) -> None:
        lower_priority(BESIDE)
        while not self._stopping.wait(EVERY_S):
            try:
                self.step()
                problem = ""
            except _Stopped:
                return
            except (OSError, RiataError) as error:
                problem = f"the archive cannot be written, so the log is not trimmed: {error}"
            if problem and problem != self.problem:
                log.error("%s", problem)
            self.problem = problem


def _bound_bytes(segments: Segments, found: list[Segment], bytes_max: int, first_seq: int) -> None:
    """Delete the oldest of the segments `found` beyond the bound, only of events that the log no longer has."""
    total = sum(one.bytes for one in found)
    stale = sum(path.stat().st_size for path in segments.directory.glob(f"*{STALE}"))
    needed = sum(one.bytes for one in found if one.last >= first_seq)
    others = segments.bytes() - total - stale
    if total + stale > bytes_max and (gone := segments.drop(others + max(bytes_max, needed))):
        log.info("archive: %s: %d files beyond the bound of %d bytes were deleted", segments.directory, len(gone), bytes_max)


# The pace of a thread that reads the log and writes files while events are acknowledged.


GIVE_WAY_S: Final = 0.01
GIVE_WAY_MOST: Final = 100  # pauses at most: a store that is never idle is read nevertheless


class StorePace:
    """Called after so many bytes were read or written: waits until the store's thread has no other work, and then as long as
    the rate asks.

    directory     : that is written to
    reserve_bytes : of free space that is left for checkpoints
    waiting       : how many requests and calls wait for the store's thread
    rest          : waits for so many seconds; may raise to give up
    """

    def __init__(
        self, directory: Path, reserve_bytes: int, bytes_per_s: int, waiting: Callable[[], int], rest: Callable[[float], None]
    ) -> None:
        self._directory, self._reserve_bytes, self._bytes_per_s = directory, reserve_bytes, bytes_per_s
        self._waiting, self._rest = waiting, rest

    def __call__(self, size: int) -> None:
        """Wait. Raises `Unavailable` (code `disk_reserve`) if only the space for checkpoints is left."""
        free = os.statvfs(self._directory)
        if free.f_bavail * free.f_frsize < self._reserve_bytes:
            raise Unavailable(f"{self._directory}: the free space is reserved for snapshots", "disk_reserve")
        for _ in range(GIVE_WAY_MOST):
            if not self._waiting():
                break
            self._rest(GIVE_WAY_S)
        self._rest(size / self._bytes_per_s)
