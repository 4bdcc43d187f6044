"""Estimators learn and predict what a service does: the state is that of `riata fit` after the same rows, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from riata.estimators import FTRLProximalClassifier, TaylorSketchClassifier, TruncatedGradientClassifier, columns
from riata.estimators.columns import Columns
from riata.run.candidates.exports import read_export
from tests.estimators.data import NAMES, fitted, matrix, rows_of

CLASSIFIERS: list[Any] = [FTRLProximalClassifier, TaylorSketchClassifier, TruncatedGradientClassifier]
SMALL = {"encoder": {"bits": 12}}


def digest(estimator: Any) -> str:
    return str(estimator._learnt.state.freeze().digest().hex())


def document(made: Any, **encoder: Any) -> dict[str, Any]:
    return {"learner": {"kind": made.config().kind}, "encoder": {"bits": 12, **encoder}}


@pytest.mark.parametrize("normalise", ["none", "l2"])
@pytest.mark.parametrize("made", CLASSIFIERS)
def test_the_state_is_that_of_a_file_with_the_same_rows(made: Any, normalise: str) -> None:
    x, y = matrix(700)
    estimator = made(bits=12, normalise=normalise).fit(x, y)
    fit = fitted(rows_of(x, y), document(made, normalise=normalise))
    assert digest(estimator) == fit.digest
    assert digest(made(bits=12, normalise=normalise).fit(x[::-1], y[::-1])) != fit.digest


@pytest.mark.parametrize("made", CLASSIFIERS)
def test_the_file_for_a_service_is_that_of_riata_fit(made: Any, tmp_path: Any) -> None:
    x, y = matrix(300)
    path = made(bits=12).fit(x, y).to_riata(tmp_path / "model.riata")
    assert list(tmp_path.iterdir()) == [path]
    (found, names), (wanted, wanted_names) = (
        read_export(content) for content in (path.read_bytes(), fitted(rows_of(x, y), document(made)).export())
    )
    assert found.freeze().header == wanted.freeze().header
    assert found.freeze().digest() == wanted.freeze().digest()
    assert sorted(names) == sorted(wanted_names) != []


def test_dense_and_sparse_matrices_of_every_form_are_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = matrix(300)
    wanted = TruncatedGradientClassifier(bits=12).fit(x, y)
    wide = sparse.csr_array(x)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    unsorted = sparse.csr_array(x)
    unsorted.indices[:] = np.concatenate([row[::-1] for row in np.split(unsorted.indices, unsorted.indptr[1:-1])])
    unsorted.data[:] = np.concatenate([row[::-1] for row in np.split(unsorted.data, unsorted.indptr[1:-1])])
    twice = sparse.coo_array(
        (np.r_[x.ravel() / 2, x.ravel() / 2], (np.tile(np.repeat(range(300), 6), 2), np.tile(range(6), 600)))
    )
    forms = [sparse.csr_matrix(x), sparse.csc_array(x), sparse.coo_array(x), sparse.coo_matrix(x), wide, unsorted, twice]
    for form in [*forms, np.asfortranarray(x), x.tolist()]:
        found = TruncatedGradientClassifier(bits=12).fit(form, y)
        assert digest(found) == digest(wanted)
        assert np.array_equal(found.predict_proba(form), wanted.predict_proba(x))
    monkeypatch.setattr(columns, "VALUES_AT_ONCE", 100)
    assert digest(TruncatedGradientClassifier(bits=12).fit(x, y)) == digest(wanted)


def test_a_matrix_is_not_changed() -> None:
    x, y = matrix(40)
    given = sparse.csr_array(np.where(np.arange(6) == 3, 1e-320, x))  # with a subnormal, which is dropped
    before = given.copy()
    TaylorSketchClassifier(bits=12, normalise="l2").fit(given, y).predict(given)
    assert np.array_equal(given.data, before.data)
    assert np.array_equal(given.indices, before.indices)


def test_a_model_with_shapes_has_no_coefficients() -> None:
    x, y = matrix(700)
    shaped, linear = (TruncatedGradientClassifier(bits=12, shapes=how).fit(x, y) for how in ("auto", "off"))
    for name in ("coef_", "intercept_"):
        with pytest.raises(AttributeError, match=rf'{name}: 6 columns have shapes.* set shapes="off"'):
            getattr(shaped, name)
    assert np.allclose(x @ linear.coef_[0] + linear.intercept_, linear.decision_function(x))
    assert not np.array_equal(shaped.decision_function(x), linear.decision_function(x))


def test_shapes_of_named_columns() -> None:
    x, y = matrix(700)
    frame = pd.DataFrame(x, columns=list("abcdef"))
    named = {"columns": ["b", "a"], "pairs": [["a", "b"]]}
    estimator = TruncatedGradientClassifier(bits=12, shapes=named).fit(frame, y)
    assert estimator.get_params()["shapes"] == named
    with pytest.raises(AttributeError, match=r"coef_: 2 columns have shapes"):
        _ = estimator.coef_
    with pytest.raises(ValueError, match=r"learner\.shapes\.columns: expected"):
        TruncatedGradientClassifier(shapes={"columns": "a"}).fit(frame, y)


def test_columns_of_a_data_frame_are_features_by_their_names() -> None:
    x, y = matrix(200)
    names = ["age", "height", "größe", "a b", "country=de", "x9"]
    frame = pd.DataFrame(x, columns=names)
    estimator = TaylorSketchClassifier(bits=12).fit(frame, y)
    assert digest(estimator) == fitted(rows_of(x, y, names), document(TaylorSketchClassifier)).digest
    assert estimator.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.predict(frame[names[::-1]])


@pytest.mark.parametrize(
    ("name", "why"),
    [("a\tb", "control characters"), ("", "not empty"), ("e\u0301", "normal form C"), ("n" * 257, "longer than 256")],
)
def test_a_name_that_a_service_refuses_is_refused(name: str, why: str) -> None:
    x, y = matrix(20, 2)
    with pytest.raises(ValueError, match=why):
        TaylorSketchClassifier().fit(pd.DataFrame(x, columns=["age", name]), y)
    TaylorSketchClassifier().fit(pd.DataFrame(x, columns=["age", "n" * 256]), y)


def test_a_name_that_comes_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'age' comes twice"):
        Columns.of(["age", "age"], 0)


def test_values_of_names_with_one_hash_are_summed_as_in_a_service() -> None:
    names = ["c85108", "c163823", "other"]
    assert len(Columns.of(names, 0).hash) == 2
    x, y = matrix(120, 3)
    for frame in (pd.DataFrame(x, columns=names), pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(x), columns=names)):
        found = FTRLProximalClassifier(bits=12).fit(frame, y)
        assert digest(found) == fitted(rows_of(x, y, names), document(FTRLProximalClassifier)).digest
        assert np.allclose(x @ found.coef_[0] + found.intercept_, found.decision_function(frame))


@pytest.mark.parametrize("made", CLASSIFIERS)
def test_partial_fit_goes_on_where_fit_or_partial_fit_ended(made: Any) -> None:
    x, y = matrix(500)
    whole = made(bits=12).fit(x, y)
    parts = made(bits=12).partial_fit(x[:1], y[:1], classes=[0.0, 1.0])
    for start in range(1, 500, 77):
        parts.partial_fit(x[start : start + 77], y[start : start + 77])
    assert digest(parts) == digest(whole)
    assert digest(made(bits=12).fit(x[:200], y[:200]).partial_fit(x[200:], y[200:])) == digest(whole)
    assert digest(parts.fit(x, y)) == digest(whole)  # fit begins anew


def test_weights_are_importances_and_rows_of_weight_zero_are_left_out() -> None:
    x, y = matrix(300)
    weight = np.random.default_rng(5).choice([0.0, 0.5, 1.0, 7.0], 300)
    weight.flags.writeable = False
    kept = weight > 0.0
    rows = rows_of(x[kept], y[kept], weight=weight[kept])
    for form in (x, sparse.csr_array(x)):
        found = TruncatedGradientClassifier(bits=12).partial_fit(form, y, classes=[0, 1], sample_weight=weight)
        assert digest(found) == fitted(rows, document(TruncatedGradientClassifier)).digest
    before = digest(found)
    assert digest(found.partial_fit(x, y, sample_weight=np.zeros(300))) == before


@pytest.mark.parametrize(("weight", "why"), [(-1.0, "Negative values"), (1001.0, "above 1000"), (np.nan, "NaN")])
def test_a_weight_that_no_row_may_have_is_refused(weight: float, why: str) -> None:
    x, y = matrix(20)
    estimator = TaylorSketchClassifier()
    with pytest.raises(ValueError, match=why):
        estimator.partial_fit(x, y, [0, 1], np.where(np.arange(20) == 3, weight, 1.0))
    estimator.partial_fit(x, y, [0, 1], np.full(20, 1000.0))


def test_a_value_beyond_the_bound_of_a_service_is_refused_with_its_column() -> None:
    x, y = matrix(20)
    x[7, 4] = -9e15
    estimator = TruncatedGradientClassifier().fit(x, y)
    x[7, 4] = -1e16
    for form in (x, sparse.csr_array(x)):
        with pytest.raises(ValueError, match=r"column 'x4': magnitude 1e\+16 is above 9e\+15; rescale"):
            estimator.predict(form)


def test_classes_may_be_anything_and_there_are_two() -> None:
    x, y = matrix(200)
    names = np.where(y > 0, "yes", "no")
    estimator = TaylorSketchClassifier().fit(x, names)
    assert set(estimator.predict(x)) == {"yes", "no"}
    assert np.array_equal(estimator.predict_proba(x), TaylorSketchClassifier().fit(x, y).predict_proba(x))
    with pytest.raises(ValueError, match=r"y holds classes besides \['no', 'yes'\]"):
        estimator.partial_fit(x, np.where(y > 0, "yes", "No"))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        estimator.fit(x, np.arange(200) % 3)
    with pytest.raises(ValueError, match="y holds 1 class"):
        estimator.fit(x, np.ones(200))
    fresh = TaylorSketchClassifier()
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        fresh.partial_fit(x, y)
    with pytest.raises(ValueError, match=r"Only binary classification is supported\. classes holds 3"):
        fresh.partial_fit(x, y, classes=[0, 1, 2])
    assert fresh.partial_fit(x[:1], y[:1], classes=[0, 1]).classes_.tolist() == [0, 1]


def test_a_setting_changes_while_learning_if_it_may_in_a_service() -> None:
    x, y = matrix(400)
    estimator = TaylorSketchClassifier(bits=12).fit(x, y)
    before = np.count_nonzero(estimator.coef_)
    estimator.set_params(gamma=1e4).partial_fit(x, y)
    assert np.count_nonzero(estimator.coef_) < before
    with pytest.raises(ValueError, match=r"learner\.k cannot change .* or call fit, which starts anew"):
        estimator.set_params(k=7).partial_fit(x, y)
    estimator.fit(x, y)


def test_margins_are_linear_and_links_give_the_probabilities() -> None:
    x, y = matrix(600)
    probit = TaylorSketchClassifier(link="probit", mode="exact").fit(x, y)
    squared = TruncatedGradientClassifier(loss="squared").fit(x, y)
    hinge = TruncatedGradientClassifier(loss="hinge").fit(x, y)
    for estimator in (probit, squared, hinge, FTRLProximalClassifier().fit(x, y)):
        margin = estimator.decision_function(x)
        assert np.allclose(margin, x @ estimator.coef_[0] + estimator.intercept_, rtol=0, atol=1e-12)
        assert np.array_equal(estimator.predict(x), (margin > 0).astype(float))
        assert estimator.score(x, y) > 0.75
    from scipy.stats import norm

    assert np.allclose(probit.predict_proba(x)[:, 1], norm.cdf(probit.decision_function(x)))
    assert np.allclose(squared.predict_proba(x)[:, 1], np.clip(squared.decision_function(x) + 0.5, 0, 1))
    assert not hasattr(hinge, "predict_proba")


def test_rows_that_the_learner_refuses_are_counted_in_a_warning() -> None:
    x, y = matrix(60)
    full = TaylorSketchClassifier(mode="exact", features_max=3)
    with pytest.warns(
        RuntimeWarning, match=r"^\d+ of 60 rows were not learnt; the first: it has a feature for which the learner"
    ):
        full.fit(x, y)
    TaylorSketchClassifier(mode="exact", features_max=7).fit(x, y)


def test_without_two_dimensions_or_columns_scikit_learn_says_what_is_wrong() -> None:
    x, y = matrix(30)
    estimator = TaylorSketchClassifier().fit(x, y)
    assert (estimator.n_features_in_, estimator.coef_.shape, estimator.intercept_.shape) == (6, (1, 6), (1,))
    assert not hasattr(TaylorSketchClassifier(), "coef_")
    with pytest.raises(ValueError, match="6 features"):
        estimator.predict(x[:, :5])
    assert [name.decode() for _, name in estimator._learnt.columns.names] == NAMES


def test_a_matrix_with_texts_says_what_takes_them() -> None:
    frame = pd.DataFrame({"age": [41.0, 35.0], "country": ["de", "fr"]})
    with pytest.raises(ValueError, match=r"'de': give fit a DataFrame"):
        TruncatedGradientClassifier().fit(frame.to_numpy(), [0, 1])
    with pytest.raises(ValueError, match="NaN"):
        TruncatedGradientClassifier().fit(frame[["age"]].assign(age=np.nan), [0, 1])
    assert TruncatedGradientClassifier().fit(frame[["age"]], [0, 1]).predict(frame[["age"]]).shape == (2,)
