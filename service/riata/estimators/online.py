"""The online learners as classifiers of scikit-learn. `fit` learns the rows once, in their order, as a service would."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from riata.base.arrays import F64
from riata.base.directories import write_whole
from riata.base.errors import BadInput, Conflict
from riata.client import Riata
from riata.estimators.columns import Columns
from riata.estimators.frames import KindReader, has_other_columns, table_like
from riata.estimators.linear import CLASSES, binary_tags, require_binary, two_classes, weighted_by_class
from riata.estimators.parameters import constructor, described, model_config, parameters_in
from riata.learn.ftrl_proximal import FtrlProximalConfig
from riata.learn.particle_filter import FEATURES_ADVISED, FEATURES_MOST, ParticleFilterConfig, dependent_column
from riata.learn.taylor_config import TaylorSketchConfig
from riata.learn.truncated_config import TruncatedGradientConfig
from riata.predict.factory import make_model
from riata.predict.model import Model, Origin, Scores
from riata.predict.name_book import NameBook
from riata.predict.posterior import PosteriorModel, positive, quantiles, require_posterior
from riata.run.candidates.exports import read_export, write_export
from riata.run.state.config import Change, ModelConfig
from riata.run.state.config_changes import check_change
from riata.run.state.model_state import ModelState, begun, unlogged
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NOTHING_NAMED, Names

_NUMERIC: Final = ("number", "boolean")  # kinds of columns of matrices
NAME: Final = "fit"  # as `riata fit` calls a model, so that the same rows make the same file


class Learnt:
    """A state, the columns of its matrices, and the model of the present weights.

    columns : of matrices of numbers; or the names of columns whose values are read by the kinds of their fields
    names   : of features that are no columns
    """

    def __init__(self, state: ModelState, columns: Columns | list[str], names: Names = NOTHING_NAMED) -> None:
        self.state = state
        self._given = columns
        self._book = NameBook.of(state.config.encoder)
        self._book.add_all(names)
        self._model: Model | None = None

    @property
    def reads_kinds(self) -> bool:
        """Whether values are read by the kinds of their fields."""
        return isinstance(self._given, list)

    @property
    def columns(self) -> Columns:
        """The columns of matrices of numbers; none if values are read by kinds."""
        return Columns.of([], 0) if isinstance(self._given, list) else self._given

    def configure(self, config: ModelConfig) -> None:
        """Take up other settings. Raises `ValueError` for settings that cannot change while a model learns."""
        if config == self.state.config:
            return
        try:
            check_change(self.state.config, config)
        except BadInput as error:
            raise ValueError(f"{error}; or call fit, which starts anew") from None
        self.state.apply(unlogged(self.state, "config", 1, Change(config).payload()))
        self._book.set_fields(config.encoder.fields)

    def learn(self, x: Any, label: F64, weight: F64) -> dict[int, str]:
        """Learn the rows of a matrix in order. Returns why the learner refused rows, by event."""
        refused: dict[int, str] = {}
        self._model = None
        for batch in self.batches(x, label, weight, learns=True):
            refused |= self.state.apply(unlogged(self.state, "observe", batch.n), batch)
        return refused

    def scores(self, x: Any) -> list[Scores]:
        """Score the rows of a matrix, as a service would; in pieces."""
        return [self.model.score(batch) for batch in self.batches(x, np.full(x.shape[0], np.nan), np.ones(x.shape[0]))]

    def batches(self, x: Any, label: F64, weight: F64, learns: bool = False) -> Iterator[Batch]:
        """Yield the rows of a matrix or a table in order, without those of weight zero. learns : names of features are kept"""
        if isinstance(self._given, list):
            return KindReader(self._given, self._book, self.state.config).batches(x, label, weight, learns=learns)
        return self._given.batches(x, label, weight, self._l2)

    def weights(self) -> F64:
        """Return the weight of each column, f64[d]."""
        return np.array(self.model.weights.of(self.columns.hash.tolist()))[self.columns.place]

    @property
    def model(self) -> Model:
        """The present weights, as a service would serve them."""
        if self._model is None:
            state = self.state
            origin = Origin(state.name, state.lineage, state.config.encoder, state.config.labels)
            seq = state.applied if state.has_learnt else 0
            self._model = make_model(origin, state.learner.weights(), gen=0, seq=seq)
        return self._model

    def export(self) -> bytes:
        """Return the bytes that a service's import route accepts."""
        book = NameBook.of(self.state.config.encoder)
        book.add_all(self._book.everything())
        book.add_all(self.columns.names)
        frozen, weights = self.state.freeze(), self.state.learner.weights()
        return write_export(frozen.header, frozen.arrays, book.everything(), weights)

    @property
    def _l2(self) -> bool:
        return self.state.config.encoder.normalise == "l2"

    def __getstate__(self) -> dict[str, Any]:
        return {"export": self.export(), "columns": self._given}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__init__(*_read(kept["export"], kept["columns"]))  # type: ignore[misc]  # a copy is made from its export


def _read(content: bytes, columns: Columns | list[str]) -> tuple[ModelState, Columns | list[str], Names]:
    state, names = read_export(content)
    return state, columns, names


def _has_probability(estimator: OnlineClassifier) -> bool:
    return getattr(estimator, "loss", None) != "hinge"


class OnlineClassifier(ClassifierMixin, BaseEstimator):
    """A learner of the service as a classifier for two classes.

    A DataFrame's columns have their own names; those of other matrices are called x0, x1 and so on. A service that imports
    `to_riata(path)` gives the same predictions for rows with these names. Columns are numeric features; if `fields` declares a
    kind, or a column of the DataFrame in `fit` is not of numbers, all are read by the kinds of their fields, as by a service.
    Absent values are then no features.

    `partial_fit` takes importance weights as `sample_weight`. `fit` does not: there scikit-learn defines a weight as repetitions
    of a row in any order, and what an online learner learns depends on the order.
    """

    config: ClassVar[type[Any]]
    class_weight: Any
    fields: Any

    def __init_subclass__(cls, config: type[Any], **others: Any) -> None:
        """Make a class for the learner of `config`, with its settings as parameters."""
        cls.config = config
        cls.__init__ = constructor(config)  # type: ignore[method-assign]
        cls.__doc__ = described(cls.__doc__ or "", config)
        super().__init_subclass__(**others)

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the rows in their order, from nothing. Raises `ValueError` unless `y` holds two classes."""
        self.__dict__.pop("_learnt", None)
        X, y = self._validated(X, y, reset=True)
        self.classes_ = two_classes(y)
        self._check_rows(X)
        return self._learn_anew(X, y, np.ones(len(y)))

    def _check_rows(self, X: Any) -> None:
        """Raise `ValueError` if the learner cannot fit these rows."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn further rows. The first call for a new model names the two `classes`.

        sample_weight : importance of each row, up to 1000; a row of weight 0 is left out

        Raises `ValueError` if `class_weight` is "balanced": a part of the rows does not have the counts of all.
        Changed parameters take effect if a service could change them too (`PATCH /models/{model}`), otherwise `ValueError`.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight 'balanced' needs the counts of all rows, which partial_fit does not see: give a dictionary, as of "
                "sklearn.utils.class_weight.compute_class_weight('balanced', classes=classes, y=y)"
            )
        is_first = not self.__sklearn_is_fitted__()
        if is_first and hasattr(self, "classes_"):
            del self.classes_  # of a fit that failed
        X, y = self._validated(X, y, reset=is_first)
        is_first = _check_partial_fit_first_call(self, classes)
        if len(self.classes_) != CLASSES:
            raise ValueError(f"Only binary classification is supported. classes holds {len(self.classes_)}.")
        weight = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True, allow_all_zero_weights=True
        )
        if is_first:
            return self._learn_anew(X, y, weight)
        self._learnt.configure(self._model_config())
        return self._learn(X, y, weight)

    def decision_function(self, X: Any) -> F64:
        """Return the margin of each row: above 0 for the second class. With squared loss it is the margin minus 1/2."""
        return np.concatenate([scores.margin for scores in self._scores(X)]) - self._threshold

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> F64:
        """Return the probabilities of both classes, f64[n, 2]. Hinge loss has none."""
        second = np.concatenate([scores.probability for scores in self._scores(X)])
        return np.column_stack([1.0 - second, second])

    def predict(self, X: Any) -> Any:
        """Return the class of each row."""
        label = np.concatenate([scores.label for scores in self._scores(X)])
        return self.classes_[(label > 0.0).astype(np.intp)]

    @property
    def coef_(self) -> F64:
        """Weights of the columns, f64[1, d]; of rows that the encoder has normalised, if it does. Raises `AttributeError` if
        columns have shapes, or are read by kinds: no weights of columns say what such a model predicts."""
        self._require_linear("coef_")
        return self._learnt.weights()[np.newaxis]

    @property
    def intercept_(self) -> F64:
        """The intercept, f64[1]. With squared loss it is the learner's minus 1/2, so that class boundaries are at 0.
        Raises as `coef_` does."""
        self._require_linear("intercept_")
        return np.array([self._learnt.model.weights.intercept - self._threshold])

    def to_riata(self, path: str | Path) -> Path:
        """Write the file that a service imports (`POST /models/{model}/import`), as `riata fit --out` does. Returns the path.

        The service knows classes as 0 and 1, or as -1 and 1 if those are the classes.
        """
        check_is_fitted(self)
        write_whole(Path(path), self._learnt.export())
        return Path(path)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "_learnt")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator takes: sparse matrices too, two classes only."""
        return binary_tags(super().__sklearn_tags__())

    def _require_linear(self, name: str) -> None:
        check_is_fitted(self)
        if self._learnt.reads_kinds:
            raise AttributeError(f"{name}: columns are read by kinds, so one may have several weights; see to_riata")
        if shaped := self._learnt.model.weights.shaped_columns:
            raise AttributeError(
                f'{name}: {shaped} columns have shapes, so the model is not linear; set shapes="off" for a linear one'
            )

    def _validated(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        if self._learns_kinds(X, reset):
            X = validate_data(self, table_like(X), reset=reset, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
            require_binary(y)
            return X, y
        try:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=reset)
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(f"{error}: give fit a DataFrame, which may have columns of texts") from None
        require_binary(y)
        return X, y

    def _learns_kinds(self, X: Any, reset: bool) -> bool:
        """Whether X is read by the kinds of fields: as the rows before, otherwise if a kind is declared, or a column has no
        numbers."""
        return isinstance(self.fields, Mapping) or has_other_columns(X) if reset else self._learnt.reads_kinds

    def _learn_anew(self, X: Any, y: Any, weight: F64) -> Self:
        names = getattr(self, "feature_names_in_", None)
        config = self._model_config()
        listed = unnamed(self.n_features_in_) if names is None else names.tolist()
        columns = listed if self._learns_kinds(X, True) else Columns.of(listed, config.encoder.hash_key)
        self._learnt = Learnt(begun(config, NAME), columns)
        return self._learn(X, y, weight)

    def _learn(self, X: Any, y: Any, weight: F64) -> Self:
        if not np.isin(y, self.classes_).all():
            raise ValueError(f"y holds classes besides {self.classes_.tolist()}")
        label = (y == self.classes_[1]).astype(np.float64)
        refused = self._learnt.learn(X, label, weighted_by_class(weight, self.class_weight, self.classes_, y))
        if refused:
            why = next(iter(refused.values()))
            warnings.warn(f"{len(refused)} of {len(label)} rows were not learnt; the first: {why}", RuntimeWarning, stacklevel=3)
        return self

    def _scores(self, X: Any) -> Any:
        check_is_fitted(self)
        if self._learnt.reads_kinds:
            return self._learnt.scores(validate_data(self, table_like(X), reset=False, skip_check_array=True))
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self._learnt.scores(X)

    def _model_config(self) -> Any:
        labels = "-1/+1" if self.classes_.tolist() == [-1, 1] else "0/1"
        return model_config(self, self.config, labels)

    @property
    def _threshold(self) -> float:
        return 0.5 if self._learnt.model.weights.link == "identity" else 0.0


class TruncatedGradientClassifier(OnlineClassifier, config=TruncatedGradientConfig):
    """Truncated gradient: needs no tuning and no scaling, and its weights are sparse."""


class TaylorSketchClassifier(OnlineClassifier, config=TaylorSketchConfig):
    """The Taylor sketch: L1-penalised logistic or probit regression from a quadratic summary of all rows so far."""


class FTRLProximalClassifier(OnlineClassifier, config=FtrlProximalConfig):
    """FTRL-Proximal: logistic regression with a step size for each weight, L1 and L2."""


def unnamed(columns: int) -> list[str]:
    """Return the names of columns without names, as scikit-learn calls them."""
    return [f"x{i}" for i in range(columns)]


# The particle filter as a classifier of scikit-learn: Bayesian logistic regression in one pass over the rows.


class BayesianLogisticRegression(OnlineClassifier, config=ParticleFilterConfig):
    """Logistic regression with the posterior distribution of its weights, by a particle filter in one pass over the rows.

    Weights and `predict_proba` are those of the posterior mean. `predict_interval`, `coef_interval` and `draws` show the whole
    distribution. `fit` draws exactly from the posterior of the first `start` rows (of all, if there are fewer) and filters the
    rest, so these rows should be a random sample of all. Columns should be of the order of one; see `gamma`.
    """

    def _check_rows(self, X: Any) -> None:
        """Raise `ValueError`: `too_many_features` if X has more columns than features_max; `singular_start`, which names the
        column, if a column of the first rows is a linear combination of those before it."""
        self._rows = X.shape[0]
        self._require_few_columns()
        self._require_independent(X[: min(self.start, self._rows)])

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn further rows, as `OnlineClassifier.partial_fit`. The first `start` rows are those of the first calls."""
        if not self.__sklearn_is_fitted__():
            self._rows = int(self.start)
        return super().partial_fit(X, y, classes, sample_weight)

    def predict_interval(self, X: Any, level: float = 0.95) -> F64:
        """Return low and high end of the central interval of the probability of the second class, f64[n, 2].

        level : posterior probability of the interval, in (0, 1)
        """
        model = self._posterior(level)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        batches = self._learnt.batches(X, np.full(X.shape[0], np.nan), np.ones(X.shape[0]))
        return np.concatenate([model.intervals(batch, level)[:, :2] for batch in batches])

    def coef_interval(self, level: float = 0.95) -> F64:
        """Return low and high end of the central interval of each weight, f64[d, 2]; NaN for a column without values."""
        weight = self._posterior(level).posterior.weight
        return np.array(
            [quantiles(line, weight, level) if np.isfinite(line[0]) else (np.nan, np.nan) for line in self.draws()[1:]]
        )

    def draws(self) -> F64:
        """Return the particles, f64[1 + d, M], the intercept first; `draw_weight_` has their weights."""
        p, columns = self._posterior().posterior, self._learnt.columns
        found = np.full((1 + len(columns.place), len(p.weight)), np.nan)
        found[0] = p.base[0]
        hashes = columns.hash[columns.place]
        at = np.minimum(np.searchsorted(p.slot, hashes), len(p.slot) - 1)
        known = p.slot[at] == hashes
        found[1:][known] = p.theta[at[known]]
        return found

    @property
    def draw_weight_(self) -> F64:
        """Weights of the particles, f64[M]; their sum is 1."""
        weight = self._posterior().posterior.weight
        return np.asarray(weight / weight.sum())

    @property
    def positive_(self) -> F64:
        """Posterior probability that the weight of each column is above zero, f64[d]."""
        weight = self.draw_weight_
        return np.array([positive(line, weight) for line in self.draws()[1:]])

    @property
    def effective_sample_size_(self) -> float:
        """Of the particles now."""
        return float(self._posterior().posterior.figures[0])

    @property
    def rejuvenations_(self) -> int:
        """How often the particles were moved."""
        return int(self._posterior().posterior.figures[1])

    @property
    def tempered_(self) -> int:
        """How many rows were learnt in parts, because few particles would have been left."""
        return int(self._posterior().posterior.figures[2])

    def _learns_kinds(self, X: Any, reset: bool) -> bool:
        if super()._learns_kinds(X, reset):
            raise ValueError("BayesianLogisticRegression takes columns of numbers: encode the others, or use riata.Model")
        return False

    def _posterior(self, level: float = 0.95) -> PosteriorModel:
        check_is_fitted(self)
        if not 0.0 < level < 1.0:
            raise ValueError(f"level: {level!r} is not between 0 and 1")
        try:
            return require_posterior(self._learnt.model)
        except Conflict as error:
            raise ValueError(str(error)) from None

    def _model_config(self) -> Any:
        """The settings, with as many particles as the columns need, and all rows in the start if there are few."""
        config = super()._model_config()
        self._require_few_columns()
        learner = config.learner
        first = max(1, min(learner.start, getattr(self, "_rows", learner.start)))
        columns = max(1, min(learner.features_max, self.n_features_in_))
        return dataclasses.replace(config, learner=dataclasses.replace(learner, start=first, features_max=columns))

    def _require_few_columns(self) -> None:
        columns = self.n_features_in_
        if columns > self.features_max or columns > FEATURES_MOST:
            raise ValueError(
                f"too_many_features: X has {columns} columns and features_max is {self.features_max}; up to {FEATURES_MOST} are "
                "possible. SparseLogisticRegression takes any number"
            )
        if columns > FEATURES_ADVISED:
            warnings.warn(
                f"{columns} columns: above {FEATURES_ADVISED} the posterior is close to a normal distribution", stacklevel=4
            )

    def _require_independent(self, first: Any) -> None:
        dense = first if isinstance(first, np.ndarray) else first.toarray()
        n, d = dense.shape
        ones = np.ones((int(self.intercept), n))
        at = dependent_column(np.ascontiguousarray(np.vstack([ones, dense.T])))
        if n > d and at >= 0:
            names = getattr(self, "feature_names_in_", unnamed(d))
            raise ValueError(
                f"singular_start: in the first {n} rows the column {names[at - int(self.intercept)]!r} is constant, or a linear "
                "combination of those before it; leave it out"
            )


# A model of a service as an estimator, by its export.


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
              indicator if the model has a weight of this name, otherwise a numeric feature. If one is a field of another kind,
              such as `country`, all are read by kinds.

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
    others = {} if config.learner.kind == "particle_filter" else _kinds_of(config.encoder, names)
    by_kind = any(others.get(name, "number") not in _NUMERIC for name in listed)
    made._learnt = Learnt(state, listed if by_kind else Columns.of(listed, config.encoder.hash_key, known), names)
    return made


def _kinds_of(encoder: EncoderConfig, names: Names) -> dict[str, str]:
    """Return the kinds of the fields that a configuration and the names of features tell."""
    book = NameBook.of(encoder)
    book.add_all(names)
    return {} if book.kinds is None else book.kinds.documents()


def _content(source: Riata | str | Path, model: str) -> bytes:
    if isinstance(source, Riata):
        return source.export(model)
    if str(source).startswith(("http://", "https://")):
        with Riata(str(source)) as riata:
            return riata.export(model)
    return Path(source).read_bytes()
