"""Renders a plot as coloured text, with its scale on the left and the names of the series at their ends."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from riata.cli.plot import Plot


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
