"""A pool of child processes over the segments of some data: a kernel that fails ends one of them, not the caller.

Theory of operation
    Each process maps the same segments and gets a call once, then numbers of parts (`worker.py`). A thread of the caller waits
    for each process. Results are handed out in the order of the parts and summed by the tree of `batch.pool`, so they have the
    same bits as in one thread.

    A process that ends, sends what is no message, or is silent for `patience_s` (for a walk: times the number of parts), is
    killed, and another one does its part again.
    Patience doubles with each try: on a slow machine a part takes its time. After TRIES a part raises `Unavailable`: never a
    partial sum. An error that a process reports, such as a segment with another content, would be the same again, so it is
    raised at once. Processes end with their standard input, which the system closes when the caller ends for any reason.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt, Unavailable
from riata.base.process import end_child, start_child
from riata.lab.batch.pool import in_order
from riata.lab.batch.segment_data import SegmentData
from riata.lab.pools.message import RowsPool, decode, digest_of, encode_rows, reported
from riata.lab.pools.worker import LENGTH, READY, frame, part_frame

PATIENCE_S: Final = 300.0
START_S: Final = 60.0
TRIES: Final = 4
END_S: Final = 5.0
ROWS: Final = "rows.bin"
PIPE_BYTES: Final = 2**20


class _Lost(Exception):
    """A process ended, was silent for too long, or sent what is no message."""


class Worker:
    """One child process. One thread at a time uses it."""

    def __init__(self, rows: Path) -> None:
        self._told: str = ""
        self.process = start_child("riata.lab.pools.worker", rows, subprocess.DEVNULL, 0)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)

    def await_start(self) -> None:
        """Wait until it has mapped the rows. Raises `_Lost`."""
        if self._read(len(READY), time.monotonic() + START_S) != READY:
            raise _Lost("it began with what is no message")

    def run(self, call: bytes, digest: str, number: int, patience_s: float) -> Arrays:
        """Do one part. Raises `_Lost`, and the error that the process reports."""
        deadline = time.monotonic() + patience_s
        try:
            if self._told != digest:
                for content in frame(call):
                    self._write(content, deadline)
                self._told = digest
            self._write(part_frame(number), deadline)
            (length,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
            content = self._read(length, deadline)
            failed = reported(content)
            header, found = ({}, {}) if failed is not None else decode(content, "result")
        except (OSError, Corrupt) as error:
            raise _Lost(str(error)) from None
        if failed is not None:
            raise failed
        if (header["part"], header["call"]) != (number, digest):
            raise _Lost("it answered another question")
        return found

    def _write(self, content: bytes, deadline: float) -> None:
        view = memoryview(content)
        while view:
            self._await(self._in, select.POLLOUT, deadline)
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(self._in, view[:PIPE_BYTES]) :]

    def _read(self, size: int, deadline: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            self._await(self._out, select.POLLIN, deadline)
            with contextlib.suppress(BlockingIOError):
                piece = os.read(self._out, min(size - len(found), PIPE_BYTES))
                if not piece:
                    raise _Lost(f"it ended with {self.process.poll()}")
                found += piece
        return bytes(found)

    def _await(self, descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise _Lost("it was silent for too long")


class Processes(RowsPool):
    """The pool. Use as a context manager. `workers` : how many processes

    data       : whose parts it does; those of other data are refused
    patience_s : that a process may be silent for, at first
    """

    def __init__(self, data: SegmentData, workers: int, patience_s: float = PATIENCE_S) -> None:
        self.workers = workers
        self._patience_s = patience_s
        self._data = data
        self._folder = TemporaryDirectory(prefix="riata-pool-")
        self._path = Path(self._folder.name) / ROWS
        content = encode_rows(data)
        self._rows = digest_of(content)
        self._path.write_bytes(content)
        self._idle: queue.LifoQueue[Worker | None] = queue.LifoQueue()  # None: one that is not started yet
        self._started: list[Worker] = []
        for _ in range(workers):
            self._idle.put(None)
        self._threads = ThreadPoolExecutor(workers, "riata-processes")

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes, and remove the rows file."""
        self._threads.shutdown(cancel_futures=True)
        for worker in self._started:
            end_child(worker.process, END_S)
        self._folder.cleanup()

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes that run."""
        return [worker.process.pid for worker in self._started if worker.process.poll() is None]

    def _tasks(self, content: bytes, numbers: Iterable[int], patience_s: float) -> Iterator[Arrays]:
        digest = digest_of(content)
        return in_order((partial(self._threads.submit, self._do, content, digest, n, patience_s) for n in numbers), self.workers)

    def _do(self, call: bytes, digest: str, number: int, patience_s: float) -> Arrays:
        why = ""
        for tried in range(TRIES):
            worker = self._idle.get()
            try:
                if worker is None:
                    worker = Worker(self._path)
                    self._started.append(worker)
                    worker.await_start()
                return worker.run(call, digest, number, patience_s * 2**tried)
            except (_Lost, OSError) as error:
                why = str(error)
                if worker is not None:
                    end_child(worker.process)
                    self._started.remove(worker)
                    worker = None
            finally:
                self._idle.put(worker)
        raise Unavailable(f"part {number}: {TRIES} processes did not finish it, the last because {why}", "engine_lost")
