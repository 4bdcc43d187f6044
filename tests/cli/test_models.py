"""The verbs that show and change models, against a service that really runs."""

from __future__ import annotations

import json
from functools import reduce
from operator import add
from pathlib import Path

import pytest

from riata.cli.show import BLOCKS
from riata.cli.snapshots import shown_age
from riata.client import Riata
from tests.cli.test_verbs import run
from tests.running import Running

ROWS = [{"features": {"age": i % 50, "country": f"c{i % 7}"}, "label": int(i % 7 < 3)} for i in range(400)]


@pytest.fixture(scope="module")
def url(service: Running) -> str:
    with Riata(service.url) as client:
        client.observe(ROWS, wait_applied=True)
    return service.url


def succeeds(url: str, *words: str) -> str:
    result = run(*words, "--url", url)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def refused(url: str, *words: str) -> str:
    result = run(*words, "--url", url)
    assert result.exit_code != 0
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


def test_models_are_created_listed_and_dropped(url: str) -> None:
    create = ("models", "create", "spam", "--learner", "taylor_sketch", "--set", "gamma=3", "--set", "encoder.bits=12")
    assert succeeds(url, *create) == "model 'spam' was created\n"
    assert succeeds(url, *create) == "model 'spam' exists and has these settings\n"
    assert "encoder.bits cannot change" in refused(url, *create[:-1], "encoder.bits=13")
    assert "did you mean 'gamma'" in refused(url, "models", "create", "other", "--learner", "taylor_sketch", "--set", "gama=3")
    listed = {model["name"]: model for model in json.loads(succeeds(url, "models", "list", "--json"))["models"]}
    assert listed["default"]["examples"] == 400
    assert "taylor_sketch" in succeeds(url, "models", "list")
    assert "has learnt 0 events; give --yes" in refused(url, "models", "drop", "spam")
    assert succeeds(url, "models", "drop", "spam", "--yes") == "dropped: model 'spam'\n"
    assert "no model named 'spam'" in refused(url, "models", "drop", "spam", "--yes")


def test_a_challenger_may_learn_the_log_of_its_leader_first(url: str) -> None:
    assert "give --follow too" in refused(url, "models", "create", "faster", "--backfill")
    follow = ("models", "create", "faster", "--follow", "default", "--backfill", "--set", "eta=0.1")
    assert "model 'faster'" in succeeds(url, *follow)
    with Riata(url) as client:
        assert client.metrics(model="faster")["cumulative"]["examples"] == 400
        (change,) = (one for one in client.changes("faster")["changes"] if one["kind"] == "backfilled")
        assert (change["source"]["backfill"], change["source"]["events"]) == ("default", 400)
    live, past = succeeds(url, "models", "challengers", "default").splitlines()
    assert "too few events yet" in live
    assert past.strip().startswith("before it followed: log loss over 400 events: ")
    assert "interval" in past
    tuned = refused(url, "tune", "default", "--gamma", "3")
    assert "riata models create NAME --follow default --backfill --set gravity=VALUE" in tuned
    succeeds(url, "models", "drop", "faster", "--yes")


def test_metrics_are_a_table_and_a_curve(url: str) -> None:
    shown = succeeds(url, "metrics")
    answer = json.loads(succeeds(url, "metrics", "--json"))
    assert f"{answer['cumulative']['log_loss']:.4f}" in shown
    assert "events at the left" in shown
    assert "last 1,000" in shown
    assert "last minute" in shown
    assert answer["recent"]["examples"] == answer["cumulative"]["examples"] == 400
    assert answer["minute"]["seconds"] > 0.0
    assert answer["history"][-1]["faded_base_log_loss"] != answer["history"][-1]["base_log_loss"]
    assert [point["examples"] for point in answer["history"]] == sorted({point["examples"] for point in answer["history"]})
    assert "no model named" in refused(url, "metrics", "none")


def test_weights_are_shown_with_bars(url: str) -> None:
    with Riata(url) as client:
        found = client.weights(top=3, prefix="country=")["weights"]
    shown = succeeds(url, "weights", "--top", "3", "--prefix", "country=")
    assert [word for word in shown.split() if word.startswith("country=")] == [weight["feature"] for weight in found]
    assert f"{found[0]['weight']:+.4f}" in shown
    assert len(json.loads(succeeds(url, "weights", "--json"))["weights"]) == 8


def test_shapes_are_listed_and_those_of_one_column_by_interval(url: str) -> None:
    with Riata(url) as client:
        found = client.shapes()
    (age,) = found["columns"]
    shown = succeeds(url, "shapes")
    assert json.loads(succeeds(url, "shapes", "--json")) == found
    assert "shapes of numeric columns" in shown
    (line,) = [line for line in shown.splitlines() if " age " in line]
    assert f"{age['weight']:+.4g}" in line
    assert f"{age['range']:.3f}" in line
    assert sum(line.count(block) for block in BLOCKS) == len(age["values"])
    of_age = [line.split() for line in succeeds(url, "shapes", "--column", "age").splitlines() if "+" in line or "-" in line]
    second = next(words for words in of_age if words[1] == f"{age['edges'][0]:g}" and words[3] == f"{age['edges'][1]:g}")
    assert second[5] == f"{age['weight'] * age['edges'][0] + age['values'][1]:+.4f}"
    assert second[7] == f"{age['weight'] * age['edges'][1] + age['values'][1]:+.4f}"
    assert "column: did you mean 'age'?" in refused(url, "shapes", "--column", "agee")


def test_a_model_without_shapes_says_why(url: str) -> None:
    with Riata(url) as client:
        client.create_model("flat", {"learner": {"shapes": "off"}})
    assert succeeds(url, "shapes", "flat") == 'model flat has no shapes: learner.shapes is "off"\n'


def test_a_row_is_explained(url: str) -> None:
    answer = json.loads(succeeds(url, "explain", "age=40", "country=c1", "new=1", "--json"))
    shown = succeeds(url, "explain", "age=40", "country=c1", "new=1")
    sentence = f"probability {answer['probability']:.4f}, margin {answer['margin']:+.4f}; 1 of 3 features have no weight"
    assert f"{sentence}; never learnt: new" in " ".join(shown.split())
    values = {"age": 40.0, "country=c1": 1.0, "new": 1.0, "(shapes)": 1.0, "37 < age <= 40": 1.0}
    assert {part["feature"]: part["value"] for part in answer["contributions"]} == values
    assert reduce(add, (part["contribution"] for part in answer["contributions"]), answer["bias"]) == answer["margin"]
    assert "expected NAME=VALUE" in refused(url, "explain", "age")
    assert "given twice" in refused(url, "explain", "age=1", "age=2")


def test_a_model_is_exported_and_imported(url: str, tmp_path: Path) -> None:
    file = tmp_path / "default.riata"
    assert str(file) in succeeds(url, "export", "default", "--out", str(file))
    assert "'copy' continues from the file" in succeeds(url, "import", "copy", str(file))
    with Riata(url) as client:
        row = ROWS[0] | {"label": None}
        assert client.predict(row, model="copy")[0]["margin"] == client.predict(row)[0]["margin"]
    file.write_bytes(file.read_bytes()[:-1])
    assert refused(url, "import", "copy", str(file))
    assert "No such file" in refused(url, "import", "copy", str(tmp_path / "none"))


def test_a_saved_snapshot_is_listed_with_its_note_until_it_is_deleted(url: str) -> None:
    succeeds(url, "models", "create", "kept")
    with Riata(url) as client:
        client.observe(ROWS[:10], model="kept", wait_applied=True)
        assert "saved snapshot" in succeeds(url, "snapshots", "kept", "--new", "--note", "[bold]x")
        made = client.snapshots("kept")["snapshots"][0]
        number, seq = made["generation"], made["seq"]
        listed = " ".join(succeeds(url, "snapshots", "kept").split())
        assert "[bold]x" in listed
        assert "any event" in listed
        assert f"{seq} on" in listed
        assert f"deleted snapshot {number}" in succeeds(url, "snapshots", "kept", "--delete", str(number))
        assert number not in [one["generation"] for one in client.snapshots("kept")["snapshots"]]
    assert "no snapshot" in refused(url, "snapshots", "kept", "--delete", str(number))


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (12_000, "3 h 20 min"), (86_400 * 40 + 7, "40 d 0 h")]
)
def test_an_age_is_shown_in_two_units(seconds: float, shown: str) -> None:
    assert shown_age(seconds) == shown
