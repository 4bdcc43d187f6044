"""Models go from estimators to services and back, and give the same answers on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from riata.client import Riata
from riata.estimators import (
    BayesianLogisticRegression,
    FTRLProximalClassifier,
    TaylorSketchClassifier,
    TruncatedGradientClassifier,
    from_riata,
)
from tests.estimators.data import fitted, matrix, rows_of
from tests.web.serving import answering_at

CLASSIFIERS: list[Any] = [BayesianLogisticRegression, FTRLProximalClassifier, TaylorSketchClassifier, TruncatedGradientClassifier]


@pytest.fixture(scope="module")
def riata() -> Iterator[Riata]:
    with answering_at() as url, Riata(url) as client:
        yield client


def answers(riata: Riata, rows: list[dict[str, Any]], model: str) -> tuple[Any, Any, Any]:
    found = riata.predict(rows, model=model)
    return tuple(np.array([one[key] for one in found]) for key in ("margin", "probability", "label"))  # type: ignore[return-value]


@pytest.mark.parametrize("made", CLASSIFIERS)
def test_a_service_that_imports_an_estimator_predicts_and_learns_as_it_does(made: Any, riata: Riata, tmp_path: Path) -> None:
    x, y = matrix(500)
    model = made.config().kind
    estimator = made(bits=14).fit(x[:300], y[:300])
    riata.import_(model, estimator.to_riata(tmp_path / "m").read_bytes())
    for _ in range(2):
        margin, probability, label = answers(riata, rows_of(x), model)
        assert np.array_equal(margin, estimator.decision_function(x))
        assert np.array_equal(probability, estimator.predict_proba(x)[:, 1])
        assert np.array_equal(label, estimator.predict(x))
        riata.observe(rows_of(x[300:], y[300:]), model=model, wait_applied=True)
        estimator.partial_fit(x[300:], y[300:])


def test_a_model_of_a_service_becomes_an_estimator(riata: Riata, tmp_path: Path) -> None:
    x, y = matrix(400)
    names = ["age", "b", "c", "d", "e", "f"]
    settings = {"kind": "taylor_sketch", "gamma": 0.3, "gamma_of": [{"feature": "age", "gamma": 0.0}]}
    riata.create_model(
        "mine", {"learner": settings, "encoder": {"bits": 13, "normalise": "l2", "hash_key": 9}, "labels": "-1/+1"}
    )
    labelled = [{**row, "label": 2 * row["label"] - 1} for row in rows_of(x, y, names)]
    for row, flag in zip(labelled, y.tolist(), strict=True):
        row["features"]["country"] = "de" if flag else "fr"
    riata.observe(labelled, model="mine", wait_applied=True)

    (tmp_path / "export").write_bytes(riata.export("mine"))
    columns = [*names, "country=de", "country=fr"]
    frame = pd.DataFrame(np.column_stack([x, y, 1 - y]), columns=columns)
    asked = [{"features": row["features"]} for row in labelled]
    for source in (riata, riata.url, tmp_path / "export", str(tmp_path / "export")):
        estimator = from_riata(source, "mine", columns=columns)
        assert isinstance(estimator, TaylorSketchClassifier)
        assert (estimator.get_params()["gamma"], estimator.classes_.tolist()) == (0.3, [-1, 1])
        margin, _, label = answers(riata, asked, "mine")
        assert np.array_equal(estimator.decision_function(frame), margin)
        assert np.array_equal(estimator.predict(frame), label)
    estimator.partial_fit(frame, 2 * y - 1)
    riata.observe(labelled, model="mine", wait_applied=True)
    assert np.array_equal(estimator.decision_function(frame), answers(riata, asked, "mine")[0])

    again = from_riata(riata, "mine")
    weights = {one["feature"]: one["weight"] for one in riata.weights("mine")["weights"]}
    assert dict(zip(again.feature_names_in_, again.coef_[0].tolist(), strict=True)) == weights


def test_columns_without_names_are_loaded_by_their_number(tmp_path: Path) -> None:
    x, y = matrix(200)
    estimator = TruncatedGradientClassifier().fit(x, y)
    path = estimator.to_riata(tmp_path / "model")
    loaded = from_riata(path, columns=6)
    assert np.array_equal(loaded.decision_function(x), estimator.decision_function(x))
    assert loaded.get_params() == estimator.get_params()


def test_a_model_without_classes_or_names_is_refused(tmp_path: Path) -> None:
    x, y = matrix(50)
    path = tmp_path / "model"
    learner = {"kind": "truncated_gradient", "loss": "squared"}
    path.write_bytes(fitted(rows_of(x, y), {"learner": learner, "labels": "real"}).export())
    with pytest.raises(ValueError, match="learns numbers, not two classes"):
        from_riata(path)
    path.write_bytes(fitted(rows_of(x, y), {"learner": learner, "encoder": {"names_max": 0}}).export())
    with pytest.raises(ValueError, match="say columns"):
        from_riata(path)
    assert isinstance(from_riata(path, columns=6), TruncatedGradientClassifier)
