"""The linear model: a margin is the intercept plus the weights times the features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import numpy as np

from riata.base.arrays import F64, U32, Arrays, read_only
from riata.base.limits import CURVATURE_CARRIED_BYTES_MAX
from riata.learn.learner import Weights
from riata.maths.links import LINKS, LinkFunction, answers
from riata.native.library import core, struct
from riata.native.rows import features_of
from riata.predict.explain import Explanation, explain, held
from riata.predict.model import Origin, Plan, Scores
from riata.predict.uncertainty import SPAN, SPREAD, Uncertainty
from riata.wire.batch import Batch

BOUNDS: Final = "bounds"


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A model whose arrays cannot be written through it; its maker gives `weights` away.

    uncertainty : how margins and weights scatter; None where the learner keeps no curvature, or it could not be inverted
    bucket      : u32[2^k + 1], the index over `weights.slot`
    """

    origin: Origin
    weights: Weights
    gen: int
    seq: int
    uncertainty: Uncertainty | None = None
    bucket: U32 = field(init=False)
    native: Any = field(init=False, compare=False, repr=False)  # riata_weights
    plan: Plan | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        weights = self.weights
        bucket_bits = min(weights.bits, (len(weights.slot) - 1).bit_length()) if len(weights.slot) > 1 else 0
        bucket = np.zeros(2**bucket_bits + 1, np.uint32)
        core.index_slots(weights.slot, len(weights.slot), weights.bits - bucket_bits, bucket, len(bucket) - 1)
        frozen = replace(
            weights,
            slot=cast(U32, read_only(weights.slot)),
            beta=cast(F64, read_only(weights.beta)),
            intercept=(weights.intercept if self.seq > 0 else self.link.prior) + 0.0,  # -0.0 becomes 0.0: no margin is ever -0.0
        )
        object.__setattr__(self, "weights", frozen)
        object.__setattr__(self, "bucket", cast(U32, read_only(bucket)))
        origin = self.origin
        common = self.uncertainty is None and not origin.encoder.curves
        native = struct(
            "riata_weights",
            slot=frozen.slot,
            beta=frozen.beta,
            bucket=self.bucket,
            buckets=len(bucket) - 1,
            bits=frozen.bits,
            link=self.link.code,
            intercept=frozen.intercept,
            shapes=None if frozen.shapes is None else frozen.shapes.native,
            apart=None if frozen.apart is None else frozen.apart.native,
            negative=self._negative,
            low=frozen.bounds[0],
            high=frozen.bounds[1],
        )
        object.__setattr__(self, "native", native)
        object.__setattr__(self, "plan", Plan(native, origin.encoder, origin.labels) if common else None)

    @property
    def link(self) -> LinkFunction:
        """What turns a margin into an answer."""
        return LINKS["real" if self.origin.labels == "real" else self.weights.link]

    @property
    def _negative(self) -> float:
        """The label of the negative class."""
        return -1.0 if self.origin.labels == "-1/+1" else 0.0

    def score(self, batch: Batch) -> Scores:
        """Score every row of `batch`. A sum that overflows is clamped to the largest double."""
        batch = self.weights.used(batch)
        n = batch.n
        margin, probability, label = np.empty(n), np.empty(n), np.empty(n)
        known = np.empty(n, np.int64)
        if not core.margins(self.native, *features_of(batch), margin, known):
            raise ValueError("the rows of a batch are not inside of its features")
        if not np.isfinite(margin).all():
            self._hold(batch, margin)
        bounded = np.clip(margin, *self.weights.bounds)
        answers(bounded, self.link.code, self._negative, probability, label)
        std_error, outside = np.full(n, np.nan), None
        if self.uncertainty is not None:
            self.uncertainty.std_errors(batch, self.native, std_error)
            outside = None if self.uncertainty.span is None else np.isnan(std_error)
        return Scores(margin, probability, label, known, np.diff(batch.indptr) - known, std_error, outside=outside)

    def explain(self, named_row: Sequence[tuple[int, float, str]], shared: Callable[[int, int], list[str]]) -> Explanation:
        """Split the margin of one row into the contributions of its features."""
        return explain(self.weights, named_row, shared)

    def weight_errors(self) -> F64:
        """Return the standard error of each weight; NaN if it is unknown."""
        return np.full(len(self.weights.slot), np.nan) if self.uncertainty is None else self.uncertainty.of_weights()

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        parts = {"weights": self.weights.slot.nbytes + self.weights.beta.nbytes, "index": self.bucket.nbytes}
        if self.weights.shapes is not None:
            parts["shapes"] = self.weights.shapes.nbytes
        return parts if self.uncertainty is None else {**parts, "uncertainty": self.uncertainty.memory()}

    def parts(self) -> tuple[Arrays, str]:
        """Return its arrays; the curvature only if it is small enough to be sent to followers every 200 ms."""
        weights, uncertainty = self.weights, self.uncertainty
        arrays: Arrays = {"slot": weights.slot, "beta": weights.beta, "intercept": np.array([weights.intercept])}
        if weights.shapes is not None:
            arrays |= weights.shapes.parts()
        if weights.apart is not None:
            arrays |= weights.apart.parts()
        if math.isfinite(weights.bounds[1]):
            arrays[BOUNDS] = np.array(weights.bounds)
        if uncertainty is None:
            return arrays, ""
        if uncertainty.memory() > CURVATURE_CARRIED_BYTES_MAX:
            mib = uncertainty.memory() / 2**20
            return arrays, f"its curvature takes {mib:.0f} MiB, too much to publish to followers; ask the writer"
        if uncertainty.span is not None:
            arrays |= dict(zip(SPAN, uncertainty.span, strict=True))
        return arrays | dict(zip(SPREAD, uncertainty.spread, strict=True)), ""

    def _hold(self, batch: Batch, margin: F64) -> None:
        """Sum the rows that overflowed again, clamped to the finite range after every step."""
        for i in np.flatnonzero(~np.isfinite(margin)):
            row = slice(int(batch.indptr[i]), int(batch.indptr[i + 1]))
            total = self.weights.intercept
            for beta, x in zip(self.weights.of(batch.hash[row].tolist()), batch.value[row].tolist(), strict=True):
                total = held(total + held(beta * x))
            if self.weights.shapes is not None:
                for part in self.weights.shapes.added(
                    list(zip(batch.hash[row].tolist(), batch.value[row].tolist(), strict=True))
                ):
                    total = held(total + part)
            margin[i] = total
