"""Durable appends to the embedded store against writing the same bytes to a file and syncing it.

Each shape of request is appended to a store on its own, durable on return, everything inside the clock: encoding, digests, the
index of event ids, the database, its sync, and the folding of its write-ahead log. Beside it, in turns and on the same disk, the
same encoded records are written one after another to a plain file with a sync (fdatasync) after each: the limit of the disk.
Short payloads are written twice, to the write-ahead log and later to the table; those of thousands of values once, to a file of
their own, with one sync more.

Shapes: one event; ten requests of one event in one group; 1000 events x 75 features, values exact in float32 (about 0.6 MB) or
not (about 0.9 MB); the former with 1000 new feature names; the former with 1000 new event ids beside a million known ones.

"ms p50" and "ms p99" are times of single appends, "worst ms" shows the folding; appends/s are over all time.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import Progress

from riata.store.payload import encode_batch
from riata.store.sqlite.store import SqliteStore, open_sqlite
from riata.store.store import Append
from riata.wire.batch import Batch
from riata.wire.names import Names
from tests.bench import report

ROWS: Final = 1000
FEATURES: Final = 75
NAME_BYTES: Final = 8
ROUNDS: Final = 5
IDS_AT_ONCE: Final = 10_000  # a request has no more rows
SEED: Final = 560


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of append. known: event ids that are in the index before the timing starts."""

    name: str
    appends: int  # in one round
    group: Callable[[np.random.Generator], list[Append]]
    known: int = 0


@dataclass(slots=True)
class Measured:
    """Seconds of each append and of each plain write; bytes of the records."""

    store_s: list[float] = field(default_factory=list)
    plain_s: list[float] = field(default_factory=list)
    content: int = 0


def batch(rng: np.random.Generator, rows: int, features: int, exact: bool) -> Batch:
    """Rows without ids; if `exact`, values are exact in float32."""
    steps = rng.integers(1, 2**32 // (features + 1), (rows, features), dtype=np.int64)
    value = rng.integers(1, 100, rows * features) / (64.0 if exact else 100.0)
    indptr = np.arange(rows + 1, dtype=np.int64) * features
    label = rng.integers(0, 2, rows).astype(np.float64)
    hashes = steps.cumsum(axis=1).astype(np.uint32).ravel()
    return Batch(indptr, hashes, value, label, np.ones(rows), np.zeros((rows, 16), np.uint8), np.zeros(rows, np.bool_))


def with_ids(rng: np.random.Generator, plain: Batch) -> Batch:
    """The same rows, each with a new id."""
    ids = np.frombuffer(rng.bytes(16 * plain.n), np.uint8).reshape(plain.n, 16)
    return dataclasses.replace(plain, event_id=ids, has_id=np.ones(plain.n, np.bool_))


def names(rng: np.random.Generator, count: int) -> Names:
    """New names."""
    fingerprint = rng.integers(0, 2**63, count).astype(np.uint64)
    text = rng.integers(ord("a"), ord("z") + 1, NAME_BYTES * count).astype(np.uint8)
    return Names(fingerprint, np.full(count, NAME_BYTES, np.uint32), text)


def observe(rows: Batch, new_names: Names | None = None) -> Append:
    """One request, independent of the client."""
    return Append("bench", "observe", 0, rows, names=new_names or ())


def shapes(known: int) -> list[Shape]:
    """All shapes of the report."""
    return [
        Shape("1 event", 400, lambda rng: [observe(batch(rng, 1, FEATURES, exact=True))]),
        Shape("10 x 1 event", 400, lambda rng: [observe(batch(rng, 1, FEATURES, exact=True)) for _ in range(10)]),
        Shape("1000 events", 80, lambda rng: [observe(batch(rng, ROWS, FEATURES, exact=True))]),
        Shape("1000 events, float64", 60, lambda rng: [observe(batch(rng, ROWS, FEATURES, exact=False))]),
        Shape("1000 events, names", 60, lambda rng: [observe(batch(rng, ROWS, FEATURES, exact=True), names(rng, ROWS))]),
        Shape("1000 events, ids", 40, lambda rng: [observe(with_ids(rng, batch(rng, ROWS, FEATURES, exact=True)))], known),
    ]


def time_store(store: SqliteStore, groups: Sequence[Sequence[Append]]) -> list[float]:
    """Seconds of each append. Raises `RuntimeError` if an event was not accepted, because the measurement would be invalid."""
    taken = []
    for group in groups:
        start = time.perf_counter()
        answers = store.append(group)
        taken.append(time.perf_counter() - start)
        if not all(answer.accepted.all() for answer in answers):
            raise RuntimeError("the store did not accept every event")
    return taken


def time_plain(path: Path, contents: Sequence[bytes]) -> list[float]:
    """Seconds of each write and sync to a new file."""
    taken = []
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    for content in contents:
        start = time.perf_counter()
        os.write(file, content)
        os.fdatasync(file)
        taken.append(time.perf_counter() - start)
    os.close(file)
    path.unlink()
    return taken


def measure(shape: Shape, directory: Path, rng: np.random.Generator, tick: Callable[[], None]) -> Measured:
    """Run one shape on a new store, alternating with the plain file; the first round is discarded."""
    store = open_sqlite(directory / "store")
    store.create("bench", rng.bytes(16))
    for _ in range(-(-shape.known // IDS_AT_ONCE)):
        store.append([observe(with_ids(rng, batch(rng, IDS_AT_ONCE, 1, exact=True)))])
    found = Measured()
    for at in range(ROUNDS + 1):
        groups = [shape.group(rng) for _ in range(shape.appends)]
        contents = [b"".join(encode_batch(a.batch) for a in group if a.batch is not None) for group in groups]
        store_s, plain_s = time_store(store, groups), time_plain(directory / "plain", contents)
        if at > 0:
            found.store_s += store_s
            found.plain_s += plain_s
            found.content += sum(map(len, contents))
        tick()
    store.close()
    return found


def line(shape: Shape, found: Measured) -> list[str]:
    """One line of the table."""
    store_s, plain_s, count = sum(found.store_s), sum(found.plain_s), len(found.store_s)
    p99 = statistics.quantiles(found.store_s, n=100)[-1]
    return [
        shape.name, f"{found.content / count / 1e3:,.1f}", f"{count / store_s:,.0f}", f"{found.content / store_s / 1e6:,.1f}",
        f"{1e3 * statistics.median(found.store_s):.2f}", f"{1e3 * p99:.2f}", f"{1e3 * max(found.store_s):.1f}",
        f"{count / plain_s:,.0f}", f"{1e3 * statistics.median(found.plain_s):.2f}", f"{plain_s / store_s:.2f}",
    ]  # fmt: skip


def main() -> int:
    """Run and report."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument(
        "--directory", type=Path, help="on the disk to measure (default: the system's folder for temporary files)"
    )
    parser.add_argument("--known", type=int, default=1_000_000, help="event ids in the index beforehand (default 1,000,000)")
    options = parser.parse_args()
    rng = np.random.default_rng(SEED)
    rows = []
    with Progress(console=Console(stderr=True)) as progress:
        for shape in shapes(options.known):
            task = progress.add_task(shape.name, total=ROUNDS + 1)
            with tempfile.TemporaryDirectory(dir=options.directory) as folder:
                found = measure(shape, Path(folder), rng, lambda task=task: progress.advance(task))  # type: ignore[misc]
            rows.append(line(shape, found))
    heads = [
        "append",
        "kB",
        "appends/s",
        "MB/s",
        "ms p50",
        "ms p99",
        "worst ms",
        "plain writes/s",
        "plain ms p50",
        "store / plain",
    ]
    text = (
        "# Durable appends against the disk\n\n"
        + report.table(heads, rows)
        + f"\nEvery append is synced before it returns. {ROUNDS} rounds of each side in turns, after one that is thrown away; "
        f"appends/s are over all time, folding included; ids: beside {options.known:,} known ones.\n\n"
        + report.conditions("python -m tests.bench.append_log", ["numpy"])
    )  # fmt: skip
    report.publish("append_log", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
