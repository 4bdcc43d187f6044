"""Makes the models that are served: from the weights of a learner, and from the arrays of an edition."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from riata.base.arrays import F64, U32, Arrays, read_only
from riata.base.errors import Corrupt
from riata.learn.frozen import check_names, check_numbers, check_slots
from riata.learn.learner import Weights
from riata.maths.links import Link
from riata.predict.class_model import ClassModel, read_classes
from riata.predict.linear_model import LinearModel
from riata.predict.model import Model, Origin
from riata.predict.posterior import PARTS, PosteriorModel, read_posterior
from riata.predict.uncertainty import NEW, OUTSIDE, SPREAD, Covariance, Spread, Uncertainty, look_up

WEIGHTS: Final = {"slot", "beta", "intercept"}


def make_model(origin: Origin, weights: Weights, gen: int, seq: int, covariance: Covariance | None = None) -> Model:
    """Make the model of a learner's `weights`, which it takes over. `covariance` may be of an earlier event."""
    if weights.heads is not None:
        return ClassModel(origin, weights, gen, seq)
    linear = LinearModel(origin, weights, gen, seq, None if covariance is None else look_up(covariance, weights))
    return linear if weights.posterior is None else PosteriorModel(linear, weights.posterior)


def read_model(origin: Origin, at: tuple[int, int], link: Link, bits: int, arrays: Arrays, std_errors: bool) -> Model:
    """Make a model from its `parts`.

    at         : its generation and the last event that it has learnt
    std_errors : whether they have to be among the arrays

    Raises `Corrupt`.
    """
    if origin.labels == "classes":
        return read_classes(origin, at, link, bits, arrays)
    weights = _weights(arrays, link, bits)
    if std_errors and set(PARTS) & set(arrays):
        check_names(arrays, WEIGHTS | set(PARTS))
        return read_posterior(arrays, LinearModel(origin, weights, *at))
    scattered = bool(set(SPREAD) & set(arrays))
    check_names(arrays, WEIGHTS | (set(SPREAD) if scattered else set()))
    uncertainty = _uncertainty(arrays, len(weights.slot)) if scattered else None
    if scattered != std_errors:
        raise Corrupt("it needs either standard errors or the reason for their absence")
    model = LinearModel(origin, weights, *at, uncertainty)
    if np.float64(model.weights.intercept).tobytes() != np.float64(weights.intercept).tobytes():
        raise Corrupt("it has an intercept although it has learnt nothing")
    return model


def _weights(arrays: Arrays, link: Link, bits: int) -> Weights:
    if not set(arrays) >= WEIGHTS:
        raise Corrupt("it has no weights")
    check_slots("slot", arrays["slot"], bits)
    check_numbers("beta", arrays["beta"], len(arrays["slot"]))
    check_numbers("intercept", arrays["intercept"], 1)
    beta = cast(F64, arrays["beta"])
    if not bool((beta != 0.0).all()):
        raise Corrupt("a weight is zero")
    return Weights(cast(U32, arrays["slot"]), beta, float(cast(F64, arrays["intercept"])[0]), link, bits)


def _uncertainty(arrays: Arrays, weights: int) -> Uncertainty:
    place, variance, covariance, row = (arrays[name] for name in SPREAD)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise Corrupt("the covariance is not square")
    size = covariance.shape[0]
    check_numbers("variance", variance, weights, 0.0)
    check_numbers("covariance", covariance.reshape(-1), size * size)
    _check_places("place", place, weights, size, {OUTSIDE, NEW})
    _check_places("row", row, 1, size, {-1})
    return Uncertainty(Spread(*(read_only(array) for array in (place, variance, covariance, row))))  # type: ignore[arg-type]


def _check_places(name: str, array: Any, length: int, size: int, others: set[int]) -> None:
    if array.dtype != np.int64 or array.shape != (length,):
        raise Corrupt(f"{name} does not have {length} positions")
    inside = ((array >= 0) & (array < size)) | np.isin(array, list(others))
    if not bool(inside.all()):
        raise Corrupt(f"{name} has a position outside the covariance")
