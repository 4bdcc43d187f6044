"""A pool whose passes are done by a command: any batch system that can run `riata part` on its machines is an engine.

The command finds in its environment

    RIATA_ROWS    the rows file
    RIATA_CALL    the call
    RIATA_PARTS   how many parts there are
    RIATA_INTO    the folder for the results, which is empty

and has done its work if it exits with 0 and the folder has the result of every part. If parts are missing it is run once more.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, Corrupt, Unavailable
from riata.lab.batch.data import Part
from riata.lab.batch.jobs import Job, WalkName, tasks_of
from riata.lab.batch.pool import shared, summed
from riata.lab.batch.segment_data import SegmentData
from riata.lab.pools.message import decode, digest_of, encode_call
from riata.lab.pools.parts import name_of
from riata.lab.pools.rows_file import encode_rows

TRIES: Final = 2
TOLD_CHARS: Final = 500  # of what a command said that failed


class Commands:
    """The pool. folder : for its files; machines have to see it, and the segments. `workers` : results in memory at a time"""

    workers: Final = 1

    def __init__(self, data: SegmentData, command: str, folder: Path) -> None:
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise BadInput(f"--pass-command: {error}", "bad_option") from None
        if not self._command:
            raise BadInput("--pass-command: expected a command", "bad_option")
        self._parts = data.parts
        self._folder = folder
        content = encode_rows(data)
        self._rows = digest_of(content)
        (folder / "rows.bin").write_bytes(content)

    def fold(self, job: Job, parts: Sequence[Part], given: Arrays) -> Arrays:
        """See `riata.lab.batch.pool.Pool`. Raises `Unavailable` (code `engine_lost`)."""
        return summed(self.each(job, parts, given))

    def each(self, job: Job, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """See `riata.lab.batch.pool.Pool`. Raises as `fold`."""
        return self._tasks(job, parts, given)

    def deal(self, walk: WalkName, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """See `riata.lab.batch.pool.Pool`; each machine is a part of the call. Raises as `fold`."""
        return self._tasks(walk, parts, shared(given, int(given["machines"][0])))

    def _tasks(self, job: Job | WalkName, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        if parts is not self._parts:
            raise BadInput("this pool does the parts of other data", "bad_option")
        tasks = tasks_of(job, given, len(parts))
        into, call = self._folder / "parts", self._folder / "call.bin"
        into.mkdir(exist_ok=True)
        for left in into.iterdir():
            left.unlink()
        asked = encode_call(job, given, self._rows)
        call.write_bytes(asked)
        missing, said = list(range(tasks)), ""
        for _ in range(TRIES):
            said = self._run(call, into, tasks)
            missing = [number for number in missing if self._result(into, number, digest_of(asked)) is None]
            if not missing:
                break
        else:
            raise Unavailable(f"the command left {len(missing)} of {tasks} parts undone, part {missing[0]} first; {said}",
                              "engine_lost")  # fmt: skip
        for number in range(tasks):
            found = self._result(into, number, digest_of(asked))
            if found is None:
                raise Unavailable(f"the result of part {number} has vanished", "engine_lost")
            yield found

    def _run(self, call: Path, into: Path, tasks: int) -> str:
        """Run the command once; returns how it ended."""
        told = {
            "RIATA_ROWS": str(self._folder / "rows.bin"),
            "RIATA_CALL": str(call),
            "RIATA_PARTS": str(tasks),
            "RIATA_INTO": str(into),
        }
        try:
            done = subprocess.run(self._command, env={**os.environ, **told}, stdin=subprocess.DEVNULL, capture_output=True,
                                  check=False)  # fmt: skip
        except OSError as error:
            raise BadInput(f"--pass-command: {self._command[0]}: {error.strerror}", "bad_option") from None
        said = (done.stderr or done.stdout)[-TOLD_CHARS:].decode("utf-8", "replace").strip() or "it said nothing"
        return f"it ended with {done.returncode}: {said.splitlines()[-1]}"

    @staticmethod
    def _result(into: Path, number: int, call: str) -> Arrays | None:
        """The result of a part; None if there is none of this call."""
        try:
            header, found = decode((into / name_of(number)).read_bytes(), "result")
        except (OSError, Corrupt):
            return None
        if (header["part"], header["call"]) != (number, call):
            return None
        return found
