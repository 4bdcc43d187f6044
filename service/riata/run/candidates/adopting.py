"""The state of a model around a solution of a batch solver: its learner continues from there."""

from __future__ import annotations

from typing import Literal

import numpy as np

from riata.base.errors import BadInput
from riata.lab.batch.problem import Problem
from riata.lab.batch.solution import Solution
from riata.learn.one_pass import Weighed, one_pass
from riata.learn.registry import build_learner, spec_of
from riata.run.files.fit import NO_LOG, unlogged
from riata.run.state.config import ModelConfig, config_payload, require_one_margin
from riata.run.state.model_state import ModelState


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
    members = np.argsort(beta == 0.0, kind="stable")[: spec.members(config.learner)]  # those with a weight, then the frequent
    sums = one_pass((part.load() for part in data.parts), at, members)
    state = ModelState(name, NO_LOG)
    state.apply(unlogged(state, "config", 1, config_payload(config, after=0)))
    state.learner.thaw(spec.adopt(config.learner, config.encoder.bits, sums))
    state.restored = True
    return state
