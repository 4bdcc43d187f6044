"""The registration of the Taylor sketch: what the rest of the program may use of it."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

from riata.base.arrays import Arrays
from riata.learn.adopt import Adopted
from riata.learn.learner import Learner
from riata.learn.spec import LearnerSpec
from riata.learn.standardised import SLOTS, Standardised, settled
from riata.learn.taylor_sketch.config import TaylorSketchConfig, block_limit, key_bits, too_much


def _build(config: TaylorSketchConfig, bits: int, hash_key: int) -> Learner:
    from riata.learn.taylor_sketch.learner import TaylorSketch

    if config.standardised:
        starts = config.intercept and config.mode != "exact"  # exact has a warm-up
        return Standardised(
            lambda own, rate: TaylorSketch(own, bits, hash_key, standardised=True, start=_margin(own, rate) if starts else 0.0),
            config,
            columns=config.intercept,
            starts=starts,
        )
    return TaylorSketch(config, bits, hash_key)


def _margin(config: TaylorSketchConfig, rate: float) -> float:
    """The margin of a probability."""
    return NormalDist().inv_cdf(rate) if config.link == "probit" else math.log(rate / (1.0 - rate))


def _adopt(config: TaylorSketchConfig, bits: int, solution: Adopted) -> Arrays:
    from riata.learn.taylor_sketch.learner import around

    arrays = around(config, bits, solution)
    return settled(arrays) if config.standardised else arrays


def _adjust(learner: Learner, config: TaylorSketchConfig) -> None:
    from riata.learn.taylor_sketch.learner import TaylorSketch

    if isinstance(learner, Standardised):
        learner.adjust(config, _adjust)
    elif isinstance(learner, TaylorSketch):
        learner.adjust(config)


def _forget(learner: Learner, keep: float) -> None:
    from riata.learn.taylor_sketch.learner import TaylorSketch

    if isinstance(learner, Standardised):
        learner.forget(keep, _forget)
    elif isinstance(learner, TaylorSketch):
        learner.forget(keep)


SPEC: Final = LearnerSpec(
    config=TaylorSketchConfig,
    about="Balakrishnan & Madigan 2008, online, exactly or in bounded memory. Keeps curvature, so predictions have standard "
    "errors, `GET /models/{model}/path` shows the weights under other penalties, and gamma may change.",
    build=_build,
    adopt=_adopt,
    members=lambda config: block_limit(config) - 1,
    adjustable=frozenset({"gamma"}),
    adjust=_adjust,
    too_much=too_much,
    keeps_curvature=True,
    can_forget=lambda _config: True,
    forget=_forget,
    slot_lists=("outside_slot", "member_key", SLOTS),
    slot_bits=key_bits,
    wants_scaled=lambda config: config.mode in ("hybrid", "diag") and not config.standardised,
    older={"standardised": False},
    advice={
        "worse_than_base_rate": "If the stream changes, create it with rho 0.9999; otherwise set a larger gamma.",
        "under_confident": "Set a smaller gamma; GET /models/{model}/path shows the choices.",
        "over_confident": "Set a larger gamma, or create it with rho 1 if it forgets.",
        "biased": "Create it with rho 0.9999, which follows a changing rate of positives.",
        "columns_not_scaled": "Create it with standardised true, the default.",
    },
)
