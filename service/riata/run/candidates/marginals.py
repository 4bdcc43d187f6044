"""The marginal distributions of the weights in an exported model that keeps a posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riata.base.arrays import F64
from riata.base.errors import Malformed
from riata.predict.factory import make_model
from riata.predict.model import Origin
from riata.predict.name_book import NameBook
from riata.predict.posterior import PosteriorModel, positive, quantiles
from riata.run.candidates.exports import read_export


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


def lines_of(content: bytes, level: float) -> tuple[PosteriorModel, list[Line], str | None]:
    """Return the model in an export, one line for the intercept and for each feature by name, and the name of a feature that
    depends linearly on others.

    Raises `Malformed` (code `no_posterior`) if it keeps no posterior, or has learnt nothing.
    """
    state, names = read_export(content)
    book = NameBook(state.config.encoder.names_max)
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
    return model, [found[0], *sorted(found[1:], key=lambda line: line.name)], dependent


def density(line: Line, bins: int) -> tuple[list[float], list[float]]:
    """Return the heights and the edges, one more, of a histogram of the draws over their range."""
    heights, edges = np.histogram(line.draws, bins, weights=line.weight, density=True)
    return heights.tolist(), edges.tolist()
