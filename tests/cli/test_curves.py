"""Curves in a running service: learnt, predicted, explained, killed, replayed, and taken to another service."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata import Model
from riata.base.errors import BadInput, RiataError
from riata.client import Riata
from tests.cli.test_verbs import run, succeeds
from tests.refused import refused
from tests.running import Running
from tests.trees.hand_made import DOWN, FLAT, UP, text_of, two_splits

SHAPES = {"ecg#1": UP, "ecg#3": DOWN, "ecg#4": FLAT}


def beats(n: int, curve: Callable[[list[float]], Any] = list) -> list[dict[str, Any]]:
    """Flat rows, of which those that go down have the label 1; some have no curve."""
    chance = random.Random(7)
    shapes = [chance.choice(list(SHAPES.values())) for _ in range(n)]
    made = [curve([round(point + chance.gauss(0.0, 0.05), 4) for point in shape]) for shape in shapes]
    rows = [{"ecg": one, "age": 20 + i % 50, "sick": shapes[i] == DOWN} for i, one in enumerate(made)]
    return [{**row, "ecg": None} if i % 9 == 4 else row for i, row in enumerate(rows)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "ecg.tree"
    path.write_bytes(two_splits().encode())
    return path


def examples(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    given = [({key: value for key, value in row.items() if value is not None}, row["sick"]) for row in rows]
    return [{"features": {key: value for key, value in row.items() if key != "sick"}, "label": int(sick)} for row, sick in given]


def test_files_and_tables_with_curves_are_the_same_model_without_a_service(tmp_path: Path, tree: Path) -> None:
    pandas = pytest.importorskip("pandas")
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    rows = beats(60)
    frame = pandas.DataFrame(beats(60, np.array))
    frame.to_parquet(tmp_path / "beats.parquet")
    pandas.DataFrame(rows).to_csv(tmp_path / "beats.csv")
    (tmp_path / "beats.ndjson").write_text("\n".join(map(json.dumps, examples(rows))))
    states = set()
    for suffix in ("csv", "parquet", "ndjson"):
        path, options = tmp_path / f"beats.{suffix}", [] if suffix == "ndjson" else ["--label", "sick"]
        told = run(
            "fit", "--online", str(path), "--curve", f"ecg={tree}", "--bits", "10", "--out", f"{path}.riata", "--json", *options
        )
        assert told.exit_code == 0, told.output
        assert ("curve     ecg" in told.stderr) == (suffix != "ndjson")
        states.add(json.loads(told.stdout)["out"]["state"])
    assert len(states) == 1
    config = {"encoder": {"bits": 10, "curves": {"ecg": text_of(two_splits())}}, "labels": "0/1"}
    found = set()
    for table in (frame, polars.DataFrame(rows), pyarrow.Table.from_pylist(rows), rows):
        model = Model(config)
        assert model.learn_many(table, label="sick") == 60
        found.add(tuple(one["margin"] for one in model.predict_many(table, label="sick")))
    assert len(found) == 1
    (margins,) = found
    predicted = run("predict", str(tmp_path / "beats.csv"), "--label", "sick", "--model-file", str(tmp_path / "beats.csv.riata"))
    assert tuple(json.loads(line)["margin"] for line in predicted.stdout.splitlines()) == margins
    optimum = run(
        "fit", "--batch", str(tmp_path / "beats.ndjson"), "--curve", f"ecg={tree}", "--bits", "10", "--gamma", "1", "--json"
    )
    assert optimum.exit_code == 0, optimum.output
    assert json.loads(optimum.stdout)["solutions"][0]["non_zeros"] > 0


@pytest.mark.parametrize("gap", [float("nan"), None, float("inf")])
def test_a_curve_of_a_table_with_a_missing_point_is_refused_by_row_and_column(gap: float | None) -> None:
    model = Model({"encoder": {"bits": 10, "curves": {"ecg": text_of(two_splits())}}})
    with refused(BadInput, "not_finite", match="row 1, column 'ecg'"):
        model.learn_many([{"ecg": UP, "label": 1}, {"ecg": [1.0, gap, 2.0], "label": 1}])
    assert model.learn_many([{"ecg": UP, "label": 1}, {"ecg": None, "label": 1}]) == 2


def test_a_cell_that_is_no_list_of_numbers_is_refused_with_its_line(tmp_path: Path, tree: Path) -> None:
    path = tmp_path / "beats.csv"
    path.write_text('ecg,label\n"[0, 1, 2]",1\n"[0, nan]",0\n"[[2], [1]]",0\n')
    told = run("fit", "--online", str(path), "--curve", f"ecg={tree}", "--bits", "10")
    assert (told.exit_code, "line 3: " in told.output, "[bad_curve]" in told.output) == (1, True, True), told.output
    path.write_text('ecg,label\n"[0, NaN]",1\n')
    told = run("fit", "--online", str(path), "--curve", f"ecg={tree}", "--labels", "0/1")
    assert (told.exit_code, "no row can be learnt" in told.stderr, "column 'ecg'" in told.stderr) == (1, True, True), told.output
    path.write_text('ecg,label\n"[0, 1]",1\n')
    none = run("fit", "--online", str(path), "--curve", f"ecg={tmp_path / 'none.tree'}", "--labels", "0/1")
    assert (none.exit_code, "FIELD=FILE" in none.stderr) == (2, True)


def test_curves_are_learnt_explained_killed_replayed_and_exported(tmp_path: Path, tree: Path) -> None:
    rows = examples(beats(300))
    with Running(tmp_path / "data") as served:
        served.start()
        succeeds("models", "create", "heart", "--curve", f"ecg={tree}", "--url", served.url)
        said = run("models", "create", "other", "--curve", f"ecg={tmp_path / 'none.tree'}", "--url", served.url)
        assert (said.exit_code, "FIELD=FILE" in said.stderr) == (2, True)
        with Riata(served.url) as riata:
            assert riata.observe(rows[:200], model="heart").accepted == 200
            for one in rows[200:]:  # single rows, which are read together where they can be
                riata.observe([one], model="heart")
            riata.predict([{"features": {"age": 1}}], model="heart", min_seq=301)
            told = riata.explain([{"features": {"ecg": DOWN}}], model="heart")[0]
            assert [one["feature"] for one in told["contributions"]] == ["ecg#3", "(shapes)"]
            assert told["contributions"][0]["contribution"] > 0.0
            answers = riata.predict([{"features": {"ecg": curve}} for curve in SHAPES.values()], model="heart")
            assert answers[1]["probability"] > max(answers[0]["probability"], answers[2]["probability"])
            (known,) = riata.trees("heart")["trees"]
            assert (known["field"], known["distance"], known["channels"], known["length"]) == ("ecg", "dtw", 1, None)
            paths = {leaf["feature"]: leaf["path"] for leaf in known["leaves"]}
            assert paths["ecg#3"] == "nearer to the right curve of split 0 and nearer to the left curve of split 2"
            config = riata.model("heart")["config"]
            assert config["encoder"]["curves"] == {"ecg": known["digest"]}
            again = riata.create_model("second", {"encoder": {"curves": {"ecg": known["digest"]}}})
            assert again["created"]
            with refused(RiataError, "unknown_tree"):
                riata.create_model("third", {"encoder": {"curves": {"ecg": "0" * 32}}})
            exported = riata.export("heart")
            weights = riata.weights("heart")["weights"]
        served.kill()
        served.start()
        with Riata(served.url) as riata:
            assert (
                riata.predict([{"features": {"ecg": curve}} for curve in SHAPES.values()], model="heart")[1]["margin"]
                == (answers[1]["margin"])
            )
            riata.snapshot_now("heart")
        assert served.stop() == 0
        replayed = run("replay", "--data", str(tmp_path / "data"), "--model", "heart", "--verify")
        assert (replayed.exit_code, "at event 301: equal" in replayed.output) == (0, True), replayed.output
    with Running(tmp_path / "elsewhere") as other:
        other.start()
        with Riata(other.url) as riata:
            assert riata.import_("heart", exported)["created"]
            assert riata.weights("heart")["weights"] == weights
            assert riata.predict([{"features": {"ecg": DOWN}}], model="heart")[0]["margin"] == answers[1]["margin"]
            assert riata.trees("heart") == {"trees": [known]}
