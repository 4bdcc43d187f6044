"""Batch optima to a duality gap of 1e-6: time of MP and RMMP beside liblinear, skglm, celer and glmnet, at the same objective.

The intercept is penalised like the other weights, because liblinear cannot do otherwise: it is a column of ones there, and has
gamma here. Penalties are shares of the smallest gamma at which a free intercept would be the only weight. A peer's tolerance is
the loosest of a ladder with which its objective is within 1e-6 of the optimum, found beforehand. Runs are interleaved, in one
thread, and take processor time; medians are shown. From 200,000 rows on, ours with two threads takes wall time, and so does each
peer for the last column. Converting the rows is not counted on any side: ours begins with rows, skglm, celer and glmnet with
columns.

Writes batch.md. Takes half an hour. skglm, celer and glmnet are not among the packages of the tests, and are left out if they
cannot be imported: `pip install --no-deps --target DIR skglm celer python-glmnet`, and DIR in PYTHONPATH. A peer that takes more
than PATIENCE times liblinear's time to a looser tolerance is not measured further.

glmnet leaves out columns that are constant, as is the column of ones: so the first of its ones is 1 + 2^-30 for every peer.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from scipy.sparse import csr_matrix, hstack
from scipy.special import log_expit
from sklearn.linear_model import LogisticRegression

from riata.lab.batch.choose import auto
from riata.lab.batch.data import DataInMemory
from riata.lab.batch.pool import Serial, Threads
from riata.lab.batch.problem import Problem
from riata.lab.batch.rmmp import Rmmp
from riata.lab.batch.solution import Solution
from tests.bench import report
from tests.bench.batch_data import Matrix, dense_design, like_rcv1, reuters_acq, uci

GAP: Final = 1e-6
SHARES: Final = {"strong": 0.1, "middle": 0.03, "weak": 0.01}
LADDER: Final = (0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
REPEATS: Final = 3
PATIENCE: Final = 5.0
NOT_CONSTANT: Final = 2.0**-30
MANY_ROWS: Final = 200_000  # from which on two threads are measured
OURS: Final = ("ours", "two threads")
PEERS: Final = ("liblinear", "skglm", "celer", "glmnet")
CELLS: Final[dict[str, Callable[[], Matrix]]] = {
    "spambase": lambda: uci("spambase", "uci_spambase.csv.gz", lambda row: row["spam"] == "1", "spam"),
    "ads": lambda: uci("ads", "uci_internet_ads.csv.gz", lambda row: row["class"].startswith("ad"), "class"),
    "reuters": reuters_acq,
    "dense": dense_design,
    "rcv1-like": like_rcv1,
}


READING: Final = """The peers hold all columns in memory. Here only the columns of the working set are held, and they are gathered
within the time that is shown, as is the sample of the rows that gives the first of them. Every solution ends with a pass over all
rows that certifies it by a duality gap, so it is usually nearer to the optimum than was asked for."""

COLUMNS: Final = """A ratio is our time over that of the fastest peer. An empty cell: the
peer did not reach the objective on its ladder of tolerances, or was too slow."""

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
    wall: dict[str, list[float]]


def objective(x: Any, y: Any, gamma: float, beta: Any) -> float:
    """The objective of a peer's weights, the intercept's last."""
    return float(log_expit(y * (x @ beta)).sum() - gamma * np.abs(beta).sum())


def liblinear(x: Any, y: Any, gamma: float, tolerance: float) -> Any:
    """Its weights."""
    model = LogisticRegression(l1_ratio=1.0, C=1.0 / gamma, solver="liblinear", fit_intercept=False, tol=tolerance, max_iter=5000)
    return model.fit(x, y).coef_[0]


def skglm(x: Any, y: Any, gamma: float, tolerance: float) -> Any:
    """Its weights."""
    from skglm import SparseLogisticRegression  # type: ignore[import-not-found]

    return SparseLogisticRegression(gamma / len(y), tol=tolerance / len(y), fit_intercept=False).fit(x, y).coef_[0]


def celer(x: Any, y: Any, gamma: float, tolerance: float) -> Any:
    """Its weights."""
    from celer import LogisticRegression as Celer  # type: ignore[import-not-found]

    return Celer(C=1.0 / gamma, tol=tolerance, fit_intercept=False, max_iter=200).fit(x, y).coef_.ravel()


def glmnet(x: Any, y: Any, gamma: float, tolerance: float) -> Any:
    """Its weights, by its own Fortran. Its tolerance is a share of the null deviance, and so smaller than those of the others."""
    from glmnet import LogitNet  # type: ignore[import-not-found]

    model = LogitNet(lambda_path=[gamma / len(y)], standardize=False, fit_intercept=False, n_splits=0, tol=1e-4 * tolerance)
    return model.fit(x, y).coef_path_[0, :, -1]


def peers() -> dict[str, Fit]:
    """Those that can be imported."""
    more: dict[str, Fit] = {"skglm": skglm, "celer": celer, "glmnet": glmnet}
    return {"liblinear": liblinear} | {name: fit for name, fit in more.items() if find_spec(name)}


def timed(fit: Callable[[], Any]) -> tuple[Any, float, float]:
    """A result, and the processor time and the time that it took."""
    began, at = time.process_time(), time.perf_counter()
    return fit(), time.process_time() - began, time.perf_counter() - at


def ready(x: Any, y: Any, gamma: float, best: float) -> dict[str, Callable[[], Any]]:
    """The peers, each with the loosest tolerance that suffices."""
    fits: dict[str, Callable[[], Any]] = {}
    patience = float("inf")
    for name, fit in peers().items():
        fit(x, y, gamma, LADDER[0])  # compiles
        for tolerance in LADDER:
            beta, seconds, _ = timed(partial(fit, x, y, gamma, tolerance))
            if best - objective(x, y, gamma, beta) <= GAP * abs(best):
                fits[name] = partial(fit, x, y, gamma, tolerance)
                patience = min(patience, PATIENCE * max(seconds, 0.1))
            if name in fits or seconds > patience:
                break
    return fits


def measure(matrix: Matrix, data: DataInMemory, penalty: str, repeats: int) -> Cell:
    """Run all contenders in turns."""
    n, y = len(matrix.label), matrix.label
    ones = np.ones((n, 1))
    ones[0] += NOT_CONSTANT
    x = hstack([csr_matrix((matrix.value, matrix.column.astype(np.int32), matrix.indptr)), ones]).tocsc()
    gamma = SHARES[penalty] * float(np.abs(x.T @ (0.5 * (y - y.mean()))).max())
    problem = Problem(data, "logistic", gamma, gamma)
    chosen = auto(problem, Serial(), GAP)
    best = Rmmp(tolerance=1e-9).solve(problem, Serial()).certificate.objective
    fits = {"ours": partial(chosen.solver.solve, problem, Serial())} | ready(x, y, gamma, best)
    solution = chosen.solver.solve(problem, Serial())
    with Threads(2) as pool:
        if n >= MANY_ROWS:
            fits["two threads"] = partial(chosen.solver.solve, problem, pool)
        seconds: dict[str, list[float]] = {name: [] for name in fits}
        wall: dict[str, list[float]] = {name: [] for name in fits}
        for _ in range(repeats):
            for name, run in fits.items():
                _, processor, passed = timed(run)
                seconds[name].append(processor)
                wall[name].append(passed)
    shape = f"{n:,} x {data.features:,}, {data.nnz / n:.0f} a row"
    return Cell(matrix.name, penalty, shape, solution, chosen.name, seconds, wall)


def medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Of each contender."""
    return {name: statistics.median(of) for name, of in seconds.items()}


def ratio(seconds: dict[str, float], ours: str) -> float:
    """Our time over that of the fastest peer."""
    return seconds[ours] / min(of for name, of in seconds.items() if name not in OURS)


def row_of(cell: Cell) -> list[str]:
    """A row of the table."""
    middle, wall = medians(cell.seconds), medians(cell.wall)
    beside = [f"{middle[name]:.3f}" if name in middle else "" for name in PEERS]
    return [
        cell.data, cell.shape, cell.penalty, str(len(cell.solution.weights.beta)), cell.solver, f"{middle['ours']:.3f}", *beside,
        f"{ratio(middle, 'ours'):.2f}", f"{ratio(wall, 'two threads'):.2f}" if "two threads" in wall else "",
    ]  # fmt: skip


def summary(cells: list[Cell]) -> str:
    """The geometric mean of the ratios, and the cells that are lost."""
    ratios = {f"{cell.data} {cell.penalty}": ratio(medians(cell.seconds), "ours") for cell in cells}
    lost = ", ".join(f"{name} ({of:.2f})" for name, of in ratios.items() if of > 1.0) or "none"
    mean = statistics.geometric_mean(ratios.values())
    return f"The geometric mean of the ratios is {mean:.2f}. Cells that are lost (ratio above 1): {lost}."


def page(cells: list[Cell]) -> str:
    """The evidence page."""
    heads = ["data", "rows x features", "penalty", "non-zeros", "solver", "s", *PEERS, "ratio"]
    texts = [
        "# Batch optima beside liblinear, skglm, celer and glmnet",
        (__doc__ or "").split("\n\n")[1].replace("\n", " "),
        COLUMNS,
        report.table([*heads, "ratio, 2 threads"], [row_of(cell) for cell in cells]),
        summary(cells),
        READING,
        report.conditions("python -m tests.bench.batch", ["scikit-learn", "numpy"]),
    ]
    return "\n\n".join(texts) + "\n"


def main(names: list[str]) -> None:
    """Measure the named data sets, or all."""
    cells = []
    for name in names or CELLS:
        matrix = CELLS[name]()
        data = matrix.data()
        for penalty in SHARES:
            cells.append(measure(matrix, data, penalty, REPEATS))
            print(" | ".join(row_of(cells[-1])), flush=True)
            report.publish("batch", page(cells), write=True)


if __name__ == "__main__":
    main(sys.argv[1:])
