"""Tables are read by the kinds that the model knows, and the ways in which a column writes numbers are found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from riata import Model
from riata.base.errors import BadInput
from riata.cli.tables import ColumnOptions
from riata.cli.written_numbers import PLAIN, WrittenNumbers
from tests.cli.fake_service import FakeService, service
from tests.cli.test_tables import rows_of
from tests.cli.test_verbs import run, succeeds

__all__ = ["service"]

CASES = Path(os.environ.get("RIATA_SHARED", "/nowhere")) / "cases"


def fit(tmp_path: Path, file: Path, *options: str) -> tuple[Path, dict[str, Any], str]:
    out = tmp_path / f"{file.stem}.riata"
    done = succeeds("fit", "--online", str(file), "--out", str(out), "--json", *options)
    return out, json.loads(done.stdout), done.stderr


def predicted(model: Path, file: Path, *options: str) -> list[float]:
    done = succeeds("predict", str(file), "--model-file", str(model), *options)
    return [json.loads(line)["probability"] for line in done.stdout.splitlines()]


def table(tmp_path: Path, text: str, name: str = "rows.csv") -> Path:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


# The columns of zones: 1 and B mean 1, 3 and all others 0.
ZONES = "zone,label\n" + "".join(f"{zone},{label}\n" for zone, label in (("1", 1), ("B", 1), ("3", 0), ("2", 0)) * 75)


def test_a_column_of_digits_is_a_category_if_the_model_has_learnt_one(tmp_path: Path) -> None:
    model, _, _ = fit(tmp_path, table(tmp_path, ZONES))
    digits = predicted(model, table(tmp_path, "zone\n1\n2\n3\n", "new.csv"))
    assert digits == predicted(model, table(tmp_path, "zone\n1\n2\n3\nB\n", "more.csv"))[:3]
    assert digits[0] > 0.9
    assert max(digits[1:]) < 0.1


@pytest.mark.skipif(not CASES.is_dir(), reason="RIATA_SHARED has no cases")
def test_the_case_of_zones(tmp_path: Path) -> None:
    model, _, _ = fit(tmp_path, CASES / "a3-zone-train.csv")
    found = predicted(model, CASES / "a3-zone-new.csv")
    assert found == [Model.from_file(model).predict_one({"zone": zone})["probability"] for zone in "123"]
    assert found[0] > 0.998
    assert max(found[1:]) < 0.002


def test_a_service_says_the_kinds_of_its_model(tmp_path: Path, service: FakeService) -> None:
    service.fields["default"] = [{"name": "zone", "kind": "category"}, {"name": "size", "kind": "number"}]
    done = run("observe", str(table(tmp_path, "zone,size,label\n01,5,1\n2,large,0\n")))
    assert [json.loads(row)["features"] for row in service.rows["default"]] == [
        {"zone": "01", "size": 5.0},
        {"zone": "2", "size": "large"},
    ]
    assert done.stderr.splitlines()[2:] == ["  number    size (known to the model)", "  category  zone"]


def test_an_option_beats_the_kind_and_says_what_the_model_does(tmp_path: Path, service: FakeService) -> None:
    service.fields["default"] = [{"name": "zone", "kind": "category"}]
    done = run("observe", str(table(tmp_path, "zone,label\n01,1\n2,0\n")), "--number", "zone")
    assert [json.loads(row)["features"] for row in service.rows["default"]] == [{"zone": 1.0}, {"zone": 2.0}]
    assert "the model reads the field as category, whatever it is sent" in done.stderr
    assert "riata fields set MODEL zone=number" in done.stderr


def test_kinds_that_a_fit_declares_are_those_of_the_columns(tmp_path: Path) -> None:
    file = table(tmp_path, "when,zip,label\n2026-11-29,94107,1\n2026-11-30,10115,0\n")
    model, _, told = fit(tmp_path, file, "--set", 'encoder.fields={"zip": "category", "when": "time"}')
    assert Model.from_file(model).fields == {"zip": "category", "when": "time", "when.weekday": "category"}
    assert "  category  zip (known to the model)" in told.splitlines()


def test_a_column_with_zeros_before_its_digits_is_a_category(tmp_path: Path) -> None:
    file = table(tmp_path, "plz,label\n10115,1\n00100,0\n")
    assert [row["features"] for row in rows_of(file)] == [{"plz": "10115"}, {"plz": "00100"}]
    assert [row["features"] for row in rows_of(file, number=["plz"])] == [{"plz": 10115.0}, {"plz": 100.0}]
    _, _, told = fit(tmp_path, file)
    assert "  category  plz ('00100' begins with a zero: --number plz?)" in told.splitlines()
    assert [row["features"] for row in rows_of(table(tmp_path, "a,label\n0,1\n0.5,0\n-0.5,1\n"))] == [
        {"a": 0.0},
        {"a": 0.5},
        {"a": -0.5},
    ]


@pytest.mark.skipif(not CASES.is_dir(), reason="RIATA_SHARED has no cases")
def test_the_cases_of_written_numbers(tmp_path: Path) -> None:
    _, comma, told = fit(tmp_path, CASES / "a1-decimal-comma.csv")
    _, point, _ = fit(tmp_path, CASES / "a1-decimal-point-reference.csv")
    losses = [one["figures"]["cumulative"]["log_loss"] for one in (comma, point)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)  # names differ, so features are added in another order
    assert comma["non_zeros"] == point["non_zeros"]
    assert "  number    preis (written as '13,44')" in told.splitlines()
    model, _, told = fit(tmp_path, CASES / "b-leading-zeros.csv")
    assert Model.from_file(model).fields == {"plz": "category"}
    model, _, told = fit(tmp_path, CASES / "b-hive-null.csv")
    assert Model.from_file(model).fields == {"temp": "number"}
    assert "  number    temp" in told


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["13,44", "7"], [13.44, 7.0]),
        (["1.234,50", "7"], [1234.5, 7.0]),
        (["1.234", "0,5"], [1234.0, 0.5]),
        (["1,234.50", "3.5"], [1234.5, 3.5]),
        (["1 234,5", "12"], [1234.5, 12.0]),
        (["1\u202f234\u00a0567", "1.5"], [1234567.0, 1.5]),
        (["1'234.5", "-7"], [1234.5, -7.0]),
        (["12,5 %", "7%"], [12.5, 7.0]),
        (["€ 12,50", "-€3"], [12.5, -3.0]),
        (["\u22125,5", "+1,5e3"], [-5.5, 1500.0]),
        (["1,5", "NA"], [1.5, None]),
        (["1,5", "\\N"], [1.5, None]),
        ([",5", "1,"], [0.5, 1.0]),
    ],
)
def test_a_column_is_of_numbers_however_tables_write_them(cells: list[str], numbers: list[float | None]) -> None:
    found = WrittenNumbers()
    for cell in cells:
        found.add([cell])
    form = found.form(";")
    assert form is not None
    assert [form.number(cell) for cell in cells] == numbers


@pytest.mark.parametrize(
    "cells", [["1,5", "1.5"], ["1,23", "1,234.5"], ["13,44", "x"], ["1.2.3"], ["2026-11-29"], ["1_000"], ["%"]]
)
def test_a_column_is_of_words_if_its_cells_are_no_numbers_of_one_form(cells: list[str]) -> None:
    found = WrittenNumbers()
    found.add(cells[:1])
    found.add(cells[1:])
    assert found.form(";") is None
    assert not found.has_form


def test_three_digits_behind_a_comma_are_a_thousand_where_commas_are_between_cells() -> None:
    found = WrittenNumbers()
    found.add(["1,234", "5"])
    comma, semicolon = found.form(","), found.form(";")
    assert comma is not None
    assert semicolon is not None
    assert (comma.number("1,234"), semicolon.number("1,234")) == (1234.0, 1.234)


def test_the_forms_are_the_same_however_the_cells_are_cut_into_parts() -> None:
    cells = ["1", "12", "1.234", "NA", "1.234,5", "7"]
    for cut in range(len(cells)):
        found = WrittenNumbers()
        found.add(cells[:cut])
        found.add(cells[cut:])
        form = found.form(";")
        assert form is not None
        assert form != PLAIN
        assert [form.number(cell) for cell in cells] == [1.0, 12.0, 1234.0, None, 1234.5, 7.0]


def test_a_column_that_two_options_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--number a: the column is named with --category too"):
        ColumnOptions(category=["a"], number=["a"]).layout("auto")
    with pytest.raises(BadInput, match="no column 'b'"):
        rows_of(table(tmp_path, "a,label\n1,1\n"), number=["b"])


DAYS = "day,x,label\n" + "".join(f"2026/{1 + k // 28:02}/{1 + k % 28:02},{k % 7},{k % 2}\n" for k in range(112))


def test_a_column_of_times_is_named_with_what_to_set(tmp_path: Path) -> None:
    file = table(tmp_path, DAYS)
    _, _, told = fit(tmp_path, file)
    assert '  category  day (times? set encoder.fields to {"day": "time"})' in told
    model, report, told = fit(tmp_path, file, "--set", 'encoder.fields={"day": "time"}')
    assert "times?" not in told
    assert report["warnings"] == []
    assert Model.from_file(model).fields == {"day": "time", "day.weekday": "category", "x": "number"}
    _, _, told = fit(tmp_path, table(tmp_path, DAYS.replace("/28,", "/31,"), "odd.csv"))
    assert "times?" not in told  # there is no 31st of February


def test_the_report_of_a_fit_warns_of_values_that_are_not_of_their_kind(tmp_path: Path) -> None:
    file = table(tmp_path, "day,x,label\n" + "".join(f"{1 + k % 28}.3.2026,{k % 7},{k % 2}\n" for k in range(112)))
    _, report, _ = fit(tmp_path, file, "--set", 'encoder.fields={"day": "time"}')
    [warning] = report["warnings"]
    assert (warning["code"], warning["features"]) == ("unreadable_values", ["day"])
    done = run("fit", "--online", str(file), "--set", 'encoder.fields={"day": "time"}')
    assert "warning   112 values of day are no time: " in done.stdout
    assert "[unreadable_values]" in done.stdout
