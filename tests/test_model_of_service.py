"""`riata.Model` and a service that observed the same rows give the same answers to the last bit, whatever the learner."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, pairwise
from typing import Any, Final

import httpx
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from riata import Model
from tests.web.serving import answering

LEARNERS: Final[list[dict[str, Any]]] = [
    {"kind": "truncated_gradient"},
    {"kind": "truncated_gradient", "shapes": "off"},
    {"kind": "truncated_gradient", "shapes": "off", "mixed": False, "rate": "adaptive"},
    {"kind": "ftrl_proximal"},
    {"kind": "ftrl_proximal", "standardised": False, "l2": 0.5},
    {"kind": "taylor_sketch"},
    {"kind": "taylor_sketch", "mode": "exact", "rho": 0.999},
    {"kind": "taylor_sketch", "mode": "exact", "link": "probit", "warm_up": 100, "gamma": 1.0},
    {"kind": "taylor_sketch", "mode": "strict", "k": 5},
    {"kind": "taylor_sketch", "mode": "diag", "relinearise": False, "far_values": "off"},
    {"kind": "particle_filter", "particles": 200, "start": 300},
]
DRIFTS: Final[list[dict[str, Any]]] = [{}, {"action": "note"}, {"action": "forget", "keep": 0.05}]
NUMBERS: Final = count()


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with answering() as client:
        yield client


def rows_of(seed: int, n: int) -> list[dict[str, Any]]:
    """Numbers, a category and a word; from row 14,000 on the labels are the others."""
    rng = np.random.default_rng(seed)
    a, b, word = rng.normal(size=n), rng.exponential(size=n), rng.integers(0, 5, n)
    margin = 1.5 * a - b + 0.3 * word
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-margin))) ^ (np.arange(n) >= 14_000)
    columns = zip(a.round(6).tolist(), b.round(6).tolist(), word.tolist(), label.tolist(), strict=True)
    return [{"features": {"a": x, "b": y, "word": f"w{z}"}, "label": int(one)} for x, y, z, one in columns]


def compare(client: httpx.Client, config: dict[str, Any], rows: list[dict[str, Any]], cuts: list[int]) -> Model:
    """Have both learn `rows` in the same parts, and compare what they answer then."""
    at = f"/models/m{next(NUMBERS)}"
    assert client.put(at, json=config).status_code == 201
    model = Model(config)
    for start, stop in pairwise([0, *cuts, len(rows)]):
        assert client.post(f"{at}/observe?wait=applied", json=rows[start:stop]).json()["applied"]
        model.learn_many(rows[start:stop])
        until(lambda: client.get(at).json()["seq_applied"], model._state.applied)  # an alarm is answered after the rows
    for features in [*(row["features"] for row in rows[:3]), {"a": 2.5, "word": "never"}, {"unknown": 1.0}]:
        own = {**model.predict_one(features), **model.explain_one(features)}
        until(partial(asked, client, at, features, own), own)  # its curvature may be a moment older
    served = client.get(f"{at}/weights?top=100").json()["weights"]
    weights, errors = model._model().weights, model._model().weight_errors()
    listed = zip(weights.slot.tolist(), weights.beta.tolist(), errors.tolist(), strict=True)
    assert {one["slot"]: (one["weight"], one["std_error"]) for one in served} == {
        slot: (beta, None if error != error else error) for slot, beta, error in listed
    }
    return model


def asked(client: httpx.Client, at: str, features: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """What the service answers of what `own` has."""
    served = client.post(f"{at}/predict?explain=true", json={"features": features}).json()
    return {key: served[key] for key in own}


def until(ask: Callable[[], Any], wanted: Any, within_s: float = 5.0) -> None:
    """Ask until the answer is the one wanted; fail with the last answer."""
    end = time.monotonic() + within_s
    while (found := ask()) != wanted and time.monotonic() < end:
        time.sleep(0.05)
    assert found == wanted


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 1500), max_size=3, unique=True))
@settings(max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate])
@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_all_answers_are_those_of_the_service(client: httpx.Client, learner: dict[str, Any], seed: int, cuts: list[int]) -> None:
    model = compare(client, {"encoder": {"bits": 12}, "learner": learner}, rows_of(seed, 1600), sorted(cuts))
    served = learner["kind"] == "particle_filter" or learner in LEARNERS[5:8] or learner == LEARNERS[9]
    assert (model.predict_one({"a": 1.0})["std_error"] is not None) == served
    outside = model.predict_one({"a": 1.0, "unknown": 1.0})
    assert ("std_error_why_not" in outside) == (served and learner in LEARNERS[5:8])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("drift", DRIFTS, ids=str)
@pytest.mark.parametrize("learner", [LEARNERS[0], LEARNERS[3], LEARNERS[5]], ids=str)
def test_an_alarm_is_answered_as_in_the_service(client: httpx.Client, learner: dict[str, Any], drift: dict[str, Any]) -> None:
    config = {"encoder": {"bits": 12}, "learner": learner, "drift": drift}
    cuts = list(range(2000, 20_000, 2000))
    model = compare(client, config, rows_of(5, 20_000), cuts)
    assert model._state.applied == 20_001 + len(model._state.changes) - 1
    assert (len(model._state.changes) > 1) == bool(drift)
