from __future__ import annotations

import math

import pytest

from riata.cli.plot import BLANK, draw


def dots(lines: list[str]) -> int:
    return sum((ord(character) - BLANK).bit_count() for line in lines for character in line)


def test_a_drawing_has_the_size_asked_for_and_only_braille() -> None:
    plot = draw([[0.0, 1.0, 0.5]], 20, 4)
    assert [len(line) for line in plot.lines()] == [20] * 4
    assert all(BLANK <= ord(character) < BLANK + 256 for line in plot.lines() for character in line)


def test_a_rising_line_goes_from_the_lower_left_to_the_upper_right() -> None:
    plot = draw([[1.0, 2.0]], 4, 2)
    assert plot.cells[0][0][1] == -1
    assert plot.cells[0][-1][1] == 0
    assert plot.cells[-1][0][1] == 0
    assert plot.cells[-1][-1][1] == -1
    assert (plot.low, plot.high) == (1.0, 2.0)


def test_a_level_line_is_one_row_of_dots() -> None:
    assert draw([[3.0] * 5], 6, 3).lines() == ["⠀" * 6, "⠀" * 6, "⣀" * 6]


@pytest.mark.parametrize("length", [1, 2, 7, 500])
def test_every_column_of_a_series_has_a_dot_however_long_it_is(length: int) -> None:
    plot = draw([[math.sin(i / 5) for i in range(length)]], 10, 5)
    assert all(any(plot.cells[y][x][1] == 0 for y in range(5)) for x in range(10))


def test_the_later_series_is_on_top_and_neither_erases_the_other() -> None:
    first, second, both = ([[0.0, 1.0]], [[1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]])
    plot = draw(both, 9, 4)
    assert {series for line in plot.cells for _, series in line} == {-1, 0, 1}
    crossing = dots(draw(first, 9, 4).lines()) + dots(draw(second, 9, 4).lines()) - dots(plot.lines())
    assert 0 < crossing < 4


def test_no_series_draws_nothing() -> None:
    assert dots(draw([], 5, 2).lines()) == dots(draw([[]], 5, 2).lines()) == 0
