"""The contenders that learn in this process: river and Vowpal Wabbit, one pass, test then train."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from river import linear_model, optim, preprocessing
from sklearn.metrics import roc_auc_score
from vowpalwabbit import Workspace

from riata.base.arrays import F64
from tests.bench.streams import Stream

RIVER_RATE: Final = 0.01  # river's own default, written out so that the table can state it
RIVER_L1: Final = 1e-6
PROBABILITY_MIN: Final = 1e-15  # log loss is clipped here, for every contender


@dataclass(frozen=True, slots=True)
class Score:
    """Progressive figures of one contender on one stream; an infinite loss if its numbers are not finite."""

    log_loss: float
    auc: float
    non_zeros: int


def log_loss(margin: F64, label: F64) -> float:
    """Mean of log(1 + exp(-s margin)), s = 2 label - 1, clipped at PROBABILITY_MIN as the service clips it."""
    loss = np.logaddexp(0.0, -(2.0 * label - 1.0) * margin)
    return float(np.minimum(loss, -math.log(PROBABILITY_MIN)).mean())


def labels_of(stream: Stream) -> F64:
    """Labels in stream order, f64[n] in {0, 1}."""
    return np.array([event.label for event in stream.events], dtype=np.float64)


def _score(margin: list[float], stream: Stream, non_zeros: int) -> Score:
    label = labels_of(stream)
    margins = np.array(margin)
    if not np.isfinite(margins).all():
        return Score(math.inf, math.nan, non_zeros)  # it has left the finite range: worse than any figure
    return Score(log_loss(margins, label), float(roc_auc_score(label, margins)), non_zeros)


def vowpal_wabbit(stream: Stream, options: str = "") -> Score:
    """Vowpal Wabbit with logistic loss and otherwise its defaults (adaptive, normalised, invariant; 2^18 weights)."""
    margin, non_zeros = vowpal_wabbit_lines((event.vw() for event in stream.events), options)
    return _score(margin, stream, non_zeros)


def vowpal_wabbit_lines(lines: Iterable[str], options: str = "") -> tuple[list[float], int]:
    """One pass of the same over lines of its text: the margin of each before it was learnt, and the weights left at the end."""
    with tempfile.TemporaryDirectory() as folder:
        readable = Path(folder) / "model.txt"
        learner = Workspace(f"--loss_function logistic --quiet --readable_model {readable} {options}")
        margin = []
        for line in lines:
            example = learner.parse(line)
            learner.learn(example)
            margin.append(float(example.get_simplelabel_prediction()))
            learner.finish_example(example)
        learner.finish()
        return margin, _count_readable(readable)


def _count_readable(path: Path) -> int:
    """Weights of a readable model that predict with something, its constant among them.

    A line of weights is `slot:weight accumulator norm`. With --l1 the file keeps the raw weights and, as `l1_state`, the
    gravity still to be taken off each of them at prediction time.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    gravity = float(re.search(r"^l1_state (\S+)$", text, re.MULTILINE)[1])  # type: ignore[index]
    return sum(1 for weight in re.findall(r"^\d+:(\S+)(?: \S+)*$", text, re.MULTILINE) if abs(float(weight)) > gravity)


def river(stream: Stream) -> Score:
    """river's LogisticRegression, SGD(RIVER_RATE), l1 = RIVER_L1, on the sparse dictionaries as they are."""
    model = linear_model.LogisticRegression(optimizer=optim.SGD(RIVER_RATE), l1=RIVER_L1)
    return _learn_river(model, model, stream, {})


def river_scaled(stream: Stream) -> Score:
    """The same after river's StandardScaler, on sparse dictionaries: only features present are scaled."""
    model = linear_model.LogisticRegression(optimizer=optim.SGD(RIVER_RATE), l1=RIVER_L1)
    return _learn_river(preprocessing.StandardScaler() | model, model, stream, {})


def river_scaled_dense(stream: Stream) -> Score:
    """The same with every absent feature written out as 0, which is what the scaler needs; for small row widths only."""
    model = linear_model.LogisticRegression(optimizer=optim.SGD(RIVER_RATE), l1=RIVER_L1)
    zeros = {name: 0.0 for event in stream.events for name, _ in event.pairs}
    return _learn_river(preprocessing.StandardScaler() | model, model, stream, zeros)


def _learn_river(
    pipeline: linear_model.LogisticRegression, model: linear_model.LogisticRegression, stream: Stream, zeros: dict[str, float]
) -> Score:
    margin = []
    for event in stream.events:
        features = zeros | event.river()
        probability = min(max(pipeline.predict_proba_one(features).get(True, 0.5), PROBABILITY_MIN), 1.0 - PROBABILITY_MIN)
        margin.append(math.log(probability / (1.0 - probability)))
        pipeline.learn_one(features, bool(event.label))
    return _score(margin, stream, sum(1 for weight in model.weights.values() if weight != 0.0))


PEERS: Final[dict[str, Callable[[Stream], Score]]] = {
    "VW": vowpal_wabbit,
    "VW --l1 1e-6": lambda stream: vowpal_wabbit(stream, "--l1 1e-6"),
    "river": river,
    "river scaled": river_scaled,
}
DENSE_WIDTH_MAX: Final = 200  # columns; a dense dictionary a row is out of the question for words
