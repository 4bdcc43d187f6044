"""Batch optima to a duality gap of 1e-6: time of MP and RMMP beside liblinear, skglm and celer, at the same objective.

The intercept is penalised like the other weights, because liblinear cannot do otherwise: it is a column of ones there, and has
gamma here. Penalties are shares of the smallest gamma at which a free intercept would be the only weight. A peer's tolerance is
the loosest of a ladder with which its objective is within 1e-6 of the optimum, found beforehand. Runs are interleaved, in one
thread, and take processor time; medians of five are shown. Converting the rows is not counted on any side: ours begins with rows,
skglm and celer with columns.

Writes batch.md in about a quarter of an hour; `OMP_NUM_THREADS=1` keeps the peers to one thread. skglm and celer are not among
the packages of the tests, and are left out if they cannot be imported: `pip install --no-deps --target DIR skglm celer numba
llvmlite`, and DIR in PYTHONPATH. A peer that takes more than PATIENCE times our time, and more than SECONDS, at a looser
tolerance is not measured further.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, hstack
from scipy.special import log_expit
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression

from riata.base.arrays import F64, I64, U32
from riata.lab.batch.choose import auto
from riata.lab.batch.data import DataInMemory, in_memory
from riata.lab.batch.pool import Serial
from riata.lab.batch.problem import Problem, Solution
from riata.lab.batch.rmmp import Rmmp
from tests.bench import report
from tests.bench.sketch_runs import write_csv
from tests.bench.streams import count_words, open_lines, shared_file

ZIPF: Final = 0.9  # word frequency falls with this power of the rank
TOPIC_WORDS: Final = 600


@dataclass(frozen=True, slots=True)
class Matrix:
    """Compressed rows: indptr i64[n + 1], column u32[nnz], value f64[nnz]; label f64[n] is -1 or 1."""

    name: str
    indptr: I64
    column: U32
    value: F64
    label: F64

    def data(self) -> DataInMemory:
        """The rows as the solvers take them."""
        return in_memory(self.indptr, self.column, self.value, self.label, np.ones(len(self.label)))


def of_rows(name: str, rows: list[dict[int, float]], labels: list[float]) -> Matrix:
    """A matrix of rows that are given as dictionaries."""
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    column = np.array([j for row in rows for j in row], np.uint32)
    value = np.array([x for row in rows for x in row.values()])
    return Matrix(name, indptr, column, value, np.array(labels))


def reuters_acq() -> Matrix:
    """ModApte, training part, category acq: one plus the logarithm of the count of each word of title and body."""
    words: dict[str, int] = {}
    rows, labels = [], []
    for line in open_lines("reuters21578_modapte.jsonl.gz"):
        story = json.loads(line)
        if story["split"] == "train":
            counts = count_words(f"{story['title'] or ''}\n{story['body'] or ''}")
            rows.append({words.setdefault(word, len(words)): 1.0 + math.log(n) for word, n in counts})
            labels.append(1.0 if "acq" in story["topics"] else -1.0)
    return of_rows("reuters", rows, labels)


def uci(name: str, file: str, target: Callable[[dict[str, str]], bool], label: str) -> Matrix:
    """A table of numbers; columns are divided by their largest absolute value; zeros and what is missing are left out."""
    table = list(csv.DictReader(open_lines(file)))
    names = [column for column in table[0] if column not in (label, "id")]
    x = np.array([[0.0 if row[column].strip() in ("?", "") else float(row[column]) for column in names] for row in table])
    x /= np.maximum(np.abs(x).max(axis=0), 1e-300)
    rows = [dict(zip(np.flatnonzero(row).tolist(), row[row != 0.0].tolist(), strict=True)) for row in x]
    return of_rows(name, rows, [1.0 if target(row) else -1.0 for row in table])


def dense_design(n: int = 5000, d: int = 500) -> Matrix:
    """Standard normal columns, of which every tenth matters."""
    rng = np.random.default_rng(17)
    x = rng.standard_normal((n, d))
    margin = x @ np.where(np.arange(d) % 10 == 0, rng.standard_normal(d), 0.0)
    label = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-margin)), 1.0, -1.0)
    return Matrix("dense", np.arange(n + 1) * d, np.tile(np.arange(d, dtype=np.uint32), n), x.ravel(), label)


def correlated_design(n: int = 2600, d: int = 500) -> Matrix:
    """Columns whose means are far from zero beside how much they vary, of which every tenth matters."""
    rng = np.random.default_rng(17)
    own = rng.standard_normal((n, d))
    margin = own @ np.where(np.arange(d) % 10 == 0, rng.standard_normal(d), 0.0)
    label = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-margin)), 1.0, -1.0)
    x = rng.uniform(5.0, 40.0, d) * own + 480.0
    return Matrix("correlated", np.arange(n + 1) * d, np.tile(np.arange(d, dtype=np.uint32), n), x.ravel(), label)


def census() -> Matrix:
    """a9a, training part: one-hot fields, so columns add up to one."""
    with gzip.open(shared_file("a9a_train.svmlight.gz")) as file:
        x, y = load_svmlight_file(file)
    return Matrix("a9a", x.indptr.astype(np.int64), x.indices.astype(np.uint32), x.data, y)


class Block(NamedTuple):
    """Consecutive rows of a matrix; see `Matrix`."""

    indptr: I64
    column: U32
    value: F64
    label: F64


def rcv1_blocks(n: int, d: int, per_row: int) -> Iterator[Block]:
    """Text-like rows, up to 10,000 at once: words by Zipf's law, a fifth of them of the row's topic; weights like tf-idf.

    Rows have length 1. The label is drawn by a logistic model of a few thousand words.
    """
    rng = np.random.default_rng(23)
    share = np.cumsum((np.arange(d) + 10.0) ** -ZIPF)
    share /= share[-1]
    rank_of, topics = rng.permutation(d), rng.integers(0, d, (100, TOPIC_WORDS))
    truth = np.where(rng.random(d) < 0.06, 3.0 * rng.standard_normal(d), 0.0)
    for first in range(0, n, 10_000):
        count = min(10_000, n - first)
        length = np.maximum(rng.poisson(per_row, count), 5)
        word = np.searchsorted(share, rng.random(int(length.sum())))
        row = np.repeat(np.arange(count), length)
        of_topic = rng.random(len(word)) < 0.2
        topic = topics[rng.integers(0, len(topics), count)[row], rng.integers(0, TOPIC_WORDS, len(word))]
        word = np.where(of_topic, topic, word)
        key, times = np.unique(row * d + word, return_counts=True)
        row, word = key // d, key % d
        x = (1.0 + np.log(times)) * np.log(1.0 + n / (1.0 + per_row * n * (word + 10.0) ** -ZIPF / 50.0))
        length_of = np.sqrt(np.bincount(row, x * x, count))
        x /= length_of[row]
        margin = 6.0 * np.bincount(row, x * truth[word], count)
        label = np.where(rng.random(count) < 1.0 / (1.0 + np.exp(-margin)), 1.0, -1.0)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=count))])
        yield Block(indptr, rank_of[word].astype(np.uint32), x, label)


def like_rcv1(n: int = 200_000, d: int = 47_236, per_row: int = 75) -> Matrix:
    """Such rows as one matrix."""
    blocks = list(rcv1_blocks(n, d, per_row))
    lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    column, value, label = (np.concatenate([block[a] for block in blocks]) for a in (1, 2, 3))
    return Matrix("rcv1-like", indptr, column, value, label)


GAP: Final = 1e-6
SHARES: Final = {"strong": 0.1, "middle": 0.03, "weak": 0.01}
LADDER: Final = (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
REPEATS: Final = 5
PATIENCE: Final = 10.0
SECONDS: Final = 5.0
PEERS: Final = ("liblinear", "skglm", "celer")
CELLS: Final[dict[str, Callable[[], Matrix]]] = {
    "wdbc": lambda: uci("wdbc", "uci_wdbc.csv.gz", lambda row: row["diagnosis"] == "M", "diagnosis"),
    "spambase": lambda: uci("spambase", "uci_spambase.csv.gz", lambda row: row["spam"] == "1", "spam"),
    "ads": lambda: uci("ads", "uci_internet_ads.csv.gz", lambda row: row["class"].startswith("ad"), "class"),
    "a9a": census,
    "tall": lambda: replace(dense_design(200_000, 50), name="tall"),
    "reuters": reuters_acq,
    "dense": dense_design,
    "correlated": correlated_design,
    "rcv1-like": like_rcv1,
}


HEADS: Final = ("data", "rows x features", "penalty", "non-zeros", "solver", "s", *PEERS, "ratio")

COLUMNS: Final = """A ratio is our time over that of the fastest peer, by penalty. [batch.csv](batch.csv) has all times; an empty
cell there: the peer did not reach the objective on its ladder of tolerances, or was too slow. Gathering columns, and the sample
of rows before it, is within our time."""

Fit = Callable[[Any, Any, float, float], Any]  # rows, labels, gamma, tolerance; its weights


@dataclass(frozen=True, slots=True)
class Cell:
    """One problem, and the seconds of processor time of each repeat, by contender."""

    data: str
    penalty: str
    shape: str
    solution: Solution
    solver: str
    seconds: dict[str, list[float]]


def objective(x: Any, y: Any, gamma: float, beta: Any) -> float:
    """The objective of a peer's weights, the intercept's last."""
    return float(log_expit(y * (x @ beta)).sum() - gamma * np.abs(beta).sum())


def liblinear(x: Any, y: Any, gamma: float, tolerance: float) -> Any:
    """Its weights."""
    settings: dict[str, Any] = {"tol": tolerance, "max_iter": 5000, "random_state": 0}  # it draws the order of its steps
    return LogisticRegression(l1_ratio=1.0, C=1.0 / gamma, solver="liblinear", fit_intercept=False, **settings).fit(x, y).coef_[0]


def skglm(x: Any, y: Any, gamma: float, tolerance: float) -> Any:
    """Its weights."""
    from skglm import SparseLogisticRegression  # type: ignore[import-not-found]

    return SparseLogisticRegression(gamma / len(y), tol=tolerance / len(y), fit_intercept=False).fit(x, y).coef_[0]


def celer(x: Any, y: Any, gamma: float, tolerance: float) -> Any:
    """Its weights."""
    from celer import LogisticRegression as Celer  # type: ignore[import-not-found]

    return Celer(C=1.0 / gamma, tol=tolerance, fit_intercept=False, max_iter=200).fit(x, y).coef_.ravel()


def peers() -> dict[str, Fit]:
    """Those that can be imported."""
    more: dict[str, Fit] = {"skglm": skglm, "celer": celer}
    return {"liblinear": liblinear} | {name: fit for name, fit in more.items() if find_spec(name)}


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the processor time that it took."""
    began = time.process_time()
    return fit(), time.process_time() - began


def within(seconds: float, fit: Callable[[], Any]) -> Any:
    """What a fit finds in a process of its own; None if it takes longer."""
    context = get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=lambda: writer.send(fit()))
    process.start()
    found = reader.recv() if reader.poll(seconds) else None
    process.kill()
    process.join()
    return found


def ready(x: Any, y: Any, gamma: float, best: float, seconds: float) -> dict[str, Callable[[], Any]]:
    """The peers, each with the loosest tolerance that suffices, if it takes at most `seconds`."""
    fits: dict[str, Callable[[], Any]] = {}
    for name, fit in peers().items():
        for tolerance in LADDER:
            ran = partial(fit, x, y, gamma, tolerance)
            beta = within(seconds, ran)
            if beta is None:
                break
            if best - objective(x, y, gamma, beta) <= GAP * abs(best):
                fits[name] = ran
                break
    return fits


def compile_peers() -> None:
    """Run each once on a few rows: some are compiled at their first use."""
    rng = np.random.default_rng(1)
    x, y = csr_matrix(rng.standard_normal((50, 5))).tocsc(), np.where(rng.random(50) < 0.5, -1.0, 1.0)
    for fit in peers().values():
        fit(x, y, 1.0, LADDER[1])


def measure(matrix: Matrix, data: DataInMemory, penalty: str, repeats: int) -> Cell:
    """Run all contenders in turns. Every result of ours has to be within GAP of the optimum, as that of each peer was."""
    n, y = len(matrix.label), matrix.label
    x = hstack([csr_matrix((matrix.value, matrix.column.astype(np.int32), matrix.indptr)), np.ones((n, 1))]).tocsc()
    gamma = SHARES[penalty] * float(np.abs(x.T @ (0.5 * (y - y.mean()))).max())
    problem = Problem(data, "logistic", gamma, gamma)
    chosen = auto(problem, Serial(), GAP)
    best = Rmmp(tolerance=1e-9).solve(problem, Serial()).certificate.objective
    ours = partial(chosen.solver.solve, problem, Serial())
    solution, passed = timed(ours)
    fits = {"ours": ours} | ready(x, y, gamma, best, max(SECONDS, PATIENCE * passed))
    seconds: dict[str, list[float]] = {name: [] for name in fits}
    for _ in range(repeats):
        for name, run in fits.items():
            found, processor = timed(run)
            seconds[name].append(processor)
            assert name != "ours" or best - found.certificate.objective <= GAP * abs(best)
    shape = f"{n:,} x {data.features:,}, {data.nnz / n:.0f} a row"
    return Cell(matrix.name, penalty, shape, solution, chosen.name, seconds)


def medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Of each contender."""
    return {name: statistics.median(of) for name, of in seconds.items()}


def ratio(cell: Cell) -> float:
    """Our time over that of the fastest peer; 0 if none reached the objective."""
    of = medians(cell.seconds)
    return of["ours"] / min((taken for name, taken in of.items() if name != "ours"), default=math.inf)


def shown(cell: Cell) -> str:
    """Its ratio; our seconds if there is none."""
    return f"{ratio(cell):.2f}" if len(cell.seconds) > 1 else f"{medians(cell.seconds)['ours']:.2f} s"


def row_of(cell: Cell) -> list[str]:
    """A row of the table."""
    middle = medians(cell.seconds)
    beside = [f"{middle[name]:.4f}" if name in middle else "" for name in PEERS]
    weights = str(len(cell.solution.weights.beta))
    return [cell.data, cell.shape, cell.penalty, weights, cell.solver, f"{middle['ours']:.4f}", *beside, f"{ratio(cell):.2f}"]


def summary(cells: list[Cell]) -> str:
    """The cells that are lost, those that are not much faster, and the geometric mean of the ratios."""
    ratios = {f"{cell.data} {cell.penalty}": ratio(cell) for cell in cells}
    lost = ", ".join(f"{name} ({of:.2f})" for name, of in ratios.items() if of > 1.0) or "none"
    near = ", ".join(name for name, of in ratios.items() if 0.7 < of <= 1.0) or "none"
    mean = statistics.geometric_mean(of for of in ratios.values() if of > 0.0)
    return f"Lost (ratio above 1): {lost}. Above 0.7: {near}. The geometric mean is {mean:.2f}."


def page(cells: list[Cell]) -> str:
    """The evidence page."""
    ratios = []
    for name, group in itertools.groupby(cells, key=lambda cell: cell.data):
        of = list(group)
        ratios.append([name, of[0].shape, *map(shown, of)])
    texts = [
        "# Batch optima beside liblinear, skglm and celer",
        summary(cells),
        (__doc__ or "").split("\n\n")[1].replace("\n", " "),
        COLUMNS.replace("\n", " "),
        report.table(["ratio", "rows x features", *SHARES], ratios).rstrip(),
        "Where seconds are shown, no peer reached the objective in time.",
        report.conditions("python -m tests.bench.batch", ["scikit-learn", "numpy", *filter(find_spec, PEERS[1:])]).rstrip(),
    ]
    return "\n\n".join(texts) + "\n"


def main(names: list[str]) -> None:
    """Measure the named data sets, or all."""
    cells = []
    compile_peers()
    for name in names or CELLS:
        matrix = CELLS[name]()
        data = matrix.data()
        for penalty in SHARES:
            cells.append(measure(matrix, data, penalty, REPEATS))
            print(" | ".join(row_of(cells[-1])), flush=True)
    report.publish("batch", page(cells), write=True)
    write_csv("batch", HEADS, map(row_of, cells))


if __name__ == "__main__":
    main(sys.argv[1:])
