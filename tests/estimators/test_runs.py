"""RunLassoClassifier: groups by column name, and what it says of its runs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from riata.base.arrays import F64
from riata.estimators import RunLassoClassifier

WEIGHTS = np.repeat([0.0, 0.9, 0.0], [5, 4, 6])


def rows(n: int = 500) -> tuple[F64, F64]:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((n, len(WEIGHTS)))
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-(x @ WEIGHTS)))).astype(np.float64)


def test_all_columns_are_one_sequence_by_default() -> None:
    x, y = rows()
    found = RunLassoClassifier(gamma=3.0).fit(x, y)
    assert found.gamma_ == 3.0
    assert [int(column) for _, columns in found.runs_ for column in columns] == list(range(15))
    assert np.all(found.coef_[0, 5:9] > 0.3)
    assert found.certificate_.kkt <= 1e-8
    assert len(found.grid_) == 5
    assert found.score(x, y) > 0.75


def test_groups_are_named_and_a_column_of_none_is_penalised_as_by_the_lasso() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = rows()
    frame = pandas.DataFrame(x, columns=[f"t{i:02d}" for i in range(10)] + [f"q{i}" for i in range(5)])
    found = RunLassoClassifier(groups={"t": "t{00..09}", "q": ["q0", "q1", "q2"]}, gamma=[3.0, 6.0], k=0.9).fit(frame, y)
    assert {group for group, _ in found.runs_} <= {"t", "q", ""}
    assert next(columns.tolist() for group, columns in found.runs_ if group == "q") == [10, 11, 12]
    with pytest.raises(ValueError, match=r"'t03' is in the groups 'a' and 'b'"):
        RunLassoClassifier(groups={"a": "t{00..03}", "b": ["t03"]}).fit(frame, y)
    with pytest.raises(ValueError, match="runs need an order"):
        RunLassoClassifier(groups={"a": {"features": ["t00", "t03"], "runs": True}}).fit(frame, y)
    with pytest.raises(ValueError, match="no feature with a name"):
        RunLassoClassifier(groups={"a": "u{0..3}"}).fit(frame, y)
    with pytest.raises(ValueError, match="link"):
        RunLassoClassifier(link="cauchit").fit(frame, y)


def test_groups_of_one_are_the_lasso_of_scikit_learn() -> None:
    x, y = rows(200)
    groups = {f"c{i}": [f"x{i}"] for i in range(15)}
    found = RunLassoClassifier(groups=groups, gamma=4.0, k=0.0).fit(x, y)
    other = LogisticRegression(l1_ratio=1.0, C=0.25, solver="saga", tol=1e-10, max_iter=100000).fit(x, y)
    np.testing.assert_allclose(found.coef_, other.coef_, atol=1e-6)
    np.testing.assert_allclose(found.predict_proba(x), other.predict_proba(x), atol=1e-6)
