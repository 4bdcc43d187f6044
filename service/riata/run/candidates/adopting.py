"""The state of a model around a solution of a batch solver: its learner continues from there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import F64, I64, U32
from riata.base.errors import BadInput
from riata.learn.registry import build_learner, spec_of
from riata.learn.spec import Adopted, Sums
from riata.maths.links import LINKS
from riata.native.library import core
from riata.run.state.config import ModelConfig, require_one_margin
from riata.run.state.model_state import ModelState, begun

if TYPE_CHECKING:
    from riata.lab.batch.problem import Problem, Solution

_DENSE_NUMBERS: Final = 2**22  # of the rows whose members are laid out as a dense matrix at once


def link_of(config: ModelConfig) -> Literal["logistic", "probit"]:
    """Return the link of the likelihood that a model's learner maximises. Raises `BadInput` (code `not_for_this_loss`), and
    `Conflict` (code `not_for_classes`) for a model of several classes."""
    require_one_margin(config, "a batch optimum")
    link = build_learner(config.learner, config.encoder.bits, config.encoder.hash_key).weights().link
    if config.labels != "real" and link in ("logistic", "probit"):
        return link
    what = (
        "a model of real labels" if config.labels == "real" else f"a learner of the {getattr(config.learner, 'loss', link)} loss"
    )
    raise BadInput(
        f"a batch optimum is that of a logistic or probit likelihood of two classes; this is {what}",
        "not_for_this_loss",
    )


def rho_of(config: ModelConfig) -> float:
    """Return the factor by which each later event reduces the weight of an event; 1 for a learner that does not forget."""
    return float(getattr(config.learner, "rho", 1.0))


def state_around(config: ModelConfig, problem: Problem, solution: Solution, name: str = "fit") -> ModelState:
    """Return the state of a model that has no log, whose learner continues from a solution of its configuration.

    Takes one more pass over the rows, for the sums of the learner. The metrics are empty: no row was predicted before it was
    learnt. Raises `BadInput` if the learner cannot continue from it.
    """
    spec, data = spec_of(config.learner), problem.data
    beta = problem.by_rank(solution.weights)
    at = Weighed(data.bits, data.slots, beta, solution.weights.intercept, problem.link)
    members = np.argsort(beta == 0.0, kind="stable")[: config.learner.members()]  # those with a weight, then the frequent
    sums = one_pass((part.load() for part in data.parts), at, members)
    state = begun(config, name)
    state.learner.thaw(spec.adopt(config.learner, config.encoder.bits, sums))
    state.restored = True
    return state


# The sums that a learner adopts, from one pass over the rows that a solution was fitted to.


class FitRows(Protocol):
    """Rows that a solution was fitted to. Features are numbered; each occurs in a row once, as hashes of one slot are summed."""

    @property
    def indptr(self) -> I64: ...
    @property
    def rank(self) -> NDArray[np.integer]: ...
    @property
    def value(self) -> NDArray[np.floating]: ...
    @property
    def label(self) -> F64:
        """-1 or 1."""
        ...

    @property
    def weight(self) -> F64:
        """Importance, times what a learner that forgets has kept of the event."""
        ...


@dataclass(frozen=True, slots=True)
class Weighed:
    """Weights by the rank of a feature, as a solver returns them."""

    bits: int
    slot: U32  # by rank
    beta: F64
    intercept: float
    link: Literal["logistic", "probit"]


def one_pass(rows: Iterable[FitRows], solution: Weighed, members: I64) -> Adopted:
    """Take all sums in one pass over the rows of a solution.

    members : i64[m]  ranks for which the cross curvature is summed, at a cost of m^2 for each row
    """
    d = len(solution.slot)
    place = np.full(d, -1, np.int64)
    place[members] = np.arange(1, len(members) + 1)
    sums, peak, base = np.zeros((5, d)), np.zeros(d), np.zeros(5)
    cross = np.zeros((len(members) + 1, len(members) + 1))
    events = 0
    for part in rows:
        n = len(part.label)
        row, rank = np.repeat(np.arange(n), np.diff(part.indptr)), part.rank.astype(np.int64)
        x, w = part.value.astype(np.float64), part.weight
        margin = solution.intercept + np.bincount(row, solution.beta[rank] * x, n).astype(np.float64)
        r, h = slopes(solution.link, margin, part.label)
        scales = np.stack([w * r, w * h, w * r * r, (w * r) ** 2, w])
        for k, power in enumerate((1, 2, 2, 2, 2)):
            sums[k] += np.bincount(rank, scales[k][row] * x**power, d)
        base += scales.sum(axis=1)
        np.maximum.at(peak, rank, np.abs(x))
        _add_cross(cross, (row, place[rank], x), w * h)
        events += n
    effective = float(base[4])
    whole = _sums(base[:, None], np.ones(1))
    return Adopted(
        solution.bits, solution.slot, solution.beta, solution.intercept, _sums(sums, peak), whole, members, cross, events,
        effective, effective,
    )  # fmt: skip


def _sums(sums: F64, peak: F64) -> Sums:
    """Name the lines of f64[5, d]."""
    gradient, curvature, squares, whole_squares, energy = sums
    return Sums(gradient, curvature, squares, whole_squares, energy, peak)


def slopes(link: Literal["logistic", "probit"], margin: F64, label: F64) -> tuple[F64, F64]:
    """Return slope and curvature of the log-likelihood of each label, -1 or 1, at its margin."""
    slope, curvature, log_p = np.empty((3, len(margin)))
    core.taylor(LINKS[link].code, margin, np.where(label > 0.0, 1.0, 0.0), len(margin), slope, curvature, log_p)
    return slope, curvature


def _add_cross(cross: F64, entries: tuple[I64, I64, F64], curvature: F64) -> None:
    """Add the rows of one part: entries are row, position among the members or -1, and value."""
    row, place, x = entries
    step = max(1, _DENSE_NUMBERS // len(cross))
    for start in range(0, len(curvature), step):
        first, last = np.searchsorted(row, (start, start + step))
        inside = np.flatnonzero(place[first:last] >= 0) + first
        dense = np.zeros((min(step, len(curvature) - start), len(cross)))
        dense[:, 0] = 1.0
        dense[row[inside] - start, place[inside]] = x[inside]
        cross += dense.T @ (dense * curvature[start : start + step, None])
