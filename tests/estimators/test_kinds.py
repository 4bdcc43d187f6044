"""Estimators read columns by the kinds of their fields as a service does: the state is that of `riata fit`, bit for bit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import TimeSeriesSplit, cross_val_score

from riata import Model
from riata.estimators import BayesianLogisticRegression, FTRLProximalClassifier, TruncatedGradientClassifier, from_riata
from tests.estimators.data import fitted

N = 300
KINDS = {"zip": "category", "when": "time", "note": "text"}


def columns(n: int = N, seed: int = 1) -> tuple[dict[str, Any], Any]:
    """Columns of every kind, with values that are absent, and labels."""
    rng = np.random.default_rng(seed)
    country = [None if k == 3 else ("de", "fr", "it")[k] for k in rng.integers(0, 4, n)]
    zips = rng.integers(10_000, 10_020, n).tolist()
    age = [None if rng.random() < 0.1 else round(float(x), 2) for x in rng.normal(40.0, 9.0, n)]
    when = [f"2024-03-{1 + k % 28:02}T{k % 24:02}:00:00Z" for k in range(n)]
    note = [" ".join(rng.choice(["late", "new", "paid"], 2)) for _ in range(n)]
    paid = (rng.random(n) < 0.5).tolist()
    score = [(c == "de") + (z % 3 == 0) + 0.1 * ((a or 40.0) - 40.0) for c, z, a in zip(country, zips, age, strict=True)]
    label = (np.array(score) + rng.logistic(size=n) / 2 > 1.0).astype(np.float64)
    return {"country": country, "zip": zips, "age": age, "when": when, "note": note, "paid": paid}, label


def frame_of(given: dict[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame(given)
    return frame.assign(country=frame["country"].astype("category"), when=pd.to_datetime(frame["when"]))


def rows_of(given: dict[str, Any], label: Any) -> list[dict[str, Any]]:
    rows = [dict(zip(given, values, strict=True)) for values in zip(*given.values(), strict=True)]
    return [
        {"features": {k: v for k, v in row.items() if v is not None}, "label": int(y)} for row, y in zip(rows, label, strict=True)
    ]


def digest(estimator: Any) -> str:
    return str(estimator._learnt.state.freeze().digest().hex())


@pytest.mark.parametrize("made", [TruncatedGradientClassifier, FTRLProximalClassifier])
def test_the_state_is_that_of_a_file_with_the_same_rows(made: Any, tmp_path: Path) -> None:
    given, label = columns()
    fit = fitted(rows_of(given, label), {"learner": {"kind": made.config().kind}, "encoder": {"bits": 12, "fields": KINDS}})
    frames = [frame_of(given), pd.DataFrame(given), pl.DataFrame(given)]
    estimators = [made(bits=12, fields=KINDS).fit(frame, label) for frame in frames]
    assert {digest(one) for one in estimators} == {fit.digest}
    assert estimators[0].to_riata(tmp_path / "m.riata").read_bytes() == fit.export()
    served = Model.from_file(tmp_path / "m.riata").predict_many([row["features"] for row in rows_of(given, label)])
    assert estimators[0].decision_function(frames[0]).tolist() == [one["margin"] for one in served]
    assert len({one["margin"] for one in served}) > N / 2


def test_kinds_are_met_where_none_are_declared() -> None:
    given, label = columns()
    fit = fitted(rows_of(given, label), {"encoder": {"bits": 12}})
    assert digest(TruncatedGradientClassifier(bits=12).fit(pd.DataFrame(given), label)) == fit.digest
    off = TruncatedGradientClassifier(bits=12, fields="off").fit(pd.DataFrame(given), label)
    assert digest(off) == fitted(rows_of(given, label), {"encoder": {"bits": 12, "fields": "off"}}).digest


def test_kinds_that_are_declared_of_columns_of_numbers() -> None:
    given, label = columns()
    zips = {"x0": given["zip"], "x1": [float(paid) for paid in given["paid"]]}
    wanted = fitted(rows_of(zips, label), {"encoder": {"bits": 12, "fields": {"x0": "category"}}}).digest
    matrix = np.array(list(zips.values()), np.float64).T
    for x in (matrix, matrix.tolist(), pd.DataFrame(zips), pd.DataFrame(zips).astype({"x1": bool})):
        found = TruncatedGradientClassifier(bits=12, fields={"x0": "category"}).fit(x, label)
        assert digest(found) == wanted
        assert found.predict(x).shape == (N,)
    assert digest(TruncatedGradientClassifier(bits=12).fit(matrix, label)) != wanted
    with pytest.raises(ValueError, match="columns of a sparse matrix are numbers"):
        TruncatedGradientClassifier(fields={"x0": "category"}).fit(sparse.csr_array(matrix), label)


def test_parts_copies_and_clones() -> None:
    given, label = columns()
    frame = frame_of(given)
    whole = TruncatedGradientClassifier(bits=12, fields=KINDS).fit(frame, label)
    parts = clone(whole).partial_fit(frame[:1], label[:1], classes=[0.0, 1.0])
    parts = pickle.loads(pickle.dumps(parts))  # noqa: S301
    for start in range(1, N, 77):
        parts.partial_fit(frame[start : start + 77], label[start : start + 77])
    assert digest(parts) == digest(whole)
    assert parts.get_params()["fields"] == KINDS
    weight = np.arange(N) % 3.0
    weighed = clone(whole).partial_fit(frame, label, classes=[0.0, 1.0], sample_weight=weight)
    kept = clone(whole).partial_fit(
        frame[weight > 0.0], label[weight > 0.0], classes=[0.0, 1.0], sample_weight=weight[weight > 0.0]
    )
    assert digest(weighed) == digest(kept) != digest(whole)
    assert min(cross_val_score(whole, frame, label, cv=TimeSeriesSplit(3))) > 0.5
    parts.set_params(fields={**KINDS, "age": "category"}).partial_fit(frame[:5], label[:5])
    assert parts._learnt.state.config.encoder.fields.declared[0] == ("age", "category")


def test_a_model_of_a_service_reads_columns_by_their_kinds(tmp_path: Path) -> None:
    given, label = columns()
    frame = frame_of(given)
    wanted = TruncatedGradientClassifier(bits=12, fields=KINDS).fit(frame, label)
    found: Any = from_riata(wanted.to_riata(tmp_path / "m.riata"), columns=list(given))
    assert np.array_equal(found.predict_proba(frame), wanted.predict_proba(frame))
    assert digest(found.partial_fit(frame, label)) == digest(wanted.partial_fit(frame, label))
    assert found.get_params()["fields"] == dict(sorted(KINDS.items()))
    indicators: Any = from_riata(tmp_path / "m.riata", columns=["age", "country=de"])
    assert indicators.predict(pd.DataFrame({"age": [40.0], "country=de": [1.0]})).shape == (1,)


def test_what_a_service_would_refuse_names_the_row() -> None:
    given, label = columns(20)
    frame = pd.DataFrame(given)
    estimator = TruncatedGradientClassifier().fit(frame, label)
    with pytest.raises(ValueError, match=r"row 3: features\.age: value too large"):
        estimator.predict(frame.assign(age=[1e16 if i == 3 else 1.0 for i in range(20)]))
    with pytest.raises(ValueError, match=r"row 3: features\.age"):
        estimator.partial_fit(frame.assign(age=[1e16 if i == 3 else 1.0 for i in range(20)]), label, sample_weight=np.arange(20))
    with pytest.raises(ValueError, match=r"row 7, column 'note': a value of type object"):
        estimator.predict(frame.assign(note=[object() if i == 7 else "a" for i in range(20)]))
    with pytest.raises(AttributeError, match="coef_: columns are read by kinds"):
        _ = estimator.coef_
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.predict(frame[["age", "country"]])
    with pytest.raises(ValueError, match=r"'colour' is no kind"):
        TruncatedGradientClassifier(fields={"age": "colour"}).fit(frame, label)
    with pytest.raises(ValueError, match="takes columns of numbers"):
        BayesianLogisticRegression().fit(frame, label)
