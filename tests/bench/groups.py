"""LAPS: the group lasso beside skglm's GroupBCD, which k is chosen on simulated weights, and bell against funnel curves.

Beside skglm: k = 0 and fixed groups of equal size, lambda s_j as the penalty of a group, intercept without one, one thread,
processor time. Penalties are shares of the smallest at which no group has a weight. Ours stops at a violation of 1e-8; skglm
at the loosest tolerance of a ladder with which its objective is within 1e-8 of ours, relative, found beforehand. Runs are
interleaved; medians are shown. Both have compiled before.

Simulated: 15 independent standard normal columns and weights scaled to a Bayes risk of 0.2 under the logistic link. The
coefficients of the thesis' table 4.1 were not at hand, so its three kinds of weights are drawn: independent Laplace weights
(SIM1), runs of independent normal weights (SIM2), and runs of weights alike (SIM3), the runs of 3, 5, 2 and 5 weights, of
which the second and third have weights. Small is 100 rows, large 1000; errors are those on 10,000 more rows; the lasso has
its gamma by the same score.

Bell and funnel: 266 curves a class, t = 1 .. 128, 10-fold cross-validation, gamma, k and runs chosen anew in each fold.

Writes groups.md. Takes some ten minutes. skglm is not among the packages of the tests, and is left out if it cannot be imported:
`pip install --no-deps --target DIR skglm celer`, and DIR in PYTHONPATH.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.batch.data import in_memory
from riata.batch.groups import Declared, Grouping, grouping_of
from riata.batch.pool import Serial
from riata.batch.problem import Problem
from riata.batch.run_descent import Columns, Runs, descend
from riata.batch.run_search import GAMMAS, KS, RunLasso, RunSolution
from riata.maths.links import LOGISTIC
from riata.maths.run_norm import size_factor
from tests.bench import report
from tests.bench.curves_data import bell_and_funnel

SHAPES: Final = ((500, 100, 5), (2000, 200, 10), (2000, 500, 5), (5000, 500, 10), (1000, 2000, 10))  # rows, columns, group
SHARES: Final = (0.3, 0.1, 0.03)
LADDER: Final = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
SAME: Final = 1e-8
REPEATS: Final = 5
RUNS: Final = (3, 5, 2, 5)
HELD: Final = (1, 2)
RISK: Final = 0.2
FOLDS: Final = 10


def design(n: int, p: int, size: int) -> tuple[F64, F64]:
    """Columns correlated 0.5 with the next, and labels that depend on every eighth of all groups."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, p))
    for j in range(1, p):
        x[:, j] = 0.5 * x[:, j - 1] + np.sqrt(0.75) * x[:, j]
    beta = np.zeros(p)
    for j in range(0, p // size, max(1, p // size // 8)):
        beta[j * size : (j + 1) * size] = rng.standard_normal(size)
    return x, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-0.7 * (x @ beta))), 1.0, -1.0)


def skglm_solver(x: F64, y: F64, size: int, penalty: F64) -> Callable[[float], F64]:
    """Its weights, the intercept's last, by tolerance."""
    from skglm.datafits import LogisticGroup  # type: ignore[import-not-found]
    from skglm.penalties import WeightedGroupL2  # type: ignore[import-not-found]
    from skglm.solvers import GroupBCD  # type: ignore[import-not-found]
    from skglm.utils.data import grp_converter  # type: ignore[import-not-found]
    from skglm.utils.jit_compilation import compiled_clone  # type: ignore[import-not-found]

    indices, start = grp_converter(size, x.shape[1])
    columns = np.asfortranarray(x)
    datafit = compiled_clone(LogisticGroup(start, indices))
    penalties = compiled_clone(WeightedGroupL2(1.0 / len(y), penalty, start, indices))
    datafit.initialize(columns, y)

    def solve(tolerance: float) -> F64:
        solver = GroupBCD(tol=tolerance, fit_intercept=True, max_iter=1000, max_epochs=100_000)
        return np.asarray(solver.solve(columns, y, datafit, penalties)[0])

    return solve


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the processor time that it took."""
    began = time.process_time()
    return run(), time.process_time() - began


READING: Final = "Independent weights may be alike by chance, above all in a run of two, so SIM2 does not always have k = 0."


def beside_skglm() -> str:
    """The table of times."""
    rows = []
    for n, p, size in SHAPES:
        x, y = design(n, p, size)
        m = p // size
        largest = np.linalg.norm((x.T @ (0.5 * (y - y.mean()))).reshape(m, size), axis=1).max() / size_factor(size)
        for share in SHARES:
            gamma = float(share * largest)
            penalty = np.full(m, gamma * size_factor(size))
            runs = Runs(np.arange(0, p + 1, size), np.zeros(m), penalty)
            columns = Columns(x, y, np.ones(n))

            def ours(gamma: float = gamma, runs: Runs = runs, columns: Columns = columns) -> tuple[float, float, F64]:
                b, b0 = np.zeros(columns.x.shape[1]), np.zeros(1)
                value, violation, _ = descend(columns, LOGISTIC, runs, b, b0, (1e-8 * gamma, 200))
                return value, violation / gamma, b

            value, violation, b = ours()
            cells = [f"{n:,} x {p:,}, groups of {size}", f"{share:g}", str(np.count_nonzero(b) // size), f"{violation:.0e}"]
            if not find_spec("skglm"):
                rows.append([*cells, f"{timed(ours)[1] * 1e3:.1f}", "", "", ""])
                continue
            solve = skglm_solver(x, y, size, penalty)
            excess = 0.0
            for tolerance in LADDER:
                w = solve(tolerance)
                norms = np.linalg.norm(w[:-1].reshape(m, size), axis=1)
                excess = float(np.logaddexp(0.0, -y * (x @ w[:-1] + w[-1])).sum() + penalty @ norms) - value
                if excess <= SAME * value:
                    break
            times: dict[str, list[float]] = {"ours": [], "skglm": []}
            for _ in range(REPEATS):
                times["ours"].append(timed(ours)[1])
                times["skglm"].append(timed(partial(solve, tolerance))[1])
            mine, other = statistics.median(times["ours"]), statistics.median(times["skglm"])
            rows.append([*cells, f"{mine * 1e3:.1f}", f"{other * 1e3:.1f}", f"{excess / value:.0e}", f"{mine / other:.2f}"])
            print(" | ".join(rows[-1]), flush=True)
    heads = ["rows x columns", "penalty", "groups held", "violation", "ms", "skglm ms", "its excess", "ratio"]
    return report.table(heads, rows)


def solved(x: F64, y: F64, ks: tuple[float, ...] = KS, gammas: tuple[float, ...] = GAMMAS) -> RunSolution:
    """All columns as one sequence; y is -1 or 1."""
    n, p = x.shape
    data = in_memory(np.arange(n + 1) * p, np.tile(np.arange(p, dtype=np.uint32), n), x.ravel(), y, np.ones(n))
    rank_of = {f"x{slot}": rank for rank, slot in enumerate(data.slots.tolist())}
    names = tuple(f"x{i}" for i in range(p))
    grouping = grouping_of([Declared("x", names, True, True)], rank_of) if ks != (0.0,) else Grouping()
    return RunLasso(grouping, gammas, ks, threads=2).solve(Problem(data, "logistic", 1.0), Serial())


def errors(found: RunSolution, x: F64, y: F64) -> int:
    """How many rows are given the other label."""
    weights = found.solution.weights
    margin = weights.intercept + x[:, weights.slot.astype(np.int64)] @ weights.beta
    return int((np.sign(margin) != y).sum())


def length_of_risk() -> float:
    """The length of the weights at which the Bayes risk is RISK."""
    at, weight = np.polynomial.hermite_e.hermegauss(200)
    low, high = 0.1, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        risk = float((weight / (1.0 + np.exp(np.abs(middle * at)))).sum() / weight.sum())
        low, high = (middle, high) if risk > RISK else (low, middle)
    return low


def weights_of(kind: int, rng: np.random.Generator) -> F64:
    """Weights of one of the three kinds."""
    beta = rng.laplace(size=sum(RUNS))
    if kind > 1:
        beta[:] = 0.0
        starts: I64 = np.concatenate([[0], np.cumsum(RUNS)])
        for j in HELD:
            n = RUNS[j]
            beta[starts[j] : starts[j + 1]] = (
                rng.standard_normal(n) if kind == 2 else rng.choice([-1.0, 1.0]) + 0.1 * rng.standard_normal(n)
            )
    found: F64 = beta * (length_of_risk() / np.linalg.norm(beta))
    return found


def simulations() -> str:
    """The table of errors and of the k that is chosen."""
    rows = []
    for size, n, repeats in (("small", 100, 8), ("large", 1000, 3)):
        for kind in (1, 2, 3):
            ks, mine, lasso, kkt = [], [], [], 0.0
            for seed in range(repeats):
                rng = np.random.default_rng(1000 * kind + seed)
                beta = weights_of(kind, rng)
                x = rng.standard_normal((n + 10_000, len(beta)))
                y = np.where(rng.random(len(x)) < 1.0 / (1.0 + np.exp(-(x @ beta))), 1.0, -1.0)
                found, plain = solved(x[:n], y[:n]), solved(x[:n], y[:n], ks=(0.0,))
                ks.append(f"{found.k:g}")
                kkt = max(kkt, found.solution.certificate.kkt, *(point.kkt for point in found.grid))
                mine.append(errors(found, x[n:], y[n:]) / 100.0)
                lasso.append(errors(plain, x[n:], y[n:]) / 100.0)
            cells = [
                f"SIM{kind}, {size}",
                f"{statistics.mean(lasso):.1f}",
                f"{statistics.mean(mine):.1f}",
                ", ".join(ks),
                f"{kkt:.0e}",
            ]
            rows.append(cells)
            print(" | ".join(cells), flush=True)
    return report.table(["rows", "lasso, error %", "LAPS, error %", "k chosen", "largest violation"], rows)


def bell_funnel() -> str:
    """The sentence about curves."""
    x, y = bell_and_funnel(266, np.random.default_rng(0))
    fold = np.random.default_rng(1).permutation(len(y)) % FOLDS
    wrong, seconds, chosen = 0, time.perf_counter(), []
    for one in range(FOLDS):
        found = solved(x[fold != one], y[fold != one])
        wrong += errors(found, x[fold == one], y[fold == one])
        chosen.append(f"{found.k:g}")
        print("fold", one, "errors so far", wrong, "k", found.k, flush=True)
    seconds = (time.perf_counter() - seconds) / FOLDS
    told = f"{wrong} of {len(y)} curves in the other class; k chosen {', '.join(chosen)}; {seconds:.0f} s a fold on two threads"
    return f"Bell against funnel: {told}.\n"


def main() -> None:
    """Measure, and write the page."""
    about = [text.replace("\n", " ") for text in (__doc__ or "").split("\n\n")[1:4]]
    parts = ["# LAPS beside skglm, and on simulated weights and curves", "## The group lasso", about[0], beside_skglm()]
    parts += ["## Which k is chosen", about[1], simulations(), READING, "## Curves", about[2], bell_funnel()]
    parts.append(report.conditions("python -m tests.bench.groups", ["numpy"]))
    report.publish("groups", "\n\n".join(part.strip("\n") for part in parts) + "\n", write=True)


if __name__ == "__main__":
    main()
