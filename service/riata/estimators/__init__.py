"""Rank 8: the learners as scikit-learn estimators, for notebooks. Needs the extra `riata[estimators]`; no service imports it."""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError('riata.estimators needs scikit-learn: pip install "riata[estimators]"', name=error.name) from None

from riata.estimators.functional import FunctionalTreeClassifier
from riata.estimators.online import (
    BayesianLogisticRegression,
    FTRLProximalClassifier,
    TaylorSketchClassifier,
    TruncatedGradientClassifier,
    from_riata,
)
from riata.estimators.runs import RunLassoClassifier
from riata.estimators.sequences import MarkovMixture
from riata.estimators.sparse import SparseLogisticRegression

__all__ = [
    "BayesianLogisticRegression",
    "FTRLProximalClassifier",
    "FunctionalTreeClassifier",
    "MarkovMixture",
    "RunLassoClassifier",
    "SparseLogisticRegression",
    "TaylorSketchClassifier",
    "TruncatedGradientClassifier",
    "from_riata",
]
