"""`riata.Model`: a model inside this process has the bits of the service's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata import Model
from riata.base.errors import BadInput
from riata.wire.given import OtherLabels
from tests.cli.test_verbs import run
from tests.client.test_tables import COLUMNS, SENT

ROWS = [{"features": {"x": i % 7 / 4, "word": "ab"[i % 2]}, "label": int(i % 3 == 0)} for i in range(300)]
SMALL = {"encoder": {"bits": 12}}


@pytest.mark.parametrize("kind", ["truncated_gradient", "ftrl_proximal"])
def test_it_has_the_bits_of_a_file_that_was_learnt_and_answers_like_it(kind: str, tmp_path: Path) -> None:
    lines, out = tmp_path / "rows.ndjson", tmp_path / "m.riata"
    lines.write_text("\n".join(map(json.dumps, ROWS)))
    done = run("fit", "--online", str(lines), "--learner", kind, "--set", "encoder.bits=12", "--out", str(out), "--json")
    digest = json.loads(done.stdout)["out"]["state"]
    config = {**SMALL, "labels": "0/1", "learner": {"kind": kind}}
    one, many = Model(config), Model(config)
    assert many.learn_many(ROWS) == 300
    for row in ROWS:
        assert one.predict_one({"x": 1})["margin"] is not None
        one.learn_one(row["features"], row["label"])
    assert one.digest == many.digest == digest
    assert one.metrics["cumulative"]["examples"] == 300
    assert many._state.learner.weights().shaped_columns == (kind == "truncated_gradient")

    again = Model.from_file(out)
    answers = again.predict_many([row["features"] for row in ROWS])
    assert answers == many.predict_many(ROWS) == [many.predict_one(row["features"]) for row in ROWS]
    assert len({row["margin"] for row in answers}) > 5
    again.learn_many(ROWS[:3])
    many.learn_many(ROWS[:3])
    assert Model.from_file(again.save(tmp_path / "again.riata")).digest == many.digest


def test_tables_are_learnt_as_rows() -> None:
    table, rows = Model(SMALL), Model(SMALL)
    assert table.learn_many(COLUMNS, label="churned") == rows.learn_many(SENT) == 3
    assert table.digest == rows.digest
    assert table.predict_many(COLUMNS, label="churned") == rows.predict_many(SENT)


def test_a_row_at_fault_is_named_and_nothing_is_learnt() -> None:
    model = Model(SMALL)
    before = model.digest
    with pytest.raises(BadInput, match=r"row 1: features\.x: value too large"):
        model.learn_many([{"x": 1, "label": 1}, {"x": 1e16, "label": 1}])
    with pytest.raises(BadInput, match="label"):
        model.learn_one({"x": 1}, 7)
    assert model.digest == before


def test_a_row_of_which_no_field_is_known_is_refused_if_the_model_says_so() -> None:
    model = Model({"unknown_rows": "refuse"})
    model.learn_one({"zip": "01"}, 1)
    assert model.predict_one({"zip": "02"})["unknown_features"] == 1
    with pytest.raises(BadInput, match="the model knows none of plan=x"):
        model.predict_one({"plan": "x"})


@pytest.mark.parametrize("learner", [{"second_order": False}, {"kind": "ftrl_proximal"}, {"kind": "taylor_sketch"}])
def test_the_origin_of_the_days_of_a_time_has_no_part_in_the_loss(learner: dict[str, Any]) -> None:
    """A time is days since 1970; days since the first row are learnt as well and no better.

    The member of second order gains from it only if the days are few, so it has its own bound.
    """
    rng = np.random.default_rng(1)
    day, other = np.sort(rng.uniform(0.0, 90.0, 4000)), rng.normal(size=4000)
    label = rng.random(4000) < 1.0 / (1.0 + np.exp(0.5 - 0.8 * other - 0.02 * (day - 45.0)))
    loss = []
    for origin in (0.0, 20_700.0):
        model = Model({"learner": learner})
        model.learn_many({"when": (day + origin).tolist(), "x": other.tolist(), "label": label.astype(float).tolist()})
        loss.append(model.metrics["cumulative"]["log_loss"])
    assert loss[1] < 1.001 * loss[0]
    if learner == {"second_order": False}:
        of_both = Model()
        of_both.learn_many({"when": (day + 20_700.0).tolist(), "x": other.tolist(), "label": label.astype(float).tolist()})
        assert of_both.metrics["cumulative"]["log_loss"] < loss[1]


def test_a_dictionary_in_a_row_is_a_namespace() -> None:
    model = Model()
    model.learn_many([{"user": {"age": 41.5, "gone": None}, "label": 1}, {"features": {"user": {"age": 2.0}}, "label": 0}])
    nothing = model.predict_one({"never": 1.0})["margin"]
    assert model.predict_one({"user": {"age": 1.0}})["margin"] != nothing
    assert model.predict_one({"age": 1.0})["margin"] == nothing


def test_a_sorted_table_of_another_setting_teaches_nothing() -> None:
    model = Model()
    signs = {"a": [i % 7 for i in range(12_000)], "label": [1] * 11_000 + [-1] * 1000}
    with pytest.raises(OtherLabels, match="the labels are -1 and 1"):
        model.learn_many(signs)
    assert model.metrics["cumulative"]["examples"] == 0
    with pytest.raises(OtherLabels, match="the labels are -1 and 1"):
        model.learn_many([{"a": a, "label": label} for a, label in zip(*signs.values(), strict=True)])
    assert model.metrics["cumulative"]["examples"] == 0
    assert Model({"labels": "-1/+1"}).learn_many(signs) == 12_000
    assert model.learn_many(signs, positive="1.0") == 12_000
    with pytest.raises(BadInput, match="no label has this value"):
        model.learn_many(signs, positive="yes")
