from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riata.base.arrays import F64
from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL
from riata.native.library import core
from riata.watch import figures
from riata.watch.figures import (
    BINS,
    CELL,
    CELLS,
    PAST,
    PAST_LABEL,
    PAST_MARGIN,
    PAST_WEIGHT,
    SCALE,
    SUMS,
    calibration_cells,
    cost_figures,
    histogram_auc,
    horizon_figures,
    ranked_auc,
    ratio,
)
from tests.twins import accumulate as twin


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [(1.0, 4.0, 0.25), (0.0, 2.0, 0.0), (1.0, 0.0, None), (0.0, 0.0, None), (math.inf, 1.0, None), (1.0, math.inf, None)],
)
def test_ratio_is_a_number_or_none(above: float, below: float, expected: float | None) -> None:
    assert ratio(above, below) == expected


def test_ratio_that_overflows_is_none() -> None:
    assert ratio(1e300, 1e-300) is None


@pytest.mark.parametrize(
    ("link", "missing"),
    [
        (LOGISTIC, set()),
        (PROBIT, set()),
        (IDENTITY, set()),
        (HINGE, {"log_loss", "base_log_loss", "normalised_entropy", "calibration_ratio"}),
        (REAL, {"log_loss", "base_log_loss", "normalised_entropy", "calibration_ratio", "auc", "accuracy", "base_rate"}),
    ],
)
def test_figures_are_none_exactly_if_the_link_has_none(link: int, missing: set[str]) -> None:
    found = horizon_figures(np.ones(SUMS), 0.75, link)
    assert {name for name, figure in found.items() if figure is None} == missing


def test_weight_is_freed_of_the_scale() -> None:
    sums = np.full(SUMS, 8.0)
    sums[SCALE] = 4.0
    found = horizon_figures(sums, math.nan, LOGISTIC)
    assert (found["weight"], found["log_loss"], found["auc"]) == (2.0, 1.0, None)


def test_calibration_has_twenty_cells_from_zero_to_one_or_none_at_all() -> None:
    table = np.zeros((CELLS, CELL))
    table[3] = (4, 8.0, 1.2, 2.0)
    cells = calibration_cells(table, LOGISTIC)
    assert [cell["from"] for cell in cells[1:]] == [cell["to"] for cell in cells[:-1]]
    assert (cells[0]["from"], cells[-1]["to"], len(cells)) == (0.0, 1.0, 20)
    assert cells[0] == {"from": 0.0, "to": 0.05, "examples": 0, "mean_predicted": None, "mean_observed": None}
    assert cells[3] == {"from": 0.15, "to": 0.2, "examples": 4, "mean_predicted": 1.2 / 8, "mean_observed": 0.25}
    assert calibration_cells(table, PROBIT) == calibration_cells(table, IDENTITY) == cells
    assert calibration_cells(table, HINGE) == calibration_cells(table, REAL) == []


# Mean costs of decisions against a sum over rows in plain Python.


@pytest.mark.parametrize("kept", [1.0, 0.2])
def test_costs_equal_sums_over_rows(kept: float) -> None:
    rng = np.random.default_rng(3)
    past = np.zeros((PAST, 200))
    past[PAST_MARGIN], past[PAST_LABEL] = rng.normal(size=200), rng.integers(0, 2, 200)
    past[PAST_WEIGHT] = rng.uniform(0.1, 3.0, 200)
    cost_fp, cost_fn, shift = 2.0, 5.0, math.log(kept)
    sums = dict.fromkeys(("realised", "expected", "realised_at_half", "always_negative", "always_positive"), 0.0)
    total = 0.0
    for margin, label, weight in zip(past[PAST_MARGIN], past[PAST_LABEL], past[PAST_WEIGHT], strict=True):
        p = 1.0 / (1.0 + math.exp(-(margin + shift)))
        w = weight / (1.0 if label else kept)
        total += w
        for name, decides in (
            ("realised", p > 2.0 / 7.0), ("realised_at_half", p > 0.5), ("always_negative", False), ("always_positive", True),
        ):  # fmt: skip
            sums[name] += w * (cost_fp * (1.0 - label) if decides else cost_fn * label)
        sums["expected"] += w * min((1.0 - p) * cost_fp, p * cost_fn)
    found = cost_figures(past, LOGISTIC, (cost_fp, cost_fn), shift)
    assert (found["examples"], found["threshold"]) == (200, pytest.approx(2.0 / 7.0))
    for name, expected in sums.items():
        assert found[name] == pytest.approx(expected / total, rel=1e-12), name


def test_an_empty_window_has_no_costs() -> None:
    assert cost_figures(np.zeros((PAST, 0)), LOGISTIC, (1.0, 1.0))["realised"] is None


# Tally.


LINKS = [LOGISTIC, PROBIT, IDENTITY, HINGE, REAL]
N, WINDOW, HALF_LIFE = 300, 70, 40

# A faded sum carries a rounding for each event: its weight grows by repeated multiplication. The twin adds exactly.
ROUNDINGS = 1e-12


def draw(link: int) -> tuple[F64, F64, F64]:
    """Margins, including extreme ones, labels and weights of N events."""
    rng = np.random.default_rng(40 + link)
    margin = rng.normal(0.4, 2.0, N)
    margin[::50] = rng.choice([-800.0, -40.0, 0.0, 0.5, 40.0, 800.0], 6)
    label = rng.normal(size=N) * 3 if link == REAL else (rng.random(N) < 0.3).astype(np.float64)
    return margin, label, rng.uniform(0.01, 20.0, N)


class Tallied:
    """The arrays of `tally` after the N events of `draw`."""

    def __init__(self, link: int, half_life: float = HALF_LIFE) -> None:
        self.margin, self.label, self.weight = draw(link)
        self.sums = np.zeros((2, figures.SUMS))
        self.sums[:, figures.SCALE] = 1.0
        self.histogram = np.zeros((2, 2, BINS))
        self.calibration = np.zeros((figures.CELLS, figures.CELL))
        self.window = np.zeros((figures.PAST, WINDOW))
        arrays = {"histogram": self.histogram, "calibration": self.calibration, "window": self.window}
        self.tally = figures.tally_of(link, half_life, sums=self.sums, **arrays)
        figures.tally_rows(self.tally, self.margin, self.label, self.weight)

    def events(self, link: int) -> list[twin.Event]:
        bases = twin.bases(self.label.tolist(), self.weight.tolist(), link)
        return [twin.Event(*row) for row in zip(self.margin, self.label, self.weight, bases, strict=True)]


def assert_sums(found: F64, expected: dict[str, float]) -> None:
    scaled = found[: figures.SCALE] / found[figures.SCALE]
    np.testing.assert_allclose(scaled, [expected[name] for name in twin.NAMES], rtol=ROUNDINGS, atol=ROUNDINGS)


@pytest.mark.parametrize("link", LINKS)
def test_tally_equals_its_twin(link: int) -> None:
    done = Tallied(link)
    events = done.events(link)
    assert_sums(done.sums[figures.CUMULATIVE], twin.accumulate_rows(events, link, math.inf))
    assert_sums(done.sums[figures.FADED], twin.accumulate_rows(events, link, HALF_LIFE))
    assert done.tally.examples == N


@pytest.mark.parametrize("half_life", [1, 3])
def test_fading_survives_its_renormalisations(half_life: int) -> None:
    done = Tallied(LOGISTIC, half_life)  # 300 or 100 doublings: the scale passes 2^32 nine or three times
    assert 1.0 <= done.sums[figures.FADED, figures.SCALE] <= figures.RENORMALISE_ABOVE
    assert_sums(done.sums[figures.FADED], twin.accumulate_rows(done.events(LOGISTIC), LOGISTIC, half_life))
    np.testing.assert_allclose(done.histogram[figures.FADED].sum(), done.sums[figures.FADED, figures.WEIGHT], rtol=ROUNDINGS)


@pytest.mark.parametrize("link", LINKS)
def test_window_sums_equals_its_twin(link: int) -> None:
    done = Tallied(link)
    sums, cells = figures.window_sums(done.tally, WINDOW)
    assert_sums(sums, twin.window_sums(done.events(link), link, WINDOW))
    assert cells[:, figures.CELL_EXAMPLES].sum() == len(done.events(link)[-WINDOW:])
    for column, total in ((figures.CELL_PREDICTED, figures.PREDICTED), (figures.CELL_OBSERVED, figures.OBSERVED)):
        assert cells[:, column].sum() == pytest.approx(sums[total], rel=ROUNDINGS)


@pytest.mark.parametrize("link", LINKS)
def test_window_loss_equals_its_twin(link: int) -> None:
    done = Tallied(link)
    expected = twin.window_loss(done.events(link), link, WINDOW)
    assert core.window_loss(done.tally, WINDOW) == pytest.approx(expected, rel=ROUNDINGS)


def test_window_loss_of_nothing_is_not_a_number() -> None:
    assert math.isnan(core.window_loss(figures.tally_of(LOGISTIC, 1.0, window=np.zeros((figures.PAST, 5))), 0))


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT, IDENTITY])
def test_calibration_counts_every_event_in_the_cell_of_its_probability(link: int) -> None:
    done = Tallied(link)
    expected = np.zeros((figures.CELLS, figures.CELL))
    for event in done.events(link):
        p = twin.quantities(event, link)["predicted"]
        cell = next(c for c in reversed(range(figures.CELLS)) if p * figures.CELLS >= c)
        expected[cell] += (1.0, event.weight, event.weight * p, event.weight * event.label)
    np.testing.assert_allclose(done.calibration, expected, rtol=ROUNDINGS, atol=1e-300)  # sigma of -800: subnormal or 0
    assert done.calibration[:, figures.CELL_EXAMPLES].sum() == N


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT, IDENTITY, HINGE])
def test_histogram_holds_the_weight_of_each_class(link: int) -> None:
    done = Tallied(link)
    positive = done.label == 1.0
    held = done.histogram[figures.CUMULATIVE].sum(axis=1)
    np.testing.assert_allclose(held, [done.weight[~positive].sum(), done.weight[positive].sum()], rtol=ROUNDINGS)
    order = np.argsort(done.margin, kind="stable")
    exact = ranked_auc(done.margin[order], done.label[order], done.weight[order])
    from_bins = histogram_auc(done.histogram[figures.CUMULATIVE, 0], done.histogram[figures.CUMULATIVE, 1])
    assert from_bins == pytest.approx(exact, abs=2e-3)  # 300 events: one pair in a shared bin may weigh 1e-3


@pytest.mark.parametrize("link", [LOGISTIC, PROBIT])
def test_a_sure_and_wrong_answer_costs_no_more_than_the_clip(link: int) -> None:
    done = Tallied(link)
    before = done.sums[figures.CUMULATIVE, figures.LOG_LOSS]
    figures.tally_rows(done.tally, np.array([-1e9]), np.ones(1), np.ones(1))
    cost = done.sums[figures.CUMULATIVE, figures.LOG_LOSS] - before
    assert cost == pytest.approx(-math.log(1e-15), rel=1e-9)  # a difference of two sums


def test_log_loss_of_a_probit_answer_keeps_its_digits_where_the_probability_rounds_to_one() -> None:
    probability, cost, _, _, own, _ = scored(PROBIT, 9.0, 1.0, 0.5)
    assert probability == 1.0
    assert cost == own == pytest.approx(1.1285884059538408e-19, rel=1e-12)  # -log Phi(9)


# Score event.


def scored(link: int, margin: float, label: float, base: float) -> tuple[float, ...]:
    """Probability, log loss, log loss of `base`, 1 if correct, own loss, own loss of `base`: sums of a window of one event."""
    past = np.array([[margin], [label], [1.0], [base], [0.0]])
    tally = figures.tally_of(link, 1.0, window=past)
    tally.examples = 1
    sums, _ = figures.window_sums(tally, 1)
    columns = ("PREDICTED", "LOG_LOSS", "BASE_LOG_LOSS", "CORRECT", "LOSS", "BASE_LOSS")
    return tuple(float(sums[getattr(figures, name)]) for name in columns)


@given(
    link=st.sampled_from([LOGISTIC, PROBIT, IDENTITY, HINGE, REAL]),
    margin=st.floats(-40.0, 40.0) | st.sampled_from([-0.0, 0.0, 0.5, 1.0, -1e9, 1e9]),
    label=st.sampled_from([0.0, 1.0]),
    base=st.floats(0.0, 1.0),
)
def test_an_event_is_scored_as_by_its_twin(link: int, margin: float, label: float, base: float) -> None:
    assert scored(link, margin, label, base) == pytest.approx(twin.score_event(link, margin, label, base), rel=1e-12, abs=1e-15)
