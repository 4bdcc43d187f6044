"""LAPS, the lasso with attribute partition search, as a classifier of scikit-learn."""

from __future__ import annotations

from typing import Any, Self, cast, get_args

import numpy as np

from riata.base.errors import RiataError
from riata.base.process import cores
from riata.estimators.linear import LinearClassifier
from riata.estimators.online import unnamed
from riata.estimators.parameters import keyword_constructor
from riata.lab.batch.data import Data
from riata.lab.batch.pool import Serial
from riata.lab.batch.problem import LinkName, Problem
from riata.lab.batch.run_search import GAMMAS, KS, RunLasso
from riata.wire.groups import Declared, Grouping, grouping_of, read_groups


class RunLassoClassifier(LinearClassifier):
    """Logistic or probit regression whose weights are in the model, or out of it, by groups and by runs of neighbours.

    Minimises  -sum_i w_i log p(y_i | b_0 + x_i b) + gamma sum_j s_j |b_j|_K  over the weights b_j of runs j of n_j columns, with
    s_j = sqrt((n_j + 1) / 2).
    The runs are searched in groups whose columns have an order, such as the points of a curve; a group without an order is one
    run (the group lasso), and a column of no group is penalised as by the lasso. Balakrishnan 2007, chapter 4. Bring the columns
    of a group to one scale: runs compare the weights of neighbours.

    Parameters
    ----------
    groups : default=None
        Groups by name: patterns or lists of column names, as in `{"window": "t{00..59}", "colour": ["red", "green"]}`; see the
        guide. None: all columns are one sequence, in which runs are searched.
    gamma : default=None
        Penalty above 0, or several. None: ten, prior variances 2 / gamma^2 of a weight from 0.1 to 0.9. Among several, the score
        chooses: Laplace's approximation of the evidence.
    k : default=None
        From 0 to below 1, or several: how alike weights of neighbours in a run are; 0: not at all. None: five, 0 to 0.99.
    link : default='logistic'
        'logistic' or 'probit'.
    tol : default=1e-10
        Largest violation of a condition of optimality, as a share of gamma.
    n_jobs : default=None
        Threads; they change nothing but the time. None: as many as there are processors.
    class_weight : default=None
        Factors of the rows' weights by class: a dictionary, or 'balanced' for factors by which both classes weigh the same.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    runs_ : list of (group, columns): runs in order, columns as i64 arrays; zero runs of one group that touch are one
    gamma_, k_, score_ : what was chosen, and its score; less is better
    grid_ : every point that was tried
    certificate_ : objective, gap (how much better the optimum is at most) and kkt (largest violation, as a share of gamma)
    """

    groups: Any
    gamma: Any
    k: Any
    tol: float
    n_jobs: int | None
    __init__ = keyword_constructor(
        {"groups": None, "gamma": None, "k": None, "link": "logistic", "tol": 1e-10, "n_jobs": None, "class_weight": None}
    )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find runs and weights. Raises `ValueError` that names the group or parameter if they cannot be."""
        data = self._data(X, y, sample_weight)
        if self.link not in get_args(LinkName):
            raise ValueError(f"link: {self.link!r} is none of {', '.join(get_args(LinkName))}")
        try:
            threads = cores() if self.n_jobs is None else max(1, int(self.n_jobs))
            solver = RunLasso(self._grouping(data), _several(self.gamma, GAMMAS), _several(self.k, KS), self.tol, threads)
            found = solver.solve(Problem(data, cast(LinkName, self.link), 1.0), Serial())
        except RiataError as error:
            raise ValueError(str(error)) from None
        self.runs_ = [(run.group, data.slots[run.features].astype(np.int64)) for run in found.runs]
        self.gamma_, self.k_, self.score_ = float(found.problem.gamma), found.k, found.score
        self.grid_ = list(found.grid)
        self._take(found.solution, f"a violation of {found.solution.certificate.kkt:.1e} of gamma is left; raise tol")
        return self

    def _grouping(self, data: Data) -> Grouping:
        names = getattr(self, "feature_names_in_", None)
        listed = unnamed(self.n_features_in_) if names is None else [str(name) for name in names]
        rank_of = {listed[slot]: rank for rank, slot in enumerate(data.slots.tolist())}
        if not rank_of:
            raise ValueError("every column is zero: there is nothing to group")
        declared = [Declared("columns", tuple(listed), True, True)] if self.groups is None else read_groups(self.groups)
        return grouping_of(declared, rank_of)


def _several(given: Any, default: tuple[float, ...]) -> tuple[float, ...]:
    return default if given is None else tuple(float(one) for one in np.atleast_1d(given))
