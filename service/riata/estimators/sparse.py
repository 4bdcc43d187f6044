"""The exact L1 optimum as a classifier of scikit-learn, by the batch solvers."""

from __future__ import annotations

from typing import Any, Self, cast, get_args

import numpy as np

from riata.base.errors import RiataError
from riata.base.process import cores
from riata.estimators.linear import LinearClassifier
from riata.estimators.parameters import keyword_constructor
from riata.lab.batch.choose import CLASSES, auto
from riata.lab.batch.data import Data
from riata.lab.batch.pool import Threads
from riata.lab.batch.problem import LinkName, Problem, Solution
from riata.wire.solver_options import AUTO, SOLVERS


class SparseLogisticRegression(LinearClassifier):
    """Logistic or probit regression with an L1 penalty: the optimum, with a certificate of how near it is.

    Maximises  sum_i w_i log p(y_i | b_0 + x_i b) - sum_j gamma_j |b_j|.  The intercept has no penalty. A sample weight of 2 means
    that the row comes twice. The order of the rows changes rounding only; the number of cores changes nothing.

    Parameters
    ----------
    gamma : default=1.0
        Penalty of every weight, or one for each column; 0: no penalty. It is 1 / C of scikit-learn's LogisticRegression.
    link : default='logistic'
        'logistic' or 'probit'.
    solver : default='auto'
        'mp' keeps the curvature of all columns, at most 4096. 'rmmp' keeps that of a working set of up to 3000. 'auto' chooses
        one of them by the shape of the matrix. 'shotgun' and 'irls_lars' find the same optimum in other ways. 'parallel_sgd',
        'sllr_l1' and 'sllr_l2' do not find it: they warn, and certificate_ says how far they are from it. Or a solver with
        settings of its own, such as riata.lab.batch.shotgun.Shotgun(seed=3), of which tol and max_iter are then part.
    fit_intercept : default=True
        Whether there is an intercept.
    tol : default=1e-10
        The solver stops if no optimality condition is violated by more than this share of the penalty, or the objective is nearer
        to the optimum than this share of it.
    max_iter : default=None
        Most passes over the rows. None: 100, and 5000 of 'shotgun', most of whose passes read few columns.
    class_weight : default=None
        Factors of the rows' weights by class: a dictionary, or 'balanced' for factors by which both classes weigh the same.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    n_iter_ : passes over the rows
    certificate_ : objective, gap (how much higher the optimum is at most; None if a column has no penalty) and kkt (largest
        violation of an optimality condition, as a share of the largest penalty)
    solver_ : the name of the solver that ran
    """

    gamma: Any
    solver: Any
    fit_intercept: bool
    tol: float
    max_iter: int | None
    __init__ = keyword_constructor(
        {
            "gamma": 1.0,
            "link": "logistic",
            "solver": "auto",
            "fit_intercept": True,
            "tol": 1e-10,
            "max_iter": None,
            "class_weight": None,
        }
    )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the optimum. Raises `ValueError` if there is none: the classes are separable and a column has no penalty."""
        data = self._data(X, y, sample_weight)
        try:
            solution = self._solve(data)
        except RiataError as error:
            raise ValueError(str(error)) from None
        self.n_iter_ = solution.spent.passes
        reached = f"{self.n_iter_} passes left a violation of {solution.certificate.kkt:.1e} of the penalty"
        self._take(solution, f"{reached}; raise max_iter or tol")
        return self

    def _solve(self, data: Data) -> Solution:
        for name, value, choices in (("link", self.link, get_args(LinkName)), ("solver", self.solver, (AUTO, *SOLVERS))):
            if value not in choices and not hasattr(value, "solve"):
                raise ValueError(f"{name}: {value!r} is none of {', '.join(choices)}")
        gamma = np.asarray(self.gamma, np.float64)
        if gamma.shape not in ((), (self.n_features_in_,)):
            raise ValueError(f"gamma: expected one penalty, or one for each of {self.n_features_in_} columns, got {gamma.shape}")
        penalties = np.broadcast_to(gamma, self.n_features_in_)[data.slots]
        problem = Problem(data, cast(LinkName, self.link), penalties, 0.0 if self.fit_intercept else np.inf)
        with Threads(min(cores(), len(data.parts))) as pool:
            if not isinstance(self.solver, str):
                self.solver_ = type(self.solver).__name__
                return cast(Solution, self.solver.solve(problem, pool))
            self.solver_ = auto(problem, pool).name if self.solver == AUTO else self.solver
            most = {} if self.max_iter is None else {"passes_max": self.max_iter}
            return CLASSES[self.solver_](tolerance=self.tol, **most).solve(problem, pool)
