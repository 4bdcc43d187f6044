"""Tables that are learnt without a service: bad rows are left out, counted by code and named by line and column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_verbs import run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    lines = [f"{i % 7},x{i % 3},{i % 2}" for i in range(4500)]
    lines[10], lines[20], lines[4400] = "1,x,maybe", "1,x", "2,x,NA"
    lines[30], lines[40] = "2,x,1e999", ",x,"
    path = tmp_path / "bad.csv"
    path.write_text("a,b,label\n" + "\n".join(lines) + "\n")
    return path


def found(table: Path, *words: str) -> Any:
    done = run(*words[:1], *words[1:], str(table), "--set", "encoder.bits=12", "--json")
    assert done.exit_code == 1, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("words", [("fit", "--online"), ("fit", "--batch", "--gamma", "1")])
def test_the_other_rows_are_learnt(words: tuple[str, ...], table: Path) -> None:
    report = found(table, *words)
    assert (report["rows"], report["learnt"], report["rejected"]) == (4500, 4495, 5)
    assert report["rejected_codes"] == {"missing_label": 2, "bad_value": 1, "not_finite": 1, "lengths_differ": 1}
    told = [(problem["line"], problem["code"]) for problem in report["problems"]]
    assert told == [
        (12, "bad_value"), (22, "lengths_differ"), (32, "not_finite"), (42, "missing_label"), (4402, "missing_label"),
    ]  # fmt: skip
    assert report["problems"][0]["detail"].startswith("column 'label': the label 'maybe' is neither a number nor yes or no")


def test_the_report_counts_them_by_code(table: Path) -> None:
    done = run("fit", "--online", str(table), "--set", "encoder.bits=12")
    assert "4,495 learnt, 5 rejected (2 missing_label, " in done.stdout
    assert "line 12: column 'label': the label 'maybe'" in done.stdout


def test_strict_still_ends_at_the_first(table: Path, tmp_path: Path) -> None:
    done = run("fit", "--online", str(table), "--strict", "--out", str(tmp_path / "m.riata"))
    assert (done.exit_code, (tmp_path / "m.riata").exists()) == (1, False)
    assert "line 12: column 'label': the label 'maybe'" in done.stderr
