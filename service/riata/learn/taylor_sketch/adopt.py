"""The Taylor sketch around a solution: the sums that it would have if it had met every event with the weights of the solution."""

from __future__ import annotations

import math

import numpy as np

from riata.base.arrays import F64, I64, Arrays
from riata.base.errors import BadInput
from riata.learn.adopt import Adopted, require_bits
from riata.learn.taylor_sketch.config import TaylorSketchConfig, key_bits
from riata.learn.taylor_sketch.kernel_state import HYBRID, NOTHING, Settings
from riata.learn.taylor_sketch.learner import TaylorSketch, kernel_settings


def around(config: TaylorSketchConfig, bits: int, solution: Adopted) -> Arrays:
    """Return the frozen state with the weights, gradients and curvatures of the solution.

    The block has the first members of the solution, those with a weight before the others. The others are outside it, with their
    diagonal curvature alone. Raises `BadInput` (code `cannot_adopt`) if the mode has no place for a weight or a feature.
    """
    require_bits(solution, key_bits(config, bits))
    settings = kernel_settings(config, bits)
    members, outside = _split(config, settings, solution)
    sums, base = solution.features, solution.base
    learnt = max(solution.events, settings.warm_up)  # a warm-up that is not over would begin with an empty sketch again
    line = np.concatenate([[0], 1 + members])
    size = len(line)
    cross = solution.cross[np.ix_(line, line)][np.triu_indices(size, 1)]
    chosen = solution.members[members]
    key = solution.slot[chosen].astype(np.int64)
    beta = np.concatenate([[solution.intercept], solution.beta[chosen]])
    columns = {
        "beta": beta,
        "gradient": np.concatenate([base.gradient, sums.gradient[chosen]]),
        "curvature": np.concatenate([base.curvature, sums.curvature[chosen]]),
        "peak": np.concatenate([base.peak, sums.peak[chosen]]) ** 2,
    }
    if not config.intercept:
        cross[: size - 1] = 0.0
        for column in columns.values():
            column[0] = 0.0
    arrays = dict(TaylorSketch(config, bits).freeze())
    arrays["counts"] = np.array([learnt, size, 0, 0, len(outside), 0, 0, learnt, 0], np.int64)
    arrays["scalars"] = np.array([1.0, solution.effective, solution.importance, _growth(settings, solution, learnt)])
    arrays["member_key"] = np.concatenate([np.array([-1], np.int64), key])
    arrays |= {f"member_{name}": column for name, column in columns.items()}
    arrays["cross"] = cross
    if "shadow_beta" in arrays:
        arrays["shadow_beta"] = np.tile(beta, (len(config.shadow), 1))
    if settings.outside != NOTHING:
        arrays |= _outside(settings, solution, outside)
    return arrays


def _split(config: TaylorSketchConfig, settings: Settings, solution: Adopted) -> tuple[I64, I64]:
    """Return the members of the block, by index into `solution.members`, and the other features, by slot."""
    weighs = solution.beta[solution.members] != 0.0
    members = np.argsort(~weighs, kind="stable")[: settings.limit - 1]
    inside = np.zeros(len(solution.slot), np.bool_)
    inside[solution.members[members]] = True
    outside = np.flatnonzero(~inside)
    wanted = min(len(solution.slot), settings.limit - 1)
    if settings.opens and (len(members) < wanted or (settings.outside == NOTHING and len(outside))):
        raise BadInput(
            f"mode {config.mode} needs the cross curvature of all features, up to features_max ({config.features_max}): the "
            f"solution has {len(solution.slot)} features and cross curvature for {len(solution.members)}",
            "cannot_adopt",
        )
    if settings.outside != HYBRID and bool(solution.beta[outside].any()):
        raise BadInput(
            f"mode {config.mode} has no weights outside its block of {settings.limit - 1} features, and the solution has "
            f"{int(np.count_nonzero(solution.beta))} weights: fit it with a larger penalty, or use mode hybrid",
            "cannot_adopt",
        )
    return members, outside[np.argsort(solution.slot[outside])]


def _outside(settings: Settings, solution: Adopted, at: I64) -> Arrays:
    sums = solution.features
    columns: dict[str, F64] = {"gradient": sums.gradient[at], "curvature": sums.curvature[at], "peak": sums.peak[at] ** 2}
    if settings.outside == HYBRID:
        columns["beta"] = solution.beta[at]
    arrays: Arrays = {f"outside_{name}": column for name, column in columns.items()}
    arrays = {**arrays, "outside_slot": solution.slot[at].astype(np.uint32)}
    return {**arrays, "outside_waiting": np.ones(len(at), np.bool_)} if settings.exchanges else arrays


def _growth(settings: Settings, solution: Adopted, learnt: int) -> float:
    """Return the factor of the penalties after the events of the solution; see `block_end.growth_at`."""
    share = learnt / settings.gamma_events
    growth = (1.0, share, math.sqrt(share))[settings.schedule]
    growth = max(settings.gamma_floor, growth) if settings.schedule else 1.0
    return growth * min(1.0, solution.effective / solution.importance) if settings.burn_in else growth
