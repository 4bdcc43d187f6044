from __future__ import annotations

import math

import numpy as np
import pytest

from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL
from riata.watch.figures import CELL, CELLS, SCALE, SUMS, calibration_cells, horizon_figures, ratio


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
