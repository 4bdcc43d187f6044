"""A model of a service as an estimator, by its export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from riata.client import Riata
from riata.estimators.bayesian import BayesianLogisticRegression
from riata.estimators.columns import Columns
from riata.estimators.learnt import Learnt
from riata.estimators.online import (
    FTRLProximalClassifier,
    OnlineClassifier,
    TaylorSketchClassifier,
    TruncatedGradientClassifier,
    unnamed,
)
from riata.estimators.parameters import parameters_in
from riata.run.candidates.exports import read_export

_CLASSIFIERS: Final = {
    made.config().kind: made
    for made in (TruncatedGradientClassifier, TaylorSketchClassifier, FTRLProximalClassifier, BayesianLogisticRegression)
}


def from_riata(
    source: Riata | str | Path, model: str = "default", *, columns: Sequence[str] | int | None = None
) -> OnlineClassifier:
    """Return a model as an estimator, which predicts and goes on learning by itself; the service is not changed.

    source  : a client, the URL of a service (`http://...`), or the path of an exported file (then `model` is not used)
    columns : names of the columns of the matrices to come, or their number if they have no names. Default: the names of the
              features that have a weight, as `GET /models/{model}/weights` shows them. A column such as `country=de` is that
              indicator if the model has a weight of this name, otherwise a numeric feature.

    Raises `ValueError` if the model does not learn two classes, or has no names and no columns are given.
    """
    state, names = read_export(_content(source, model))
    config = state.config
    if config.labels == "real":
        raise ValueError("this model learns numbers, not two classes; there is no estimator for it")
    known = {name.decode(): fingerprint for fingerprint, name in names}
    nameless = isinstance(columns, int)
    listed = unnamed(columns) if isinstance(columns, int) else list(known if columns is None else columns)
    if not listed:
        raise ValueError("this model has no names of features with a weight; say columns")
    made = _CLASSIFIERS[config.learner.kind](**parameters_in(config.learner, config.encoder))
    made.classes_ = np.array([-1, 1] if config.labels == "-1/+1" else [0, 1])
    made.n_features_in_ = len(listed)
    if not nameless:
        made.feature_names_in_ = np.array(listed, dtype=object)
    made._learnt = Learnt(state, Columns.of(listed, config.encoder.hash_key, known), names)
    return made


def _content(source: Riata | str | Path, model: str) -> bytes:
    if isinstance(source, Riata):
        return source.export(model)
    if str(source).startswith(("http://", "https://")):
        with Riata(str(source)) as riata:
            return riata.export(model)
    return Path(source).read_bytes()
