"""The shared store on a Redis of its own: appends, memory of the index of ids, and appends while a checkpoint is uploaded.

Redis syncs every write before it answers (appendfsync always), but for the count of bytes per id, which has nothing to do with
the disk. Everything is one machine, client and server included; say with the figures how busy it was.

    PYTHONPATH=service:. python -m tests.bench.redis_store [appends] [ids] [upload]
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from riata.store.layout import split_chunks
from riata.store.redis.store import open_redis
from riata.wire.batch import Batch
from tests.redis_server import RedisServer, redis_version
from tests.store.batches import batch_of, observe

FEATURES = 20
UPLOAD_BYTES = 128 * 2**20
RNG = np.random.default_rng(1)


def one_event() -> Batch:
    """An event of some features, with a new id."""
    hashes = np.unique(RNG.integers(0, 2**32, FEATURES, dtype=np.int64))
    return batch_of([[(int(h), 1.0) for h in hashes]], [1.0], [RNG.bytes(16)])


def appends(server: RedisServer) -> None:
    """Requests of one event each, this many in one call of `append`."""
    store = open_redis(server.url)
    store.create("m", bytes(16))
    for count in (1, 16, 64):
        groups = [[observe("m", one_event()) for _ in range(count)] for _ in range(300)]
        times = []
        for group in groups:
            start = time.perf_counter()
            store.append(group)
            times.append(1000 * (time.perf_counter() - start))
        rate = 1000 * count * len(groups) / sum(times)
        print(f"{count:3d} requests at once: {rate:6.0f} requests/s, {quantiles(times)}")
    store.close()


def quantiles(times: list[float]) -> str:
    """Median, 99 % and maximum, in ms."""
    return f"p50 {np.quantile(times, 0.5):.2f} ms, p99 {np.quantile(times, 0.99):.2f} ms, max {max(times):.1f} ms"


def ids(server: RedisServer) -> None:
    """Bytes of Redis' memory per id, the log left out."""
    server.cli("CONFIG", "SET", "appendfsync", "no")
    store = open_redis(server.url)
    with server.client() as client:
        for total in (100_000, 1_000_000):
            name = f"m{total}"
            store.create(name, bytes(16))
            before = int(client.info("memory")["used_memory"])
            for _ in range(0, total, 1000):
                events = [RNG.bytes(16) for _ in range(1000)]
                store.append([observe(name, batch_of([[]] * 1000, [1.0] * 1000, events))])
            log = max(client.keys("*:log"))
            after = int(client.info("memory")["used_memory"]) - int(client.memory_usage(log, samples=0))
            print(f"{total} ids: {(after - before) / total:.1f} bytes for each")
    server.cli("CONFIG", "SET", "appendfsync", "always")
    store.close()


def upload(server: RedisServer) -> None:
    """Two processes' worth of appends while 128 MiB are staged in chunks of 256 KiB, back to back and with pauses."""
    store = open_redis(server.url)
    for model in ("log", "state"):
        store.create(model, bytes(16))
    owner = store.acquire(bytes(16), 1, "bench", 1)
    data = RNG.bytes(UPLOAD_BYTES)
    for pause_s in (None, 0.0, 0.005):
        ended = threading.Event()
        times: list[float] = []
        threads = [threading.Thread(target=appending, args=(server, ended, times)) for _ in range(2)]
        for thread in threads:
            thread.start()
        start = time.perf_counter()
        for index, chunk in enumerate(split_chunks([data])):
            if pause_s is not None:
                store.stage(owner, "state", 1, index, chunk)
            time.sleep(pause_s or (0.005 if pause_s is None else 0.0))
        took = time.perf_counter() - start
        ended.set()
        for thread in threads:
            thread.join()
        what = "no upload" if pause_s is None else f"upload, {1000 * pause_s:g} ms between chunks"
        print(f"{what}: {took:.1f} s; appends {quantiles(times)}")
    store.close()


def appending(server: RedisServer, ended: threading.Event, times: list[float]) -> None:
    """Append one event after another until told to end."""
    store = open_redis(server.url)
    while not ended.is_set():
        group = [observe("log", one_event())]
        start = time.perf_counter()
        store.append(group)
        times.append(1000 * (time.perf_counter() - start))
        time.sleep(0.002)
    store.close()


def main() -> None:
    """Run what the command line names, else all."""
    parts = {"appends": appends, "ids": ids, "upload": upload}
    print(
        f"Redis {'.'.join(map(str, redis_version()))}, {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f} at the start"
    )
    for name in sys.argv[1:] or parts:
        with tempfile.TemporaryDirectory() as directory, RedisServer(Path(directory) / "redis") as server:
            parts[name](server)


if __name__ == "__main__":
    main()
