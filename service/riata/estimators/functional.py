"""Functional decision trees as a classifier of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from riata.base.arrays import F64, I64
from riata.base.directories import write_whole
from riata.base.errors import RiataError
from riata.base.process import cores
from riata.estimators.parameters import keyword_constructor
from riata.lab.growing import MEMORY_BYTES_MAX, RESTARTS, Growth, grow
from riata.trees.curves import Variable, rows_of, variables_of
from riata.trees.tree import Tree, draw_tree, read_tree

CURVE = "curve"  # the variable of rows that are one curve each
POINTS_BY_CHANNELS = 3  # dimensions of rows that are curves with channels


def _has_probability(estimator: FunctionalTreeClassifier) -> bool:
    if estimator.output_code:
        raise AttributeError("trees of an output code give no probabilities")
    return True


class FunctionalTreeClassifier(ClassifierMixin, BaseEstimator):
    """A decision tree whose splits are pairs of representative curves: a row goes to the side whose curve is nearer.

    `X` is a matrix with a curve in each row, an array of rows by points by channels, a sequence of curves of any lengths (each a
    sequence of numbers, or points by channels), or a mapping of names to such sequences, for several curves a row; sequences of
    numbers in it are ordinary variables, split by thresholds. Balakrishnan 2007, chapter 5.

    Parameters
    ----------
    distance : default='dtw'
        'dtw', dynamic time warping with squared costs, or 'euclid', which needs curves of one length.
    window : default=None
        Of the warping: the most points by which it may shift. None: any. It is widened where two lengths differ by more.
    output_code : default=False
        With more than two classes one tree for each bit of a code, and the class with the nearest code word. More accurate, but
        there are no probabilities, and several trees to read.
    restarts : default=50
        Pairs of curves that the search for a split begins with, for each variable.
    prune : default=0.1
        Share of the rows that is held out; a subtree becomes a leaf if that makes fewer errors on them. 0: no pruning.
    min_samples_leaf : default=1
        Least rows of a leaf.
    max_depth : default=None
        Most splits from the root to a leaf.
    memory_bytes_max : default=1 GiB
        Of the distances between all curves. Nodes with more curves than fit search among a sample.
    random_state : default=0
        Seed, a whole number. The same seed gives the same tree on any number of threads.
    n_jobs : default=None
        Threads; None: as many as there are processors.

    Attributes
    ----------
    tree_ : the nodes; `tree_.encode()` is its file
    classes_ : the classes
    """

    distance: str
    window: int | None
    output_code: bool
    restarts: int
    prune: float
    min_samples_leaf: int
    max_depth: int | None
    memory_bytes_max: int
    random_state: int | None
    n_jobs: int | None
    __init__ = keyword_constructor(
        {
            "distance": "dtw",
            "window": None,
            "output_code": False,
            "restarts": RESTARTS,
            "prune": 0.1,
            "min_samples_leaf": 1,
            "max_depth": None,
            "memory_bytes_max": MEMORY_BYTES_MAX,
            "random_state": 0,
            "n_jobs": None,
        }
    )

    def fit(self, X: Any, y: Any) -> Self:
        """Grow and prune. Raises `ValueError` that names the variable and the row of a curve that cannot be taken."""
        if _is_matrix(X):
            X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, label = np.unique(np.asarray(y), return_inverse=True)
        try:
            growth = Growth(
                self.restarts, self.prune, self.output_code, self.min_samples_leaf, self.max_depth, int(self.random_state or 0),
                self.memory_bytes_max, cores() if self.n_jobs is None else max(1, self.n_jobs),
            )  # fmt: skip
            variables = self._variables(X, None)
            self.tree_ = grow(variables, label.astype(np.int64), self.classes_.tolist(), growth)
        except RiataError as error:
            raise ValueError(str(error)) from None
        return self

    def predict(self, X: Any) -> Any:
        """Return the class of each row."""
        rows = self._rows(X)
        return self.classes_[self.tree_.predict(rows)]

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> F64:
        """Return the share of each class in the leaf of each row, f64[n, classes]."""
        rows = self._rows(X)
        return self.tree_.probabilities(rows)

    def apply(self, X: Any) -> I64:
        """Return the node in which each row ends in each tree, i64[n, trees]."""
        rows = self._rows(X)
        return self.tree_.leaves(rows)

    def to_file(self, path: str | Path) -> Path:
        """Write the tree, for `from_file` and `riata tree`. Nothing in the file is executed. Returns the path."""
        check_is_fitted(self)
        write_whole(Path(path), self.tree_.encode())
        return Path(path)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Return a fitted classifier. Raises `ValueError` for a file that is not that of a tree."""
        made: Self = cls()
        try:
            made.tree_ = read_tree(Path(path).read_bytes())
        except RiataError as error:
            raise ValueError(str(error)) from None
        made.classes_ = np.array(made.tree_.classes)
        made.output_code = made.tree_.code is not None
        return made

    def draw(self, path: str | Path) -> Path:
        """Write a drawing of the tree with its prototype curves, as SVG. Returns the path."""
        check_is_fitted(self)
        Path(path).write_text(draw_tree(self.tree_), encoding="utf-8")
        return Path(path)

    def _repr_svg_(self) -> str | None:
        return draw_tree(self.tree_) if hasattr(self, "tree_") else None

    def _rows(self, X: Any) -> list[Variable]:
        check_is_fitted(self)
        if _is_matrix(X) and hasattr(self, "n_features_in_"):
            X = validate_data(self, X, dtype=np.float64, reset=False)
        try:
            rows = self._variables(X, self.tree_)
            rows_of(rows)
        except RiataError as error:
            raise ValueError(str(error)) from None
        return rows

    def _variables(self, X: Any, tree: Tree | None) -> list[Variable]:
        given = X if isinstance(X, Mapping) else {CURVE: list(X)}
        return variables_of(given, self.distance, self.window, None if tree is None else tree.variables)


def _is_matrix(X: Any) -> bool:
    """Whether rows are what scikit-learn calls samples: numbers, equally many in each."""
    if isinstance(X, Mapping):
        return bool(scipy.sparse.issparse(X))  # some of them are mappings too
    if isinstance(X, np.ndarray) and X.dtype != object:
        return bool(X.ndim < POINTS_BY_CHANNELS)
    if not isinstance(X, list | tuple | np.ndarray) or not len(X):
        return True
    shapes = {np.shape(one) if not isinstance(one, list | tuple) else (len(one),) for one in X}
    return len(shapes) == 1 and all(np.ndim(value) == 0 for value in (X[0] if np.shape(X[0]) else [X[0]]))
