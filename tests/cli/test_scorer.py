"""The portable scorers give the margins of a served model, bit for bit."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas
import pytest

from riata import Model
from riata.base.document import write_document
from riata.base.errors import BadInput
from riata.scorer import FILES, FOLDER, files_of, model_of
from riata.scorer.riata_scorer import Scorer
from tests.refused import refused

CROSSES = [["country", "user"], ["tags", "age"], ["country", "tags", "user"]]
ENCODERS: dict[str, dict[str, Any]] = {
    "default": {},
    "few slots": {"bits": 4},
    "lengths": {"normalise": "l2", "hash_key": 2**63 - 1},
    "crosses": {"crosses": CROSSES, "hash_key": 12345678901234567},
    "crosses with a penalty": {"crosses": CROSSES, "cross_scale": 0.3},
    "all": {"crosses": CROSSES, "bits": 9, "normalise": "l2"},
}


def features(chance: random.Random) -> dict[str, Any]:
    """A row with every kind of feature, names of every length and script, zeros and tiny values."""
    row: dict[str, Any] = {
        "age": chance.choice([0, 41, 41.5, -1e-3, 123456.789]),
        "country": chance.choice(["de", "fr", "österreich", "a longer name of a country", "", "日本"]) or "none",
        "tags": chance.sample(["new", "mobile", "x", "eightchr", "eightchr9", "🙂"], chance.randrange(4)),
        "user": {"city": chance.choice(["paris", "rome"]), "visits": chance.randrange(5), "member": chance.random() < 0.5},
        "nothing": None,
        "flag": chance.random() < 0.5,
        f"n{chance.randrange(40)}": chance.gauss(0.0, 10.0),
        "tiny": 5e-324 if chance.random() < 0.3 else 1.0,
    }
    return {name: value for name, value in row.items() if chance.random() < 0.8}


def measured(chance: random.Random) -> dict[str, Any]:
    """A row of numbers, some of them absent or in a namespace, with few other features."""
    row = {
        "age": chance.randrange(-3, 4),
        "price": round(chance.gauss(0.0, 1.0), 1),
        "user": {"visits": chance.expovariate(1.0), "balance": 1e9 * chance.gauss(0.0, 1.0)},
        "country": chance.choice(["de", "fr"]),
    }
    return {name: value for name, value in row.items() if chance.random() < 0.9}


def label_of(row: dict[str, Any], chance: random.Random) -> int:
    """A label by a shape of one column and a product of two."""
    margin = 2.0 * abs(row.get("price", 0.0)) - 1.5 + row.get("age", 0) * row.get("user", {}).get("visits", 0.0)
    return int(chance.random() < 1.0 / (1.0 + math.exp(-margin)))


def learnt(encoder: dict[str, Any], shapes: Any = "off") -> tuple[dict[str, Any], list[dict[str, Any]], list[float]]:
    """The readable export of a model, rows, and its margins of them."""
    shaped = shapes != "off"
    chance = random.Random(7)
    scaled = {"scale": "counts"} if "cross_scale" in encoder else {}
    model = Model({"encoder": encoder, "learner": {**scaled, "shapes": shapes, **({} if shaped else {"far_values": "off"})}})
    drawn, count = (measured, 1100) if shaped else (features, 300)
    known = [drawn(chance) for _ in range(count)]
    model.learn_many([{"features": row, "label": label_of(row, chance) if shaped else chance.randrange(2)} for row in known])
    rows = [*known[-60:], {}] if shaped else []  # edges of intervals are values of learnt rows
    rows += [drawn(chance) for _ in range(60)]
    margins = [one["margin"] for one in model.predict_many([{"features": row} for row in rows])]
    weights = model._state.learner.weights()
    assert (weights.shapes is not None) == shaped
    export = exported(model)
    if weights.shapes is not None:
        export["shapes"] = weights.shapes.document()
    if weights.apart is not None:
        export["limits"] = weights.apart.limits()
    return export, rows, margins


def exported(model: Model) -> dict[str, Any]:
    """The readable export of a model, without its shapes."""
    weights = model._state.learner.weights()
    listed = [{"slot": slot, "weight": beta} for slot, beta in zip(weights.slot.tolist(), weights.beta.tolist(), strict=True)]
    return {
        "model": {"name": "m", "version": 1, "seq": 300},
        "config": write_document(model._state.config),
        "link": weights.link,
        "bits": weights.bits,
        "intercept": weights.intercept,
        "weights": listed,
    }


@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=list(ENCODERS))
def test_both_scorers_give_the_margins_of_the_service(tmp_path: Path, encoder: dict[str, Any]) -> None:
    export, rows, margins = learnt(encoder)
    assert model_of(export)["format"] == 2
    assert len(set(margins)) > 50  # the rows differ in what counts
    require_margins(tmp_path, export, rows, margins)


PAIRS = {"pairs": [["age", "country=de"], ["price", "user^visits"]]}


@pytest.mark.parametrize(
    ("encoder", "named"),
    [({}, "auto"), ({"normalise": "l2"}, "auto"), ({"bits": 4}, "auto"), ({}, PAIRS)],
    ids=["default", "lengths", "few slots", "an indicator"],
)
def test_both_scorers_give_the_margins_of_shapes(tmp_path: Path, encoder: dict[str, Any], named: Any) -> None:
    export, rows, margins = learnt(encoder, named)
    shapes = export["shapes"]
    assert model_of(export)["format"] == (6 if "limits" in export else 3)
    assert len(shapes["columns"]) >= 4
    assert shapes["pairs"]
    linear = {name: value for name, value in export.items() if name != "shapes"}
    assert sum(Scorer(model_of(linear)).margin(row) == margin for row, margin in zip(rows, margins, strict=True)) == 0
    edges = {edge for column in shapes["columns"] for edge in column["edges"]}
    on_edges = sum(value in edges for row in rows for _, value in Scorer(model_of(export))._row(row))
    assert on_edges > 20
    require_margins(tmp_path, export, rows, margins)


def test_both_scorers_bound_probabilities_but_not_margins(tmp_path: Path) -> None:
    export, rows, margins = learnt({})
    bound = sorted(abs(margin) for margin in margins)[len(margins) // 2]
    bounded = export | {"bounds": [-bound, bound + 1.0]}
    assert model_of(bounded)["format"] == 3
    held = [min(max(margin, -bound), bound + 1.0) for margin in margins]
    scorer = Scorer(model_of(bounded))
    assert [scorer.probability(row) for row in rows] == pytest.approx([1.0 / (1.0 + math.exp(-m)) for m in held], rel=1e-14)
    require_margins(tmp_path, bounded, rows, margins)


def test_both_scorers_set_values_apart(tmp_path: Path) -> None:
    missing = [
        {"feature": "age", "values": [-3, 1.5]},
        {"feature": "user^visits", "values": [7]},
        {"feature": "*", "values": [2]},
    ]
    model, chance = Model({"learner": {"missing": missing}}), random.Random(5)
    rows = [measured(chance) for _ in range(1100)]
    for row in rows:
        row.setdefault("user", {})["visits"] = chance.choice([7, 2, chance.random()])
    model.learn_many([{"features": row, "label": label_of(row, chance)} for row in rows])
    margins = [one["margin"] for one in model.predict_many([{"features": row} for row in rows])]
    weights = model._state.learner.weights()
    assert weights.shapes is not None
    assert weights.apart is not None
    export = exported(model) | {"shapes": weights.shapes.document(), "apart": weights.apart.document()}
    assert model_of(export)["format"] == 4
    kept = {name: value for name, value in export.items() if name != "apart"}
    assert sum(Scorer(model_of(kept)).margin(row) == margin for row, margin in zip(rows, margins, strict=True)) < 500
    require_margins(tmp_path, export, rows, margins)


@pytest.mark.parametrize("kind", ["truncated_gradient", "ftrl_proximal", "taylor_sketch"])
def test_both_scorers_take_what_was_found(tmp_path: Path, kind: str) -> None:
    model, chance = Model({"learner": {"kind": kind}}), random.Random(6)
    rows = [measured(chance) for _ in range(1100)]
    for row in rows:
        row["price"] = (
            9999.0
            if chance.random() < 0.05
            else row.get("price", 0.1) * (chance.uniform(1e6, 2e6) if chance.random() < 0.03 else 1.0)
        )
    model.learn_many([{"features": row, "label": label_of(row, chance)} for row in rows])
    rows += [{"price": value} for value in (1e9, -1e9, 9999.0, 9998.0)]
    margins = [one["margin"] for one in model.predict_many([{"features": row} for row in rows])]
    weights = model._state.learner.weights()
    assert weights.apart is not None
    apart = weights.apart.document()
    assert [one["value"] for one in apart] == [9999.0]
    export = exported(model) | {"apart": apart, "limits": weights.apart.limits()}
    if weights.shapes is not None:
        export["shapes"] = weights.shapes.document()
    assert model_of(export)["format"] == 6
    without = {name: value for name, value in export.items() if name != "limits"}
    scorer = Scorer(model_of(without))
    assert 10 < sum(scorer.margin(row) != margin for row, margin in zip(rows, margins, strict=True)) < 100
    require_margins(tmp_path, export, rows, margins)


def in_javascript(tmp_path: Path, document: dict[str, Any], rows: list[dict[str, Any]], asked: str) -> list[Any]:
    """What the scorer in JavaScript gives for each row."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node to run the scorer in JavaScript")
    for name in FILES:
        shutil.copyfile(FOLDER / name, tmp_path / name)
    (tmp_path / "in.json").write_text(json.dumps({"model": document, "rows": rows}))
    (tmp_path / "run.mjs").write_text(
        'import { Scorer } from "./riata_scorer.mjs"; import { readFileSync } from "node:fs";'
        'const { model, rows } = JSON.parse(readFileSync("in.json", "utf8")); const scorer = new Scorer(model);'
        f"console.log(JSON.stringify(rows.map((row) => {asked})));"
    )
    done = subprocess.run([node, "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=900, check=True)
    found: list[Any] = json.loads(done.stdout)
    return found


KINDS = {
    "age": "number",
    "zip": "category",
    "on": "boolean",
    "when": "time",
    "s": "unix_s",
    "ms": "unix_ms",
    "user^zip": "category",
    "tags": "list",
}
VALUES: list[Any] = [
    0, 5, -7, 0.5, 1e-5, 1.5e-7, 1e16, 94107, 94107.0, True, False, None, "5", " 7 ", "+.5", "1e3", "1.0", "94107", "01067", "NA",
    "\\N", "#DIV/0!", "true", "FALSE", "yes", "N", "many", "", "20786.5", "2026-11-29", "2026-02-30", "2026-11-29T12:00:00Z",
    "2026/11/29", "2026/11-29", "2026/11/29 07:30",
    "2026-11-29 14:00:00+02:00", "1969-07-20T20:17:40.5-05:30", "2026-11-29T23:59:60Z", "2026-11-29T12:00", "9999-12-31", 20786.5,
    1795910400, 1795910400123, ["x", "y"], [1, True, "z"], '["x",1, false]', "[x", "[null]", "[]",
]  # fmt: skip


def test_both_scorers_read_values_by_the_kinds_of_their_fields(tmp_path: Path) -> None:
    declared = Model({"encoder": {"fields": KINDS}, "learner": {"shapes": "off"}})
    rows: list[dict[str, Any]] = [
        {"user": {"zip": value}} if name == "user^zip" else {name: value}
        for name in [*KINDS, "met", "new"]
        for value in VALUES
        if not (isinstance(value, list) and name not in ("zip", "tags"))
        and not (value == 1e16 and name not in ("zip", "user^zip"))
    ]
    chance = random.Random(3)
    for _ in range(2):
        declared.learn_many([{"features": row, "label": chance.randrange(2)} for row in [{"met": "x"}, *rows]])
    margins = [one["margin"] for one in declared.predict_many([{"features": row} for row in rows])]
    export = exported(declared) | {"fields": declared.fields}
    assert model_of(export)["format"] == 5
    by_value = Scorer({**model_of(export), "fields": {}})
    smaller = [(row, margin) for row, margin in zip(rows, margins, strict=True) if not {"zip", "tags"} & row.keys()]
    assert sum(by_value.margin(row) != margin for row, margin in smaller if "user" not in row) > 90
    require_margins(tmp_path, export, rows, margins)


def test_a_model_with_a_text_among_its_fields_has_no_portable_scorer() -> None:
    declared = Model({"encoder": {"fields": {"body": "text"}}})
    declared.learn_one({"body": "two words"}, 1)
    with pytest.raises(BadInput, match="this model has the texts body"):
        model_of(exported(declared) | {"fields": declared.fields})


def require_margins(tmp_path: Path, export: dict[str, Any], rows: list[dict[str, Any]], margins: list[float]) -> None:
    """Fail unless both scorers give these margins."""
    document = json.loads(json.dumps(model_of(export)))
    scorer = Scorer(document)
    assert [scorer.margin(row) for row in rows] == margins
    found = in_javascript(tmp_path, document, rows, "[scorer.margin(row), scorer.probability(row)]")
    assert [margin for margin, _ in found] == margins
    assert [p for _, p in found] == pytest.approx([scorer.probability(row) for row in rows], rel=1e-14)


@pytest.mark.parametrize("shaped", [False, True])
def test_both_scorers_give_the_margins_and_probabilities_of_several_classes(tmp_path: Path, shaped: bool) -> None:
    chance = random.Random(3)
    names = ["cheap", "middle", "dear", "10"]
    model = Model({"labels": "classes", "learner": {"shapes": "auto" if shaped else "off"}})
    known = [measured(chance) for _ in range(700)]
    model.learn_many([{"features": row, "label": names[min(3, int(2 * abs(row.get("price", 0.0))))]} for row in known])
    weights = model._state.learner.weights()
    assert (weights.cells is not None) == shaped
    heads = [
        {
            "class": name,
            "intercept": head.intercept,
            "weights": [
                {"slot": slot, "weight": beta} for slot, beta in zip(head.slot.tolist(), head.beta.tolist(), strict=True)
            ],
            **({} if head.shapes is None else {"shapes": head.shapes.document()}),
        }
        for name, head in zip(model._state.config.classes.names, weights.heads or (), strict=True)
    ]
    assert weights.apart is not None
    found_apart = {"apart": weights.apart.document(), "limits": weights.apart.limits()}
    export = {**exported(model), **found_apart, "bounds": list(weights.bounds), "classes": heads}
    document = json.loads(json.dumps(model_of(export)))
    assert document["format"] == 6
    scorer, rows = Scorer(document), [*known[-60:], {}]
    answers = model.predict_many([{"features": row} for row in rows])
    for row, answer in zip(rows, answers, strict=True):
        assert scorer.margins(row)[answer["label"]] == max(scorer.margins(row).values()) == answer["margin"]
        assert scorer.probabilities(row) == pytest.approx(answer["probabilities"], rel=1e-12)
    with pytest.raises(ValueError, match="several classes"):
        scorer.margin({})
    found = in_javascript(tmp_path, document, rows, "[scorer.margins(row), scorer.probabilities(row)]")
    assert [margins for margins, _ in found] == [scorer.margins(row) for row in rows]
    for row, (_, probabilities) in zip(rows, found, strict=True):
        assert probabilities == pytest.approx(scorer.probabilities(row), rel=1e-12)


def test_mlflow_loads_the_directory_and_gives_the_same_margins(tmp_path: Path) -> None:
    pyfunc = pytest.importorskip("mlflow.pyfunc", reason="mlflow is not installed")
    export, rows, margins = learnt({"crosses": [["country", "tags"]]})
    for name, content in files_of(model_of(export), mlflow=True).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    loaded = pyfunc.load_model(str(tmp_path))
    assert [one["margin"] for one in loaded.predict(rows)] == margins
    flat = [{name: value for name, value in row.items() if name in ("age", "country", "flag")} for row in rows]
    table = pandas.DataFrame(flat, index=range(100, 160))
    found = loaded.predict(table)
    scorer = Scorer(model_of(export))
    assert list(found.index) == list(table.index)
    assert found["margin"].tolist() == [scorer.margin(row) for row in flat]
    assert found["probability"].tolist() == [scorer.probability(row) for row in flat]
    with pytest.raises(ValueError, match="expected a number"):
        loaded.predict([{"a": b"bytes"}])


def test_a_model_that_a_scorer_cannot_score_is_refused_with_the_reason() -> None:
    export, rows, _ = learnt({})
    for encoder, why in (({"text": ["subject"]}, "cannot split texts into words"), ({"crosses": [["a", "a"]]}, "with itself")):
        config = {**export["config"], "encoder": {**export["config"]["encoder"], **encoder}}
        with refused(BadInput, "not_portable", match=why):
            model_of({**export, "config": config})
    assert Scorer(model_of(export, posterior=True)).probability(rows[0]) is None
    with pytest.raises(ValueError, match="format 1"):
        Scorer({**model_of(export), "format": 1})
    for wrong in ({"a": [1]}, {"a": 1e16}, {"a": {"b": {"c": 1}}}):
        with pytest.raises(ValueError, match=r"expected a number|larger than"):
            Scorer(model_of(export)).margin(wrong)
