"""The immutable `Model`: what a learner knew after one event of the log, ready to be asked by anybody."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

import numpy as np

from riata.base.arrays import F64, U32, read_only
from riata.learn.learner import Link, Weights
from riata.maths.dot import bucket_starts
from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL
from riata.predict.uncertainty import Uncertainty

Labels = Literal["0/1", "-1/+1", "real"]

LINK_CODE: Final[dict[Link, int]] = {"logistic": LOGISTIC, "probit": PROBIT, "identity": IDENTITY, "hinge": HINGE}


@dataclass(frozen=True, slots=True)
class Origin:
    """What stays the same from one version of a model to the next.

    lineage : 16 bytes drawn when the model was created; encoder : fingerprint of the encoder whose hashes it knows
    """

    name: str
    lineage: bytes
    encoder: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class Model:
    """One version of a model. Its arrays cannot be written through it; whoever makes one gives `weights` away.

    gen        : newest durable generation when it was made; 0 for none
    version    : counts publications
    seq        : the weights are those after events 1..seq; 0 where nothing was learnt, and then the answer to every row is the
                 prior: probability 1/2 where the link has one
    created_ms : monotonic clock, for its age
    uncertainty : how margins and weights scatter; None where the learner keeps no curvature, or it could not be inverted
    bucket     : u32[2^k + 1], the index over `weights.slot`; built here
    plan       : what `predict.one_row` found out about it, once it was asked; goes when it goes
    """

    origin: Origin
    weights: Weights
    gen: int
    version: int
    seq: int
    created_ms: int
    uncertainty: Uncertainty | None = None
    bucket: U32 = field(init=False)
    plan: Any = field(init=False, default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        weights = self.weights
        bucket_bits = min(weights.bits, (len(weights.slot) - 1).bit_length()) if len(weights.slot) > 1 else 0
        bucket = np.zeros(2**bucket_bits + 1, np.uint32)
        bucket_starts(weights.slot, weights.bits - bucket_bits, bucket)
        frozen = replace(
            weights,
            slot=cast(U32, read_only(weights.slot)),
            beta=cast(F64, read_only(weights.beta)),
            intercept=(weights.intercept if self.seq > 0 else self._prior()) + 0.0,  # -0.0 becomes 0.0: no margin is ever -0.0
        )
        object.__setattr__(self, "weights", frozen)
        object.__setattr__(self, "bucket", cast(U32, read_only(bucket)))

    @property
    def name(self) -> str:
        """The model's name."""
        return self.origin.name

    @property
    def non_zeros(self) -> int:
        """Number of weights that are not zero, the intercept not counted."""
        return len(self.weights.slot)

    @property
    def link_code(self) -> int:
        """The link as kernels know it."""
        return REAL if self.origin.labels == "real" else LINK_CODE[self.weights.link]

    def _prior(self) -> float:
        """Return the margin of a model that has learnt nothing."""
        return 0.5 if self.link_code == IDENTITY else 0.0

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = {"weights": self.weights.slot.nbytes + self.weights.beta.nbytes, "index": self.bucket.nbytes}
        return parts if self.uncertainty is None else {**parts, "uncertainty": self.uncertainty.memory()}


def empty_model(origin: Origin, link: Link, bits: int, created_ms: int) -> Model:
    """Return the model that has learnt nothing: probability 1/2 where the link has one, seq 0, version 0."""
    weights = Weights(np.zeros(0, np.uint32), np.zeros(0), 0.0, link, bits)
    return Model(origin, weights, gen=0, version=0, seq=0, created_ms=created_ms)
