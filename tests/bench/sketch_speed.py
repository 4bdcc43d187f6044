"""The cost of an event in the Taylor sketch, compared with the machine's linear algebra and with the algorithm as printed.

Dense rows: Gaussian features, one in fourteen of them with a weight, an intercept, penalised like the others. The learner, in
exact mode, has learnt four events for each feature, at least 2000, with a solve every 100; further ones are timed, through
`TaylorSketch.step` on batches: this includes everything except parsing.

  solve every 1, 64, 100, 256   events between two solves; 100 is the default, 1 is Balakrishnan & Madigan's Online dsyrk
  OpenBLAS adding 128 rows to a symmetric matrix of that size, per row: the minimum for the sketch. Once with the kernel it
  chooses, once with the one for 512-bit vectors full Shooting            the same events and the same tolerance as printed,
  from the learner's sketch: a rank one update of the whole square, then sweeps over all coordinates until none moves by more;
  in C likewise

Sparse rows: 77 features of 50,000 in the proportions of words in a text (Zipf, exponent 1.05), unit length, 1500 of them with
a weight; 2^18 slots; learners with their defaults, after 20,000 events.

One thread. Times are processor times of that thread, medians over nine rounds, the contenders in turns on the same rows.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import Progress

from riata.base.arrays import F64
from riata.learn.learner import Learner, Sketch
from riata.learn.registry import LearnerConfig, build_learner
from riata.learn.taylor_sketch.learner import TaylorSketchConfig
from riata.learn.truncated_gradient.learner import TruncatedGradientConfig
from riata.wire.batch import Batch, slice_rows
from tests.bench import report
from tests.bench.limits import full_shooting

SEED: Final = 2008
ROUNDS: Final = 9
HASH_BITS: Final = 32
SHARE: Final = 14  # one feature in this many has a weight
GAMMAS: Final = {11: 10.0, 100: 200.0, 1000: 100.0, 4000: 120.0}  # 5 to 10 % of the weights are not zero; of 11 nearly all
BLOCKS: Final = (1, 64, 100, 256)
LEARNT_WITH: Final = 100
BLAS_ROWS: Final = 128
CORE_TYPES: Final = ("", "SkylakeX")  # as OpenBLAS chooses, and its kernel for 512-bit vectors

WORDS: Final = 50_000
WORDS_OF_ROW: Final = 77
ZIPF: Final = 1.05
SPARSE_BITS: Final = 18
SPARSE_ROWS: Final = 20_000
BOUNDED: Final[dict[str, LearnerConfig]] = {
    "truncated gradient": TruncatedGradientConfig(),
    "diag": TaylorSketchConfig(mode="diag"),
    **{f"{mode}, k = {k}": TaylorSketchConfig(mode=mode, k=k) for mode in ("hybrid", "strict") for k in (100, 300, 1000)},
}

_BLAS: Final = """
import json, sys, time
import numpy as np
from scipy.linalg.blas import dsyrk
taken = {}
for d in json.loads(sys.argv[1]):
    a, c = np.asfortranarray(np.random.default_rng(0).standard_normal((d, ROWS))), np.zeros((d, d), order="F")
    calls = max(1, int(1e9 / (d * d * ROWS)))
    times = []
    for _ in range(9):
        start = time.thread_time()
        for _ in range(calls):
            dsyrk(1.0, a, beta=1.0, c=c, overwrite_c=1)
        times.append((time.thread_time() - start) / calls / ROWS * 1e6)
    taken[d] = sorted(times)[4]
print(json.dumps(taken))
""".replace("ROWS", str(BLAS_ROWS))


def blas_row_us(core_type: str) -> dict[int, float]:
    """Microseconds of dsyrk for a row, by d; empty if this machine cannot run that kernel."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"} | ({"OPENBLAS_CORETYPE": core_type} if core_type else {})
    command = [sys.executable, "-c", _BLAS, json.dumps(list(GAMMAS))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return {int(d): us for d, us in json.loads(done.stdout).items()} if done.returncode == 0 else {}


def to_batch(indptr: Any, at: Any, value: F64, label: F64, bits: int) -> Batch:
    """Rows whose feature j is at slot j + 1 of a table of that size."""
    n = len(label)
    hashes = ((at + 1) << (HASH_BITS - bits)).astype(np.uint32)
    return Batch(indptr.astype(np.int64), hashes, value, label, np.ones(n), np.zeros((n, 16), np.uint8), np.zeros(n, np.bool_))


def dense_rows(d: int, n: int) -> Iterator[Batch]:
    """Batches of n rows with d - 1 features, for ever; the intercept is the learner's."""
    rng = np.random.default_rng(SEED + d)
    beta = np.where(np.arange(d - 1) % SHARE == 0, rng.standard_normal(d - 1), 0.0)
    beta *= 4.0 / np.linalg.norm(beta)
    at = np.tile(np.arange(d - 1), n)
    while True:
        x = rng.standard_normal((n, d - 1))
        margin = (x * beta).sum(axis=1)  # not x @ beta: the threads of OpenBLAS go on spinning beside what is timed next
        label = (rng.random(n) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64)
        yield to_batch(np.arange(n + 1) * (d - 1), at, x.ravel(), label, 13)


def sparse_rows(n: int) -> Iterator[Batch]:
    """Batches of n rows of words, for ever."""
    rng = np.random.default_rng(SEED)
    beta = np.zeros(WORDS)
    beta[rng.choice(5000, 1500, replace=False)] = rng.standard_normal(1500) * 3.0
    share = np.cumsum(np.arange(1.0, WORDS + 1.0) ** -ZIPF)
    while True:
        drawn = np.searchsorted(share, rng.random((n, 2 * WORDS_OF_ROW)) * share[-1])
        rows = [np.sort(np.unique(row)[:WORDS_OF_ROW]) for row in drawn]
        lengths = np.array([len(row) for row in rows])
        indptr, at = np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(rows)
        value = np.repeat(1.0 / np.sqrt(lengths), lengths)
        margin = np.add.reduceat(value * beta[at], indptr[:-1])
        label = (rng.random(n) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64)
        yield to_batch(indptr, at, value, label, SPARSE_BITS)


@dataclass(frozen=True, slots=True)
class Dense:
    """Microseconds an event at one d: of the learner by rows between two solves, and of the algorithm as printed."""

    d: int
    support: int
    learner: dict[int, float]
    printed: float
    moves: float  # weights moved an event, as printed


def rows_at_once(d: int) -> int:
    """Rows of one timed batch: a few milliseconds' worth, and whole blocks."""
    return 2048 if d <= 100 else 512


def rows_timed(d: int) -> int:
    """Rows of one timed batch when every row costs d^2."""
    return max(8, 1_000_000 // d**2)


def first_rows(batch: Batch, n: int) -> Batch:
    """The first n rows of a batch, or all."""
    return slice_rows(batch, 0, min(n, batch.n))


def step_us(learner: Learner, batch: Batch) -> float:
    """Microseconds an event of one call."""
    start = time.thread_time()
    learner.step(batch)
    return (time.thread_time() - start) / batch.n * 1e6


def run_dense(d: int, tick: Any) -> Dense:
    """Learn, then time every contender alternately on the same rows."""
    configs = {
        block: TaylorSketchConfig(
            mode="exact",
            block=block,
            ramp=0.0,
            gamma=GAMMAS[d],
            gamma_intercept=GAMMAS[d],
            features_max=d,
            warm_up=0,
            sweeps_max=1000,
            standardised=False,
        )
        for block in BLOCKS
    }
    learners = {block: build_learner(config, 18, 0) for block, config in configs.items()}
    rows = dense_rows(d, rows_at_once(d))
    for _ in range(max(2000, 4 * d) // rows_at_once(d) + 1):
        learners[LEARNT_WITH].step(next(rows))
        tick()
    for learner in learners.values():
        learner.thaw(learners[LEARNT_WITH].freeze())
    taken: dict[int, list[float]] = {block: [] for block in BLOCKS}
    printed, moves = [], []
    for _ in range(ROUNDS):
        batch = next(rows)
        us, moved = printed_us(learners[LEARNT_WITH].sketch(), configs[LEARNT_WITH], batch)
        printed.append(us)
        moves.append(moved)
        for block, learner in learners.items():
            taken[block].append(step_us(learner, first_rows(batch, rows_timed(d)) if block == 1 else batch))
        tick()
    support = len(learners[LEARNT_WITH].weights().slot)
    medians = {block: statistics.median(times) for block, times in taken.items()}
    return Dense(d, support, medians, statistics.median(printed), statistics.median(moves))


def printed_us(sketch: Sketch | None, config: TaylorSketchConfig, batch: Batch) -> tuple[float, float]:
    """Microseconds and moves an event of full Shooting from a sketch, on the first rows of a batch."""
    if sketch is None:
        raise RuntimeError("the learner keeps no sketch")
    d = len(sketch.slot)
    n = min(batch.n, rows_timed(d))
    x = np.ones((n, d))
    x[:, 1:] = batch.value[: n * (d - 1)].reshape(n, d - 1)
    arrays = (sketch.cross, sketch.curvature, sketch.gradient, sketch.beta, sketch.gamma)
    start = time.thread_time()
    moves = full_shooting(arrays, x, batch.label[:n], (config.curvature_floor, config.tolerance * config.gamma))
    return (time.thread_time() - start) / n * 1e6, moves / n


def run_sparse(tick: Any) -> list[list[str]]:
    """Lines of the table of sparse rows."""
    learners = {name: build_learner(config, SPARSE_BITS, 0) for name, config in BOUNDED.items()}
    rows, taken = sparse_rows(SPARSE_ROWS // ROUNDS), {name: [0.0] * 0 for name in BOUNDED}
    for at in range(2 * ROUNDS):
        batch = next(rows)
        for name, learner in learners.items():
            us = step_us(learner, batch)
            if at >= ROUNDS:
                taken[name].append(us)
        tick()
    fastest = statistics.median(taken["truncated gradient"])
    return [
        [
            name,
            f"{statistics.median(times):.2f}",
            f"{statistics.median(times) / fastest:.1f}",
            f"{len(learners[name].weights().slot):,}",
        ]
        for name, times in taken.items()
    ]


def dense_table(found: list[Dense], blas: dict[str, dict[int, float]]) -> str:
    """One line for each d."""
    best = {d: min(times[d] for times in blas.values() if times) for d in GAMMAS}
    heads = ["d", "non-zero", *(f"{name or 'default'} dsyrk" for name in blas)]
    heads += [f"solve every {block}" for block in BLOCKS] + [
        "full Shooting",
        f"full / every {LEARNT_WITH}",
        *(f"every {block} / dsyrk" for block in BLOCKS),
    ]
    lines = []
    for one in found:
        line = [str(one.d), str(one.support), *(f"{times[one.d]:.2f}" if times else "-" for times in blas.values())]
        line += [f"{one.learner[block]:.2f}" for block in BLOCKS]
        line += [f"{one.printed:,.2f}", f"{one.printed / one.learner[LEARNT_WITH]:.1f}"]
        lines.append([*line, *(f"{one.learner[block] / best[one.d]:.2f}" for block in BLOCKS)])
    return report.table(heads, lines)


def main() -> int:
    """Run and report."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--dims", type=int, nargs="*", default=list(GAMMAS), help="which d to run")
    options = parser.parse_args()
    blas = {core_type: blas_row_us(core_type) for core_type in CORE_TYPES}
    found = []
    with Progress(console=Console(stderr=True)) as progress:
        for d in options.dims:
            task = progress.add_task(f"d = {d}", total=max(2000, 4 * d) // rows_at_once(d) + 1 + ROUNDS)
            found.append(run_dense(d, lambda task=task: progress.advance(task)))
        task = progress.add_task("sparse", total=2 * ROUNDS)
        sparse = run_sparse(lambda: progress.advance(task))
    after = {core_type: blas_row_us(core_type) for core_type in CORE_TYPES}  # the machine may have changed its mind
    blas = {name: {d: statistics.mean((us, after[name][d])) for d, us in times.items()} for name, times in blas.items()}
    text = (
        "# Cost of an event in the Taylor sketch\n\nProcessor time of an event in microseconds, one thread.\n\n"
        "## Dense rows, exact\n\n"
        + dense_table(found, blas)
        + "\n## Text-like sparse rows, bounded\n\n"
        + report.table(["learner", "us an event", "times truncated gradient", "non-zero"], sparse)
        + "\n"
        + report.conditions("python -m tests.bench.sketch_speed", ["numpy", "scipy"])
    )
    report.publish("sketch_speed", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
