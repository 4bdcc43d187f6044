"""Marginal distributions of the weights of a model that keeps a posterior: as a table, as JSON, and as a picture in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Final

import numpy as np
from rich.table import Table

from riata.base.arrays import F64
from riata.base.errors import Malformed
from riata.cli.show import ramp
from riata.predict.factory import make_model
from riata.predict.model import Origin
from riata.predict.name_book import NameBook
from riata.predict.posterior import PosteriorModel, doubts, positive, quantiles
from riata.run.candidates.exports import read_export

BINS: Final = 48  # of the picture
SPARK: Final = 12  # columns of a density in the table
WIDTH, HEIGHT, COLUMNS = 260, 150, 4  # pixels of a panel, and panels side by side


@dataclass(frozen=True, slots=True)
class Line:
    """One weight: its name, moments, interval, and the draws."""

    name: str
    mean: float
    deviation: float
    low: float
    high: float
    positive: float
    draws: F64
    weight: F64


def lines_of(content: bytes, level: float) -> tuple[PosteriorModel, list[Line], str | None, list[str]]:
    """Return the model in an export, one line for the intercept and for each feature by name, the name of a feature that depends
    linearly on others, and what speaks against the intervals.

    Raises `Malformed` (code `no_posterior`) if it keeps no posterior, or has learnt nothing.
    """
    state, names = read_export(content)
    book = NameBook.of(state.config.encoder)
    book.add_all(names)
    origin = Origin(state.name, state.lineage, state.config.encoder, state.config.labels)
    weights = state.served_weights()
    model = make_model(origin, weights, 0, state.applied if state.has_learnt else 0)
    if not isinstance(model, PosteriorModel):
        raise Malformed(
            "this model has no posterior: it is of another learner than particle_filter, or no row was learnt", "no_posterior"
        )
    p = model.posterior
    named = ["intercept", *((book.in_slot(int(slot), model.weights.bits) or [f"slot {slot}"])[0] for slot in p.slot)]
    part = p.weight / p.weight.sum()
    found = []
    for name, draws in zip(named, [p.base[0], *p.theta], strict=True):
        mean = float(draws @ part)
        deviation = float(np.sqrt((draws - mean) ** 2 @ part))
        found.append(Line(name, mean, deviation, *quantiles(draws, part, level), positive(draws, part), draws, part))
    dependent = None if p.dependent < 0 else named[1 + p.dependent]
    doubtful = []
    for detail, slots in doubts(model, getattr(state.config.learner, "gamma", 0.0)):
        features = ", ".join(named[1 + at] for at in np.flatnonzero(np.isin(p.slot, slots)))
        doubtful.append(f"{detail}: {features}" if features else detail)
    return model, [found[0], *sorted(found[1:], key=lambda line: line.name)], dependent, doubtful


def density(line: Line, bins: int) -> tuple[list[float], list[float]]:
    """Return the heights and the edges, one more, of a histogram of the draws over their range."""
    heights, edges = np.histogram(line.draws, bins, weights=line.weight, density=True)
    return heights.tolist(), edges.tolist()


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
    return ramp(heights, 0.0, max(heights))


def as_document(
    model: PosteriorModel, lines: Sequence[Line], level: float, dependent: str | None, doubtful: Sequence[str]
) -> dict[str, Any]:
    """Return what --json prints."""
    size, moves, tempered = model.posterior.figures.tolist()
    return {
        "level": level,
        "draws": len(lines[0].draws),
        "effective_sample_size": size,
        "rejuvenations": int(moves),
        "tempered_events": int(tempered),
        "dependent_feature": dependent,
        "warnings": list(doubtful),
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
