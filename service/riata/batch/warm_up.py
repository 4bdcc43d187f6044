"""Calls every kernel of the batch solvers once: compiles them, or loads their machine code."""

from __future__ import annotations

import numpy as np

from riata.batch.choose import CLASSES
from riata.batch.data import in_memory
from riata.batch.groups import Grouping
from riata.batch.jobs import run_jobs
from riata.batch.named import SOLVERS
from riata.batch.pool import Serial
from riata.batch.problem import Problem
from riata.batch.rmmp import Rmmp
from riata.batch.run_search import RunLasso


def solve_two_rows() -> None:
    """Find the optimum of two rows, by columns and by sums of H, and run the jobs that this does not need."""
    indptr, slot = np.array([0, 2, 3], np.int64), np.array([7, 7, 3], np.uint32)
    data = in_memory(indptr, slot, np.ones(3), np.array([1.0, -1.0]), np.ones(2))
    problem = Problem(data, "logistic", 0.1)
    for name, make in CLASSES.items():
        make(**({"machines": 2} if "machines" in SOLVERS[name].settings else {})).solve(problem, Serial())
    Rmmp(held_bytes_max=0).solve(problem, Serial())  # H summed by passes
    run_jobs(data.parts[0].load(), data.features)
    RunLasso(Grouping(), (0.1,), (0.0,)).solve(Problem(data, "logistic", 0.1), Serial())
