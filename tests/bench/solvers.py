"""The other batch solvers: curves of Shotgun and ParallelSGD, errors and accesses of SLLR, IRLS-LARS by bound, and their peers.

    python -m tests.bench.solvers [shotgun | machines | sublinear | peers | sets ...]

Times of peers are interleaved; medians are shown. XGBoost's include making its matrix, Shotgun's gathering its columns.
XGBoost is
not among the packages of the tests, and is left out if it cannot be imported. Without arguments all parts run. What is there is
written to solvers.md.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import log_expit
from sklearn.linear_model import LogisticRegression, SGDClassifier
from vowpalwabbit import Workspace

from riata.base.arrays import F64
from riata.base.errors import RiataError
from riata.batch.choose import CLASSES
from riata.batch.columns import columns_of
from riata.batch.data import DataInMemory, in_memory
from riata.batch.irls_lars import IrlsLars
from riata.batch.named import SOLVERS
from riata.batch.parallel_sgd import ParallelSgd
from riata.batch.pool import Serial, Threads
from riata.batch.problem import Problem
from riata.batch.rmmp import Rmmp
from riata.batch.shotgun import Shotgun
from riata.batch.shotgun_round import Limits, Place, Rounds, shuffle
from riata.batch.sublinear import Sublinear
from riata.learn.learner import Weights
from riata.maths.links import LOGISTIC
from tests.bench.batch_data import Matrix, reuters_acq, uci

AT_ONCE: Final = (1, 2, 4, 8, 16, 32, 64)
MACHINES: Final = (1, 4, 8, 16)
ROUNDS: Final = (300, 3000, 30_000)
REPEATS: Final = 3
PARTS: Final = Path(tempfile.gettempdir()) / "riata-bench-solvers"  # what the parts found, until the page is written

SETS: Final[dict[str, Callable[[], Matrix]]] = {
    "wdbc": lambda: uci("wdbc", "uci_wdbc.csv.gz", lambda row: row[_target(row)] in ("M", "1"), "diagnosis"),
    "spambase": lambda: uci("spambase", "uci_spambase.csv.gz", lambda row: row["spam"] == "1", "spam"),
    "ads": lambda: uci("ads", "uci_internet_ads.csv.gz", lambda row: row["class"].startswith("ad"), "class"),
    "magic": lambda: uci("magic", "uci_magic04.csv.gz", lambda row: row["class"] in ("g", "1"), "class"),
    "reuters": reuters_acq,
}


def _target(row: dict[str, str]) -> str:
    return "diagnosis" if "diagnosis" in row else "class"


def dense_data(x: F64, y: F64) -> DataInMemory:
    """Rows x f64[n, d], labels 0 or 1."""
    n, d = x.shape
    return in_memory(np.arange(n + 1) * d, np.tile(np.arange(d, dtype=np.uint32), n), x.ravel(), 2.0 * y - 1.0, np.ones(n))


def drawn(n: int, d: int, correlation: float, seed: int) -> tuple[F64, F64]:
    """Standard normal columns with one common factor, and labels by a logistic model of every fifth."""
    rng = np.random.default_rng(seed)
    x = math.sqrt(1.0 - correlation) * rng.standard_normal((n, d)) + math.sqrt(correlation) * rng.standard_normal((n, 1))
    margin = x @ np.where(np.arange(d) % 5 == 0, rng.standard_normal(d), 0.0)
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-margin))).astype(np.float64)


def rounds_needed(data: DataInMemory, gamma: float, at_once: int, best: float) -> int | None:
    """Rounds of the published step until the objective is within 1e-4 of the best; None: it diverges or takes too many."""
    columns, d, n = columns_of(data), data.features, data.rows
    norm = np.array([(columns.value[columns.start[j] : columns.start[j + 1]] ** 2).sum() for j in range(d)])
    place = Place(np.zeros(2 * d), np.zeros(n), np.empty(n), np.empty(n), np.full(2 * d, np.inf), np.zeros(n, np.int32))
    limits, order, number = Limits(np.full(d, gamma), 0.25 * norm, np.ones(d)), np.arange(2 * d), 1
    rounds = Rounds(columns, LOGISTIC, place, limits)
    rounds.settle(0.0)
    for epoch in range(1, 3000):
        shuffle(order, 0, epoch)
        for first in range(0, 2 * d, 8 * at_once):
            rounds.advance(order[first : first + 8 * at_once], at_once, number)
            number += 8
            total, _, _ = rounds.settle(0.0)
            objective = total - gamma * float(place.part.sum())
            if objective >= best - 1e-4 * abs(best):
                return number - 1
            if not objective > 50.0 * best:
                return None
    return None


def part_shotgun() -> dict[str, Any]:
    """Rounds against P on three designs."""
    found: dict[str, Any] = {"designs": []}
    for correlation in (0.0, 0.5, 0.9):
        x, y = drawn(400, 200, correlation, 3)
        data, gamma = dense_data(x, y), 4.0
        best = Rmmp(tolerance=1e-9).solve(Problem(data, "logistic", gamma, np.inf), Serial()).certificate.objective
        unit = x / np.sqrt((x**2).sum(axis=0))
        rho = float(np.linalg.eigvalsh(unit.T @ unit)[-1])
        needed = [rounds_needed(data, gamma, at_once, best) for at_once in AT_ONCE]
        safe = Shotgun(at_once=64, tolerance=1e-5).solve(Problem(data, "logistic", gamma, np.inf), Serial())
        found["designs"].append(
            {"correlation": correlation, "rho": rho, "safe": math.ceil(200 / rho), "rounds": needed, "halved": len(safe.notes),
             "reached": (best - safe.certificate.objective) / abs(best)}
        )  # fmt: skip
    return found


def part_machines() -> dict[str, Any]:
    """Gaps of ParallelSGD against the number of machines."""
    x, y = drawn(20_000, 100, 0.0, 1)
    problem = Problem(dense_data(x, y), "logistic", 10.0)
    best = Rmmp(tolerance=1e-9).solve(problem, Serial()).certificate.objective

    def gap(at: Problem, machines: int, trace: int = -1, **settings: Any) -> float:
        solution = ParallelSgd(machines=machines, **settings).solve(at, Serial())
        return (best - solution.trace[trace].certificate.objective) / 20_000

    by_label = np.argsort(y, kind="stable")
    ordered = Problem(dense_data(x[by_label], y[by_label]), "logistic", 10.0)
    constant = {"eta": 0.01, "adaptive": False}
    return {
        "whole": [gap(problem, k, 0, whole=True, **constant) for k in MACHINES],
        "split": [gap(problem, k, 0, **constant) for k in MACHINES],
        "adaptive": [gap(problem, k) for k in MACHINES],
        "sorted": [gap(ordered, k) for k in MACHINES],
        "best": -best / 20_000,
    }


def part_sublinear() -> dict[str, Any]:
    """Errors and accesses of SLLR, RMMP and one pass of stochastic gradient steps, on dense rows of two sizes."""
    return {f"{n:,} x {d}": _errors(n, d) for n, d in ((1000, 100), (3000, 500))}


def _errors(n: int, d: int) -> dict[str, Any]:
    direction = np.random.default_rng(0).standard_normal(d) * (np.arange(d) < d // 10)

    def rows(count: int, seed: int) -> tuple[F64, F64]:
        own = np.random.default_rng(seed)
        x = own.standard_normal((count, d)) / math.sqrt(d)
        return x, (x @ direction + 0.05 * own.standard_normal(count) > 0.0).astype(np.float64)

    (x, y), (fresh, labels) = rows(n, 1), rows(4000, 2)
    data = dense_data(x, y)
    problem = Problem(data, "logistic", 0.3)
    found = []

    def add(name: str, solver: Any) -> None:
        solution = solver.solve(problem, Serial())
        margin = fresh @ _dense(solution.weights, d) + solution.weights.intercept
        wrong = float(((margin > 0.0) != (labels > 0.5)).mean())
        read = solution.spent.accesses - (data.nnz if "sllr" in name else 0)  # without the pass that only measures
        found.append([name, read, wrong])

    for rounds in ROUNDS:
        add(f"sllr_l1, T = {rounds:,}", Sublinear(rounds=rounds))
        add(f"sllr_l2, T = {rounds:,}", Sublinear(rounds=rounds, nu=0.1))
    add("parallel_sgd, 1 machine", ParallelSgd(machines=1))
    add("rmmp", Rmmp())
    return {"rows": found, "pass": data.nnz}


def seconds(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median wall seconds of each run, interleaved, after one that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(REPEATS + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            if repeat:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(taken) for name, taken in times.items()}


def objective(x: Any, label: F64, gamma: float, beta: F64, intercept: float) -> float:
    """Log-likelihood less the penalty."""
    return float(log_expit(label * (x @ beta + intercept)).sum()) - gamma * float(np.abs(beta).sum())


def part_peers() -> dict[str, Any]:
    """IRLS-LARS beside liblinear, Shotgun beside XGBoost, ParallelSGD beside scikit-learn and vw."""
    found: dict[str, Any] = {"lars": [], "shotgun": [], "sgd": []}
    for n, d in ((200, 50), (1000, 30), (5000, 100)):
        x, y = drawn(n, d, 0.2, 5)
        problem = Problem(dense_data(x, y), "logistic", 2.0, np.inf)
        best = Rmmp(tolerance=1e-13).solve(problem, Serial())
        bound = float(np.abs(best.weights.beta).sum())
        lars = IrlsLars(1e-10, bound=bound)
        ours = lars.solve(problem, Serial())
        peer = LogisticRegression(C=0.5, l1_ratio=1.0, solver="liblinear", tol=1e-6, max_iter=10_000, fit_intercept=False)
        peer.fit(x, y)
        sized = float(np.abs(peer.coef_).sum())
        runs: dict[str, Callable[[], Any]] = {
            "irls_lars": partial(lars.solve, problem, Serial()), "liblinear": partial(peer.fit, x, y)
        }  # fmt: skip
        times = seconds(runs)
        near = float(np.abs(_dense(ours.weights, d) - _dense(best.weights, d)).max())
        found["lars"].append([n, d, len(ours.trace) - 1, near, sized - bound, *times.values()])
    for name in ("ads", "reuters"):
        matrix = SETS[name]()
        rows = csr_matrix((matrix.value, matrix.column, matrix.indptr))
        data, gamma = matrix.data(), 10.0
        best_of = Rmmp(tolerance=1e-8).solve(Problem(data, "logistic", gamma), Serial()).certificate.objective
        runs = {}
        reached: dict[str, float] = {}
        with Threads(2) as pool:
            ours = Shotgun(1e-4).solve(Problem(data, "logistic", gamma), pool)
            reached["shotgun"] = (best_of - ours.certificate.objective) / abs(best_of)
            runs["shotgun"] = partial(Shotgun(1e-4).solve, Problem(data, "logistic", gamma), pool)
            if find_spec("xgboost"):
                needed, reached["xgboost"] = _xgboost_rounds(rows, matrix.label, gamma, best_of, reached["shotgun"])
                runs["xgboost"] = partial(_xgboost, rows, matrix.label, gamma, needed)
                reached["xgboost rounds"] = needed
            found["shotgun"].append([name, reached, seconds(runs)])
    for name in ("spambase", "reuters"):
        found["sgd"].append([name, _one_pass(SETS[name]())])
    return found


def _dense(weights: Weights, d: int) -> F64:
    beta = np.zeros(d)
    beta[weights.slot] = weights.beta
    return beta


def _xgboost(rows: Any, label: F64, gamma: float, count: int) -> Any:
    xgboost: Any = import_module("xgboost")

    settings = {"booster": "gblinear", "updater": "shotgun", "objective": "binary:logistic", "alpha": gamma / len(label),
                "lambda": 0.0, "eta": 0.5, "nthread": 2, "base_score": 0.5}  # fmt: skip
    return xgboost.train(settings, xgboost.DMatrix(rows, (label > 0.0).astype(float), nthread=2), count)


def _xgboost_rounds(rows: Any, label: F64, gamma: float, best: float, wanted: float) -> tuple[int, float]:
    """The least number of rounds of a ladder after which it is as near as Shotgun, or the largest; and how near it is."""
    near = math.inf
    for count in (50, 200, 1000, 3000):
        dump = json.loads(_xgboost(rows, label, gamma, count).get_dump(dump_format="json")[0])
        beta = np.zeros(rows.shape[1])
        held = np.array(dump["weight"], np.float64)
        beta[: len(held)] = held
        near = (best - objective(rows, label, gamma, beta, float(dump["bias"][0]))) / abs(best)
        if near <= max(wanted, 1e-5):
            break
    return count, near


def _one_pass(matrix: Matrix) -> dict[str, float]:
    """Mean log loss over the newest fifth of the rows, in random order, after one pass over the others."""
    n = len(matrix.label)
    order = np.random.default_rng(7).permutation(n)
    rows = csr_matrix((matrix.value, matrix.column, matrix.indptr))[order]
    label, cut = matrix.label[order], n * 4 // 5
    past, fresh = rows[:cut], rows[cut:]

    def loss(margin: F64) -> float:
        return float(-log_expit(label[cut:] * margin).mean())

    data = in_memory(past.indptr.astype(np.int64), past.indices.astype(np.uint32), past.data, label[:cut], np.ones(cut))
    found = {}
    for machines in (1, 8):
        weights = ParallelSgd(machines=machines).solve(Problem(data, "logistic", 1.0), Serial()).weights
        found[f"parallel_sgd, {machines} machines"] = loss(fresh @ _dense(weights, rows.shape[1]) + weights.intercept)
    peer = SGDClassifier(loss="log_loss", penalty="l1", alpha=1.0 / cut, average=True, max_iter=1, tol=None, random_state=0)
    peer.fit(past, label[:cut])
    found["scikit-learn, averaged"] = loss(peer.decision_function(fresh))
    vw = Workspace("--loss_function logistic --quiet -b 20")
    answers: list[float] = []
    for part, learns in ((past, True), (fresh, False)):
        for i in range(part.shape[0]):
            inside = slice(part.indptr[i], part.indptr[i + 1])
            words = " ".join(f"{j}:{x:.9g}" for j, x in zip(part.indices[inside], part.data[inside], strict=True))
            if learns:
                vw.learn(f"{int(label[i])} | {words}")
            else:
                answers.append(float(vw.predict(f"| {words}")))
    vw.finish()
    found["vw"] = loss(np.array(answers))
    return found


def part_sets() -> dict[str, Any]:
    """Every solver on five sets: traces."""
    found: dict[str, Any] = {}
    for name, made in SETS.items():
        data = made().data()
        runs: dict[str, dict[str, Any]] = {}
        for solver in SOLVERS:
            settings = {"passes_max": 300} if solver == "shotgun" else {"rounds": 2000} if "sllr" in solver else {}
            try:
                solution = CLASSES[solver](tolerance=1e-6, **settings).solve(Problem(data, "logistic", 3.0), Serial())
            except RiataError as error:
                runs[solver] = {"refused": str(error)}
                continue
            runs[solver] = {
                "objective": solution.certificate.objective, "stopped": solution.stopped, "non_zeros": len(solution.weights.slot),
                "trace": [(row.seconds, row.number, row.accesses, row.certificate.objective) for row in solution.trace],
            }  # fmt: skip
        found[name] = {"rows": data.rows, "features": data.features, "values": data.nnz, "runs": runs}
    return found


PARTS_OF: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "shotgun": part_shotgun, "machines": part_machines, "sublinear": part_sublinear, "peers": part_peers, "sets": part_sets,
}  # fmt: skip


def main(names: list[str]) -> None:
    """Measure the named parts, or all, and write the page of those that are there."""
    from tests.bench.solvers_page import publish

    PARTS.mkdir(exist_ok=True)
    for name in names or PARTS_OF:
        (PARTS / f"{name}.json").write_text(json.dumps(PARTS_OF[name]()), encoding="utf-8")
        sys.stdout.write(f"{name} is measured\n")
    publish({name: json.loads((PARTS / f"{name}.json").read_text()) for name in PARTS_OF if (PARTS / f"{name}.json").exists()})


if __name__ == "__main__":
    main(sys.argv[1:])
