"""Line plots in a terminal, drawn with Braille characters: two by four dots per cell, one line per series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

BLANK: Final = 0x2800  # Unicode's Braille block begins with the empty cell
DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bit of the dot at row, column of a cell


@dataclass(frozen=True, slots=True)
class Plot:
    """A finished plot.

    cells     : cells[line][column] is (character, index of the series on top, or -1 for none)
    ends      : the line on which each series ends, -1 if the series is empty
    low, high : the y range
    """

    cells: list[list[tuple[str, int]]]
    ends: list[int]
    low: float
    high: float

    def lines(self) -> list[str]:
        """Return the lines of the plot as text, without colours."""
        return ["".join(character for character, _ in line) for line in self.cells]


def draw(series: Sequence[Sequence[float]], columns: int, lines: int) -> Plot:
    """Draw series of equal length over their common index; they span the whole width.

    If two series share a cell, the later one is on top. An empty series draws nothing; a constant one is a horizontal line.
    """
    values = [value for line in series for value in line]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    bits = [[0] * columns for _ in range(lines)]
    top = [[-1] * columns for _ in range(lines)]
    ends = []
    for number, line in enumerate(series):
        dots = _dots(line, columns * 2, lines * 4, low, high)
        ends.append(dots[-1][1] // 4 if dots else -1)
        for x, y in dots:
            bits[y // 4][x // 2] |= DOTS[y % 4][x % 2]
            top[y // 4][x // 2] = number
    cells = [[(chr(BLANK + bits[y][x]), top[y][x]) for x in range(columns)] for y in range(lines)]
    return Plot(cells, ends, low, high)


def _dots(line: Sequence[float], width: int, height: int, low: float, high: float) -> list[tuple[int, int]]:
    """Return the dots of one series: the level at each column, connected to the level of the previous column."""
    if not line:
        return []
    scale = (height - 1) / (high - low) if high > low else 0.0
    dots = []
    before: int | None = None
    for x in range(width):
        at = x * (len(line) - 1) / max(width - 1, 1)
        i = min(int(at), len(line) - 2) if len(line) > 1 else 0
        value = line[i] + (at - i) * (line[min(i + 1, len(line) - 1)] - line[i])
        y = height - 1 - round((value - low) * scale)
        start = y if before is None else before
        dots += [(x, step) for step in range(start, y, 1 if y > start else -1)] + [(x, y)]
        before = y
    return dots


# Renders a plot as coloured text, with its scale on the left and the names of the series at their ends.


def plot_text(plot: Plot, series: Sequence[tuple[str, str]], form: str = "8.4f") -> Text:
    """Return `plot` as text. series: name and style of each series; form: number format of the scale."""
    text = Text()
    width = len(format(0.0, form))
    for number, line in enumerate(plot.cells):
        level = {0: plot.high, len(plot.cells) - 1: plot.low}.get(number)
        text.append(f"{' ' * width if level is None else format(level, form)} ", "dim")
        for character, at in line:
            text.append(character, series[at][1] if at >= 0 else "")
        for (name, style), end in zip(series, plot.ends, strict=True):
            text.append(f" {name}" if end == number else "", style)
        text.append("\n" if number < len(plot.cells) - 1 else "")
    return text
