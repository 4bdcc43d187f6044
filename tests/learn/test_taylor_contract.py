from __future__ import annotations

from typing import Any

import pytest

from riata.learn.learner import Learner
from riata.learn.taylor_config import FeatureGamma, TaylorSketchConfig
from riata.learn.taylor_sketch import TaylorSketch
from tests.learn.contract import Build, LearnerContract

BITS = 8  # 40 names in 256 slots: a few share one
# Blocks and rounds so short that everything happens within the contract's 240 events.
SHORT: dict[str, Any] = {"block": 3, "rounds": 2, "k": 4, "gamma": 0.3, "warm_up": 0}
OWN = (FeatureGamma("age", 0.0), FeatureGamma("country=de", 2.0))

CONFIGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "hybrid": {},
    "hybrid-shadow-forgetting": {"shadow": (0.1, 3.0), "rho": 0.97, "gamma_of": OWN},
    "hybrid-warm-up-burn-in": {"warm_up": 40, "burn_in": 120, "k": 12},
    "strict": {"mode": "strict"},
    "strict-blocks-of-one-length": {"mode": "strict", "ramp": 0.0, "k": 6},
    "hybrid-prior-by-value": {"prior_by_row": False, "ramp": 0.3},
    "strict-warm-up-shadow": {"mode": "strict", "k": 11, "warm_up": 20, "shadow": (1.0,), "gamma_schedule": "sqrt"},
    "strict-probit-no-intercept": {"mode": "strict", "link": "probit", "intercept": False, "rho": 0.8, "block": 10},
    "diag": {"mode": "diag", "block": 1},
    "diag-probit-shadow": {"mode": "diag", "link": "probit", "shadow": (0.2, 0.4)},
    "exact": {"mode": "exact", "block": 1},
    "exact-refuse-reexpand": {"mode": "exact", "features_max": 41, "reexpand": 7, "warm_up": 20, "gamma_intercept": 0.1},
    "exact-hybrid": {"mode": "exact", "features_max": 9, "beyond": "hybrid", "reexpand": 11, "shadow": (0.1,)},
    "exact-strict": {"mode": "exact", "features_max": 9, "beyond": "strict", "warm_up": 50, "intercept": False},
    "exact-linear": {"mode": "exact", "gamma_schedule": "linear", "gamma_events": 100, "warm_up": 32, "link": "probit"},
}


class TestContract(LearnerContract):
    @pytest.fixture(params=CONFIGS)
    def build(self, request: pytest.FixtureRequest) -> Build:
        config = (
            TaylorSketchConfig(**{**SHORT, **CONFIGS[request.param]}) if request.param != "defaults" else TaylorSketchConfig()
        )

        def empty() -> Learner:
            return TaylorSketch(config, BITS)

        return empty
