"""A pool on the workers of a Dask cluster (extra `riata[dask]`). The only file that imports Dask.

A task is the name of `do_part`, two paths, two digests and a number; its result is a message. Dask itself pickles, so whoever
reaches a scheduler can run code on its workers: only `tls://` and loopback addresses are accepted.

Workers have to see the folder of the rows file and of the calls (TMPDIR), and the segments, under the same paths.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from distributed import Client, Future, KilledWorker, Security
from distributed.comm import CommClosedError

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, Conflict, Corrupt, RiataError, Unavailable
from riata.lab.batch.passes import Job, WalkName
from riata.lab.batch.pool import in_order
from riata.lab.batch.segment_data import SegmentData
from riata.lab.pools.message import (
    RowsPool,
    decode,
    decode_call,
    decode_rows,
    digest_of,
    encode_error,
    encode_rows,
    reported,
    result_of,
)

PATIENCE_S: Final = 300.0  # for one part, at first; it doubles with each try
CONNECT_S: Final = 10.0
ANSWER_S: Final = 10.0  # for what the scheduler knows by itself
TRIES: Final = 4
SAME: Final = ("riata", "numpy")  # that compute: another version may give other bits
SPOKEN: Final = ("dask", "distributed", "msgpack", "cloudpickle")  # that the processes of a cluster talk with
_LOST: Final = (
    TimeoutError,
    CancelledError,
    KilledWorker,
    CommClosedError,
    OSError,
    RuntimeError,  # of a client that is closed
    UnboundLocalError,  # of `distributed.utils.sync` where what it waits for is cancelled
    Corrupt,
)


class DaskPool(RowsPool):
    """The pool. Use as a context manager. `workers` : threads of the cluster's workers when it was made

    data       : whose parts it does; those of other data are refused
    address    : of the scheduler, `tls://host:port` (certificates as Dask is configured) or `tcp://127.0.0.1:port`
    folder     : for the rows file and the calls
    patience_s : for one part, at first; for the versions of all workers; times the number of parts for a walk

    Raises `BadInput` (code `insecure_engine`), `Conflict` (code `engine_version`), and `Unavailable` (code `engine_lost`).
    """

    def __init__(self, data: SegmentData, address: str, folder: Path, patience_s: float = PATIENCE_S) -> None:
        check_address(address)
        try:
            security = Security() if address.startswith("tls") else None
            self._client: Any = Client(address, timeout=CONNECT_S, set_as_default=False, security=security)
        except (OSError, TimeoutError, ValueError) as error:
            raise Unavailable(f"--dask: no scheduler answers at {address}: {error}", "engine_lost") from None
        try:
            check_versions(self._asked(self._client.get_versions, patience_s, packages=[*SAME, *SPOKEN]))
            self.workers = sum(self._asked(self._client.nthreads).values())
            if not self.workers:
                raise Unavailable(f"--dask: the scheduler at {address} has no workers", "engine_lost")
        except TimeoutError:
            self._close()
            told = f"the scheduler at {address}, or one of its workers, did not answer within {patience_s:g} s"
            raise Unavailable(f"--dask: {told}; remove workers that are paused, or raise --patience-s", "engine_lost") from None
        except RiataError:
            self._close()
            raise
        self._patience_s, self._data = patience_s, data
        content = encode_rows(data)
        self._rows, self._folder = digest_of(content), folder
        (folder / "rows.bin").write_bytes(content)
        self._threads = ThreadPoolExecutor(self.workers, "riata-dask")

    def __enter__(self) -> DaskPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._close()

    def _close(self) -> None:
        with contextlib.suppress(*_LOST):  # a scheduler that is paused does not take leave
            self._client.close(CONNECT_S)

    def _asked(self, question: Callable[..., Any], patience_s: float | None = None, **words: object) -> Any:
        """What a method of the client returns. Raises `TimeoutError`. patience_s : None: ANSWER_S"""
        return self._client.sync(question, callback_timeout=patience_s or ANSWER_S, **words)

    def _tasks(self, content: bytes, numbers: Iterable[int], patience_s: float) -> Iterator[Arrays]:
        call = digest_of(content)
        path = self._folder / f"{call}.bin"
        path.write_bytes(content)
        try:
            calls = (partial(self._threads.submit, self._do, path, call, number, patience_s) for number in numbers)
            yield from in_order(calls, self.workers)
        finally:
            path.unlink()

    def _do(self, path: Path, call: str, number: int, patience_s: float) -> Arrays:
        slow: set[str] = set()
        why = ""
        for tried in range(TRIES):
            future: Future[bytes] | None = None
            try:
                others = [worker for worker in self._asked(self._client.nthreads) if worker not in slow]
                future = self._client.submit(
                    do_part, str(self._folder / "rows.bin"), self._rows, str(path), call, number,
                    workers=others or None, pure=False,
                )  # fmt: skip
                content = future.result(patience_s * 2**tried)
                failed = reported(content)
                header, found = ({}, {}) if failed is not None else decode(content, "result")
            except _LOST as error:
                why = str(error) or "it took too long"
                if future is not None:
                    with contextlib.suppress(*_LOST):  # the scheduler may be lost
                        slow |= {worker for worker, keys in self._asked(self._client.processing).items() if future.key in keys}
                        future.cancel()
                continue
            if failed is not None:
                raise failed
            if (header["part"], header["call"]) == (number, call):
                return found
            why = "it answered another question"
        raise Unavailable(f"part {number}: {TRIES} tries on Dask did not finish it, the last because {why}", "engine_lost")


def do_part(rows: str, rows_digest: str, call: str, digest: str, number: int) -> bytes:
    """Do one part, in a worker. Returns the message with the result, or with the error.

    rows, call : paths of the rows file and of the call
    """
    try:
        data, (job, given) = _data(rows, rows_digest), _call(call, digest)
        return result_of(data, job, given, number, digest)
    except RiataError as error:
        return encode_error(error)


@functools.lru_cache(maxsize=1)
def _data(path: str, digest: str) -> SegmentData:
    return decode_rows(_read(path, digest))


@functools.lru_cache(maxsize=1)
def _call(path: str, digest: str) -> tuple[Job | WalkName, Arrays]:
    return decode_call(_read(path, digest))


def _read(path: str, digest: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise Conflict(f"{path}: {error.strerror}; workers have to see TMPDIR of the client", "stale_part") from None
    if digest_of(content) != digest:
        raise Conflict(f"{path}: this worker sees another file of this name than the client wrote", "stale_part")
    return content


def check_address(address: str) -> None:
    """Raise `BadInput` (code `insecure_engine`) unless traffic to the scheduler is encrypted, or stays on this machine."""
    try:
        scheme, host, port = urlsplit(address).scheme, urlsplit(address).hostname, urlsplit(address).port
    except ValueError:
        scheme, host, port = "", None, None
    if scheme not in ("tls", "tcp") or host is None or port is None:
        raise BadInput(f"--dask: expected tls://HOST:PORT or tcp://127.0.0.1:PORT, got {address[:100]!r}", "bad_option")
    try:
        stays = scheme == "tls" or host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        stays = False
    if not stays:
        told = "Dask runs code that it receives, so use tls://"
        raise BadInput(f"--dask: {address[:100]} is neither encrypted nor on this machine; {told}", "insecure_engine")


def check_versions(found: dict[str, Any]) -> None:
    """Raise `Conflict` (code `engine_version`) if the scheduler or a worker has other versions than this process.

    found : what `Client.get_versions` returns
    """
    own = found["client"]["packages"]
    everywhere: list[tuple[str, Any, tuple[str, ...]]] = [("the scheduler", found["scheduler"], SPOKEN)]
    everywhere += [(f"worker {name}", one, (*SPOKEN, *SAME)) for name, one in found["workers"].items()]
    for who, one, needed in everywhere:
        for name in needed:
            theirs = one["packages"].get(name)
            if theirs != own.get(name):
                told = f"{name} {theirs}" if theirs else f"no {name}"
                raise Conflict(f"--dask: {who} has {told}; this process has {own.get(name)}", "engine_version")
