"""Curves in a running service: learnt, predicted, explained, killed, replayed, and taken to another service."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from riata.base.errors import RiataError
from riata.client import Riata
from tests.cli.test_verbs import run
from tests.running import Running
from tests.trees.hand_made import DOWN, FLAT, UP, two_splits

SHAPES = {"ecg#1": UP, "ecg#3": DOWN, "ecg#4": FLAT}


def test_curves_are_learnt_explained_killed_replayed_and_exported(tmp_path: Path) -> None:
    chance = random.Random(7)
    tree = tmp_path / "ecg.tree"
    tree.write_bytes(two_splits().encode())
    rows = []
    for _ in range(300):
        leaf, points = chance.choice(list(SHAPES.items()))
        curve = [point + chance.gauss(0.0, 0.05) for point in points]
        rows.append({"features": {"ecg": curve, "age": chance.randrange(20, 80)}, "label": int(leaf == "ecg#3")})
    with Running(tmp_path / "data") as served:
        served.start()
        made = run("models", "create", "heart", "--curve", f"ecg={tree}", "--url", served.url)
        assert made.exit_code == 0, made.output
        refused = run("models", "create", "other", "--curve", f"ecg={tmp_path / 'none.tree'}", "--url", served.url)
        assert (refused.exit_code, "FIELD=FILE" in refused.stderr) == (2, True)
        with Riata(served.url) as riata:
            assert riata.observe(rows[:200], model="heart").accepted == 200
            for one in rows[200:]:  # single rows, which are read together where they can be
                riata.observe([one], model="heart")
            riata.predict([{"features": {"age": 1}}], model="heart", min_seq=301)
            told = riata.explain([{"features": {"ecg": DOWN}}], model="heart")[0]
            assert [one["feature"] for one in told["contributions"]] == ["ecg#3"]
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
            with pytest.raises(RiataError) as unknown:
                riata.create_model("third", {"encoder": {"curves": {"ecg": "0" * 32}}})
            assert unknown.value.code == "unknown_tree"
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
