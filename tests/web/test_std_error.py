"""Standard errors of predictions in the whole service: of rows like those learnt, and of others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from riata.predict.model import OUTSIDE_SPAN
from tests.web.serving import answering
from tests.web.test_posterior import ARROW
from tests.web.test_predict import read_columns
from tests.web.test_whole import LINES

INSIDE: dict[str, Any] = {"features": {"a": 0.5}}
OUTSIDE: dict[str, Any] = {"features": {"a": 0.5, "never": 1}}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    rng = np.random.default_rng(1)
    rows = "\n".join(
        json.dumps({"features": {"a": float(x)}, "label": int(x + rng.normal() > 0.0)}) for x in rng.normal(size=1500)
    )
    with answering() as client:
        client.put("/models/m", json={"learner": {"kind": "taylor_sketch"}}).raise_for_status()
        assert client.post("/models/m/observe?wait=applied", content=rows, headers=LINES).json()["applied"]
        yield client


def test_a_row_unlike_all_learnt_has_none_and_says_why(client: httpx.Client) -> None:
    for asked in ("/models/m/predict", "/models/m/predict?explain=true"):
        first, second = client.post(asked, json=[INSIDE, OUTSIDE]).json()
        assert first["std_error"] > 0.0
        assert "std_error_why_not" not in first
        assert (second["std_error"], second["std_error_why_not"]) == (None, OUTSIDE_SPAN)
    alone = client.get("/models/m/predict?a=0.5&never=1").json()
    assert (alone["std_error"], alone["std_error_why_not"]) == (None, OUTSIDE_SPAN)
    assert client.get("/models/m/predict?a=0.5").json()["std_error"] == first["std_error"]
    assert client.get("/models/m").json()["std_error"] == {"available": True, "why_not": None}


def test_its_interval_is_null_and_those_of_others_are_not(client: httpx.Client) -> None:
    first, second = client.post("/models/m/predict?level=0.9", json=[INSIDE, OUTSIDE]).json()
    assert first["interval"]["low"] < first["probability"] < first["interval"]["high"]
    assert second["interval"] is None
    answer = client.post("/models/m/predict?level=0.9", json=[INSIDE, OUTSIDE], headers={"Accept": ARROW})
    table = read_columns(answer.content)
    assert [value is None or value != value for value in table["std_error"]] == [False, True]
    assert [value is None or value != value for value in table["interval_low"]] == [False, True]
