"""FTRL-Proximal: each weight minimises the loss so far, linearised, plus penalties; L1 keeps most of them at zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, doc

from riata.base.arrays import BOOL, F64, Arrays
from riata.base.errors import Corrupt
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots
from riata.learn.learner import Learner, Stepped, Weights, step_each
from riata.learn.spec import Adopted, FarValues, LearnerSettings, LearnerSpec, require_bits
from riata.learn.standardised import SLOTS, Standardised, settled
from riata.learn.table_learner import LEARNT, TableLearner
from riata.native.library import core, struct
from riata.native.rows import Room, RowsArray
from riata.wire.batch import Batch

Z: Final = 0  # columns of the table
SQUARES: Final = 1
COLUMNS: Final = 2

INTERCEPT_Z: Final = 0  # scalars
INTERCEPT_SQUARES: Final = 1
SCALARS: Final = 2

COUNTS: Final = 3


@dataclass(frozen=True, slots=True)
class FtrlProximalConfig(LearnerSettings):
    """Settings of FTRL-Proximal (McMahan et al. 2013), logistic loss.

    Step sizes depend on the units of the features, which are standardised first.
    """

    kind: Literal["ftrl_proximal"] = "ftrl_proximal"
    alpha: Annotated[
        float,
        Gt(0),
        Le(1e6),
        doc(
            "Step size: a gradient g moves a weight by about alpha g / (beta + the root of the sum of its squared gradients). "
            "Rows of several hundred counts overshoot: they need 0.05, or 1.5 with the encoder's normalise "
            '"l2", which on three of seven texts has less than half of the log loss, and on none more. Default 0.15, for '
            "one-hot rows and short texts: over five streams the log loss with 0.2 is 1 % better and with 0.1 is 4 % worse."
        ),
    ] = 0.15
    beta: Annotated[
        float,
        Gt(0),
        Le(1e12),
        doc(
            "Makes the first steps of a feature smaller. Default 0.1: with 0.01 the log loss is 1 % better, but 3 % worse on "
            "clicks; with 1, as in the paper, it is 7 % worse."
        ),
    ] = 0.1
    l1: Annotated[
        float,
        Ge(0),
        Le(1e12),
        doc(
            "L1 penalty of every weight but the intercept, on the sum of the losses. Default 0.1: 55 to 96 % of words and "
            "click values have weight zero, for 1 % of the log loss; with 0.5 it is 81 to 98 %, for 4 % more."
        ),
    ] = 0.1
    l2: Annotated[
        float,
        Ge(0),
        Le(1e12),
        doc(
            "L2 penalty of every weight but the intercept, on the sum of the losses. Default 0: with 1 none of five streams "
            "gains more than 1 %, and two lose 5 and 7 %."
        ),
    ] = 0.0
    intercept: Annotated[
        bool,
        doc("Learn an intercept: a feature that is always 1, without a penalty. Default true: the base rate is learnt directly."),
    ] = True
    standardised: Annotated[
        bool,
        doc(
            "Learn values other than 1 in units of their own, taken from the first 1024 rows: less the mean and over the "
            "spread for features of nine rows of ten, over the root mean square for others where it is above 1. Weights stay "
            "in the units of the input. Default true: units and origins of columns do not matter."
        ),
    ] = True
    far_values: FarValues = "auto"

    def can_forget(self) -> bool:
        return True

    def wants_scaled(self) -> bool:
        return not self.standardised


_COLUMNS: Final = 5  # of a `riata_room`


def kernel_settings(config: FtrlProximalConfig) -> Any:
    """Return the configuration as a `riata_ftrl_settings`."""
    return struct(
        "riata_ftrl_settings",
        alpha=config.alpha,
        smoothing=config.beta,
        damping=float(config.beta + config.alpha * config.l2),
        l1=config.l1,
        intercept=config.intercept,
    )


class FtrlProximal(TableLearner):
    """McMahan et al. 2013, algorithm 1: per-coordinate rates, L1 and L2, logistic loss.

    A line is z and the sum of squared gradients. The intercept has its own and no penalty.
    """

    def __init__(self, config: FtrlProximalConfig, bits: int, start: float = 0.0) -> None:
        """Make an empty learner. start : the intercept with which it begins"""
        super().__init__(config, bits, kernel_settings(config), (_COLUMNS, 1))
        self._scalars[INTERCEPT_Z] = 0.0 - start * self._settings.smoothing / self._settings.alpha

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are predicted only."""
        skip = np.zeros(batch.n, np.bool_) if skip is None else np.ascontiguousarray(skip)
        rows = RowsArray([batch], skip, [self._slots.enter(batch.hash)])
        if batch.nnz > self._room.length:  # no row is longer than the batch
            longest = int(np.diff(batch.indptr).max(initial=0))
            if longest > self._room.length:
                self._room = Room(2 * longest, *self._columns)
        table = self._make_room(len(batch.hash))
        listed = len(self._alive), len(self._seen)
        margin, refused = np.empty(batch.n), np.empty(batch.n, np.bool_)
        if core.learn_ftrl(table, self._settings, rows, self._room.struct, margin, refused) < 0:
            raise ValueError("the rows of a batch are not inside of its features")
        self._alive.rename(listed[0], self._slots)
        self._seen.rename(listed[1], self._slots)
        return Stepped(margin, refused, batch.label, batch.weight, int(refused.sum()))

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """As `step` of each batch in turn."""
        return step_each(self, batches, skip)

    def weights(self) -> Weights:
        """Return the non-zero weights, without changing the state."""
        line, beta = self._collect(core.collect_ftrl, self._slots.line, self._settings)
        slot = self._slots.slots_of(line)
        self._keep_alive(slot)
        intercept = core.ftrl_intercept(self._settings, *self._scalars.tolist())
        return Weights(slot, beta, intercept, "logistic", self.bits)

    def forget(self, keep: float) -> None:
        """Let the past count for `keep` of what it counted: multiply the sums of squared gradients, so that steps become larger.

        z changes with them, so that no weight does. Weights of zero keep their z.
        """
        settings, scalars = self._settings, self._scalars
        lines = self._slots.lines_of(self._seen.sorted())
        z, squares = self._slots.line[lines, Z], self._slots.line[lines, SQUARES]
        self._slots.line[lines, Z] = _z_with(z, squares, keep, settings.l1, settings.damping)
        self._slots.line[lines, SQUARES] = np.maximum(squares * keep, np.finfo(np.float64).tiny)
        base, sums = scalars[[INTERCEPT_Z]], scalars[[INTERCEPT_SQUARES]]
        scalars[INTERCEPT_Z] = _z_with(base, sums, keep, 0.0, settings.smoothing)[0]
        scalars[INTERCEPT_SQUARES] *= keep

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results.

        counts  : i64[1]  rows learnt
        scalars : f64[2]  z and sum of squared gradients of the intercept
        slot    : u32[m]  strictly increasing: slots that ever had a gradient, most of them of weight zero
        z       : f64[m]  sum of gradients minus the proximal terms
        squares : f64[m]  sum of squared gradients
        """
        slot = self._seen.sorted().copy()
        z, squares = self._slots.pick(slot, Z)
        return {"counts": self._counts[:1].copy(), "scalars": self._scalars.copy(), "slot": slot, "z": z, "squares": squares}

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        self._check(arrays)
        self._start_empty()
        slot = arrays["slot"].astype(np.uint32)
        at = self._slots.lines_of(slot)
        self._slots.line[at, Z] = arrays["z"]
        self._slots.line[at, SQUARES] = arrays["squares"]
        self._scalars[:] = arrays["scalars"]
        self._counts[LEARNT] = arrays["counts"][0]
        self._seen.hold(slot)
        self._alive.hold(slot)
        self.weights()  # drops those of weight zero from the list

    def memory(self) -> dict[str, int]:
        """Return bytes by part, in O(1)."""
        seen = self._seen.slot.itemsize + 2 * self._slots.line.itemsize
        return {
            "table": self._slots.nbytes,
            "lists": self._alive.nbytes + self._seen.nbytes,
            "scratch": self._room.nbytes,
            "checkpoint": self._counts[:1].nbytes + self._scalars.nbytes + len(self._seen) * seen,
        }

    def _start_empty(self) -> None:
        self._begin(COUNTS, SCALARS, COLUMNS)
        self._take("riata_ftrl")

    def _check(self, arrays: Arrays) -> None:
        """Raise `Corrupt` unless the names, shapes, types, order and range are those of a frozen state."""
        check_names(arrays, {"counts", "scalars", "slot", "z", "squares"})
        check_counts("counts", arrays["counts"])
        check_numbers("scalars", arrays["scalars"], SCALARS)
        check_slots("slot", arrays["slot"], self.bits)
        check_numbers("z", arrays["z"], len(arrays["slot"]))
        check_numbers("squares", arrays["squares"], len(arrays["slot"]), least=0.0)
        check_numbers("scalars", arrays["scalars"][INTERCEPT_SQUARES:], 1, least=0.0)
        if not bool(arrays["squares"].all()):
            raise Corrupt("learner state: squares is zero for a slot, but every stored slot has had a gradient")


def _z_with(z: F64, squares: F64, keep: float, l1: float, damping: float) -> F64:
    """Return the z with which `keep` of the sums of squared gradients gives the same weights.

    Source : McMahan et al. 2013, algorithm 1: |w| = (|z| - l1) alpha / (damping + root of the sum)
    """
    rest = np.maximum(np.abs(z) - l1, 0.0)
    less = (damping + np.sqrt(squares * keep)) / np.maximum(damping + np.sqrt(squares), np.finfo(np.float64).tiny)
    return np.where(rest > 0.0, np.copysign(l1 + rest * less, z), z)


# FTRL-Proximal around a solution.


def around(config: FtrlProximalConfig, bits: int, solution: Adopted) -> Arrays:
    """Return the frozen state whose weights are those of the solution, with the sums of squared gradients of a pass there.

    A weight is a function of z and of the sum of squares; z is chosen so that it is that of the solution. Every z within l1 gives
    the weight zero: there z is the sum of the gradients, as after a pass with all weights at the solution.
    """
    require_bits(solution, bits)
    sums, base = solution.features, solution.base
    at = np.argsort(solution.slot)
    at = at[sums.whole_squares[at] > 0.0]
    beta, squares = solution.beta[at], sums.whole_squares[at]
    damping = config.beta + config.alpha * config.l2
    idle = np.clip(-sums.gradient[at], -config.l1, config.l1)
    z = np.where(beta == 0.0, idle, -np.sign(beta) * config.l1 - beta * (damping + np.sqrt(squares)) / config.alpha)
    whole: F64 = base.whole_squares if config.intercept else np.zeros(1)
    scalars = np.concatenate([-solution.intercept * (config.beta + np.sqrt(whole)) / config.alpha, whole])
    return {
        "counts": np.array([solution.events], np.int64),
        "scalars": scalars if config.intercept else np.zeros(2),
        "slot": solution.slot[at].astype(np.uint32),
        "z": z,
        "squares": squares,
    }


def _build(config: FtrlProximalConfig, bits: int, _hash_key: int) -> Learner:

    if config.standardised:
        return Standardised(
            lambda own, rate: FtrlProximal(own, bits, math.log(rate / (1.0 - rate)) if own.intercept else 0.0),
            config,
            columns=config.intercept,
            starts=config.intercept,
        )
    return FtrlProximal(config, bits)


def _adopt(config: FtrlProximalConfig, bits: int, solution: Adopted) -> Arrays:

    arrays = around(config, bits, solution)
    return settled(arrays) if config.standardised else arrays


SPEC: Final = LearnerSpec(
    config=FtrlProximalConfig,
    about="McMahan et al. 2013. Logistic loss; few non-zero weights, little memory.",
    build=_build,
    adopt=_adopt,
    penalty="l1",
    slot_lists=("slot", "seen", SLOTS),
    older={"standardised": False, "far_values": "off"},
    advice={
        "worse_than_base_rate": "Create it with a smaller alpha, such as 0.05, or with a larger l1.",
        "under_confident": "Create it with a larger alpha, such as 0.5, or with a smaller l1.",
        "over_confident": "Create it with a smaller alpha, such as 0.05, or with a larger l1.",
        "biased": "The rate of positives may have changed: restart it, or create it with the default learner.",
        "columns_not_scaled": "Create it with standardised true, the default.",
    },
)
