"""The `Model` protocol: what a learner knew after one event of the log, ready to be asked by any thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from riata.base.arrays import F64, I64, Arrays
from riata.learn.learner import Weights
from riata.predict.explain import Explanation
from riata.predict.one_row import Plan
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig

Labels = Literal["0/1", "-1/+1", "real", "classes"]


@dataclass(frozen=True, slots=True)
class Origin:
    """What stays the same from one version of a model to the next. lineage : 16 bytes drawn when the model was created."""

    name: str
    lineage: bytes
    encoder: EncoderConfig
    labels: Labels


@dataclass(frozen=True, slots=True)
class Scores:
    """Answers to the n rows of a batch.

    margin      : f64[n]  finite; bitwise equal to that of the learner after the same event
    probability : f64[n]  of the positive class; NaN if the link has none (hinge, real labels)
    label       : f64[n]  as the client writes labels: 1 if the probability is above 1/2 (hinge: the margin above 0),
                          otherwise 0 or -1; the margin itself for real labels
    known       : i64[n]  features that have a weight in the model
    unknown     : i64[n]  features that have none: never seen, or with weight zero
    std_error   : f64[n]  of the margin, approximate (see `predict/uncertainty.py`); NaN if it is unknown
    by_class    : f64[n, k]  of several classes: the probabilities of each, which sum to one. `label` is then the number of the
                          class of the largest margin, NaN without a class; the rest is of that class. None: there is one margin
    """

    margin: F64
    probability: F64
    label: F64
    known: I64
    unknown: I64
    std_error: F64
    by_class: F64 | None = None


class Model(Protocol):
    """One version of a model. `predict.factory` makes all models; nothing else names an implementation.

    An implementation owes:

    - It is immutable, and any thread may ask it. No answer depends on the clock, on chance or on earlier questions.
    - A row gets the same bits alone, in any batch, by `plan`, and after `parts` and `factory.read_model` in another process.
    - The parts of an explanation, added in their order, are exactly the margin.
    - Where nothing was learnt (`seq` is 0) every row gets the prior: probability 1/2 if the link has one.
    """

    @property
    def origin(self) -> Origin:
        """What it shares with other versions."""
        ...

    @property
    def gen(self) -> int:
        """The newest durable generation when it was made; 0 for none."""
        ...

    @property
    def seq(self) -> int:
        """It has learnt events 1..seq; 0 if nothing was learnt."""
        ...

    @property
    def weights(self) -> Weights:
        """Its link, how it maps hashes to slots, and what it adds up: the weights that are listed and exported. A model that is
        not linear gives those of its linear part."""
        ...

    @property
    def plan(self) -> Plan | None:
        """What `predict.one_row` needs to answer common rows; None if `score` has to answer every row."""
        ...

    def score(self, batch: Batch) -> Scores:
        """Score every row. Never fails on a validated batch."""
        ...

    def explain(self, named_row: Sequence[tuple[int, float, str]], shared: Callable[[int, int], list[str]]) -> Explanation:
        """Split the margin of one row; the arguments are those of `predict.explain.explain`."""
        ...

    def weight_errors(self) -> F64:
        """Return the standard error of each of `weights`; NaN if it is unknown."""
        ...

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        ...

    def parts(self) -> tuple[Arrays, str]:
        """Return the arrays from which `factory.read_model` makes it again, and why they lack standard errors that it has; empty
        if they do not."""
        ...
