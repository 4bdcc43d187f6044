"""A table through every door has the same features: JSON, queries, VW text, files, tables in memory, streams, tensors."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from riata import Model as Alone
from riata.cli.feed_rows import FieldsSeen, Message, event_of
from riata.cli.feed_rows import Layout as FeedLayout
from riata.cli.open_table import open_rows
from riata.cli.tables import Layout
from riata.predict.name_book import NameBook
from riata.scorer.riata_scorer import Scorer
from riata.web.api.routes.inference import Tensor, rows_of
from riata.wire.encoder import EncoderConfig
from riata.wire.fields import Fields
from riata.wire.parse import Context, explain_query, explain_rows, parse_examples
from riata.wire.tables import Roles, examples_of
from tests.arrow_stream import ARROW, examples, stream
from tests.cli.test_verbs import run

LINES = "application/x-ndjson"
Row = dict[str, Any]
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
DECLARED = {"at": "time", "day": "unix_s", "tags": "list", "body": "text"}
TYPES: dict[str, Any] = {
    "age": "FP64", "zip": "INT64", "on": "BOOL", "word": "BYTES", "at": "BYTES", "day": "BYTES", "tags": "BYTES", "body": "BYTES",
}  # fmt: skip
ROWS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "age": st.integers(-(2**40), 2**40) | st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-300),
            "zip": st.integers(0, 99_999),
            "on": st.booleans(),
            "word": st.text("xyzä", max_size=5) | st.sampled_from(["NA", "?", "null", "-"]),
            "at": st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)).map(
                lambda one: one.replace(microsecond=0, tzinfo=UTC)
            ),
            "tags": st.lists(st.text("xyz,ä", min_size=1, max_size=3), min_size=1, max_size=3, unique=True),
            "body": st.text("xyzÄ 7.", min_size=1, max_size=9).map(str.strip).filter(bool),
            "day": st.dates(date(1971, 1, 1), date(2100, 1, 1)),
        },
    ),
    min_size=1,
    max_size=4,
)


class Model:
    """The fields and names of a model."""

    def __init__(self) -> None:
        self.encoder = EncoderConfig(fields=Fields.from_document(DECLARED))
        self.names = NameBook.of(self.encoder)

    @property
    def context(self) -> Context:
        return Context(self.encoder, names=self.names.seen, kinds=self.names.kinds)

    @property
    def kinds(self) -> dict[str, str]:
        assert self.names.kinds is not None
        return self.names.kinds.documents()

    def learn(self, rows: Sequence[Row]) -> None:
        body = b"\n".join(json.dumps({"features": row, "label": 1}).encode() for row in rows)
        parsed = parse_examples(body, LINES, self.context, labelled=True)
        assert parsed.errors == []
        self.names.add_all(parsed.names)

    def features(self, rows: Sequence[Row]) -> list[dict[str, float]]:
        """The features of decoded rows of JSON."""
        return [named(one) for row in rows for one in explain_rows(json.dumps({"features": row}).encode(), LINES, self.context)]


def named(row: list[tuple[int, float, str]]) -> dict[str, float]:
    return {name: value for _, value, name in row if value}


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return json.dumps(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def plain_rows(rows: Sequence[Row]) -> list[Row]:
    return [{name: text_of(v) if isinstance(v, date) else v for name, v in row.items()} for row in rows]


def as_json(_model: Model, rows: Sequence[Row]) -> list[Row]:
    return plain_rows(rows)


def as_texts(model: Model, rows: Sequence[Row]) -> list[Row]:
    """JSON of a program that writes numbers as texts, of fields that are known."""
    return [{name: text_of(v) if name in model.kinds else v for name, v in row.items()} for row in plain_rows(rows)]


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in TYPES if name == "age" or any(name in row for row in rows)}


def sent(model: Model, table: Any) -> list[Row]:
    return [made["features"] for part in examples_of(table, Roles(kinds=model.kinds), 1000) for made in part]


def as_dict(model: Model, rows: Sequence[Row]) -> list[Row]:
    return sent(model, columns_of(rows))


def as_pandas(model: Model, rows: Sequence[Row]) -> list[Row]:
    return sent(model, pandas.DataFrame(columns_of(rows), index=range(len(rows))))


def as_polars(model: Model, rows: Sequence[Row]) -> list[Row]:
    return sent(model, polars.DataFrame(columns_of(rows), strict=False))


def arrow_of(rows: Sequence[Row]) -> pyarrow.Table:
    columns = columns_of(rows)
    columns["age"] = [None if one is None else float(one) for one in columns["age"]]
    return pyarrow.table(columns)


def as_arrow(model: Model, rows: Sequence[Row]) -> list[Row]:
    return sent(model, arrow_of(rows))


def from_file(model: Model, path: Path) -> list[Row]:
    with open_rows(str(path), Layout(known=lambda: model.kinds, labelled=False)) as source:
        return [json.loads(line)["features"] for line in source.read().split(b"\n") if line]


def as_parquet(model: Model, rows: Sequence[Row]) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(arrow_of(rows), f"{folder}/rows.parquet")
        return from_file(model, Path(folder, "rows.parquet"))


def as_csv(model: Model, rows: Sequence[Row]) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([[*TYPES, "more"], *([*(text_of(row.get(name, "")) for name in TYPES), ""] for row in rows)])
        return from_file(model, path)


def as_stream(model: Model, rows: Sequence[Row]) -> list[Row]:
    fields = FieldsSeen(dict(model.kinds), meets=True)
    content = [{name.encode(): text_of(value).encode() for name, value in row.items()} | {b"label": b"1"} for row in rows]
    return [json.loads(event_of(Message("1-1", one), FeedLayout("s", None, "label"), fields))["features"] for one in content]


def as_tensors(_model: Model, rows: Sequence[Row]) -> list[Row]:
    said = [{name: text_of(v) if isinstance(v, list) else v for name, v in row.items()} for row in plain_rows(rows)]
    return [rows_of([Tensor(name, [1], TYPES[name], [v]) for name, v in row.items()])[0] if row else {} for row in said]


DOORS: dict[str, Callable[[Model, Sequence[Row]], list[Row]]] = {
    "json": as_json, "texts": as_texts, "dict": as_dict, "pandas": as_pandas, "polars": as_polars, "arrow": as_arrow,
    "parquet": as_parquet, "csv": as_csv, "stream": as_stream, "tensors": as_tensors,
}  # fmt: skip


def of_query(model: Model, rows: Sequence[Row]) -> Iterator[dict[str, float]]:
    for row in rows:
        (found,) = explain_query([(name, text_of(value)) for name, value in row.items()], model.context)
        yield named(found)


def of_vw(model: Model, rows: Sequence[Row]) -> Iterator[dict[str, float]]:
    """VW text says numbers only."""
    for row in rows:
        said = " ".join(f"{name}:{row[name]}" for name in ("age", "zip") if name in row)
        (found,) = explain_rows(f"| {said}".encode(), "text/x-vw", model.context)
        yield named(found)


def of_arrow(model: Model, rows: Sequence[Row]) -> Iterator[dict[str, float]]:
    """An Arrow stream for the service says names and numbers."""
    names, values = [[*row] for row in rows], [[float(value) for value in row.values()] for row in rows]
    yield from map(named, explain_rows(stream(examples(names, values), len(rows)), ARROW, model.context))


def of_scorer(model: Model, rows: Sequence[Row]) -> list[list[tuple[int, float]]]:
    """Features of the portable scorer: hashes and values. It splits no texts."""
    document = {"format": 5, "hash_key": "0", "bits": 22, "l2": False, "link": "none", "crosses": [], "cross_scale": 1.0}
    scorer = Scorer({**document, "intercept": 0.0, "slots": [], "weights": [], "fields": model.kinds})
    return [scorer._row(row) for row in rows]


def in_service(model: Model, rows: Sequence[Row]) -> list[list[tuple[int, float]]]:
    batch = parse_examples(b"\n".join(json.dumps({"features": row}).encode() for row in rows), LINES, model.context, False).batch
    ends = batch.indptr.tolist()
    pairs = list(zip(batch.hash.tolist(), batch.value.tolist(), strict=True))
    return [pairs[a:b] for a, b in pairwise(ends)]


@pytest.mark.parametrize("first", ["json", "csv", "pandas", "parquet", "stream", "tensors"])
@settings(max_examples=5, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(learnt=ROWS, rows=ROWS)
def test_once_a_row_was_learnt_through_one_door_every_door_gives_the_same_features(
    first: str, learnt: list[Row], rows: list[Row]
) -> None:
    model = Model()
    whole: Row = {
        "age": 7,
        "zip": 94107,
        "on": True,
        "word": "x",
        "at": NOON,
        "day": date(2026, 1, 1),
        "tags": ["x"],
        "body": "x y",
    }
    model.learn(DOORS[first](model, [{**learnt[0], **whole}, *learnt[1:]]))
    wanted = model.features(plain_rows(rows))
    for name, door in DOORS.items():
        assert model.features(door(model, rows)) == wanted, (name, model.kinds)
    assert list(of_query(model, rows)) == wanted
    numbers = [{name: value for name, value in row.items() if name in ("age", "zip")} for row in rows]
    assert list(of_vw(model, numbers)) == list(of_arrow(model, numbers)) == model.features(numbers)
    scored = [{name: value for name, value in row.items() if name != "body"} for row in plain_rows(rows)]
    assert of_scorer(model, scored) == in_service(model, scored)


@pytest.mark.parametrize("table", [columns_of, pandas.DataFrame, polars.DataFrame, arrow_of])
def test_a_model_without_a_service_has_the_kinds_of_a_file_that_it_is_taught(table: Any, tmp_path: Path) -> None:
    rows: list[Row] = [
        {"age": i, "zip": 10 + i, "on": i % 2 == 0, "word": "xyz"[i % 3], "at": NOON, "tags": ["a", "b"], "body": "a b"}
        for i in range(1, 9)
    ]
    taught = {}
    for name, source in (("rows", rows), ("table", table(rows))):
        model = Alone({"encoder": {"fields": DECLARED}})
        model.learn_many(source, label="on")
        taught[name] = (model.fields, model.digest)
    with (tmp_path / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[*rows[0]], *([text_of(value) for value in row.values()] for row in rows)])
    declared = f"--set=encoder.fields={json.dumps(DECLARED)}"
    done = run("fit", "--online", str(tmp_path / "rows.csv"), "--label", "on", "--out", str(tmp_path / "m.riata"), declared)
    assert done.exit_code == 0, done.output
    taught["csv"] = (Alone.from_file(tmp_path / "m.riata").fields, Alone.from_file(tmp_path / "m.riata").digest)
    assert taught["rows"] == taught["table"] == taught["csv"]
    parts = {"at.hour": "category", "at.weekday": "category"}
    assert taught["rows"][0] == DECLARED | {"age": "number", "zip": "number", "word": "category"} | parts


def test_a_category_of_digits_is_one_feature_through_every_door() -> None:
    model = Model()
    model.learn([{"zip": "B"}])
    wanted = [{"zip=94107": 1.0}]
    for name, door in DOORS.items():
        assert model.features(door(model, [{"zip": 94107}])) == wanted, name
    for table in (pandas.DataFrame({"zip": [94107.0, None]}), polars.DataFrame({"zip": [94107.0]})):
        assert model.features(sent(model, table))[:1] == wanted
    assert list(of_query(model, [{"zip": "94107.0"}])) == list(of_vw(model, [{"zip": 94107}])) == wanted


@pytest.mark.parametrize("door", DOORS)
def test_zero_and_false_are_one_feature_through_every_door_whichever_learnt_first(door: str) -> None:
    """They decide no kind. Neither do they become categories where texts have no types."""
    rows: list[Row] = [{"age": 0, "on": False}, {"age": 1, "on": True}, {"age": 0, "on": True}]
    model = Model()
    model.learn(DOORS[door](model, rows[:1]))
    assert model.kinds == DECLARED
    assert list(of_query(model, rows)) == model.features(rows) == [{}, {"age": 1.0, "on": 1.0}, {"on": 1.0}]
    model.learn(DOORS[door](model, rows))
    assert model.kinds == DECLARED | {"age": "number", "on": "number"}
    for other, read in DOORS.items():
        assert model.features(read(model, rows)) == model.features(rows), other
    assert list(of_query(model, rows)) == model.features(rows)


def test_words_for_truth_are_categories_of_a_model_that_meets_no_fields(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("on,more\nTrue,1\nfalse,2\n", encoding="utf-8")
    read = {}
    for others in ("auto", "off"):
        with open_rows(str(path), Layout(known=lambda others=others: {"*": others}, labelled=False)) as source:  # type: ignore[misc]
            read[others] = [json.loads(line)["features"]["on"] for line in source.read().split(b"\n") if line]
    assert read == {"auto": [True, False], "off": ["True", "false"]}
    encoder = EncoderConfig(fields=Fields.from_document("off"))
    assert [named(row) for row in explain_query([("on", "true")], Context(encoder))] == [{"on=true": 1.0}]
    fields = FieldsSeen({}, meets=False)
    assert (fields.value("on", "true"), FieldsSeen({}, meets=True).value("on", "true")) == ("true", True)


def test_what_a_door_without_types_cannot_say() -> None:
    """A word that says that there is no value: it is a value of a category, in JSON, a CSV file and a stream."""
    model = Model()
    model.learn([{"word": "x", "age": 5}])
    for door in (as_json, as_csv, as_stream):
        assert model.features(door(model, [{"word": "NA", "age": "NA"}])) == [{"word=NA": 1.0}]


def test_an_empty_text_is_no_value_and_decides_no_kind() -> None:
    for learnt in ({"age": 5}, {"word": "x"}, {"word": 7}, {"word": True}):
        model = Model()
        model.learn([{"word": ""}, learnt])
        for name, door in DOORS.items():
            assert model.features(door(model, [{"word": "", "on": 1}])) == [{"on": 1.0}], name
        assert list(of_query(model, [{"word": "", "on": 1}])) == [{"on": 1.0}]
    off = Context(EncoderConfig(fields=Fields.from_document("off")))
    assert [named(row) for row in explain_rows(b'{"features": {"word": ""}}', LINES, off)] == [{"word=": 1.0}]
