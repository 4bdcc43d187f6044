"""`riata predict` of files with rows that cannot be predicted: each has an error in its place, and the others are predicted."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.fake_service import FakeService, service
from tests.cli.test_verbs import run, succeeds

__all__ = ["service"]


def test_rows_that_a_service_refuses_have_an_error_in_their_place(tmp_path: Path, service: FakeService) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text("".join(f'{{"features":{{"{"bad" if i % 3 == 0 else "a"}":{i}}}}}\n' for i in range(75)))
    done = run("predict", str(path), "--rows-per-request", "50")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.exit_code, len(answers)) == (1, 75)
    assert [i for i, answer in enumerate(answers) if "error" in answer] == list(range(0, 75, 3))
    assert answers[3] == {"line": 4, "error": "bad_row", "detail": "bad"}
    assert answers[1]["probability"] == 0.125
    assert "25 rows rejected (25 bad_row)" in done.stderr
    assert sum(line.startswith("line ") for line in done.stderr.splitlines()) == 10
    assert len(service.requests) > 2  # a refusal names the first few rows only


@pytest.mark.usefixtures("service")
def test_a_file_none_of_whose_rows_can_be_predicted_has_an_error_a_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text('{"features":{"bad":1}}\n' * 35)
    done = run("predict", str(path))
    assert (done.exit_code, done.stdout.count('"error":"bad_row"')) == (1, 35)


def test_a_table_keeps_a_row_for_each_row_of_the_file(tmp_path: Path) -> None:
    learnt = tmp_path / "learnt.csv"
    learnt.write_text("a,b,label\n" + "".join(f"{i % 5},x{i % 3},{i % 2}\n" for i in range(100)))
    model = tmp_path / "m.riata"
    succeeds("fit", "--online", str(learnt), "--set", "encoder.bits=12", "--out", str(model))
    table = tmp_path / "new.csv"
    table.write_text('a,b\n1,x\n2\n1e300,x\n3,y\n"4"5,z\n4,x\n5\n')
    out = tmp_path / "scores.csv"
    done = run("predict", str(table), "--model-file", str(model), "--out", str(out))
    assert done.exit_code == 1, done.output
    scores = list(csv.DictReader(out.read_text().splitlines()))
    assert [bool(row["probability"]) for row in scores] == [True, False, False, True, False, True, False]
    assert "4 rows rejected (2 lengths_differ, " in done.stderr
    first = [line for line in done.stderr.splitlines() if line.startswith("line ")]
    assert [line.split()[1].strip(",:") for line in first] == ["3", "4", "6", "8"]
    shown = run("predict", str(table), "--model-file", str(model))
    answers = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [answer.get("line") for answer in answers] == [None, 3, 4, None, 6, None, 8]
    pytest.importorskip("pyarrow")
    whole = tmp_path / "scores.parquet"
    run("predict", str(table), "--model-file", str(model), "--out", str(whole))
    from pyarrow import parquet

    assert [value is not None for value in parquet.read_table(whole)["probability"].to_pylist()] == [
        True, False, False, True, False, True, False,
    ]  # fmt: skip
