"""The row sources of `riata demo`: the generator, or a file."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, Final

from riata.cli.model_setup import sniff_labels
from riata.cli.source import open_source, read_rows
from riata.wire.readers import reader_named
from riata.wire.readers.json import READER as JSON

BASE_RATE: Final = 0.065
DRIFT_SHARE: Final = 0.3
WEIGHTED_SHARE: Final = 0.25  # of the categories of a field
CALIBRATION_ROWS: Final = 5000
BLOCK_ROWS: Final = 1000  # rows drawn together, for speed; changing it changes the stream of a seed


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows to stream. total: how many, None if only known at the end of the file; text: fields that hold prose.

    best : the log loss of the generator's own probabilities so far, None if there is no generator; header: of the file, if its
    format has one
    """

    name: str
    form: str
    labels: str
    total: int | None
    lines: Iterator[tuple[int, bytes]]
    text: list[str] = field(default_factory=list)
    best: Best | None = None
    header: bytes = b""


@dataclass(slots=True)
class Best:
    """Mean log loss of the probabilities the labels were drawn with: no model can be expected to do better."""

    rows: int = 0
    total: float = 0.0

    def add(self, label: int, probability: float) -> None:
        """Count one row."""
        self.rows += 1
        self.total -= math.log(probability if label else 1.0 - probability)

    @property
    def log_loss(self) -> float:
        """The mean so far; 0 before the first row."""
        return self.total / self.rows if self.rows else 0.0


@contextmanager
def generated_stream(rows: int, seed: int) -> Iterator[Stream]:
    """Yield the stream of generated clicks."""
    best = Best()
    yield Stream(f"{rows:,} synthetic clicks (seed {seed})", JSON.name, "0/1", rows, _click_lines(rows, seed, best), best=best)


@contextmanager
def file_stream(name: str, rows: int | None) -> Iterator[Stream]:
    """Yield the stream of the rows of a file, only the first `rows` if that is given."""
    with open_source(name) as source:
        found = read_rows(source, name)
        labels = sniff_labels(found.head, found.form, found.header)
        text = reader_named(found.form)[1].texts(found.head)
        yield Stream(name, found.form, labels, None, islice(found.lines, rows), text, header=found.header)


def _click_lines(rows: int, seed: int, best: Best) -> Iterator[tuple[int, bytes]]:
    for number, click in enumerate(click_stream(rows, seed), 1):
        best.add(click.label, click.probability)
        yield number, click.line()


# A synthetic stream of ad impressions and clicks: skewed categories, sparse true weights, and concept drift halfway.
#
# Theory of operation
#     Every field is a set of categories drawn by a Zipf law, so a few are in most rows and thousands are rare. A share of the
#     categories has a weight, normally distributed. All others have none, which a sparse learner should find. The
#     probability of a click is the logistic function of the sum, with the intercept set by bisection on a sample so that clicks
#     are about BASE_RATE of the rows. Halfway, DRIFT_SHARE of the weights are drawn again and the intercept is set again.
#
#     The seed of the standard library's generator determines the whole stream, so a seed always gives the same stream.


@dataclass(frozen=True, slots=True)
class Field:
    """One categorical field: `size` categories, the r-th most frequent with a probability in proportion to r ** -skew.

    spread : standard deviation of its non-zero weights, log-odds
    """

    name: str
    size: int
    skew: float
    spread: float


FIELDS: Final = (
    Field("advertiser", 2000, 1.1, 1.1),
    Field("campaign", 8000, 1.05, 1.0),
    Field("site", 5000, 1.1, 1.1),
    Field("placement", 40, 1.0, 0.8),
    Field("device", 60, 1.2, 0.6),
    Field("browser", 15, 1.2, 0.4),
    Field("country", 120, 1.3, 0.6),
    Field("hour", 24, 0.4, 0.4),
    Field("weekday", 7, 0.1, 0.3),
    Field("size", 12, 0.9, 0.5),
)
SEGMENTS: Final = Field("segments", 500, 0.9, 0.9)  # a row has two of them
SEEN_BETA: Final = -0.35  # log-odds per ln(1 + number of earlier impressions of the ad)
SEEN_MEAN: Final = 4.0


@dataclass(frozen=True, slots=True)
class Click:
    """One row: the features as they are sent, the label, and the probability the label was drawn with."""

    features: dict[str, Any]
    label: int
    probability: float

    def line(self) -> bytes:
        """Write the row as a line of NDJSON, without its end."""
        return json.dumps({"features": self.features, "label": self.label}, separators=(",", ":")).encode()


@dataclass(slots=True)
class _World:
    """The current true weights: `beta[f][c]` for field f, category c; `beta[-1]` are those of the segments."""

    beta: list[list[float]]
    intercept: float = 0.0


def click_stream(rows: int, seed: int) -> Iterator[Click]:
    """Yield `rows` rows in order. The weights change once, before the row rows // 2."""
    rng = random.Random(seed)
    fields = (*FIELDS, SEGMENTS)
    weights = [_zipf(field) for field in fields]
    world = _World([[_weight(rng, field) for _ in range(field.size)] for field in fields])
    world.intercept = _calibrate(rng, world, weights)
    made, turn = 0, drift_row(rows)
    while made < rows:
        if made == turn and made > 0:
            _drift(rng, world)
            world.intercept = _calibrate(rng, world, weights)
        count = min(BLOCK_ROWS, (turn if made < turn else rows) - made)
        yield from _block(rng, world, weights, count)
        made += count


def drift_row(rows: int) -> int:
    """Index of the first row after the change."""
    return rows // 2


def _zipf(field: Field) -> list[float]:
    """Cumulative weights of the categories, most frequent first."""
    return list(accumulate((rank + 1.0) ** -field.skew for rank in range(field.size)))


def _weight(rng: random.Random, field: Field) -> float:
    return rng.gauss(0.0, field.spread) if rng.random() < WEIGHTED_SHARE else 0.0


def _drift(rng: random.Random, world: _World) -> None:
    for drawn, beta in zip((*FIELDS, SEGMENTS), world.beta, strict=True):
        for category in range(drawn.size):
            if rng.random() < DRIFT_SHARE:
                beta[category] = _weight(rng, drawn)


def _draw(rng: random.Random, weights: Sequence[list[float]], count: int) -> tuple[list[list[int]], list[int], list[int]]:
    """Draw `count` rows as columns: a category for each field, two segments a row, and how often the ad was seen."""
    columns = [rng.choices(range(field.size), cum_weights=w, k=count) for field, w in zip(FIELDS, weights, strict=False)]
    segments = rng.choices(range(SEGMENTS.size), cum_weights=weights[-1], k=2 * count)
    seen = [int(rng.expovariate(1.0 / SEEN_MEAN)) for _ in range(count)]
    return columns, segments, seen


def _margins(world: _World, columns: list[list[int]], segments: list[int], seen: list[int]) -> list[float]:
    """The true log-odds of drawn rows, without the intercept."""
    tables = list(zip(world.beta, columns, strict=False))
    of_segment = world.beta[-1]
    margins = []
    for i, times in enumerate(seen):
        first, second = segments[2 * i], segments[2 * i + 1]
        margin = SEEN_BETA * math.log1p(times) + of_segment[first] + (of_segment[second] if second != first else 0.0)
        margins.append(margin + sum(beta[column[i]] for beta, column in tables))
    return margins


def _calibrate(rng: random.Random, world: _World, weights: Sequence[list[float]]) -> float:
    """Find the intercept at which a sample's mean probability is BASE_RATE."""
    margins = _margins(world, *_draw(rng, weights, CALIBRATION_ROWS))
    low, high = -20.0, 20.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        if sum(_probability(middle + margin) for margin in margins) < BASE_RATE * len(margins):
            low = middle
        else:
            high = middle
    return low


def _block(rng: random.Random, world: _World, weights: Sequence[list[float]], count: int) -> Iterator[Click]:
    columns, segments, seen = _draw(rng, weights, count)
    margins = _margins(world, columns, segments, seen)
    names = [field.name for field in FIELDS]
    for i, margin in enumerate(margins):
        features: dict[str, Any] = {name: f"{name[0]}{column[i]}" for name, column in zip(names, columns, strict=True)}
        features["segments"] = sorted({f"u{segments[2 * i]}", f"u{segments[2 * i + 1]}"})
        features["seen"] = round(math.log1p(seen[i]), 4)
        probability = _probability(world.intercept + margin)
        yield Click(features, int(rng.random() < probability), probability)


def _probability(margin: float) -> float:
    return 1.0 / (1.0 + math.exp(-margin))
