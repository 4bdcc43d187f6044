"""One task of a call, and the sum of all, as messages: what workers and the commands `riata part` and `riata sum` do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from riata.base.arrays import Arrays
from riata.base.directories import write_whole
from riata.base.errors import BadInput, Conflict, NotFound
from riata.lab.batch.data import Part
from riata.lab.batch.jobs import Job, WalkName, run_task, tasks_of
from riata.lab.batch.pool import shared, summed
from riata.lab.batch.segment_data import SegmentData
from riata.lab.pools.message import decode, decode_call, digest_of, encode, encode_call
from riata.lab.pools.rows_file import decode_rows

SUFFIX: Final = ".bin"


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


def result_of(data: SegmentData, job: Job | WalkName, given: Arrays, number: int, call: str) -> bytes:
    """Return the message with the result of one task: of a part, or of a share of a walk. call : digest of the call"""
    tasks = tasks_of(job, given, len(data.parts))
    if not 0 <= number < tasks:
        raise BadInput(f"part {number}: the call has the parts 0 to {tasks - 1}", "bad_option")
    made = run_task(job, data.parts, given, number)
    return encode({"what": "result", "part": number, "of": tasks, "call": call}, made)


def name_of(number: int) -> str:
    """Return the name of the file with the result of a part. Names sort like parts."""
    return f"{number:08}{SUFFIX}"


def do_parts(rows: Path, call: Path, share: tuple[int, int], into: Path, segments: Path | None = None) -> int:
    """Do a share of the parts of a call, each into a file of its own that appears at once. Returns how many.

    share    : (i, n), the share i of n shares
    segments : the folder of the segments, if not where the rows file says

    Raises `Conflict` (code `stale_part`) if rows, segments and call do not belong together, `Corrupt`, `OSError`.
    """
    content, asked = rows.read_bytes(), call.read_bytes()
    job, given, digest = decode_call(asked)
    if digest != digest_of(content):
        raise Conflict(f"{call}: the call is not for the rows of {rows}", "stale_part")
    data, (number, shares) = decode_rows(content, segments), share
    tasks = tasks_of(job, given, len(data.parts))
    first, stop = (tasks * edge // shares for edge in (number, number + 1))
    for part in range(first, stop):
        write_whole(into / name_of(part), result_of(data, job, given, part, digest_of(asked)))
    return stop - first


def sum_parts(files: Sequence[Path]) -> bytes:
    """Return the message with the sum over all parts of a call, in any order of the files. The bits are those of every pool.

    Raises `NotFound` (code `part_missing`), `Conflict` (code `stale_part`) for parts of different calls, and `Corrupt`.
    """
    if not files:
        raise NotFound("no part is given", "part_missing")
    found: dict[int, Path] = {}
    calls, of = set[str](), 0
    for file in files:
        header, _ = decode(file.read_bytes(), "result")
        found[header["part"]], of = file, header["of"]
        calls.add(header["call"])
    if len(calls) > 1:
        raise Conflict("the parts are of different calls; remove those of an earlier one", "stale_part")
    missing = [number for number in range(of) if number not in found]
    if missing:
        raise NotFound(f"{len(missing)} of {of} parts are missing, the first is {missing[0]}", "part_missing")

    results = (decode(found[number].read_bytes(), "result")[1] for number in range(of))
    return encode({"what": "result", "part": -1, "of": of, "call": calls.pop()}, summed(results))
