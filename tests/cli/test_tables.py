"""CSV and Parquet files: what their columns are found to be, the rows that are sent, and what is refused before any is."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from riata.base.errors import BadInput, Malformed
from riata.cli.open_table import open_rows
from riata.cli.tables import ColumnOptions
from tests.cli.fake_service import FakeService, service
from tests.cli.test_verbs import run, succeeds

__all__ = ["service"]

CHURN = '''\
id,tenure,TotalCharges,plan,note,Churn
7590-VHVEG,1,29.85,month,"hello, ""you""",No
5575-GNVDE,34,1889.5,year,"two
lines",No
3668-QPYBK,2,,month,,Yes
'''
ROWS = [
    {"features": {"tenure": 1.0, "TotalCharges": 29.85, "plan": "month", "note": 'hello, "you"'}, "label": 0},
    {"features": {"tenure": 34.0, "TotalCharges": 1889.5, "plan": "year", "note": "two\nlines"}, "label": 0},
    {"features": {"tenure": 2.0, "plan": "month"}, "label": 1},
]


@pytest.fixture
def churn(tmp_path: Path) -> Path:
    path = tmp_path / "churn.csv"
    path.write_text(CHURN, encoding="utf-8")
    return path


def lines_of(path: Path, **options: object) -> list[bytes]:
    columns: Any = {one.name: options.pop(one.name) for one in fields(ColumnOptions) if one.name in options}
    with open_rows(str(path), ColumnOptions(**columns).layout("auto", **options)) as source:  # type: ignore[arg-type]
        return source.read().split(b"\n")


def rows_of(path: Path, **options: object) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines_of(path, **options) if line]


def test_the_columns_are_shown_before_a_row_is_sent(churn: Path, service: FakeService) -> None:
    done = succeeds("observe", str(churn), "--label", "Churn", "--drop", "id")
    assert done.stdout == "3 accepted, 0 duplicate, 0 rejected\n"
    assert done.stderr.splitlines() == [
        f"{churn}: 3 rows, 6 columns, separated by commas",
        "  label     Churn (No = 0: 2, Yes = 1: 1)",
        "  dropped   id",
        "  number    tenure, TotalCharges (1 empty)",
        "  category  plan, note (1 empty)",
    ]
    assert [json.loads(row) for row in service.rows["default"]] == ROWS


def test_a_column_of_numbers_with_one_word_is_a_category_that_names_the_word(tmp_path: Path, service: FakeService) -> None:
    (tmp_path / "spent.csv").write_text('spent,label\n3.5,1\n"1,20.0",0\n0,1\n,0\n')
    done = run("observe", str(tmp_path / "spent.csv"))
    assert done.stderr.splitlines()[2] == "  category  spent (1 empty, most cells are numbers, but '1,20.0' is not)"
    assert [json.loads(row)["features"] for row in service.rows["default"]][1] == {"spent": "1,20.0"}


def test_a_row_is_on_the_line_on_which_it_ends_in_the_file(churn: Path) -> None:
    lines = lines_of(churn, label="Churn", drop=["id"])
    assert [number for number, line in enumerate(lines, 1) if line] == [2, 4, 5]


@pytest.mark.parametrize(
    ("text", "mark"), [("\ufeffa;label\n1,5;1\n", "semicolon"), ("a\tlabel\nx\t1\n", "tab"), ("a|label\nx|1\n", "bar")]
)
def test_the_delimiter_is_found(text: str, mark: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.tsv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    (row,) = rows_of(path)
    assert row == {"features": {"a": 1.5 if mark == "semicolon" else "x"}, "label": 1.0}
    assert f"separated by {mark}s" in capfd.readouterr().err


def test_options_say_what_the_columns_are(churn: Path) -> None:
    rows = rows_of(churn, label="plan", positive="year", category=["tenure"], event_id="id", drop=["note", "Churn"])
    assert rows[1] == {"features": {"tenure": "34", "TotalCharges": 1889.5}, "label": 1, "event_id": "5575-GNVDE"}
    assert [row["label"] for row in rows] == [0, 1, 0]


def test_the_index_of_a_data_frame_is_left_out_and_one_word_makes_a_column_one_of_words(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(",a,b,target\n0,1,NA,1\n1,x,2.5,0\n")
    assert rows_of(path) == [{"features": {"a": "1"}, "label": 1.0}, {"features": {"a": "x", "b": 2.5}, "label": 0.0}]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a,label\n1,1\n2\n", {}, "line 3: 1 cells, but the header has 2"),
        ("a,label\n1,stay\n2,leave\n", {}, "the labels are 'stay', 'leave'; say which one means 1, for example --positive leave"),
        ("a,label\n1,1\n", {"label": "lable"}, "no column 'lable'; did you mean 'label'?"),
        ("a,label\n1,1\n", {"positive": "Yes"}, "--positive Yes: no label has this value; they are '1'"),
        ("a,a\n1,1\n", {}, "two columns are called 'a'"),
        ("1,2,3\n4,5,6\n", {}, "the first line looks like data; name the columns with --header"),
        ('a,label\n"1,1\n', {}, "the quote that opens in the row of line 2 is not closed before the end"),
        ("a,label\n", {}, "contains a header and no rows"),
        ("a,label\n\xff,1\n", {}, "not UTF-8: a byte 0xff is 'ÿ' in cp1252; convert it"),
    ],
)
def test_what_is_wrong_is_refused_before_a_row_is_sent(text: str, options: dict[str, object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="latin-1")
    with pytest.raises((BadInput, Malformed)) as refused:
        rows_of(path, **options)
    assert said in str(refused.value)


def test_a_row_without_a_label_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n" + "1,1\n2,0\n" * 5 + "3,\n")
    done = run("fit", "--online", str(path), "--set", "encoder.bits=12", "--json")
    assert [(one["line"], one["code"]) for one in json.loads(done.stdout)["problems"]] == [(12, "missing_label")]


def test_options_about_columns_need_a_table(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text('{"features": {"a": 1}, "label": 1}\n')
    for words, said in (
        (("fit", "--online", "--drop", "a"), "options about columns are for CSV and Parquet"),
        (("observe", "--subject", "a"), "rows in NDJSON and Arrow say it themselves"),
        (("fit", "--online", "--subject", "a"), "no row of it can be forgotten later"),
    ):
        done = run(words[0], str(path), *words[1:])
        assert done.exit_code != 0
        assert said in " ".join(done.stderr.split())


def test_stdin_is_a_table_if_it_is_said(service: FakeService) -> None:
    succeeds("observe", "-", "--format", "csv", "--label", "Churn", "--drop", "id", stdin=CHURN)
    assert [json.loads(row) for row in service.rows["default"]] == ROWS


def test_the_same_rows_make_the_same_model_and_its_file_predicts_without_a_service(tmp_path: Path) -> None:
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rows = [{"id": f"c{i}", "tenure": i % 7 if i % 5 else None, "plan": "ab"[i % 2], "churned": i % 2 == 1} for i in range(60)]
    frame = pandas.DataFrame(rows)
    frame.to_csv(tmp_path / "churn.csv", index=False)
    frame.to_parquet(tmp_path / "churn.parquet")
    lines = [{"features": {k: v for k, v in row.items() if k in ("tenure", "plan") and v is not None}} for row in rows]
    labelled = [{**line, "label": int(row["churned"] is True)} for line, row in zip(lines, rows, strict=True)]
    (tmp_path / "churn.ndjson").write_text("\n".join(map(json.dumps, labelled)))

    states = set()
    for suffix in ("csv", "parquet", "ndjson"):
        path, options = tmp_path / f"churn.{suffix}", [] if suffix == "ndjson" else ["--label", "churned", "--drop", "id"]
        done = succeeds("fit", "--online", str(path), "--out", f"{path}.riata", "--set", "encoder.bits=12", "--json", *options)
        states.add(json.loads(done.stdout)["out"]["state"])
    assert len(states) == 1

    answers = {}
    for suffix in ("csv", "parquet", "ndjson"):
        out = tmp_path / f"out.{suffix}"
        done = succeeds("predict", str(tmp_path / "churn.csv"), "--model-file", f"{tmp_path}/churn.csv.riata", "--out", str(out),
                   "--label", "churned", "--drop", "id")  # fmt: skip
        assert "churned" in next(line for line in done.stderr.splitlines() if "dropped" in line)
        answers[suffix] = out
    table = parquet.read_table(answers["parquet"])
    assert table.num_rows == 60
    asked = [json.loads(line) for line in answers["ndjson"].read_text().splitlines()]
    assert table.column("margin").to_pylist() == [row["margin"] for row in asked]
    assert pandas.read_csv(answers["csv"])["probability"].tolist() == pytest.approx([row["probability"] for row in asked], abs=0)
    assert len({row["margin"] for row in asked}) > 4
    assert not list(tmp_path.glob("*.part"))


def test_without_pyarrow_a_parquet_file_is_refused_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 and more")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadInput, match=r"Parquet needs pyarrow; install it with `pip install 'riata\[parquet\]'`"):
        rows_of(path)


@pytest.mark.usefixtures("service")
def test_the_out_file_has_a_known_suffix(churn: Path) -> None:
    done = run("predict", str(churn), "--out", "out.xlsx")
    assert done.exit_code != 0
    assert "expected a name that ends in .csv, .parquet or .ndjson" in " ".join(done.stderr.split())


def test_two_columns_of_one_name_in_a_parquet_file_are_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = ["a", "label", "a"]
    parquet.write_table(pyarrow.table([[1], [0], [2]], names=names), tmp_path / "t.parquet")
    done = run("fit", "--online", str(tmp_path / "t.parquet"))
    assert (done.exit_code, "two columns are called 'a'" in done.stderr) == (1, True), done.output
