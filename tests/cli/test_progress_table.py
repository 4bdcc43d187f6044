"""The table of losses while a file is learnt: its lines against what a fit of so many rows reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from riata.base.errors import BadInput
from riata.cli.fit import HEADS, show_table
from riata.run.files.fit import Fit
from riata.run.state.config import read_config
from tests.cli.test_fit import written
from tests.cli.test_verbs import run
from tests.run.test_fit import NDJSON, cut, fitted, lines_of, some_rows


def table_of(rows: list[dict[str, Any]], document: dict[str, Any], lines: int) -> list[list[float]]:
    shown: list[str] = []
    fit = Fit(read_config(document), NDJSON)
    show_table(fit, shown.append)
    fit.run(cut(lines_of(rows), lines))
    assert [line.split() for line in shown[:2]] == [list(head) for head in HEADS]
    return [[float(word) for word in line.split()] for line in shown[2:]]


@pytest.mark.parametrize("lines", [1, 7, 100])
def test_each_line_has_the_figures_of_so_many_rows(lines: int) -> None:
    rows = [{**row, "weight": 1 + k % 3} for k, row in enumerate(some_rows(50))]
    rows[5]["label"], rows[40]["label"] = 7, 7  # refused by the reader: they do not count
    counted = [row for row in rows if row["label"] != 7]
    document = {"encoder": {"bits": 12}}
    found, above = table_of(rows, document, lines), (0.0, 0.0)
    assert [line[2] for line in found] == [1, 2, 4, 8, 16, 32]
    for average, since, count, weight, label, predicted, features in found:
        last = counted[int(count) - 1]
        fit = fitted(lines_of(counted[: int(count)]), document)
        assert average == pytest.approx(fit.state.progressive.log_loss, abs=1e-6)
        assert weight == fit.state.progressive.figures()["cumulative"]["weight"]
        assert (label, features) == (last["label"], len(last["features"]))
        assert since == pytest.approx((average * weight - above[0]) / (weight - above[1]), abs=1e-4)
        assert 0.0 < predicted < 1.0
        above = (average * weight, weight)


def test_numbers_and_signs_are_shown_as_the_file_has_them() -> None:
    real = {"labels": "real", "learner": {"loss": "squared"}}
    rows = [{"features": {"a": 1.0}, "label": 2.5}] * 4
    assert [line[4] for line in table_of(rows, real, 3)] == [2.5] * 3
    signed = table_of([{"features": {"a": 1.0}, "label": -1}], {"labels": "-1/+1"}, 1)
    assert [line[4:6] for line in signed] == [[-1.0, 0.5]]


def test_the_command_shows_it_on_stderr_or_says_why_not(tmp_path: Path) -> None:
    file = str(written(tmp_path, "vw", 40))
    done = run("fit", file, "--online", "--progress-table", "--json")
    assert json.loads(done.stdout)["learnt"] == 40
    assert len(done.stderr.splitlines()) == 2 + 6
    assert "--batch has not" in run("fit", file, "--batch", "--progress-table").stderr
    with pytest.raises(BadInput, match="prediction of each class"):
        show_table(Fit(read_config({"labels": "classes"}), NDJSON), print)
