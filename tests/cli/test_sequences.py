"""`riata sequences`: a file of sequences becomes the chains that it is a mixture of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.batch.designs import CHAINS, simulated
from tests.cli.test_verbs import run, succeeds

NAMES = np.array(["a", "b", "c", "d"])
SMALL = ("--particles", "200", "--start", "200")


def written(folder: Path, rows: int = 400, extra: str = "") -> str:
    path = folder / "s.txt"
    path.write_text("\n".join(" ".join(NAMES[one]) for one in simulated(rows, length=15)) + f"\n{extra}")
    return str(path)


def test_a_file_becomes_two_tables(tmp_path: Path) -> None:
    done = succeeds("sequences", written(tmp_path), *SMALL)
    assert "chain 1: share" in done.stdout
    assert "chain 2: share" in done.stdout
    assert "400 sequences learnt, 0 left out" in done.stdout


def test_the_same_as_json_from_words_and_from_arrays(tmp_path: Path) -> None:
    words = json.loads(run("sequences", written(tmp_path, 1200), *SMALL, "--json").stdout)
    arrays = tmp_path / "s.ndjson"
    arrays.write_text("".join(json.dumps(NAMES[one].tolist()) + "\n" for one in simulated(1200, length=15)))
    assert json.loads(run("sequences", str(arrays), *SMALL, "--json").stdout) == words
    assert words["states"] == NAMES.tolist()
    for component, truth in zip(words["components"], CHAINS, strict=True):
        assert np.abs(np.array(component["transitions"]["mean"]) - truth).max() < 0.1
        assert component["share"]["low"] < component["share"]["mean"] < component["share"]["high"]


def test_bad_lines_are_reported_by_number_and_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, 30, "a\na x\n\n")
    done = run("sequences", path, *SMALL, "--states", "a,b,c,d")
    assert done.exit_code == 1
    assert "line 31: a sequence of 1 states has no transition; it needs two [short_sequence]" in done.stderr
    assert "line 32: state 'x' at position 2 is unknown; known are a, b, c, d [unknown_state]" in done.stderr
    assert "30 sequences learnt, 2 left out" in done.stdout


@pytest.mark.parametrize(("content", "code"), [("", 2), ("a\n", 2), ("a b\n", 0)])
def test_a_file_without_sequences_is_refused(content: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text(content)
    assert run("sequences", str(path), *SMALL).exit_code == code


def test_a_level_that_is_no_probability_is_refused(tmp_path: Path) -> None:
    done = run("sequences", written(tmp_path, 3), "--level", "95")
    assert (done.exit_code, "between 0 and 1" in done.stderr) == (2, True)
