from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from riata.base.arrays import BOOL, F64, Arrays
from riata.base.errors import Corrupt
from riata.maths.links import LINKS, Answers
from riata.watch.class_progressive import ClassProgressive
from riata.watch.progressive import (
    EARLY,
    EXAMPLES,
    NEW,
    NON_ZEROS,
    POINT,
    POINTS_MAX,
    SEQ,
    SPACING,
    SPAN_MS,
    STEP_MS,
    Curve,
    Minute,
    Progressive,
    ProgressiveConfig,
    of_last_minute,
)

ALL: list[Answers] = list(LINKS)
SMALL = {"half_life": 150, "window": 400}


class Stream:
    """Events with labels that depend on their margins; some are refused."""

    def __init__(self, n: int, seed: int = 1, answers: Answers = "logistic") -> None:
        rng = np.random.default_rng(seed)
        self.margin: F64 = rng.normal(-1.0, 2.0, n)
        self.probability: F64 = 1 / (1 + np.exp(-self.margin))
        self.label: F64 = rng.normal(size=n) if answers == "real" else (rng.random(n) < self.probability).astype(np.float64)
        self.weight: F64 = rng.uniform(0.1, 3.0, n)
        self.refused: BOOL = rng.random(n) < 0.02

    def feed(self, progressive: Progressive, start: int, stop: int) -> None:
        """Observe events start..stop - 1; event i has sequence number i + 1."""
        part = slice(start, stop)
        progressive.add(self.margin[part], self.label[part], self.weight[part], self.refused[part], start + 1)


def watched(answers: Answers = "logistic") -> Progressive:
    return Progressive(ProgressiveConfig(answers, **SMALL))


def near(figures: dict[str, object], expected: dict[str, object]) -> bool:
    """Whether the figures agree to nine digits; None only with None."""
    return figures.keys() == expected.keys() and all(
        value is expected[name] if None in (value, expected[name]) else value == pytest.approx(expected[name], rel=1e-9)
        for name, value in figures.items()
    )


def bits(arrays: Arrays) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


HORIZONS = (("cumulative", slice(None), 1e-3), ("window", slice(-1400, None), 1e-12), ("recent", slice(-1000, None), 1e-12))


@pytest.mark.parametrize(("answers", "inverse"), [("logistic", scipy.special.expit), ("probit", scipy.stats.norm.cdf)])
def test_figures_agree_with_scikit_learn(answers: Answers, inverse: Callable[[F64], F64]) -> None:
    stream, progressive = Stream(3000), Progressive(ProgressiveConfig(answers, half_life=150, window=1400))
    stream.feed(progressive, 0, 3000)
    keep = ~stream.refused
    label, probability, weight = stream.label[keep], inverse(stream.margin[keep]), stream.weight[keep]
    figures = progressive.figures()
    for horizon, part, tolerance in HORIZONS:
        y, p, w = label[part], probability[part], weight[part]
        found = figures[horizon]
        assert found["examples"] == len(y)
        assert found["weight"] == pytest.approx(w.sum(), rel=1e-12)
        in_cell = [np.minimum((p * 20).astype(int), 19) == cell for cell in range(20)]
        far = sum(abs((w * (p - y))[cell].sum()) for cell in in_cell) / w.sum()
        assert found["calibration_error"] == pytest.approx(far, rel=1e-9)
        assert found["log_loss"] == found["loss"] == pytest.approx(log_loss(y, p, sample_weight=w), rel=1e-12)
        assert found["accuracy"] == pytest.approx(accuracy_score(y, p > 0.5, sample_weight=w), rel=1e-12)
        assert found["base_rate"] == pytest.approx(np.average(y, weights=w), rel=1e-12)
        assert found["calibration_ratio"] == pytest.approx((w * p).sum() / (w * y).sum(), rel=1e-12)
        assert found["normalised_entropy"] == pytest.approx(found["log_loss"] / found["base_log_loss"], rel=1e-12)
        # Exact in the window; bins of width 1/192 in the cumulative figure.
        assert found["auc"] == pytest.approx(roc_auc_score(y, p, sample_weight=w), abs=tolerance)


def test_faded_figures_agree_with_faded_weights_in_scikit_learn() -> None:
    stream, progressive = Stream(3000), watched()
    stream.feed(progressive, 0, 3000)
    keep = ~stream.refused
    y, p = stream.label[keep], stream.probability[keep]
    fade = stream.weight[keep] * 2.0 ** (-np.arange(len(y))[::-1] / 150)
    found = progressive.figures()["faded"]
    assert found["half_life"] == 150
    assert found["weight"] == pytest.approx(fade.sum(), rel=1e-9)
    assert found["log_loss"] == pytest.approx(log_loss(y, p, sample_weight=fade), rel=1e-9)
    assert found["auc"] == pytest.approx(roc_auc_score(y, p, sample_weight=fade), abs=2e-3)  # bins of width 1/192


def test_base_log_loss_is_that_of_the_running_base_rate() -> None:
    progressive = watched()
    label = np.array([1.0, 1.0, 0.0])
    progressive.add(np.zeros(3), label, np.ones(3), np.zeros(3, np.bool_), 1)
    expected = -(math.log(0.5 / 1) + math.log(1.5 / 2) + math.log(1 - 2.5 / 3)) / 3
    assert progressive.figures()["cumulative"]["base_log_loss"] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("n", [1, 400, 999, 1000, 1400, 1401, 2000])
@pytest.mark.parametrize("answers", ALL)
def test_recent_figures_are_those_of_a_window_of_a_thousand(answers: Answers, n: int) -> None:
    stream = Stream(n, seed=6, answers=answers)
    long, short = (Progressive(ProgressiveConfig(answers, half_life=150, window=window)) for window in (1400, 1000))
    for progressive in (long, short):
        stream.feed(progressive, 0, n)
    found, expected = long.figures()["recent"], short.figures()["window"]
    assert near(found, expected)
    assert watched(answers).figures()["recent"]["examples"] == 0


def test_recent_figures_have_no_more_events_than_the_window() -> None:
    stream, progressive = Stream(3000), watched()
    stream.feed(progressive, 0, 3000)
    figures = progressive.figures()
    assert figures["recent"] == figures["window"]
    assert figures["recent"]["examples"] == 400


@pytest.mark.parametrize("answers", ALL)
def test_between_two_tallies_are_the_figures_of_those_events(answers: Answers) -> None:
    stream, progressive = Stream(2000, seed=8, answers=answers), Progressive(ProgressiveConfig(answers, window=500))
    stream.refused[:] = False
    stream.feed(progressive, 0, 1500)
    before = progressive.tally()
    stream.feed(progressive, 1500, 2000)
    found, expected = progressive.since(before, progressive.tally()), progressive.figures()["window"]
    expected.pop("calibration_error")
    auc, exact = found.pop("auc"), expected.pop("auc")
    assert (auc is None) == (exact is None)
    assert auc is None or auc == pytest.approx(exact, abs=0.01)  # coarse bins
    assert near(found, expected)
    nothing = progressive.since(progressive.tally(), progressive.tally())
    assert (nothing["examples"], nothing["loss"], nothing["auc"]) == (0, None, None)


@pytest.mark.parametrize("answers", ALL)
def test_a_point_has_the_faded_loss_of_the_base_rate_beside_that_of_the_model(answers: Answers) -> None:
    stream, progressive = Stream(1000, seed=9, answers=answers), watched(answers)
    stream.refused[:] = False
    stream.label[:500] = 1.0  # the stream turns: all events so far and the faded ones differ
    stream.feed(progressive, 0, 1000)
    point, faded = progressive.history()[-1], progressive.figures()["faded"]
    loss = "log_loss" if "log_loss" in point else "loss"
    assert (point["seq"], point[f"faded_{loss}"]) == (1000, faded[loss])
    assert point[f"faded_base_{loss}"] == faded[f"base_{loss}"] != point[f"base_{loss}"]


def test_a_state_without_faded_losses_of_the_base_rate_goes_on_with_them() -> None:
    stream, old, new = Stream(2500), watched(), watched()
    stream.feed(old, 0, 1500)
    new.thaw(old.freeze())  # as an older version wrote it
    stream.feed(new, 1500, 2500)
    told = [point["faded_base_log_loss"] is None for point in new.history()]
    assert told == [point["examples"] <= 1500 for point in new.history()]
    for bases in ([0.5], [math.inf] * len(old.history())):
        with pytest.raises(Corrupt, match="base rate"):
            watched().thaw(old.freeze(), {**NEW, "faded_bases": bases})


def test_faded_weight_approaches_that_of_the_half_life() -> None:
    progressive = Progressive(ProgressiveConfig())
    progressive.add(np.zeros(400_000), np.zeros(400_000), np.ones(400_000), np.zeros(400_000, np.bool_), 1)
    assert progressive.figures()["faded"]["weight"] == pytest.approx(14427.45, abs=0.01)  # 1 / (1 - 2^-1/10000)


@pytest.mark.parametrize("answers", ALL)
def test_batch_boundaries_change_no_bit(answers: Answers) -> None:
    stream = Stream(2500, seed=3, answers=answers)
    whole = watched(answers)
    stream.feed(whole, 0, 2500)
    rng = np.random.default_rng(7)
    for _ in range(3):
        cut = watched(answers)
        edges = [0, *np.sort(rng.integers(0, 2501, 40)).tolist(), 2500]  # some batches are empty
        for start, stop in pairwise(edges):
            stream.feed(cut, start, stop)
        assert bits(cut.freeze()) == bits(whole.freeze())
        assert cut.figures() == whole.figures()
        assert cut.history() == whole.history()


@pytest.mark.parametrize("answers", ALL)
@pytest.mark.parametrize("at", [0, 1, 399, 400, 401, 1300])
def test_thawed_state_continues_bit_for_bit(answers: Answers, at: int) -> None:
    stream = Stream(2500, seed=4, answers=answers)
    one = watched(answers)
    stream.feed(one, 0, at)
    one.note_non_zeros(17)
    frozen = one.freeze()
    other = watched(answers)
    other.thaw(frozen, {**NEW, **one.header()})
    before = bits(frozen)
    for progressive in (one, other):
        stream.feed(progressive, at, 2500)
    assert bits(one.freeze()) == bits(other.freeze())
    assert one.figures() == other.figures()
    assert one.history() == other.history()
    assert one.refused == other.refused
    assert bits(frozen) == before  # neither holds on to the arrays


@pytest.mark.parametrize("answers", ALL)
def test_zero_examples_are_none_and_never_nan(answers: Answers) -> None:
    progressive = watched(answers)
    figures = json.loads(json.dumps(progressive.figures(), allow_nan=False))
    for horizon in ("cumulative", "faded", "window", "recent"):
        assert figures[horizon]["weight"] == 0.0
        undefined = {k: v for k, v in figures[horizon].items() if k not in ("examples", "weight", "half_life")}
        assert set(undefined.values()) == {None}
    assert progressive.history() == []
    assert progressive.examples == 0


@pytest.mark.parametrize("answers", ALL)
def test_figures_are_json_after_any_margins(answers: Answers) -> None:
    progressive = watched(answers)
    margin = np.array([np.inf, -np.inf, np.nan, 1.7e308, -1.7e308, 0.0, 5e-324, -800.0, 800.0, 8.0, -8.0, 1.0])
    label = np.array([0.0, 1.0] * 6)
    progressive.add(margin, label, np.full(12, 1000.0), np.zeros(12, np.bool_), 1)
    json.dumps([progressive.figures(), progressive.history()], allow_nan=False)
    assert progressive.figures()["cumulative"]["loss"] is not None
    other = watched(answers)
    other.thaw(progressive.freeze())
    assert other.figures() == progressive.figures()


@pytest.mark.parametrize(
    ("answers", "loss", "base"), [("hinge", (0 + 1.5) / 2, (2 + 2) / 2), ("real", (4 + 0.25) / 2, (0 + 1) / 2)]
)
def test_links_without_probability_show_their_own_loss(answers: Answers, loss: float, base: float) -> None:
    progressive = watched(answers)
    label = np.array([1.0, 0.0]) if answers == "hinge" else np.array([0.0, 1.0])
    margin = np.array([2.0, 0.5])
    progressive.add(margin, label, np.ones(2), np.zeros(2, np.bool_), 1)
    found = progressive.figures()
    assert (found["cumulative"]["loss"], found["cumulative"]["base_loss"]) == (loss, base)
    assert found["cumulative"]["log_loss"] is None
    assert found["cumulative"]["auc"] == (1.0 if answers == "hinge" else None)
    assert found["calibration"] == []


def test_refused_events_are_counted_and_left_out() -> None:
    stream, progressive, clean = Stream(500), watched(), watched()
    stream.feed(progressive, 0, 500)
    keep = ~stream.refused
    clean.add(stream.margin[keep], stream.label[keep], stream.weight[keep], np.zeros(int(keep.sum()), np.bool_), 1)
    assert progressive.figures() == clean.figures()
    assert progressive.refused == int(stream.refused.sum()) > 0
    assert progressive.examples + progressive.refused == 500


def test_history_reports_losses_and_non_zeros_at_chosen_events() -> None:
    stream, progressive = Stream(1200, seed=5), watched()
    stream.refused[:] = False
    stream.feed(progressive, 0, 15)
    progressive.note_non_zeros(6)
    stream.feed(progressive, 15, 1200)
    history = progressive.history()
    assert [point["seq"] for point in history] == [10, 20, 50, 100, 200, 500, 1000]
    assert [point["non_zeros"] for point in history] == [6] + [None] * 6
    assert [point["seq"] for point in progressive.history(since=200)] == [500, 1000]
    until = watched()
    stream.feed(until, 0, 1000)
    figures = until.figures()
    last = history[-1]
    for name, horizon, figure in (
        ("log_loss", "cumulative", "log_loss"),
        ("faded_log_loss", "faded", "log_loss"),
        ("window_log_loss", "window", "log_loss"),
        ("base_log_loss", "cumulative", "base_log_loss"),
        ("auc", "cumulative", "auc"),
    ):
        assert last[name] == figures[horizon][figure]


def test_it_says_when_the_curve_awaits_non_zeros() -> None:
    progressive = watched()
    nine: tuple[F64, F64, F64, BOOL] = (np.zeros(9), np.zeros(9), np.ones(9), np.zeros(9, np.bool_))
    one: tuple[F64, F64, F64, BOOL] = (np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1, np.bool_))
    progressive.add(*nine, 1)
    assert not progressive.awaits_count
    progressive.add(*nine, 10)  # event 10 has a point
    assert progressive.awaits_count
    progressive.add(*one, 19)
    assert progressive.awaits_count
    progressive.note_non_zeros(1)
    progressive.add(*one, 20)
    assert progressive.awaits_count
    progressive.note_non_zeros(2)
    progressive.add(*nine, 21)
    assert not progressive.awaits_count
    assert [point["non_zeros"] for point in progressive.history()] == [1, 2]


def learn(progressive: Progressive, non_zeros: Callable[[int], int], cuts: Iterator[int], until: int) -> None:
    """Observe rows up to event `until`, divided by `cuts`, and report non-zeros as the owner of a learner does."""
    while progressive.examples < until:
        stop = min(until, progressive.examples + next(cuts))
        while (at := progressive.examples) < stop:
            n = min(stop - at, progressive.until_count)
            margin = np.sin(np.arange(at, at + n, dtype=np.float64))
            progressive.add(margin, (margin > 0.5).astype(np.float64), np.ones(n), np.zeros(n, np.bool_), at + 1)
            if progressive.awaits_count:
                progressive.note_non_zeros(non_zeros(progressive.examples))


def test_non_zeros_are_counted_at_every_point_while_they_are_few() -> None:
    progressive = watched()
    learn(progressive, lambda examples: examples, itertools.repeat(7), 3000)
    history = progressive.history()
    assert [point["seq"] for point in history] == [10, 20, 50, 100, 200, 500, 1000, 2000, 3000]
    assert all(point["non_zeros"] == point["examples"] for point in history)


def test_after_a_count_of_many_non_zeros_some_points_are_passed_over() -> None:
    progressive = watched()
    learn(progressive, lambda _: 10_000, itertools.repeat(900), 6000)
    counted = {point["seq"]: point["non_zeros"] for point in progressive.history()}
    assert counted == dict.fromkeys((20, 50, 100, 200, 500, 1000, 2000, 4000, 5000)) | {10: 10_000, 3000: 10_000, 6000: 10_000}


def test_how_events_are_cut_moves_neither_points_nor_counts_also_where_points_are_dropped() -> None:
    rng = np.random.default_rng(8)
    one, other = watched(), watched()
    learn(one, lambda examples: 7 * examples % 900_001, itertools.repeat(2**30), 1_300_000)
    learn(other, lambda examples: 7 * examples % 900_001, iter(lambda: int(rng.integers(1, 9000)), 0), 1_300_000)
    for name, array in one.freeze().items():
        np.testing.assert_array_equal(array, other.freeze()[name])


def test_history_of_a_link_without_probability_uses_its_own_loss() -> None:
    stream, progressive = Stream(60, answers="real"), watched("real")
    stream.feed(progressive, 0, 60)
    point = progressive.history()[0]
    losses = {"loss", "faded_loss", "window_loss", "base_loss", "faded_base_loss"}
    assert set(point) == {"seq", "examples", *losses, "auc", "non_zeros"}
    assert point["loss"] == point["window_loss"] > 0.0
    assert point["auc"] is None


def changed(arrays: Arrays, name: str, index: int | tuple[int, ...], number: float) -> Arrays:
    copy = arrays[name].copy()
    copy[index] = number
    return {**arrays, name: copy}


def test_thaw_refuses_corrupt_arrays_and_then_changes_nothing() -> None:
    stream, source = Stream(1000), watched()
    stream.feed(source, 0, 1000)
    good = source.freeze()
    wrong = [{name: array for name, array in good.items() if name != missing} for missing in good]
    wrong += [{**good, name: array[:-1]} for name, array in good.items() if name != "curve"]
    wrong += [{**good, name: array.astype(np.float32)} for name, array in good.items()]
    wrong += [changed(good, name, 0, np.nan) for name in ("sums", "histogram", "calibration", "window")]
    wrong += [
        changed(good, "counts", 0, 300),  # fewer events than the window holds
        changed(good, "counts", 0, -1),
        changed(good, "counts", 1, -1),
        changed(good, "counts", 2, 999),
        changed(good, "sums", (0, 0), -1.0),
        changed(good, "sums", (0, 8), 2.0),
        changed(good, "sums", (1, 8), 0.0),
        changed(good, "sums", (1, 8), 1e10),
        changed(good, "histogram", (0, 0, 5), -1.0),
        changed(good, "window", (2, 7), 0.0),
    ]
    target = watched()
    stream.feed(target, 0, 700)
    before = bits(target.freeze())
    for case in wrong:
        with pytest.raises(Corrupt):
            target.thaw(case)
        assert bits(target.freeze()) == before
    target.thaw(good)
    assert bits(target.freeze()) == bits(good)


def test_thaw_refuses_a_window_of_another_size() -> None:
    stream, source = Stream(1000), watched()
    stream.feed(source, 0, 1000)
    with pytest.raises(Corrupt, match="window"):
        Progressive(ProgressiveConfig(window=300)).thaw(source.freeze())


def test_memory_names_its_parts() -> None:
    assert Progressive(ProgressiveConfig()).memory() == {
        "sums": 2 * 9 * 8 + 20 * 4 * 8,
        "histograms": 2 * 2 * 4096 * 8,
        "window": 5 * 10_000 * 8,
        "curve": 0,
    }


def test_the_history_follows_every_change_of_the_curve() -> None:
    watched = Progressive(ProgressiveConfig())
    assert watched.history() == []
    n = 10
    watched.add(np.zeros(n), np.zeros(n), np.ones(n), np.zeros(n, np.bool_), 1)
    first = watched.history()
    assert [(point["seq"], point["non_zeros"]) for point in first] == [(10, None)]
    assert watched.history() is first
    watched.note_non_zeros(3)
    assert [(point["seq"], point["non_zeros"]) for point in watched.history()] == [(10, 3)]
    assert watched.history(since=10) == []
    assert first[0]["non_zeros"] is None
    assert len(watched.history()) == 1


def test_a_history_that_grows_is_that_of_a_curve_written_again() -> None:
    watched = Progressive(ProgressiveConfig(window=10))
    n, reported = 10, 0
    for start in range(0, 3000, n):
        before = watched.history()
        watched.add(np.zeros(n), np.zeros(n), np.ones(n), np.zeros(n, np.bool_), 1 + start)
        assert len(before) == reported
        if watched.awaits_count:
            watched.note_non_zeros(start)
        again = Progressive(ProgressiveConfig(window=10))
        again.thaw(watched.freeze(), {**NEW, **watched.header()})
        assert watched.history() == again.history()
        assert all(one is other for one, other in zip(watched.history(), before, strict=False))
        reported = len(watched.history())
    assert reported == 9


# Curves.


def grow(curve: Curve, start: int, examples: int) -> int:
    """Feed a curve as its owner does, from `start` to `examples`; the sequence number is five ahead."""
    at = start
    while (due := curve.next_after(at)) <= examples:
        point = np.full(POINT, 0.5)
        point[[SEQ, EXAMPLES, NON_ZEROS]] = (due + 5, due, np.nan)
        curve.add(point)
        at = due
    return at


def events(curve: Curve) -> list[int]:
    return [int(number) for number in curve.since(0)[:, EXAMPLES]]


def test_curve_thins_itself_out_and_never_exceeds_its_bound() -> None:
    curve = Curve()
    at = 0
    for examples in (10**5, 10**6, 10**7, 10**8):
        at = grow(curve, at, examples)
        found = events(curve)
        assert POINTS_MAX / 2 - 10 < len(found) <= POINTS_MAX or examples == 10**5
        assert found == [*EARLY, *range(curve.spacing, examples + 1, curve.spacing)]
    assert curve.memory() <= POINTS_MAX * POINT * 8


def test_non_zeros_stay_with_their_points_when_the_curve_is_thinned() -> None:
    curve = Curve()
    at = grow(curve, 0, 400_000)
    curve.note_non_zeros(1)
    grow(curve, at, 700_000)
    curve.note_non_zeros(2)
    points = curve.since(0)
    assert curve.spacing == 2 * SPACING
    np.testing.assert_array_equal(points[:, NON_ZEROS], np.where(points[:, EXAMPLES] <= 400_000, 1, 2))


def test_frozen_curve_continues_as_it_would_have() -> None:
    one, other = Curve(), Curve()
    at = grow(one, 0, 800_000)
    one.note_non_zeros(4)
    at = grow(one, at, 900_000)
    points, (spacing, noted) = one.freeze()
    other.thaw(points, spacing, noted, bases=one.faded_bases())
    for curve in (one, other):
        grow(curve, at, 3_000_000)
        curve.note_non_zeros(9)
    np.testing.assert_array_equal(one.since(0), other.since(0))
    assert one.freeze()[1] == other.freeze()[1]


def broken(points: F64, row: int, column: int, number: float) -> F64:
    changed = points.copy()
    changed[row, column] = number
    return changed


def test_thaw_refuses_what_freeze_cannot_have_made() -> None:
    curve = Curve()
    grow(curve, 0, 5000)
    points, (spacing, noted) = curve.freeze()
    Curve().thaw(points, spacing, noted)
    wrong: list[tuple[F64, int, int]] = [
        (points, 0, noted),
        (points, 1500, noted),
        (points, 3000, noted),
        (points, spacing, -1),
        (points, spacing, len(points) + 1),
        (points[:, :-1], spacing, noted),
        (points[::-1].copy(), spacing, noted),
        (points[0], spacing, noted),
        (np.repeat(points, 60, axis=0), spacing, noted),
        (broken(points, 2, SEQ, np.nan), spacing, noted),
        (broken(points, 2, NON_ZEROS, np.inf), spacing, noted),
        (broken(points, 7, EXAMPLES, 2001), spacing, noted),
        (points, 2 * spacing, noted),
    ]
    for case in wrong:
        with pytest.raises(Corrupt, match="learning curve"):
            Curve().thaw(*case)


# Minute.


SLACK_MS = STEP_MS


def learn_until(progressive: Progressive, n: int, margin: float = 1.0, label: float = 1.0) -> None:
    shape = (n, len(progressive.names)) if isinstance(progressive, ClassProgressive) else n
    progressive.add(np.full(shape, margin), np.full(n, label), np.ones(n), np.zeros(n, np.bool_), progressive.examples + 1)


def asked(minute: Minute, progressive: Progressive, now_ms: int, age_ms: int = 0) -> dict[str, Any]:
    return of_last_minute(minute.note(progressive, now_ms).figures(progressive), age_ms)


def test_a_steady_stream_has_the_events_of_60_to_65_seconds() -> None:
    minute, progressive = Minute(), Progressive(ProgressiveConfig())
    minute.note(progressive, 1_000_007)
    for number in range(1, 2000):  # 20 events, five times a second
        learn_until(progressive, 20)
        now_ms = 1_000_007 + 200 * number
        told = asked(minute, progressive, now_ms)
        seconds = told["seconds"]
        assert seconds == min((now_ms - 1_000_007) / 1000, seconds) or seconds >= 60.0
        assert seconds <= 65.0
        assert told["examples"] == pytest.approx(100 * seconds, abs=21)
    assert told["loss"] == pytest.approx(progressive.figures()["cumulative"]["loss"], rel=1e-9)


def test_a_fault_of_the_last_seconds_is_seen_at_once_and_forgotten_after_a_minute() -> None:
    minute, progressive = Minute(), Progressive(ProgressiveConfig())
    learn_until(progressive, 500_000)
    minute.note(progressive, 0)
    for second in range(100):
        learn_until(progressive, 100, label=0.0 if 10 <= second < 15 else 1.0)
        told = asked(minute, progressive, 1000 * second)
        if not 75 <= second < 80:  # the span is 60 to 65 s
            assert (told["base_rate"] is not None and told["base_rate"] < 1.0) == (10 <= second < 75), second
    assert progressive.figures()["faded"]["base_rate"] < 0.99  # the faded figures do not forget it as fast


def test_figures_age_although_nothing_is_published_any_more() -> None:
    minute, progressive = Minute(), Progressive(ProgressiveConfig())
    minute.note(progressive, 0)
    for second in range(1, 201):
        learn_until(progressive, 10)
        published = minute.note(progressive, 1000 * second).figures(progressive)
    counts = [of_last_minute(published, 1000 * age)["examples"] for age in range(0, 120, 10)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(counts))
    assert counts[0] >= 600
    assert counts[3] == pytest.approx(300, abs=60)
    assert counts[7:] == [0] * 5
    nothing = of_last_minute(published, 600_000)
    assert (nothing["seconds"], nothing["examples"], nothing["loss"], nothing["auc"]) == (65.0, 0, None, None)


@pytest.mark.parametrize("held", [0, 10, 49, 50, 51, 120])
@pytest.mark.parametrize("classes", [(), ("a", "b")])
def test_events_that_follow_change_nothing_of_a_copy(held: int, classes: tuple[str, ...]) -> None:
    config = ProgressiveConfig(window=50)
    progressive = ClassProgressive(config, classes) if classes else Progressive(config)
    learn_until(progressive, held, margin=0.5)
    copied = progressive.copy()
    told, state = copied.figures(), {name: array.tobytes() for name, array in copied.freeze().items()}
    for more in (1, 49, 1, 70):
        learn_until(progressive, more, margin=-2.0, label=0.0)
        assert copied.figures() == told
        assert {name: array.tobytes() for name, array in copied.freeze().items()} == state
    assert progressive.examples == held + 121


def test_a_burst_after_an_hour_counts_alone() -> None:
    minute, progressive = Minute(), Progressive(ProgressiveConfig())
    minute.note(progressive, 0)
    learn_until(progressive, 1000)
    minute.note(progressive, 700)
    learn_until(progressive, 7)
    told = asked(minute, progressive, 3_600_123)
    assert (told["examples"], told["seconds"]) == (7, 60.0)


def test_another_past_begins_anew() -> None:
    minute, progressive, restored = Minute(), Progressive(ProgressiveConfig()), Progressive(ProgressiveConfig())
    minute.note(progressive, 0)
    learn_until(progressive, 50)
    assert asked(minute, progressive, 30_000)["examples"] == 50
    learn_until(restored, 20)
    assert asked(minute, restored, 31_000)["examples"] == 0
    learn_until(restored, 3)
    told = asked(minute, restored, 33_000)
    assert (told["examples"], told["seconds"]) == (3, 2.0)


def test_it_keeps_no_more_than_a_minute() -> None:
    minute, progressive = Minute(), Progressive(ProgressiveConfig())
    for second in range(1000):
        learn_until(progressive, 1)
        told = minute.note(progressive, 1000 * second).figures(progressive)
    assert len(told["steps"]) <= (SPAN_MS + STEP_MS) // STEP_MS + 2


def test_several_classes_have_an_error_and_no_auc() -> None:
    minute, progressive = Minute(), ClassProgressive(ProgressiveConfig(window=10), ("a", "b"))
    minute.note(progressive, 0)
    learn_until(progressive, 30, label=1.0)
    told, recent = asked(minute, progressive, 1000), progressive.figures()["recent"]
    assert (told["examples"], told["error"], told["auc"], told["base_rate"]) == (30, 1.0, None, None)
    assert (recent["examples"], recent["error"], recent["auc"]) == (10, 1.0, None)
