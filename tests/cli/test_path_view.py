from __future__ import annotations

import pytest

from riata.cli.plot import path_plots, resampled
from tests.cli.fake_service import PATH


@pytest.mark.parametrize("places", [[0.0, 1.0, 4.0], [0.0, -1.0, -4.0]])
def test_a_line_is_read_between_its_points_whichever_way_they_go(places: list[float]) -> None:
    assert resampled(places, [10.0, 20.0, 50.0], 5) == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert resampled(places, [10.0, 20.0, 0.0], 5) == pytest.approx([10.0, 20.0, 40 / 3, 20 / 3, 0.0])


def test_points_at_one_place_are_no_division_by_zero() -> None:
    assert resampled([1.0, 1.0], [3.0, 5.0], 3) == [3.0, 3.0, 3.0]


def test_what_has_fewer_than_two_points_is_not_drawn() -> None:
    assert len(list(path_plots(PATH))) == 2
    assert len(list(path_plots({**PATH, "points": PATH["points"][:2]}))) == 1
    free = {**PATH["points"][0], "gamma": 0.0}  # has no logarithm
    assert list(path_plots({**PATH, "points": [PATH["points"][0], free]})) == []
    untested = {**PATH, "log_loss": None, "points": [PATH["points"][1], PATH["points"][2]]}
    assert len(list(path_plots(untested))) == 1  # a loss of one penalty is no curve
