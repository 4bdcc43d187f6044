"""`riata groups`: groups by name, the report, the drawing, and the model that is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from riata.run.candidates.exports import read_export
from tests.cli.test_verbs import run, succeeds

QUICK = ("--gamma", "2", "--k", "0.9", "--bits", "18")


def rows(tmp_path: Path) -> Path:
    """Rows with a curve t00 .. t11 whose points 4 to 7 depend on the label, a colour, and a number."""
    rng, lines = np.random.default_rng(5), []
    for i in range(300):
        curve = rng.standard_normal(12)
        curve[4:8] += 1.2 * (i % 2)
        features = {f"t{j:02d}": round(float(x), 3) for j, x in enumerate(curve)} | {"z": round(float(rng.random()), 3)}
        lines.append(json.dumps({"features": {**features, "colour": ["red", "green"][rng.integers(2)]}, "label": i % 2}))
    path = tmp_path / "rows.ndjson"
    path.write_text("\n".join(lines) + "\n")
    return path


def report(*arguments: str) -> dict[str, Any]:
    done = succeeds("groups", *arguments, "--json")
    return dict(json.loads(done.stdout))


def test_the_run_that_tells_the_labels_apart_is_found_reported_drawn_and_written(tmp_path: Path) -> None:
    path, svg, out = rows(tmp_path), tmp_path / "g.svg", tmp_path / "m.riata"
    toml = tmp_path / "groups.toml"
    toml.write_text('sensor = "t{00..12}"\n[colour]\nfeatures = "colour=*"\n')
    found = report(str(path), "--groups", str(toml), *QUICK, "--svg", str(svg), "--out", str(out), "--learner", "taylor_sketch")
    assert found["kkt"] <= 1e-7
    assert found["unnamed"] == 0
    assert [(one["name"], one["features"], one["absent"]) for one in found["groups"]] == [("sensor", 12, 1), ("colour", 2, 0)]
    sensor = [one for one in found["partition"] if one["group"] == "sensor"]
    assert [name for one in sensor for name in one["features"]] == [f"t{j:02d}" for j in range(12)]
    held = {name for one in sensor if any(one["weights"]) for name in one["features"]}
    assert held >= {"t04", "t05", "t06", "t07"}
    state, names = read_export(out.read_bytes())
    weights = state.learner.weights()
    assert len(weights.slot) == found["non_zeros"] == sum(w != 0.0 for one in found["partition"] for w in one["weights"])
    assert weights.intercept == pytest.approx(found["intercept"], abs=1e-6)
    assert {name.decode() for _, name in names} >= held
    drawing = ElementTree.parse(svg).getroot()
    assert {"sensor", "colour"} <= {text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")}


def test_the_text_names_runs_and_warns_of_columns_on_other_scales(tmp_path: Path) -> None:
    path = rows(tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["features"]["t05"] *= 1000.0
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    done = succeeds("groups", str(path), "--group", "sensor=t{00..11}", "--group", "colour=colour=*", *QUICK)
    for words in ("group sensor: 12 features", "group colour: 2 features, one group", "times as much as its narrowest", "chosen"):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no groups"),
        (["--group", "sensor"], "NAME=PATTERN"),
        (["--group", "a=t{00..03}", "--group", "b=t{03..05}"], "'t03' is in the groups 'a' and 'b'"),
        (["--group", "a=q{0..3}"], "no feature with a name matches"),
        (["--group", "a=t00", "--group", "a=t01"], "two groups 'a'"),
        (["--group", "a=t{00..11}", "--gamma", "0"], "above 0"),
        (["--group", "a=t{00..11}", "--k", "1"], "below 1"),
        (["--group", "a=t{00..11}", "--memory-bytes-max", "1000"], "memory_bytes_max is 1,000"),
        (["--group", "a=t{00..11}", "--labels", "real"], "model of real labels"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = run("groups", str(rows(tmp_path)), *arguments)
    assert done.exit_code != 0
    assert said in done.output


def test_an_unordered_group_with_runs_is_refused(tmp_path: Path) -> None:
    toml = tmp_path / "groups.toml"
    toml.write_text('[sensor]\nfeatures = ["t00", "t01"]\nruns = true\n')
    done = run("groups", str(rows(tmp_path)), "--groups", str(toml))
    assert done.exit_code != 0
    assert "group 'sensor': runs need an order" in done.output
