from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.learn.learner import FarValue
from riata.learn.registry import SPECS
from riata.watch.progressive import Progressive, ProgressiveConfig
from riata.watch.warnings import CODES, TRACKED_MAX, Column, Columns, refused_warning, warnings_of
from riata.wire.batch import Batch
from tests.watch.streams import shown

N = 4000
ADVICE = dict.fromkeys(CODES, "Do this.")


def told(margin: F64, label: F64, count: int = N) -> list[str]:
    watched = Progressive(ProgressiveConfig())
    watched.add(margin[:count], label[:count], np.ones(count), np.zeros(count, np.bool_), 1)
    found = warnings_of(watched.figures(), [], ADVICE)
    assert all(warning["detail"].endswith("Do this.") for warning in found)
    return [warning["code"] for warning in found]


@pytest.mark.parametrize(
    ("factor", "shift", "expected"),
    [
        (1.0, 0.0, []),
        (0.4, 0.0, ["under_confident"]),
        (2.5, 0.0, ["over_confident"]),
        (1.0, 1.0, ["biased"]),
        (-1.0, 0.0, ["worse_than_base_rate", "over_confident"]),
    ],
)
def test_a_model_is_judged_by_its_last_events(factor: float, shift: float, expected: list[str]) -> None:
    rng = np.random.default_rng(3)
    margin = rng.normal(0.0, 1.5, N)
    label = (rng.random(N) < 1 / (1 + np.exp(-margin))).astype(np.float64)
    assert told(factor * margin + shift, label) == expected
    assert told(factor * margin + shift, label, 999) == []  # too few to judge


def test_a_model_that_has_learnt_nothing_yet_is_as_good_as_the_base_rate() -> None:
    label = (np.random.default_rng(4).random(N) < 0.01).astype(np.float64)
    assert told(np.full(N, np.log(0.01 / 0.99)), label) == []


@pytest.mark.parametrize(("labels", "expected"), [(1.0, ["one_label"]), (0.0, ["one_label"])])
def test_a_model_that_has_seen_one_label_only_is_told(labels: float, expected: list[str]) -> None:
    label = np.full(N, labels)
    margin = np.where(label > 0.5, 9.0, -9.0)
    assert told(margin, label, 100) == expected
    assert told(margin, label) == expected
    assert told(margin, label, 99) == []
    label[5] = 1.0 - labels
    assert told(margin, label, 100) == []


def test_the_warning_names_the_label_that_is_missing() -> None:
    watched = Progressive(ProgressiveConfig())
    watched.add(np.full(1612, 9.0), np.ones(1612), np.ones(1612), np.zeros(1612, np.bool_), 1)
    (warning,) = warnings_of(watched.figures(), [], {})
    assert warning["detail"].startswith("all 1,612 events so far have the label 1, so the model can only predict that one. If ")
    assert "rows with the label 0" in warning["detail"]


@pytest.mark.parametrize(
    ("refused", "accepted", "is_told"),
    [(3388, 1000, True), (10, 0, True), (9, 0, False), (1000, 1000, False), (1001, 1000, True)],
)
def test_more_rows_refused_than_accepted_is_told(refused: int, accepted: int, is_told: bool) -> None:
    found = refused_warning(refused, accepted)
    assert (found is not None) == is_told
    if found is not None:
        assert found["code"] == "mostly_refused"
        assert f"{refused:,} rows were refused and {accepted:,} accepted lately" in found["detail"]


def rows(value: F64) -> Batch:
    """n rows of m features, each in a slot of its own of 2^4."""
    n, m = value.shape
    hashes = np.tile(np.arange(m, dtype=np.uint32) << np.uint32(28), n)
    none, ids = np.zeros(n, np.bool_), np.zeros((n, 16), np.uint8)
    return Batch(np.arange(0, n * m + 1, m), hashes, value.ravel(), np.zeros(n), np.ones(n), ids, none)


def look(columns: Columns, batch: Batch) -> None:
    columns.observe(*shown([batch], np.zeros(batch.n), np.zeros(batch.n, np.bool_)))


def test_columns_with_large_values_in_many_rows_are_named_the_largest_first() -> None:
    value = np.ones((200, 4))
    value[:, 1] = -40.0
    value[::10, 2] = 5e4  # one row in ten
    value[::50, 3] = 9e9  # an outlier
    columns = Columns(4)
    look(columns, rows(value[:40]))
    assert columns.large() == []
    look(columns, rows(value[40:]))
    assert columns.large() == [Column(2, 5e4), Column(1, 40.0)]
    (warning,) = warnings_of(Progressive(ProgressiveConfig()).figures(), columns.large(), ADVICE)
    assert (warning["code"], warning["slots"]) == ("columns_not_scaled", [2, 1])
    assert "2 features have values above 10 in many rows, up to 5e+04" in warning["detail"]


def test_values_far_from_all_others_are_named() -> None:
    figures = Progressive(ProgressiveConfig()).figures()
    assert warnings_of(figures, [], ADVICE, far=[]) == []
    (one,) = warnings_of(figures, [], {}, far=[FarValue(3, 999.0, False)])
    assert (one["code"], one["slots"]) == ("far_values", [3])
    assert one["detail"] == (
        "1 value is far from all others of its column: 999. A value that stands for a missing one is better sent as null, or "
        "named in `learner.missing`."
    )
    (two,) = warnings_of(figures, [], {}, far=[FarValue(3, 999.0, False), FarValue(1, -1.5, True)])
    assert two["slots"] == [3, 1]
    told = "2 values are far from all others of their columns: 999, -1.5. Set apart because of repeats: -1.5. "
    assert two["detail"].startswith(told)


def test_a_column_that_is_scaled_later_is_forgotten_and_the_memory_is_bounded() -> None:
    columns = Columns(32)
    batch = rows(np.full((1, 2 * TRACKED_MAX), 1e3))
    hashes = np.arange(2 * TRACKED_MAX, dtype=np.uint32)
    look(columns, replace(batch, hash=hashes))
    for _ in range(60):
        look(columns, rows(np.full((100, 1), 1e3)))
    assert len(columns.large()) <= TRACKED_MAX
    for _ in range(400):
        look(columns, rows(np.ones((1000, 1))))
    assert columns.large() == []


def test_every_learner_says_what_to_set() -> None:
    for spec in SPECS.values():
        assert set(spec.advice) <= set(CODES)
        assert {"worse_than_base_rate", "columns_not_scaled"} <= set(spec.advice)
