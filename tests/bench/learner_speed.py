"""The truncated-gradient learner alone, on rows that are ready in memory, compared with its peers and with the memory itself.

Peers learn the same rows in the same order from their fastest source: Vowpal Wabbit from its binary cache, which a pass that is
not timed has written, in one thread beside the one that reads it; scikit-learn from a CSR matrix over as many columns as there
are names. Runs compared with Vowpal Wabbit are three passes with a new model. The time of a run over one row, which is its
start, is subtracted from each of its runs, in wall and in CPU time. Settings are matched: the step sizes, the penalty of 1e-6
at every row. Progressive log losses have to be close.

The limit is the memory: a pass over the same rows that adds 1 to one number of the same line of an equally large table,
prefetched as far ahead, each independent of the others. There both sides use a table that has been touched before. Another side
is the simplest gradient step, feature by feature: no penalty, no rate per feature, no lists, no importance, no check for finite
numbers.

A second limit is independent of memory: within a row each number depends on another. The margin is a sum in the order of the
features, since a prediction has to give the same bits; the slope depends on the margin, the step of each feature on the slope,
and the next row on the new weights. Two sides compute only this, over values in the first-level cache.

Rows: 75 draws a row from 100,000 names by Zipf's law, values of two decimals, labels from a sparse linear model with noise;
and, the worst case, 75 features a row that are spread evenly over all slots.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache as once
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier

from riata.base.arrays import F64, I64, U32
from riata.learn.slot_table import zero_table
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.learn.truncated_gradient import TruncatedGradient
from riata.native.library import address
from riata.wire.batch import Batch, slice_rows
from tests.bench import contest
from tests.bench.contest import Found, Measure, Side
from tests.bench.peers import log_loss
from tests.bench.rivals.vw import vw_run
from tests.running import ROOT

NATIVE = ROOT / "service" / "native"
FLAGS = ("-std=c17", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-march=native")


@once
def library() -> Any:
    """Build and load. Raises `subprocess.CalledProcessError` without a compiler."""
    folder = Path(tempfile.mkdtemp(prefix="riata-limits-"))
    made = folder / "limits.so"
    source = Path(__file__).with_name("limits.c")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, *FLAGS, f"-I{NATIVE}", "-o", str(made), str(source), "-lm"], check=True)
    loaded: Any = ctypes.CDLL(str(made))
    for name in ("descend", "wait_for_each"):
        getattr(loaded, name).restype = ctypes.c_int64
    return loaded


def _at(array: Any) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(address(array))


def touch(line: F64, hashes: U32, shift: int) -> None:
    """Add 1 to the first number of the line of every hash, each prefetched."""
    width, n = ctypes.c_int64(line.shape[1]), ctypes.c_int64(len(hashes))
    library().touch(_at(line), width, _at(hashes), n, ctypes.c_int64(shift))


def descend(line: F64, batch: tuple[I64, U32, F64, F64], shift: int) -> int:
    """The plain gradient step of the logistic loss over all rows: indptr, hash, value, label. Returns the features."""
    sizes = (ctypes.c_int64(len(batch[3])), ctypes.c_int64(shift))
    done: int = library().descend(_at(line), ctypes.c_int64(line.shape[1]), *map(_at, batch), *sizes)
    return done


def wait(value: F64, ends: I64, label: F64, adaptive: bool) -> tuple[int, float]:
    """Only the chain of dependencies of every row. Returns the features, and the last result."""
    moved = np.zeros(1)
    rows, is_adaptive = ctypes.c_int64(len(label)), ctypes.c_bool(adaptive)
    done: int = library().wait_for_each(_at(value), _at(ends), _at(label), rows, is_adaptive, _at(moved))
    return done, float(moved[0])


BITS: Final = 22
BITS_LIBRARIES: Final = 18  # beside libraries, whose weights are as many as there are names
FEATURES: Final = 75
NAMES: Final = 100_000
SEED: Final = 75
LOSS_DIFFERENCE_MAX: Final = 0.05  # each learns by its own rule: their losses are near, not equal
TESTED: Final = 2_000  # rows on which libraries are compared after they have learnt
PASSES: Final = 3  # over the rows, from nothing: on both sides the first one also meets its pages for the first time
CONSTANT: Final[dict[str, Any]] = {"rate": "constant", "normalised": False, "step": "gradient", "eta": 0.1}
ADAPTIVE: Final[dict[str, Any]] = {"rate": "adaptive", "normalised": False, "eta": 0.5, "accumulator": 0.0}
# What Vowpal Wabbit has no equal of is off: with it the losses would not be comparable.
AS_IN_THE_PAPER: Final[dict[str, Any]] = {"centred": False, "calibrated": False, "mixed": False}
NORMALISED: Final[dict[str, Any]] = {"rate": "adaptive", "normalised": True, "eta": 0.5, "accumulator": 0.0, **AS_IN_THE_PAPER}
L1: Final[dict[str, Any]] = {"gravity": 1e-6, "period": 1, "ceiling": float("inf")}
RATES: Final[dict[str, dict[str, Any]]] = {"constant": CONSTANT, "adaptive": ADAPTIVE, "adaptive, normalised": NORMALISED}
VW_OPTIONS: Final = {
    "constant": ["--sgd", "-l", "0.1", "--power_t", "0"],
    "adaptive": ["--adaptive", "--invariant", "-l", "0.5"],
    "adaptive, normalised": ["-l", "0.5"],
}
LIBRARY_BATCHES: Final = {1: 1_000, 10_000: 20_000}  # rows at once: rows learnt


@dataclass(frozen=True, slots=True)
class Rows:
    """The same rows as a batch and by name: which names (i64[nnz]) row i has is batch.indptr[i]:batch.indptr[i + 1]."""

    batch: Batch
    name: Any


def zipf_rows(rows: int) -> Rows:
    """Rows by Zipf's law. A name drawn twice counts once."""
    rng = np.random.default_rng(SEED)
    truth = rng.normal(0.0, 1.0, NAMES) * (rng.random(NAMES) < 0.3)
    hashes = rng.permutation(2**32 // 1024)[:NAMES].astype(np.uint32) * np.uint32(1024) + rng.integers(0, 1024, NAMES, np.uint32)
    name = np.minimum((NAMES ** rng.random((rows, FEATURES))).astype(np.int64), NAMES - 1)  # density 1/rank
    value = np.round(rng.uniform(0.01, 1.0, (rows, FEATURES)), 2)
    label = ((truth[name] * value).sum(axis=1) + rng.logistic(0.0, 0.5, rows) > 0.0).astype(np.float64)
    return _sorted_rows(hashes[name], name, value, label)


def uniform_rows(rows: int) -> Rows:
    """Rows whose features fall evenly on all slots."""
    rng = np.random.default_rng(SEED)
    hashes = rng.integers(0, 2**32, (rows, FEATURES), dtype=np.uint32)
    value = np.round(rng.uniform(0.01, 1.0, (rows, FEATURES)), 2)
    return _sorted_rows(hashes, hashes.astype(np.int64), value, (rng.random(rows) < 0.5).astype(np.float64))


def _sorted_rows(hashes: U32, name: Any, value: F64, label: F64) -> Rows:
    order = np.argsort(hashes, axis=1, kind="stable")
    hashes, name, value = (np.take_along_axis(array, order, 1) for array in (hashes, name, value))
    keep = np.ones(hashes.shape, np.bool_)
    keep[:, 1:] = hashes[:, 1:] != hashes[:, :-1]
    n = len(label)
    indptr = np.concatenate(([0], np.cumsum(keep.sum(axis=1)))).astype(np.int64)
    ids = np.zeros((n, 16), np.uint8)
    return Rows(Batch(indptr, hashes[keep], value[keep], label, np.ones(n), ids, np.zeros(n, np.bool_)), name[keep])


def parts(batch: Batch, rows: int) -> Iterator[Batch]:
    """The batch in pieces of this many rows."""
    for start in range(0, batch.n, rows):
        yield slice_rows(batch, start, min(start + rows, batch.n))


def timed(work: Callable[[], Any], units: int, **facts: float) -> Measure:
    """Wall and CPU time of this thread for one call. No side has another thread, except idle pools of libraries."""
    cpu, start = time.thread_time(), time.perf_counter()
    work()
    return Measure(time.perf_counter() - start, time.thread_time() - cpu, units, facts)


def run_ours(config: TruncatedGradientConfig, batch: Batch) -> Measure:
    """PASSES passes from nothing; the log loss of every row of every pass before it was learnt."""
    learner = TruncatedGradient(config, BITS)
    margins: list[F64] = []
    measure = timed(lambda: margins.extend(learner.step(batch).margin for _ in range(PASSES)), PASSES * batch.nnz)
    facts = {"log_loss": log_loss(np.concatenate(margins), np.tile(batch.label, PASSES)), "rows": float(learner.learnt)}
    return replace(measure, facts=facts)


def run_vw(options: list[str], cache: Path, features: int) -> Measure:
    """PASSES passes over the cache, minus as many over one row."""
    common = ["-b", str(BITS), "--loss_function", "logistic", "--l1", "1e-6", "--passes", str(PASSES), "--holdout_off", *options]
    starts = [vw_run([*common, "--cache_file", str(cache.with_suffix(".empty"))]) for _ in range(3)]
    run = vw_run([*common, "--cache_file", str(cache)])
    seconds = run.seconds - min(start.seconds for start in starts)
    cpu_s = run.cpu_s - min(start.cpu_s for start in starts)
    return Measure(seconds, cpu_s, PASSES * features, {"log_loss": run.progressive_loss, "rows": float(run.examples)})


def write_cache(rows: Rows, folder: Path) -> Path:
    """Write the rows as VW text and let VW make its cache of them, and one without rows."""
    text, batch = folder / "rows.vw", rows.batch
    names, values, ends = rows.name.tolist(), batch.value.tolist(), batch.indptr.tolist()
    with text.open("w", encoding="ascii") as out:
        for i, y in enumerate(batch.label.tolist()):
            pairs = zip(names[ends[i] : ends[i + 1]], values[ends[i] : ends[i + 1]], strict=True)
            out.write(("1" if y else "-1") + " |f " + " ".join(f"w{name}:{value}" for name, value in pairs) + "\n")
    (folder / "none.vw").write_text("1 |f w1:1\n", encoding="ascii")
    for source, cache in ((text, folder / "rows.cache"), (folder / "none.vw", folder / "rows.empty")):
        vw_run(["-b", str(BITS), "--loss_function", "logistic", "-k", "--cache_file", str(cache)], source)
    return folder / "rows.cache"


def same_rows(rows: int) -> Callable[[dict[str, Measure]], str]:
    """Every side has learnt all rows, and the sides with the same rate have similar log losses."""

    def check(first: dict[str, Measure]) -> str:
        for name, measure in first.items():
            if not name.startswith("limit") and measure.facts["rows"] != PASSES * rows:
                return f"{name} learnt {measure.facts['rows']:.0f} rows of {PASSES * rows}"
        for rate in RATES:
            ours, theirs = (first[f"{who}, {rate}"].facts["log_loss"] for who in ("riata", "vw"))
            if abs(ours - theirs) > LOSS_DIFFERENCE_MAX:
                return f"{rate}: log loss {ours:.4f}, vw {theirs:.4f}"
        return ""

    return check


def against_vw(rows: Rows, repeats: int) -> Found:
    """Each rate compared with that of Vowpal Wabbit of the same kind."""
    with tempfile.TemporaryDirectory() as folder:
        cache = write_cache(rows, Path(folder))
        sides = []
        for rate, settings in RATES.items():
            config = TruncatedGradientConfig(**settings, **L1)
            sides.append(Side(f"riata, {rate}", partial(run_ours, config, rows.batch)))
            sides.append(Side(f"vw, {rate}", partial(run_vw, VW_OPTIONS[rate], cache, rows.batch.nnz)))
        return contest.contest(sides, repeats, same_rows(rows.batch.n))


def run_library_ours(batch: Batch, at_once: int, tested: Batch) -> Measure:
    """Our learner with the constant rate, `at_once` rows a call."""
    learner = TruncatedGradient(TruncatedGradientConfig(**CONSTANT, **L1), BITS_LIBRARIES)
    pieces = list(parts(batch, at_once))
    measure = timed(lambda: [learner.step(piece) for piece in pieces], batch.nnz)
    margin = learner.step(tested, np.ones(tested.n, np.bool_)).margin
    return Measure(measure.seconds, measure.cpu_s, batch.nnz, {"later log loss": log_loss(margin, tested.label)})


def run_sklearn(table: Any, label: F64, at_once: int, tested: tuple[Any, F64]) -> Measure:
    """scikit-learn's stochastic gradient with the same step size, penalty and order, `at_once` rows a call."""
    learner = SGDClassifier(loss="log_loss", penalty="l1", alpha=1e-6, learning_rate="constant", eta0=0.1, shuffle=False)
    pieces = [(table[at : at + at_once], label[at : at + at_once]) for at in range(0, len(label), at_once)]
    classes = np.array([0.0, 1.0])
    measure = timed(lambda: [learner.partial_fit(x, y, classes=classes) for x, y in pieces], table.nnz)
    loss = log_loss(learner.decision_function(tested[0]), tested[1])
    return Measure(measure.seconds, measure.cpu_s, table.nnz, {"later log loss": loss})


def near(first: dict[str, Measure]) -> str:
    """All predict later rows about equally well."""
    losses = {name: measure.facts["later log loss"] for name, measure in first.items()}
    return f"later log losses {losses}" if max(losses.values()) - min(losses.values()) > LOSS_DIFFERENCE_MAX else ""


def against_libraries(rows: Rows, at_once: int, count: int, repeats: int) -> Found:
    """Our learner and scikit-learn over the first `count` rows."""
    batch, later = slice_rows(rows.batch, 0, count), slice_rows(rows.batch, count, count + TESTED)
    table = csr_matrix((rows.batch.value, rows.name, rows.batch.indptr), shape=(rows.batch.n, NAMES))
    tested = (table[count : count + TESTED], later.label)
    sides = [
        Side("riata", partial(run_library_ours, batch, at_once, later)),
        Side("scikit-learn", partial(run_sklearn, table[:count], batch.label, at_once, tested)),
    ]
    return contest.contest(sides, repeats, near)


def run_wait(batch: Batch, adaptive: bool) -> Measure:
    """The chain of dependencies in the rows of a batch."""
    value = np.resize(batch.value[: batch.indptr[1]], int(np.diff(batch.indptr).max()))
    done: list[int] = []
    measure = timed(lambda: done.append(wait(value, batch.indptr, batch.label, adaptive)[0]), batch.nnz)
    return Measure(measure.seconds, measure.cpu_s, batch.nnz, {"features": float(done[0])})


def run_plain(line: F64, batch: Batch, bits: int) -> Measure:
    """One more pass of the plain step over weights that know the rows."""
    done: list[int] = []
    rows = (batch.indptr, batch.hash, batch.value, batch.label)
    measure = timed(lambda: done.append(descend(line, rows, 32 - bits)), batch.nnz)
    return Measure(measure.seconds, measure.cpu_s, batch.nnz, {"features": float(done[0])})


def run_limit(line: F64, batch: Batch, bits: int) -> Measure:
    """One pass over a table that has been touched before."""
    before = float(line[:, 0].sum()) if bits == BITS else 0.0
    measure = timed(lambda: touch(line, batch.hash, 32 - bits), batch.nnz)
    added = float(line[:, 0].sum()) - before if bits == BITS else float(batch.nnz)
    return Measure(measure.seconds, measure.cpu_s, batch.nnz, {"features": added})


def run_again(learner: TruncatedGradient, batch: Batch) -> Measure:
    """One more pass of a learner that knows the rows."""
    before = learner.learnt
    measure = timed(lambda: learner.step(batch), batch.nnz)
    done = batch.nnz if learner.learnt - before == batch.n else 0
    return Measure(measure.seconds, measure.cpu_s, batch.nnz, {"features": float(done)})


def against_memory(rows: Rows, bits: int, repeats: int) -> Found:
    """Each rate compared with the limit of a table of the same size."""
    batch = rows.batch
    sides, settled = [], {}
    for rate, settings in RATES.items():
        settled[rate] = TruncatedGradient(TruncatedGradientConfig(**settings, **L1), bits)
        for _ in range(3):
            settled[rate].step(batch)
        sides.append(Side(f"riata, {rate}", partial(run_again, settled[rate], batch)))
    for width in (2, 4):
        line = zero_table(2**bits, width)
        touch(line, batch.hash, 32 - bits)
        sides.append(Side(limit_name(width), partial(run_limit, line, batch, bits)))

    for rate, adaptive in (("constant", False), ("adaptive", True)):
        sides.append(Side(f"limit, what waits, {rate}", partial(run_wait, batch, adaptive)))

    weights = zero_table(2**bits, 2)
    for _ in range(3):
        run_plain(weights, batch, bits)
    sides.append(Side("plain gradient, lines of 16 bytes", partial(run_plain, weights, batch, bits)))

    def same(first: dict[str, Measure]) -> str:
        counts = {name: measure.facts["features"] for name, measure in first.items()}
        return f"features: {counts}" if set(counts.values()) != {float(batch.nnz)} else ""

    return contest.contest(sides, repeats, same)


def limit_name(width: int) -> str:
    """The name of the limit of a table with lines of this many numbers."""
    return f"limit, lines of {8 * width} bytes"


def main() -> int:
    """Measure and report."""
    options = contest.arguments(__doc__ or "").parse_args()
    count, repeats = (20_000, 2) if options.quick else (200_000, 9)
    zipf = zipf_rows(count + TESTED)
    vw = against_vw(Rows(slice_rows(zipf.batch, 0, count), zipf.name), repeats)
    tables = [f"From nothing, beside Vowpal Wabbit:\n\n{contest.contenders(vw, 'feature', ('log_loss',))}"]
    for at_once, most in LIBRARY_BATCHES.items():
        found = against_libraries(zipf, at_once, min(most, count), min(repeats, 5))
        tables.append(f"From nothing, {at_once:,} row{'s' * (at_once > 1)} a call:\n\n{contest.contenders(found, 'feature')}")
    for where, rows in (("Zipf's law", zipf), ("evenly", uniform_rows(count // 4))):
        found = against_memory(rows, BITS, repeats)
        table = contest.contenders(found, "feature", ours=limit_name(4))
        tables.append(f"A table of 2^{BITS} slots touched before, {where}:\n\n{table}")
    packages = ["numpy", "scikit-learn"]
    contest.publish("The learner alone", tables, "python -m tests.bench.learner_speed", packages, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
