"""`riata posterior`: a file of rows, or an exported model, becomes a table, a picture and a model."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.test_verbs import run, succeeds

SMALL = ("--set", "particles=200", "--set", "start=100")


def written(folder: Path, rows: int = 400) -> Path:
    chance, path = random.Random(3), folder / "rows.ndjson"
    lines = []
    for _ in range(rows):
        dose, country = chance.gauss(0.0, 1.0), chance.choice(["de", "fr"])
        label = int(chance.random() < 1.0 / (1.0 + math.exp(-1.5 * dose)))
        lines.append(json.dumps({"features": {"dose": dose, "country": country}, "label": label}))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_file_becomes_a_table_a_picture_and_a_model(tmp_path: Path) -> None:
    plot, out = tmp_path / "m.svg", tmp_path / "m.riata"
    done = succeeds("posterior", str(written(tmp_path)), *SMALL, "--plot", str(plot), "--out", str(out))
    assert "posterior of 4 weights after 400 events" in done.stdout
    assert "97.5 %" in done.stdout
    assert "singular_start: in the first rows country=" in done.stdout
    panels = [text.text for text in ET.parse(plot).iter("{http://www.w3.org/2000/svg}tspan")]
    assert {"dose", "intercept", "country=de", "country=fr"} <= set(panels)
    again = json.loads(run("posterior", str(out), "--json").stdout)
    told = json.loads(run("posterior", str(written(tmp_path)), *SMALL, "--json").stdout)
    assert told == again
    weights = {one["name"]: one for one in told["weights"]}
    assert weights["dose"]["low"] < weights["dose"]["mean"] < weights["dose"]["high"]
    assert weights["dose"]["positive"] > 0.99
    assert told["dependent_feature"] in ("country=de", "country=fr")
    assert "posterior_doubtful: 2 weights are hardly limited" in done.stdout  # only their difference is determined
    (doubt,) = told["warnings"]
    assert doubt.endswith(("country=de, country=fr", "country=fr, country=de"))
    assert told["draws"] == 200


def test_too_many_features_are_refused_by_name_and_with_the_way_out(tmp_path: Path) -> None:
    out = tmp_path / "m.riata"
    done = run("posterior", str(written(tmp_path)), *SMALL, "--set", "features_max=2", "--out", str(out))
    assert done.exit_code == 2
    assert "too_many_features" in done.stderr
    assert "--set features_max=N takes up to 32" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("level", ["0", "1", "95"])
def test_a_level_that_is_no_probability_is_refused(level: str, tmp_path: Path) -> None:
    done = run("posterior", str(written(tmp_path, 5)), "--level", level)
    assert (done.exit_code, "between 0 and 1" in done.stderr) == (2, True)


def test_an_exported_model_without_a_posterior_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "other.riata"
    succeeds("fit", "--online", str(written(tmp_path, 20)), "--bits", "10", "--out", str(out))
    done = run("posterior", str(out))
    assert (done.exit_code, "particle_filter" in done.stderr) == (1, True)
    assert run("posterior", str(out), "--set", "gamma=2").exit_code == 2
