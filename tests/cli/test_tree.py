"""`riata tree`: rows as people have them, the report, the drawing, and the file of a tree."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.cli.test_verbs import run, succeeds
from tests.trees.curves import of_kinds

QUICK = ("--restarts", "6")


def written(path: Path, each: int = 10, seed: int = 0) -> Path:
    x, y = of_kinds((0, 1, 2), each, np.random.default_rng(seed))
    lines = []
    for i, (one, kind) in enumerate(zip(x, y.tolist(), strict=True)):
        points = np.round(one[: 112 + 8 * (i % 3) : 8], 3).tolist()
        turned = [points, points[::-1]]
        lines.append(json.dumps({"label": "abc"[kind], "ecg": points, "pair": turned, "age": 20.0 + 7 * i % 30, "id": f"r{i}"}))
    content = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def report(*arguments: str) -> dict[str, Any]:
    done = succeeds("tree", *arguments, "--json")
    return dict(json.loads(done.stdout))


def test_a_tree_is_learnt_drawn_written_and_shown_again(tmp_path: Path) -> None:
    rows, new = written(tmp_path / "rows.ndjson"), written(tmp_path / "new.ndjson.gz", seed=1)
    svg, out = tmp_path / "t.svg", tmp_path / "t.tree"
    found = report(
        str(rows), "--curve", "ecg", "--number", "age", "--test", str(new), *QUICK, "--svg", str(svg), "--out", str(out)
    )
    assert (found["rows"], found["test_rows"], found["classes"]) == (30, 30, ["a", "b", "c"])
    assert found["test_errors"] < 15
    assert found["variables"] == ["ecg", "age"]
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    again = report(str(out), "--test", str(new), "--svg", str(tmp_path / "again.svg"))
    assert again["test_errors"] == found["test_errors"]
    assert "rows" not in again
    assert (tmp_path / "again.svg").read_text() == svg.read_text()
    done = run("tree", str(out))
    assert "nearer to left prototype" in done.stdout


def test_channels_codes_and_a_window_that_is_widened(tmp_path: Path) -> None:
    rows = written(tmp_path / "rows.ndjson")
    done = succeeds("tree", str(rows), "--curve", "pair", "--channels-first", "--output-code", "--window", "0", *QUICK)
    assert "the window of 0 leaves no path" in done.stdout
    assert "question 3" in done.stdout
    assert "3 trees" in done.stdout


def test_columns_are_the_points_of_one_curve(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    path = tmp_path / "chart.csv"
    lines = [
        ",".join(["up" if i % 2 else "down", *(f"{(2 * (i % 2) - 1) * t + rng.normal():.3f}" for t in range(6))])
        for i in range(20)
    ]
    path.write_text("class,t0,t1,t2,t3,t4,t5\n" + "\n".join(lines) + "\n")
    found = report(str(path), "--label", "class", "--distance", "euclid", *QUICK)
    assert (found["errors"], found["classes"], found["nodes"]) == (0, ["down", "up"], 3)


def test_lists_in_the_cells_of_a_table_are_curves(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rows = written(tmp_path / "rows.ndjson")
    frame = pandas.DataFrame(map(json.loads, rows.read_text().splitlines()))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    trees = set()
    for suffix in ("ndjson", "csv", "parquet"):
        out = tmp_path / f"{suffix}.tree"
        report(str(tmp_path / f"rows.{suffix}"), "--curve", "ecg", "--number", "age", *QUICK, "--out", str(out))
        trees.add(out.read_bytes())
    assert len(trees) == 1


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        ("label,a\nx,1", ["--curve", "a"], "the column holds no lists"),
        ("", [], "contains no rows"),
        ('{"label": 1, "ecg": [1]}\n{"label": 1, "ecg": []}', [], "row 1: the curve is empty"),
        ('{"label": 1, "ecg": [1, null]}', [], "row 0: point 1 is not finite"),
        ('{"label": 1, "ecg": [1]}\n{"label": 1, "ecg": [[1, 2]]}', [], "2 channels, expected 1"),
        ('{"label": 1, "ecg": [1, 2]}\n{"label": 2, "ecg": [1]}', ["--distance", "euclid"], "use dtw"),
        ('{"label": 1, "ecg": [1]}\n{"label": "a", "ecg": [1]}', [], "all text, or all numbers"),
        ('{"class": 1, "ecg": [1]}', [], "there is no field 'label'"),
        ('{"label": 1, "ecg": [1]}', ["--curve", "egc"], "did you mean 'ecg'?"),
        ('{"label": 1, "ecg": 1}', [], "no field is a list"),
        ('{"label": 1, "ecg": [1]}\n{"label"', [], "line 2: not JSON"),
        ("class,a\nx,1\ny,?", ["--label", "class"], "line 3"),
        ("class,a\nx,1", ["--label", "clas"], "did you mean 'class'?"),
        ('{"label": 1, "ecg": [1]}', ["--distance", "cosine"], "none of dtw, euclid"),
        ('{"label": 1, "ecg": [1]}', ["--prune", "2"], "prune"),
    ],
)
def test_what_cannot_be_done_is_refused(content: str, arguments: list[str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text(content)
    done = run("tree", str(path), *arguments)
    assert done.exit_code != 0
    assert said in done.output


def test_a_damaged_tree_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.tree"
    path.write_bytes(b"RIATACKP and no more")
    done = run("tree", str(path))
    assert done.exit_code != 0
    assert "not a file of a tree" in done.output
