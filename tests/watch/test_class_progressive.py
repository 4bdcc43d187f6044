"""Figures of several classes: equal to their definition, whatever the batches, and after freezing, growing and thawing."""

from __future__ import annotations

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import Corrupt
from riata.maths.links import LINKS, LOGISTIC, PROBIT, class_probabilities
from riata.watch.class_progressive import ClassProgressive
from riata.watch.progressive import NEW, ProgressiveConfig
from tests.twins import classes as twin

NAMES = ("a", "b", "c", "never")
N = 300


def drawn(n: int = N, seed: int = 3) -> tuple[F64, F64, F64]:
    rng = np.random.default_rng(seed)
    label = rng.choice(3, n).astype(np.float64)
    margin = rng.normal(-1.0, 2.0, (n, 4)) + 2.0 * (np.arange(4) == label[:, None])
    return margin, label, rng.uniform(0.5, 2.0, n)


def watched(cuts: list[int], window: int = 10_000) -> ClassProgressive:
    found = ClassProgressive(ProgressiveConfig(window=window), NAMES)
    margin, label, weight = drawn()
    for start, stop in zip([0, *cuts], [*cuts, N], strict=True):
        found.add(margin[start:stop], label[start:stop], weight[start:stop], np.zeros(stop - start, np.bool_), 1 + start)
    return found


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT])
def test_probabilities_equal_their_definition_also_where_each_is_tiny(link: int) -> None:
    rows = np.array([[0.0, 0.0, 0.0], [3.0, -1.0, 0.5], [-30.0, -31.0, -33.0], [-900.0, -901.0, -1000.0], [40.0, 50.0, -2.0]])
    rows = rows[:3] if link == PROBIT else rows
    probability, winner = class_probabilities(rows, link)
    expected, winners = twin.class_probabilities(rows, link)
    np.testing.assert_allclose(probability, expected, rtol=1e-9)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-12)
    assert winner.tolist() == winners


def test_figures_equal_their_definition() -> None:
    expected = twin.accumulate_classes(*drawn(), LINKS["logistic"].code)
    figures = watched([7, 8, 250]).figures()
    for horizon in ("cumulative", "window"):
        for name in ("accuracy", "log_loss", "base_log_loss"):
            assert figures[horizon][name] == pytest.approx(expected[name], rel=1e-12)
        assert figures[horizon]["error"] == pytest.approx(1.0 - expected["accuracy"])
        for k, name in enumerate(NAMES):
            told = figures["classes"][k]
            assert told["class"] == name
            assert told[horizon] == pytest.approx(expected["classes"][k])
        recalls = [one["recall"] for one in expected["classes"][:3]]
        assert figures["macro"][horizon]["recall"] == pytest.approx(np.mean(recalls))
    assert figures["classes"][3]["cumulative"]["recall"] is None
    assert sum(cell["examples"] for cell in figures["window_calibration"]) == N


def test_the_cut_into_batches_and_a_thaw_change_no_bit() -> None:
    whole, cut = watched([], window=100), watched([1, 2, 99, 200], window=100)
    assert all(whole.freeze()[name].tobytes() == array.tobytes() for name, array in cut.freeze().items())
    again = ClassProgressive(ProgressiveConfig(window=100), NAMES)
    again.thaw(whole.freeze(), {**NEW, **whole.header()})
    assert again.figures() == whole.figures() == cut.figures()
    assert again.history() == whole.history()


def test_events_that_were_not_learnt_are_left_out_and_huge_margins_are_held() -> None:
    margin, label, weight = drawn()
    margin[5], label[9] = np.inf, 77.0
    refused = np.isin(np.arange(N), [9])
    found = ClassProgressive(ProgressiveConfig(), NAMES)
    found.add(margin, label, weight, refused, 1)
    assert (found.examples, found.refused) == (N - 1, 1)
    assert np.isfinite(found.figures()["cumulative"]["log_loss"])


def test_a_label_that_is_no_class_is_refused() -> None:
    margin, label, weight = drawn()
    for wrong in (4.0, -1.0, np.nan):
        label[9] = wrong
        found = ClassProgressive(ProgressiveConfig(), NAMES)
        with pytest.raises(ValueError, match="a label is not the number of one of 4 classes"):
            found.add(margin, label, weight, np.zeros(N, np.bool_), 1)
        assert found.examples == 9


def test_classes_that_come_later_have_no_events_yet() -> None:
    early = watched([])
    early.grow((*NAMES, "late"))
    nothing = dict.fromkeys(("recall", "precision", "f1", "log_loss"))
    assert early.figures()["classes"][4] == {"class": "late", "cumulative": nothing, "faded": nothing, "window": nothing}


@pytest.mark.parametrize(
    ("name", "array"),
    [("by_class", np.zeros((2, 3, 4))), ("by_class", np.full((2, 4, 4), -1.0)), ("window", np.full((6, N), 9.0))],
)
def test_a_state_of_other_classes_is_refused(name: str, array: F64) -> None:
    found = ClassProgressive(ProgressiveConfig(), NAMES)
    with pytest.raises(Corrupt):
        found.thaw({**watched([]).freeze(), name: array})
    assert found.examples == 0
