"""Batch optima to a duality gap of 1e-6: processor time of MP and RMMP beside liblinear and skglm, at the same objective.

The intercept is penalised like the other weights, because liblinear cannot do otherwise: it is a column of ones there, and has
gamma here. Penalties are shares of the smallest gamma at which a free intercept would be the only weight. A peer's tolerance is
the loosest of a ladder with which its objective is within 1e-6 of the optimum, found beforehand. Runs are interleaved, in one
thread; medians are shown. Converting the rows is not counted on any side.

Writes batch.md. Takes some minutes. skglm is not among the packages of the tests, and is left out if it cannot be imported:
`pip install --no-deps --target DIR skglm celer`, and DIR in PYTHONPATH.
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

from riata.batch.choose import auto
from riata.batch.data import DataInMemory
from riata.batch.pool import Serial
from riata.batch.problem import Problem
from riata.batch.rmmp import Rmmp
from riata.batch.solution import Solution
from tests.bench import report
from tests.bench.batch_data import Matrix, dense_design, like_rcv1, reuters_acq, uci

GAP: Final = 1e-6
SHARES: Final = {"strong": 0.1, "middle": 0.03, "weak": 0.01}
LADDER: Final = (0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
REPEATS: Final = 3
CELLS: Final[dict[str, Callable[[], Matrix]]] = {
    "spambase": lambda: uci("spambase", "uci_spambase.csv.gz", lambda row: row["spam"] == "1", "spam"),
    "ads": lambda: uci("ads", "uci_internet_ads.csv.gz", lambda row: row["class"].startswith("ad"), "class"),
    "reuters": reuters_acq,
    "dense": dense_design,
    "rcv1-like": like_rcv1,
}


READING: Final = """The peers hold all columns in memory and move one weight at a time. Here each pass sums H on the working set
anew, in memory that does not grow with the rows; that is most of the time. Each pass also certifies its weights by a duality
gap, so a run ends one pass after the step that reached the tolerance, usually far below it."""

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
    model = LogisticRegression(l1_ratio=1.0, C=1.0 / gamma, solver="liblinear", fit_intercept=False, tol=tolerance, max_iter=5000)
    return model.fit(x, y).coef_[0]


def skglm(x: Any, y: Any, gamma: float, tolerance: float) -> Any:
    """Its weights."""
    from skglm import SparseLogisticRegression  # type: ignore[import-not-found]

    return SparseLogisticRegression(gamma / len(y), tol=tolerance / len(y), fit_intercept=False).fit(x, y).coef_[0]


def peers() -> dict[str, Fit]:
    """Those that can be imported."""
    return {"liblinear": liblinear} | ({"skglm": skglm} if find_spec("skglm") else {})


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the processor time that it took."""
    began = time.process_time()
    return fit(), time.process_time() - began


def measure(matrix: Matrix, data: DataInMemory, penalty: str, repeats: int) -> Cell:
    """Run all contenders in turns."""
    n, y = len(matrix.label), matrix.label
    x = hstack([csr_matrix((matrix.value, matrix.column.astype(np.int32), matrix.indptr)), np.ones((n, 1))]).tocsc()
    gamma = SHARES[penalty] * float(np.abs(x.T @ (0.5 * (y - y.mean()))).max())
    problem = Problem(data, "logistic", gamma, gamma)
    chosen = auto(problem, Serial(), GAP)
    best = Rmmp(tolerance=1e-9).solve(problem, Serial()).certificate.objective
    fits: dict[str, Callable[[], Any]] = {"ours": partial(chosen.solver.solve, problem, Serial())}
    for name, fit in peers().items():
        for tolerance in LADDER:
            if best - objective(x, y, gamma, fit(x, y, gamma, tolerance)) <= GAP * abs(best):
                fits[name] = partial(fit, x, y, gamma, tolerance)
                break
    solution = chosen.solver.solve(problem, Serial())
    seconds: dict[str, list[float]] = {name: [] for name in fits}
    for _ in range(repeats):
        for name, run in fits.items():
            seconds[name].append(timed(run)[1])
    shape = f"{n:,} x {data.features:,}, {data.nnz / n:.0f} a row"
    return Cell(matrix.name, penalty, shape, solution, chosen.name, seconds)


def row_of(cell: Cell) -> list[str]:
    """A row of the table."""
    middle = {name: statistics.median(seconds) for name, seconds in cell.seconds.items()}
    found = cell.solution.certificate
    beside = [f"{middle[name]:.3f}" if name in middle else "" for name in ("liblinear", "skglm")]
    best = min(middle[name] for name in middle if name != "ours")
    return [
        cell.data, cell.shape, cell.penalty, str(len(cell.solution.weights.beta)), f"{cell.solver}, {cell.solution.spent.passes}",
        f"{(found.gap or 0.0) / abs(found.objective):.0e}", f"{middle['ours']:.3f}", *beside, f"{middle['ours'] / best:.2f}",
    ]  # fmt: skip


def page(cells: list[Cell]) -> str:
    """The evidence page."""
    heads = [
        "data",
        "rows x features",
        "penalty",
        "non-zeros",
        "solver, passes",
        "gap / objective",
        "s",
        "liblinear",
        "skglm",
        "ratio",
    ]
    about = (__doc__ or "").split("\n\n")[1].replace("\n", " ")
    return (
        "\n\n".join(
            [
                "# Batch optima beside liblinear and skglm",
                about,
                "The gap is a share of the objective. The last column is our time over that of the faster peer.",
                report.table(heads, [row_of(cell) for cell in cells]),
                READING,
                report.conditions("python -m tests.bench.batch", ["scikit-learn", "numba", "numpy"]),
            ]
        )
        + "\n"
    )


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
