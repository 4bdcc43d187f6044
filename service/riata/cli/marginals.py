"""Marginal distributions of weights: as a table in the terminal, as JSON, and as a picture in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any, Final

from rich.table import Table

from riata.predict.posterior import PosteriorModel
from riata.run.candidates.marginals import Line, density

BLOCKS: Final = "▁▂▃▄▅▆▇█"
BINS: Final = 48  # of the picture
SPARK: Final = 12  # columns of a density in the table
WIDTH, HEIGHT, COLUMNS = 260, 150, 4  # pixels of a panel, and panels side by side


def marginal_table(model: PosteriorModel, lines: Sequence[Line], level: float) -> Table:
    """Return the table for a terminal."""
    size, moves, tempered = model.posterior.figures.tolist()
    table = Table(title=f"posterior of {len(lines)} weights after {model.seq - 1:,} events")  # event 1 is the configuration
    table.add_column("weight", overflow="fold")
    for name in ("mean", "std. dev.", f"{50 - 50 * level:g} %", f"{50 + 50 * level:g} %", "P(> 0)"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("density", no_wrap=True)
    for line in lines:
        style = "bold" if line.low > 0.0 or line.high < 0.0 else None  # the sign is sure at this level
        numbers = (f"{line.mean:+.4g}", f"{line.deviation:.3g}", f"{line.low:+.4g}", f"{line.high:+.4g}")
        cells = (*numbers, f"{line.positive:.3f}", spark(line))
        table.add_row(line.name, *cells, style=style)
    parts = f", {tempered:.0f} events in parts" if tempered else ""
    table.caption = f"{len(lines[0].draws):,} particles, effective {size:,.0f}; {moves:.0f} rejuvenations{parts}"
    return table


def spark(line: Line) -> str:
    """Return the density over the range of the draws as one line of characters."""
    heights, _ = density(line, SPARK)
    return "".join(BLOCKS[min(int(h / max(heights) * len(BLOCKS)), len(BLOCKS) - 1)] for h in heights)


def as_document(model: PosteriorModel, lines: Sequence[Line], level: float, dependent: str | None) -> dict[str, Any]:
    """Return what --json prints."""
    size, moves, tempered = model.posterior.figures.tolist()
    return {
        "level": level,
        "draws": len(lines[0].draws),
        "effective_sample_size": size,
        "rejuvenations": int(moves),
        "tempered_events": int(tempered),
        "dependent_feature": dependent,
        "weights": [
            {
                "name": one.name,
                "mean": one.mean,
                "std_dev": one.deviation,
                "low": one.low,
                "high": one.high,
                "positive": one.positive,
            }
            for one in lines
        ],
    }


def picture(lines: Sequence[Line], level: float) -> str:
    """Return an SVG with the marginal density of each weight; the interval is dark, a dashed line is at zero."""
    rows = -(-len(lines) // COLUMNS)
    width, height = COLUMNS * WIDTH, rows * HEIGHT + 24
    panels = [_panel(line, (i % COLUMNS) * WIDTH, (i // COLUMNS) * HEIGHT) for i, line in enumerate(lines)]
    note = f'<text x="8" y="{height - 8}">dark: central {100 * level:g} % of the posterior; dashed: zero</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        + "".join(panels) + note + "</svg>\n"
    )  # fmt: skip


def _panel(line: Line, left: int, top: int) -> str:
    heights, edges = density(line, BINS)
    margin, room, base = 14, WIDTH - 28, HEIGHT - 26
    scale = room / (edges[-1] - edges[0]) if edges[-1] > edges[0] else 0.0
    at = [left + margin + (edge - edges[0]) * scale for edge in edges]
    tall = [h / max(heights) * (base - 30) for h in heights]
    bars = "".join(
        f'<rect x="{a:.1f}" y="{top + base - h:.1f}" width="{max(b - a, 0.1):.1f}" height="{h:.1f}" fill="{colour}"/>'
        for a, b, h, colour in zip(at[:-1], at[1:], tall, _colours(line, edges), strict=True)
    )
    zero = left + margin - edges[0] * scale
    inside = edges[0] < 0.0 < edges[-1]
    axis = f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="{top + 26}" y2="{top + base}" stroke="black" stroke-dasharray="3 3"/>'
    return (
        f'<text x="{left + margin}" y="{top + 16}"><tspan font-weight="bold">{escape(line.name)}</tspan>'
        f'<tspan dx="8">P(&gt; 0) = {line.positive:.3f}</tspan></text>{bars}{axis if inside else ""}'
        f'<text x="{left + margin}" y="{top + base + 14}">{edges[0]:.3g}</text>'
        f'<text x="{left + WIDTH - margin}" y="{top + base + 14}" text-anchor="end">{edges[-1]:.3g}</text>'
    )


def _colours(line: Line, edges: list[float]) -> list[str]:
    middle = [0.5 * (a + b) for a, b in pairwise(edges)]
    return ["#2b6cb0" if line.low <= one <= line.high else "#bcd0e8" for one in middle]
