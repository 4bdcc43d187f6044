"""The cost of publications and checkpoints, compared with one pass over the memory of the learner's table.

Truncated gradient and FTRL-Proximal with the stated number of features, in a table with four slots per feature. Almost all
weights are non-zero. For every size, alternating, each time after 1000 more rows of 75 features:

- publication: all work of the writer to serve the current state: weights, index, metrics, the immutable model.
- pass: every number of the table is read once and added up.
- copy: the table is copied into memory that was written to before.

Before the timing, the published model is compared with that of a learner that was frozen and thawed: the bits are equal.

Then learning is measured, in a thread of the lowest priority like the writer's, alone and during one checkpoint that begins at
the same time. The state is frozen in the learning thread; other threads encode it, write it to the embedded store, sync it and
read it back. The rows take ten seconds to learn, the default interval of checkpoints. Meanwhile a thread that sleeps for a
fifth of a millisecond at a time measures the longest time without the interpreter's lock.
"""

from __future__ import annotations

import functools
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, U32
from riata.base.clock import SystemClock
from riata.base.priority import lower_priority
from riata.run.checkpointer import Checkpointer, Retention
from riata.run.config import config_payload, read_config
from riata.run.log_thread import LogThread
from riata.run.model_state import ModelState
from riata.run.publishing import publish
from riata.store.sqlite.store import SqliteSettings, open_sqlite
from riata.store.store import Append, Owner, Verdict
from riata.wire.batch import Batch
from riata.wiring import hold_freed_memory
from tests.bench import contest, report
from tests.bench.contest import Claim, Found, Measure, Side

LEARNERS: Final = {"truncated gradient": "truncated_gradient", "FTRL-Proximal": "ftrl_proximal"}
SIZES: Final = (16, 18, 20, 22)
CLAIMED: Final = 20
SPARSITY_BITS: Final = 2  # four slots for each weight
ROWS: Final = 1000
FEATURES: Final = 75
BATCHES: Final = 64
SEED: Final = 22
TICK_S: Final = 0.0002
CHECKPOINT_S: Final = 10.0
PASS_REACH: Final = 2.0
SPEED_REACH: Final = 0.95
PUBLICATION: Final = "publication"
PASS: Final = "pass"
COPY: Final = "copy"
ALONE: Final = "learning"
SAVING: Final = "learning beside a checkpoint"


def vocabulary(size: int, bits: int) -> U32:
    """2^size hashes in slots of their own, spread over all of them."""
    rng = np.random.default_rng([SEED, size])
    slots: U32 = np.sort(rng.choice(2**bits, 2**size, replace=False)).astype(np.uint32) << np.uint32(32 - bits)
    return slots


def batch_of(hashes: U32, rng: np.random.Generator) -> Batch:
    """ROWS rows with these features, u32[ROWS, n], strictly increasing in a row; the labels are random."""
    rows, features = hashes.shape
    value: F64 = rng.uniform(0.1, 1.0, rows * features)
    label: F64 = rng.integers(0, 2, (rows,)).astype(np.float64)
    indptr = np.arange(0, (rows + 1) * features, features, dtype=np.int64)
    return Batch(indptr, hashes.ravel(), value, label, np.ones(rows), np.zeros((rows, 16), np.uint8), np.zeros(rows, np.bool_))


def drawn(words: U32, rng: np.random.Generator) -> Batch:
    """Rows of FEATURES features that are drawn from all, each from its own share of them."""
    share = len(words) // FEATURES
    at = np.arange(FEATURES) * share + rng.integers(0, share, (ROWS, FEATURES))
    return batch_of(words[at], rng)


def document(kind: str, bits: int) -> dict[str, Any]:
    """A configuration that keeps nearly every weight non-zero, so that the number of weights is constant."""
    weak = {"gravity": 1e-9} if kind == "truncated_gradient" else {"l1": 1e-3}
    return {"learner": {"kind": kind, **weak}, "encoder": {"bits": bits}}


class Stand:
    """A state with about 2^size non-zero weights, and the operations on it."""

    def __init__(self, kind: str, size: int, store: Path) -> None:
        bits = size + SPARSITY_BITS
        self.log_thread = LogThread(lambda: open_sqlite(store, SqliteSettings(0, 0)), lambda _a, _b: None, self._failed)
        self.log_thread.start().result()
        config = Append("m", "config", 0, payload=config_payload(read_config(document(kind, bits))))
        self._owner: Owner = self.log_thread.call(lambda s: s.acquire(bytes(16), 1, "bench", 0)).result()
        self.log_thread.call(lambda s: s.create("m", bytes(16))).result()
        self.log_thread.call(lambda s: s.append([config])).result()
        self.state = ModelState("m", bytes(16))
        self.state.apply(self.log_thread.call(lambda s: s.read("m", 0)).result()[0])
        rng = np.random.default_rng([SEED, kind == "ftrl_proximal"])
        words = vocabulary(size, bits)
        self.batches = [drawn(words, rng) for _ in range(BATCHES)]
        self._next = 0
        self._seq = 2
        self._clock = SystemClock()
        self._take(batch_of(words[: len(words) // FEATURES * FEATURES].reshape(-1, FEATURES), rng))
        learner: Any = self.state.learner
        self.table: np.ndarray[Any, Any] = learner._table.line
        self._other: np.ndarray[Any, Any] | None = None

    @property
    def non_zeros(self) -> int:
        """The number of non-zero weights."""
        return len(self.state.learner.weights().slot)

    def learn(self) -> None:
        """One batch, as the writer learns it."""
        self._take(self.batches[self._next % BATCHES])
        self._next += 1

    def publish(self) -> Any:
        """The operation of the writer five times per second."""
        return publish(self.state, 0, 1, self._clock)

    def read(self) -> float:
        """Every number of the table, once."""
        return float(self.table.sum())

    def copy(self) -> None:
        """The table, to another place."""
        if self._other is None:
            self._other = np.ones_like(self.table)
        np.copyto(self._other, self.table)

    def save(self, frozen: Any) -> float:
        """Write a checkpoint; returns the time it took."""
        begun = time.perf_counter()
        saved = Checkpointer(self.log_thread.call, self._owner, Retention(2, 10**6)).save(frozen, 0, {})
        if saved.verdict is not Verdict.OK:
            raise RuntimeError(f"the checkpoint was not written: {saved.verdict} {saved.detail}")
        return time.perf_counter() - begun

    def served_as_if_thawed(self) -> str:
        """The reason why the published model differs from that of a learner that was frozen and thawed; empty if it does not."""
        frozen = self.state.freeze()
        other = publish(ModelState.thaw(frozen.header, frozen.arrays), 0, 1, self._clock).model
        model = self.publish().model
        same = model.weights.intercept == other.weights.intercept and all(
            one.tobytes() == two.tobytes()
            for one, two in ((model.weights.slot, other.weights.slot), (model.weights.beta, other.weights.beta))
        )
        return "" if same else "a state that was frozen and thawed serves other weights"

    def _take(self, batch: Batch) -> None:
        """Learn without a record: the event of the state stays the one in the log, so that it can be saved."""
        self.state.learn(self._seq, [batch], frozenset())
        self._seq += batch.n

    @staticmethod
    def _failed(reason: str) -> None:
        raise RuntimeError(reason)


@dataclass(slots=True)
class Waits:
    """The longest time between two iterations of a thread that wants to run every TICK_S."""

    longest_s: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Iterate until told to stop."""
        last = time.perf_counter()
        while not self.stop.is_set():
            time.sleep(TICK_S)
            now = time.perf_counter()
            self.longest_s = max(self.longest_s, now - last)
            last = now


@contextmanager
def waiting() -> Iterator[Waits]:
    """Run a thread that needs the interpreter often, during the block."""
    waits = Waits()
    thread = threading.Thread(target=waits.run)
    thread.start()
    try:
        yield waits
    finally:
        waits.stop.set()
        thread.join()


def timed(stand: Stand, work: Callable[[], object]) -> Measure:
    """One run of `work`, after more rows were learnt. Units: numbers of the table."""
    for _ in range(2):
        stand.learn()
    cpu, begun = time.thread_time(), time.perf_counter()
    work()
    return Measure(time.perf_counter() - begun, time.thread_time() - cpu, stand.table.size)


def learn(stand: Stand, count: int, saving: bool) -> Measure:
    """Learn `count` batches in a thread of the lowest priority, during a checkpoint if `saving`."""

    def work() -> tuple[float, float, float]:
        begun, cpu = time.perf_counter(), time.thread_time()
        frozen_s = 0.0
        if saving:
            frozen = stand.state.freeze()
            frozen_s = time.perf_counter() - begun
            futures.append(saver.submit(stand.save, frozen))
        for _ in range(count):
            stand.learn()
        return time.perf_counter() - begun, time.thread_time() - cpu, frozen_s

    futures: list[Any] = []
    pools = [ThreadPoolExecutor(1, initializer=lower_priority) for _ in range(2)]
    saver, learner = pools
    with pools[0], pools[1], waiting() as waits:
        seconds, cpu_s, frozen_s = learner.submit(work).result()
        save_s = sum(future.result() for future in futures)
    facts = {"freeze_ms": 1e3 * frozen_s, "save_s": save_s, "longest_ms": 1e3 * waits.longest_s}
    return Measure(seconds, cpu_s, count * ROWS, facts)


def batches_of(stand: Stand, seconds: float) -> int:
    """The number of batches that take so long."""
    begun = time.perf_counter()
    for _ in range(BATCHES):
        stand.learn()
    return max(1, round(BATCHES * seconds / (time.perf_counter() - begun)))


def over(found: Found, one: str, other: str, of: str = "seconds") -> float:
    """The seconds (or `cpu_s`) of one side over those of the other: the median over the rounds."""
    return float(statistics.median(getattr(a, of) / getattr(b, of) for a, b in zip(found[one], found[other], strict=True)))


def middle_ms(measures: list[Measure]) -> str:
    """Median of the milliseconds."""
    return f"{1e3 * statistics.median(measure.seconds for measure in measures):,.2f}"


@dataclass(slots=True)
class Report:
    """The results, size by size."""

    claims: list[Claim] = field(default_factory=list)
    serving: list[list[str]] = field(default_factory=list)
    saving: list[list[str]] = field(default_factory=list)

    def add(self, name: str, size: int, stand: Stand, served: Found, saved: Found) -> None:
        """Add one learner at one size."""
        at = [name, f"2^{size}", f"{stand.table.nbytes / 2**20:,.0f}"]
        once, copied = over(served, PUBLICATION, PASS), over(served, PUBLICATION, COPY)
        at[1] = f"{stand.non_zeros:,}"
        self.serving.append([*at, *(middle_ms(served[side]) for side in served), f"{once:.2f}×", f"{copied:.2f}×"])
        self.serving[-1].append(f"{over(served, PUBLICATION, PASS, 'cpu_s'):.2f}×")
        kept = over(saved, ALONE, SAVING)
        facts = [f"{contest.fact(saved[SAVING], fact):,.1f}" for fact in ("freeze_ms", "save_s", "longest_ms")]
        alone = f"{contest.fact(saved[ALONE], 'longest_ms'):,.1f}"
        speeds = [f"{1 / contest.per_unit(saved[side]):,.0f}" for side in (ALONE, SAVING)]
        mb = sum(array.nbytes for array in stand.state.freeze().arrays.values()) / 2**20
        self.saving.append([name, f"2^{size}", f"{mb:,.0f}", *speeds, f"{100 * kept:.1f} %", *facts, alone])
        if size == CLAIMED:
            self.claims += [
                Claim(f"{name}, 2^{size} weights", PUBLICATION, "a pass over the table", once, PASS_REACH, at_most=True),
                Claim(f"{name}, 2^{size} weights", SAVING, "learning alone", kept, SPEED_REACH),
            ]

    def tables(self) -> list[str]:
        """As markdown."""
        heads = [
            "learner",
            "weights",
            "table MiB",
            "publication ms",
            "pass ms",
            "copy ms",
            "over a pass",
            "over a copy",
            "a pass, CPU",
        ]
        saving = [
            "learner", "weights", "checkpoint MiB", "rows/s alone", "rows/s beside it", "kept", "freeze ms", "saving s",
            "longest wait ms", "and without",
        ]  # fmt: skip
        return [
            f"## Publication\n\n{report.table(heads, self.serving)}",
            f"## Checkpoint\n\n{report.table(saving, self.saving)}",
        ]


def one_size(found: Report, name: str, size: int, seconds: float, repeats: int) -> None:
    """Measure one learner at one size."""
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(LEARNERS[name], size, Path(folder) / "data")
        try:
            works = {PUBLICATION: stand.publish, PASS: stand.read, COPY: stand.copy}
            sides = [Side(side, functools.partial(timed, stand, work)) for side, work in works.items()]
            served = contest.contest(sides, 3 * repeats, lambda _first: stand.served_as_if_thawed())
            count = batches_of(stand, seconds)
            learning = [Side(ALONE, lambda: learn(stand, count, False)), Side(SAVING, lambda: learn(stand, count, True))]
            found.add(name, size, stand, served, contest.contest(learning, repeats, lambda _first: ""))
        finally:
            stand.log_thread.close()


def main() -> int:
    """Run and report."""
    parser = contest.arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=CHECKPOINT_S, help="of learning beside one checkpoint")
    parser.add_argument("--size", type=int, action="append", help="2^SIZE weights only (may be given again)")
    options = parser.parse_args()
    sizes, seconds, repeats = ((16,), 1.0, 1) if options.quick else (options.size or SIZES, options.seconds, options.repeats)
    hold_freed_memory()  # as the service does
    found = Report()
    for name in LEARNERS:
        for size in sizes:
            one_size(found, name, size, seconds, repeats)
    contest.report_page(
        "snapshot_cost",
        "The cost of publications and checkpoints",
        (__doc__ or "").partition("\n\n")[2],
        found.claims,
        found.tables(),
        [f"{repeats} rounds, three times as many for publications; {seconds:g} s of learning during one checkpoint."],
        "python -m tests.bench.snapshot_cost" + (" --quick" if options.quick else ""),
        ["numpy"],
        write=not options.no_write,
        trial=options.quick,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
