from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.learn.truncated_config import TruncatedGradientConfig
from riata.learn.truncated_gradient import TruncatedGradient
from tests.learn.streams import to_batch
from tests.twins.truncated_step import Event

BITS = 5  # feature j of the vectors is slot j; there are at most 20
ROUNDING = 1e-12  # the tolerance the vectors state: the rounding of some hundred float64 steps
FILE = Path(__file__).parents[1] / "golden" / "truncated_gradient.json"
GOLDEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
REFERENCE: dict[str, Any] = json.loads(FILE.with_name("truncated_gradient_reference.json").read_text(encoding="utf-8"))
NUMBERS = ("eta", "gravity", "ceiling", "accumulator", "reach", "delay", "power")


def _event(row: dict[str, Any], label: float, weight: float) -> Event:
    return Event([(j << (32 - BITS), float(x)) for j, x in zip(row["j"], row["x"], strict=True)], label, weight)


def _dense(learner: TruncatedGradient, d: int) -> list[float]:
    weights = learner.weights()
    beta = np.zeros(2**BITS)
    beta[weights.slot] = weights.beta
    return [weights.intercept, *beta[1 : d + 1].tolist()]


def _config(trace: dict[str, Any]) -> TruncatedGradientConfig:
    own = {key: value for key, value in trace.items() if key != "beta_after_row"}
    settings = {"centred": False, "calibrated": False, **GOLDEN["defaults"], **own}
    for name in NUMBERS:
        settings[name] = float("inf") if settings[name] == "inf" else float(Fraction(settings[name]))
    return TruncatedGradientConfig(**settings)


@pytest.mark.parametrize("number", range(len(GOLDEN["traces"])))
def test_golden_traces(number: int) -> None:
    trace = GOLDEN["traces"][number]
    learner = TruncatedGradient(_config(trace), BITS)
    for i, row in enumerate(GOLDEN["rows"], start=1):
        learner.step(to_batch([_event(row, row["label"], row["weight"])]))
        if str(i) in trace["beta_after_row"]:
            assert _dense(learner, GOLDEN["d"]) == pytest.approx(trace["beta_after_row"][str(i)], rel=0.0, abs=ROUNDING)


# How the second set of vectors writes a step size, and what that is here.
ETAS: dict[str, dict[str, Any]] = {
    "1/10": {"rate": "constant", "eta": 0.1},
    "1/(9+i)": {"rate": "decaying", "eta": 0.1, "delay": 10.0, "power": 1.0},
    "1/2/sqrt(i)": {"rate": "decaying", "eta": 0.5, "delay": 1.0, "power": 0.5},
    "3/10/sqrt(1+n_j)": {"rate": "adaptive", "eta": 0.3, "accumulator": 1.0},
}


def test_vectors_computed_independently_by_others() -> None:
    golden = REFERENCE
    for trace in golden["traces"]:
        config = TruncatedGradientConfig(
            loss="squared" if trace["loss"] == "square" else "logistic",
            rule={"T1": "truncate", "T0": "round", "subgradient": "subgradient"}[trace["method"]],  # type: ignore[arg-type]
            gravity=float(trace["g"]),
            period=int(trace["K"]),
            ceiling=float(trace["theta"]),
            step="gradient",
            intercept=False,
            normalised=False,
            **{"accumulator": 0.0, **ETAS[trace["eta"]]},
        )
        learner = TruncatedGradient(config, BITS)
        for i, row in enumerate(golden["examples"], start=1):
            label = float(row["y"]) if config.loss == "squared" else float(row["y"] > 0)
            learner.step(to_batch([_event(row, label, 1.0)]))
            if str(i) in trace["w_after_step"]:
                found = _dense(learner, golden["d"])[1:]
                assert found == pytest.approx(trace["w_after_step"][str(i)], rel=0.0, abs=golden["tolerance"]["absolute"]), trace
