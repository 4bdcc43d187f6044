"""The shapes of numeric columns in the whole service: what they add is what predictions have, and why there are none."""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from math import inf, nextafter
from operator import add
from typing import Any

import httpx
import pytest

from tests.web.serving import answering

LINES = {"Content-Type": "application/x-ndjson"}
NAMES = ["height", "width", "depth"]
NONE = [
    ("none", {}, [], "they are sought from row 128 on; 0 rows are learnt"),
    ("words", {}, [{f"w{i % 50}": 1, "on": 1} for i in range(300)], "no numeric columns in the rows so far"),
    ("many", {}, [{f"w{i % 50}": 1, "on": 1} for i in range(1024)], "no numeric columns since the first row"),
    ("off", {"learner": {"shapes": "off"}}, [], 'learner.shapes is "off"'),
    ("hinge", {"learner": {"loss": "hinge"}}, [], "they need the logistic loss"),
    ("other", {"learner": {"kind": "ftrl_proximal"}}, [], "the learner ftrl_proximal has none"),
    ("classes", {"labels": "classes", "learner": {"classes_shaped": False}}, [], "learner.classes_shaped is false"),
]  # fmt: skip


def drawn(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Rows of three columns, of which now and then one is missing. Tall or flat is likely, and so are two of one sign."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        numbers = {name: round(rng.gauss(0.0, 1.0), 3) for name in NAMES if rng.random() < 0.95}
        height, width, depth = (numbers.get(name, 0.0) for name in NAMES)
        chance = 0.2 + 0.3 * (abs(height) > 0.8) + 0.4 * (width * depth > 0.0)
        rows.append({"features": numbers | {"colour": rng.choice("ab")}, "label": int(rng.random() < chance)})
    return rows


def total(answer: dict[str, Any]) -> float:
    """The bias and the contributions, added one after another: `sum` of Python 3.12 and newer rounds once."""
    found: float = reduce(add, (part["contribution"] for part in answer["contributions"]), answer["bias"])
    return found


def observe(client: httpx.Client, model: str, rows: list[dict[str, Any]]) -> None:
    body = "\n".join(map(json.dumps, rows))
    assert client.post(f"/models/{model}/observe?wait=applied", content=body, headers=LINES).json()["applied"]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with answering() as client:
        observe(client, "default", drawn(3000))
        yield client


def added(found: dict[str, Any], row: dict[str, float]) -> float:
    """What the shapes of an answer say that a row of numbers has."""
    total: float = found["intercept"]
    for one in found["columns"]:
        if (x := row.get(one["feature"])) is not None:
            total += one["weight"] * x + one["values"][bisect_left(one["edges"], x)]
    for one in found["pairs"]:
        if (x := row.get(one["features"][0])) is not None and (y := row.get(one["features"][1])) is not None:
            total += one["values"][bisect_left(one["edges"][0], x)][bisect_left(one["edges"][1], y)]
    return total


def test_effects_add_up_to_the_margins_of_predictions(client: httpx.Client) -> None:
    found = client.get("/models/default/shapes").json()
    assert found["why_not"] is None
    assert 0.5 < found["share"] < 1.0
    assert sorted(one["feature"] for one in found["columns"]) == sorted(NAMES)
    assert {"width", "depth"} in [set(one["features"]) for one in found["pairs"]]
    assert all(first["range"] >= second["range"] > 0.0 for first, second in pairwise(found["columns"]))
    rows = [{name: x for name, x in row["features"].items() if name != "colour"} for row in drawn(200, seed=2)]
    edges = {one["feature"]: one["edges"] for one in found["columns"]}
    rows += [{name: edge} for name in NAMES for edge in edges[name]] + [{name: 0.0} for name in NAMES] + [{}]
    margins = client.post("/models/default/predict", json=[{"features": row} for row in rows]).json()
    for row, told in zip(rows, margins, strict=True):
        shown = {name: x for name, x in row.items() if x != 0.0}
        assert added(found, shown) == pytest.approx(told["margin"], abs=1e-12), row


def test_ranges_are_those_of_the_effect_from_the_first_interval_to_the_last(client: httpx.Client) -> None:
    found = client.get("/models/default/shapes").json()
    for one in found["columns"]:
        low, high, weight, values = one["edges"][0], one["edges"][-1], one["weight"], one["values"]
        grid = [*(low + (high - low) * step / 20_000 for step in range(20_001)), nextafter(high, inf)]
        effect = [weight * x + values[bisect_left(one["edges"], x)] for x in grid]
        assert one["range"] == pytest.approx(max(effect) - min(effect), abs=0.01)
    for one in found["pairs"]:
        cells = [value for line in one["values"] for value in line]
        assert one["range"] == max(cells) - min(cells)


def test_the_interval_of_zero_adds_nothing(client: httpx.Client) -> None:
    for one in client.get("/models/default/shapes").json()["columns"]:
        assert one["values"][bisect_left(one["edges"], 0.0)] == 0.0


def test_an_explanation_names_intervals_and_adds_them_to_their_columns(client: httpx.Client) -> None:
    shapes = client.get("/models/default/shapes").json()
    row = {"height": 1.5, "width": 0.7, "depth": -0.7, "colour": "a"}
    found = client.post("/models/default/predict?explain=true", json={"features": row}).json()
    total = found["bias"]
    for part in found["contributions"]:
        total += part["contribution"]
    assert total == found["margin"]
    (height,) = [one for one in shapes["columns"] if one["feature"] == "height"]
    at = bisect_left(height["edges"], 1.5)
    told = {one["feature"]: one["contribution"] for one in found["contributions"]}
    ends = [f"{end:g}" for end in height["edges"][at - 1 : at + 1]]
    assert told[" < height <= ".join(ends) if len(ends) > 1 else f"{ends[0]} < height"] == height["values"][at]
    by_column = {one["feature"]: one["contribution"] for one in found["by_column"]}
    assert by_column["height"] == pytest.approx(1.5 * height["weight"] + height["values"][at], abs=1e-12)
    pairs = {" and ".join(one["features"]) for one in shapes["pairs"]}
    assert by_column.keys() == {*NAMES, "colour=a", "(shapes)", *pairs}
    assert found["bias"] + sum(by_column.values()) == pytest.approx(found["margin"], abs=1e-12)
    sizes = [abs(one["contribution"]) for one in found["by_column"]]
    assert sizes == sorted(sizes, reverse=True)


def test_without_shapes_an_explanation_has_no_columns(client: httpx.Client) -> None:
    while client.put("/models/plain", json={"learner": {"shapes": "off"}}).status_code == 202:
        pass
    found = client.post("/models/plain/predict?explain=true", json={"features": {"a": 1}}).json()
    assert "by_column" not in found


@pytest.mark.parametrize(("model", "document", "rows", "why"), NONE, ids=[one[0] for one in NONE])
def test_a_model_without_shapes_says_why(
    client: httpx.Client, model: str, document: dict[str, Any], rows: list[dict[str, int]], why: str
) -> None:
    while client.put(f"/models/{model}", json=document).status_code == 202:
        pass
    if rows:
        observe(client, model, [{"features": row, "label": at % 2} for at, row in enumerate(rows)])
    found = client.get(f"/models/{model}/shapes").json()
    assert found["why_not"].startswith(why)
    assert (found["share"], found["columns"], found["pairs"]) == (None, [], [])


def test_several_classes_have_shapes_each(client: httpx.Client) -> None:
    while client.put("/models/kinds", json={"labels": "classes"}).status_code == 202:
        pass
    assert client.get("/models/kinds/shapes").json()["why_not"].startswith("they are sought")
    rows = drawn(1500, seed=2)
    for row in rows:
        row["label"] = ["low", "high"][row["label"]] if row["features"].get("height", 0.0) < 1.0 else "tall"
    observe(client, "kinds", rows)
    assert client.get("/models/kinds/shapes").json()["code"] == "bad_option"
    assert client.get("/models/kinds/shapes?class=short").json()["code"] == "bad_option"
    exported = {one["class"]: one["shapes"] for one in client.get("/models/kinds/export?format=json").json()["classes"]}
    for name in ("low", "high", "tall"):
        found = client.get(f"/models/kinds/shapes?class={name}").json()
        assert {one["feature"] for one in found["columns"]} == set(NAMES)
        assert {one["hash"]: one["values"] for one in found["columns"]} == {
            one["hash"]: one["values"] for one in exported[name]["columns"]
        }
        for row in rows[:40]:
            answer = client.post("/models/kinds/predict?explain=true", json={"features": row["features"]}).json()
            if answer["label"] == name:
                numbers = {key: x for key, x in row["features"].items() if key in NAMES}
                colours = sum(part["contribution"] for part in answer["contributions"] if part["feature"].startswith("colour"))
                assert answer["margin"] == pytest.approx(added(found, numbers) + colours, rel=1e-9, abs=1e-9)
                assert answer["margin"] == total(answer)


def test_a_pair_with_an_indicator_that_settings_name(client: httpx.Client) -> None:
    named = {"columns": ["height", "colour=a"], "pairs": [["height", "colour=a"]]}
    while client.put("/models/named", json={"learner": {"shapes": named}}).status_code == 202:
        pass
    assert client.put("/models/named", json={"learner": {"shapes": {"columns": []}}}).json()["code"] == "out_of_range"
    observe(client, "named", [{"features": {"width": 1.5}, "label": at % 2} for at in range(200)])
    assert client.get("/models/named/shapes").json()["why_not"].startswith("no column that learner.shapes names")
    observe(client, "named", drawn(3000))
    found = client.get("/models/named/shapes").json()
    assert [one["feature"] for one in found["columns"]] == ["height"]
    (pair,) = found["pairs"]
    assert set(pair["features"]) == {"height", "colour=a"}
    assert sorted(map(len, pair["edges"]))[0] == 0
    for colour in "ab":
        row = {"height": 1.5, "colour": colour}
        told = client.post("/models/named/predict?explain=true", json={"features": row}).json()
        assert told["margin"] == total(told)
        pairs = [part["feature"] for part in told["contributions"] if " and " in part["feature"]]
        assert len(pairs) == (colour == "a")
        assert all("< height" in name and "colour=a" in name for name in pairs)
    assert client.patch("/models/named", json={"shapes": "auto"}).status_code == 409


def test_options_and_unknown_models_are_refused(client: httpx.Client) -> None:
    assert client.get("/models/default/shapes").status_code == 200
    refused = client.get("/models/default/shapes?top=3")
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_option")
    assert client.get("/models/nobody/shapes").status_code == 404
