"""The history of followed weights: which points are kept, what following and no longer following does, spoilt states."""

from __future__ import annotations

import numpy as np
import pytest

from riata.base.errors import Corrupt
from riata.learn.learner import Weights
from riata.watch.weight_history import POINTS_MAX, FollowedWeights, WeightHistory, followed_as_asked

NAMES = ("age", "country=de")


def followed(points: int, every: int = 1000) -> WeightHistory:
    history = WeightHistory().following({"age": 7, "country=de": 9, "other": 1}, NAMES)
    for i in range(1, points + 1):
        history = history.with_point(i * every, [float(i), -float(i)])
    return history


def unasked() -> Weights:
    raise AssertionError("nothing is to be counted")


def test_points_stay_evenly_spaced_and_bounded() -> None:
    history = followed(10_000)
    gaps = np.diff(history.examples)
    assert POINTS_MAX // 2 <= len(history.examples) <= POINTS_MAX
    assert gaps.min() == gaps.max() == 64_000
    assert history.examples[0] == 1000
    assert np.array_equal(history.weights[:, 0], history.examples / 1000)
    assert np.array_equal(history.weights[:, 1], -history.examples / 1000)


def test_a_feature_that_is_followed_later_is_unknown_before() -> None:
    history = followed(3).following({"late": 4}, ["late"])
    assert history.with_point(3000, [3.0, -3.0, 8.0], is_extra=True).document(["late", "nobody"]) == {
        "examples": [1000, 2000, 3000], "weights": {"late": [None, None, 8.0]},
    }  # fmt: skip
    assert history.with_point(3000, [3.0, -3.0, 8.0]) is history  # no event later, and not asked for
    held = followed_as_asked(("late", "age"), None, (0, unasked), FollowedWeights(history))
    assert held is not None
    fewer = held.history
    assert fewer.names == ("age", "late")
    assert fewer.weights[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert fewer.hash.tolist() == [7, 4]
    assert followed_as_asked((), None, (0, unasked), FollowedWeights(history)) is None


def test_a_state_comes_back_and_spoilt_ones_are_refused() -> None:
    frozen = followed(300).freeze()
    again = WeightHistory.thaw(frozen)
    assert {key: value.tolist() for key, value in again.freeze().items()} == {
        key: value.tolist() for key, value in frozen.items()
    }
    infinite, turned = frozen["weights"].copy(), frozen["examples"][::-1].copy()
    infinite[3, 1] = np.inf
    for key, spoilt in (
        ("weights", infinite),
        ("examples", turned),
        ("spacing", np.zeros(1, np.int64)),
        ("hash", frozen["hash"][:1]),
        ("length", frozen["length"] + 1),
        ("text", np.full(len(frozen["text"]), 128, np.uint8)),
    ):
        with pytest.raises(Corrupt, match="weight history"):
            WeightHistory.thaw({**frozen, key: spoilt})
