"""Hostile values of every type through every door of tables: each row becomes JSON or a refusal, never another error."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput, Malformed
from riata.cli.feed_rows import Layout as FeedLayout
from riata.cli.feed_rows import Message, event_of
from riata.cli.open_table import open_rows
from riata.cli.refusals import LeftOut
from riata.cli.tables import KINDS, Layout
from riata.client.calls import Sent
from riata.client.observing import observe_parts
from riata.wire.row_ids import RowIds
from riata.wire.tables import BadRow, Roles


class NoZone(tzinfo):
    """A time zone that does not know its offset."""

    def utcoffset(self, _when: datetime | None) -> timedelta | None:
        raise OverflowError("no offset")

    def dst(self, _when: datetime | None) -> None:
        raise OverflowError("no offset")

    def tzname(self, _when: datetime | None) -> None:
        raise OverflowError("no name")


class Evil:
    """Raises whatever is asked of it."""

    @property
    def dtype(self) -> object:
        raise ZeroDivisionError

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __float__ = __len__ = __iter__ = __eq__ = __str__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


def deep(levels: int) -> Any:
    found: Any = [1.0]
    for _ in range(levels):
        found = [found]
    return found


TEXTS = [
    "", " ", "nan", "NaN", "-nan", "inf", "-Infinity", "1e999", "-1e999", "1e-999", "0x1F", "1_000", "\u0661\u0662",
    "9" * 5000, "1" * 400, "\x00", "a\x00b", "\ud800", "\U0001f600", "e\u0301", "\u202e", "\ufeff", "[", "[1,", "[" * 100_000,
    "[1,[2]]", "[1e999]", "[NaN]", "{}", '{"a":1}', '"', "'", "\\", "\r", "\n", "\t", ",", ";", "true", "None", "NA", "-",
    "?", "2024-02-30", "0000-00-00", "9999-12-31T23:59:59.999999Z", "2024-01-01T00:00:00+99:99", "a" * 100_000, "=1+1",
    "\u2028", "+1", ".", "1.", ".5", "1e", "e1", "--1", "1,5", "0" * 400 + "1",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -0.0, 1, -1, 2**53 + 1, 2**63, 2**64, -(2**64), 10**308, 10**309, 10**400, -(10**400), 10**5000,
    math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, Decimal("1.5"), Decimal("NaN"), Decimal("sNaN"),
    Decimal("Infinity"), Decimal("1e999"), Decimal("1e-999"), Fraction(1, 3), 1j, b"bytes", b"\xff", bytearray(b"x"),
    date.min, date.max, datetime.min, datetime.max, datetime(2024, 1, 1, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), datetime(2024, 1, 1, tzinfo=NoZone()), timedelta.max,
    timedelta.min, [], [None], [[]], [1, "a"], ["a", None], [1.0, math.nan], [math.inf], [10**400], deep(3), deep(5000),
    (1, 2), {1, 2}, {}, {"a": 1}, {"a": {"b": 1}}, {1: 2}, {"\ud800": 1}, {None: 1}, {"a": math.inf}, {"a": deep(5000)},
    range(3), object(), Evil(), Evil, len, np.float32(1.5), np.float64("nan"), np.float16("inf"), np.longdouble("1e4000"),
    np.int8(-1), np.uint64(2**64 - 1), np.bool_(True), np.str_("x"), np.bytes_(b"x"), np.complex128(1j), np.datetime64("NaT"),
    np.datetime64("2024-01-01T00:00:00.123456789", "ns"), np.datetime64(2**62, "Y"), np.datetime64(300_000, "Y"),
    np.timedelta64("NaT"), np.timedelta64(5, "ns"), np.timedelta64(5, "Y"), np.array([]), np.array([1.0, np.nan]),
    np.array([[1, 2], [3, 4]]), np.array(["a", None], object), np.array(3), np.void(b"abc"), np.zeros(1, [("a", "f8")])[0],
    np.ma.masked, np.array([1, 2**63], object), *TEXTS,
]  # fmt: skip
ROLES = [
    Roles("label"),
    Roles("label", classes=True),
    Roles("label", positive="1"),
    Roles("label", "a", "b", subject="c"),
    *(Roles("label", kinds=dict.fromkeys("abc", kind)) for kind in KINDS),
]


def send(table: Any, roles: Roles, rows: int) -> None:
    """Every row is sent as JSON that can be read, with an id, or is refused with a reason."""
    bad: list[BadRow] = []
    sent = 0
    for numbers, call in observe_parts(table, roles, Sent("m"), "source", bad):
        count = int(call.params["ids"])
        assert count == len(numbers)
        sent += count
        for line in call.content[: len(call.content) - 16 * count].split(b"\n"):
            if line.strip():
                json.loads(line, parse_constant=lambda name: pytest.fail(name))
    assert sent + len(bad) == rows
    assert all(row.code in CODES and str(row) for row in bad), [row.code for row in bad if row.code not in CODES]


CODES = {"bad_value", "not_finite", "missing_label", "not_an_object", "bad_name"}


def rows_of(seed: int, values: list[Any], count: int = 60) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {**{name: rng.choice(values) for name in "abc"}, "label": rng.choice([0, 1, 1, rng.choice(values)])} for _ in range(count)
    ]


@pytest.mark.parametrize("roles", ROLES)
@pytest.mark.parametrize("column", ["a", "b", "c", "label"])
def test_every_value_in_every_role_of_a_dictionary(roles: Roles, column: str) -> None:
    rows = [{"a": 1, "b": 2, "c": 3, "label": 1, column: value} for value in VALUES]
    for row in rows:
        send([row, {"a": 1, "b": 2, "c": 3, "label": 1}], roles, 2)
    send([{"features": row, "label": row[column]} for row in rows], roles, len(rows))
    send([{"prediction_id": "0" * 32, column: value} for value in VALUES], roles, len(VALUES))
    send(VALUES, Roles("label"), len(VALUES))


@pytest.mark.parametrize("seed", range(20))
def test_columns_and_dictionaries_of_random_values(seed: int) -> None:
    rows = rows_of(seed, VALUES)
    for roles in ROLES:
        send(rows, roles, len(rows))
        send({name: [row[name] for row in rows] for name in rows[0]}, roles, len(rows))


@pytest.mark.parametrize("seed", range(10))
def test_data_frames(seed: int) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = rows_of(seed, VALUES)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    frame = pandas.DataFrame({name: pandas.Series(values, dtype=object) for name, values in columns.items()})
    texts = rows_of(seed, [text for text in TEXTS if text != "\ud800"])
    numbers = rows_of(seed, [value for value in VALUES if type(value) is float])
    times = pandas.DataFrame(
        {
            "a": pandas.to_datetime(["2024-01-01", None, "1677-09-22"]),
            "b": pandas.to_timedelta([1, None, 2**62], unit="ns"),
            "c": pandas.Categorical(["x", None, "y"]),
            "label": [1, 0, 1],
        }
    )
    whole = pandas.DataFrame({"a": [1, None], "b": [True, None], "c": ["x", None], "label": [1, 0]}).convert_dtypes()
    for roles in ROLES:
        send(frame, roles, len(rows))
        for made in (pandas.DataFrame(texts), polars.DataFrame(pandas.DataFrame(texts).astype(str).to_dict("list"))):
            send(made, roles, len(texts))
        send(polars.DataFrame(pandas.DataFrame(numbers).astype(float).to_dict("list")), roles, len(numbers))
        send(times, roles, len(times))
        send(whole, roles, len(whole))


def arrow_columns() -> dict[str, Any]:
    arrow = pytest.importorskip("pyarrow")
    odd = arrow.array([b"\xff", b"ok", b"1"]).view(arrow.binary())
    return {
        "text that is not UTF-8": arrow.Array.from_buffers(arrow.string(), 3, odd.buffers()),
        "ns": arrow.array([1, None, 1704067200123456789], arrow.timestamp("ns")),
        "ns, zone": arrow.array([1, None, -1], arrow.timestamp("ns", "Europe/Berlin")),
        "far": arrow.array([2**62, None, -(2**62)], arrow.timestamp("us")),
        "s": arrow.array([2**62, None, -(2**62)], arrow.timestamp("s")),
        "date32": arrow.array([2**30, None, -(2**30)], arrow.date32()),
        "date64": arrow.array([86_400_000, None, 0], arrow.date64()),
        "duration": arrow.array([1, None, 2**62], arrow.duration("ns")),
        "decimal": arrow.array([Decimal("1.5"), None, Decimal("-9.5")]),
        "half": arrow.array(np.array([1.5, np.nan, np.inf], np.float16)),
        "double": arrow.array([1.0, math.nan, -math.inf]),
        "uint64": arrow.array([2**64 - 1, None, 0], arrow.uint64()),
        "bool": arrow.array([True, None, False]),
        "null": arrow.nulls(3),
        "dictionary": arrow.array(["x", None, "y"]).dictionary_encode(),
        "list": arrow.array([[1.0, None], None, []]),
        "list of times": arrow.array([[1], None, []], arrow.list_(arrow.timestamp("ns"))),
        "struct": arrow.array([{"a": 1, "b": math.inf}, None, {"a": 2, "b": 1.0}]),
        "map": arrow.array([[("a", 1)], None, []], arrow.map_(arrow.string(), arrow.int64())),
        "binary": arrow.array([b"\xff", None, b"a"]),
        "time": arrow.array([1, None, 2], arrow.time64("ns")),
        "interval": arrow.array([(1, 2, 3), None, (0, 0, 0)], arrow.month_day_nano_interval()),
    }


def test_arrow_tables() -> None:
    arrow = pytest.importorskip("pyarrow")
    for name, column in arrow_columns().items():
        for roles in ROLES[:3]:
            send(arrow.table({name: column, "label": [1, 0, 1]}), roles, 3)
            with suppress(BadInput):  # no label has the value that means 1
                send(arrow.table({"a": [1, 2, 3], "label": column}), roles, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("has_pandas", [True, False])
def test_parquet_files(has_pandas: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    if not has_pandas:
        monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    path = tmp_path / "odd.parquet"
    for name, column in arrow_columns().items():
        for table in ({name: column, "label": [1, 0, 1]}, {"a": [1, 2, 3], "label": column}):
            try:
                parquet.write_table(arrow.table(table), path)
            except arrow.ArrowException:
                continue  # Parquet has no such type
            read(path, 3)


def read(path: Path, rows: int) -> None:
    watcher = Counting()
    try:
        with open_rows(str(path), Layout(watcher=watcher)) as source:
            lines = [line for line in source.read().split(b"\n") if line]
    except (BadInput, Malformed):
        return
    for line in lines:
        json.loads(line, parse_constant=lambda name: pytest.fail(name))
    assert len(lines) + watcher.bad == rows


class Counting(LeftOut):
    """Counts the rows that are left out, and makes the id of every other one."""

    def __init__(self) -> None:
        super().__init__()
        self.bad = 0
        self._ids = RowIds("x")

    def made(self, example: dict[str, Any]) -> None:
        assert len(self._ids.ids(self._ids.digests([self._ids.told(example)]))) == 16

    def refuses(self, row: BadRow) -> None:
        super().refuses(row)
        self.bad += 1


@pytest.mark.parametrize("seed", range(20))
def test_csv_files(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    texts = [text for text in TEXTS if text != "\ud800" and "\x00" not in text]
    rows = rows_of(seed, texts)
    written = io.StringIO()
    table = csv.writer(written, delimiter=rng.choice(",;\t|"))
    table.writerows([["a", "b", "c", "label"], *(row.values() for row in rows)])
    path = tmp_path / "odd.csv"
    path.write_text(written.getvalue(), encoding="utf-8", newline="")
    read(path, len(rows))
    content = bytearray(path.read_bytes())
    for _ in range(3):
        content[rng.randrange(len(content))] = rng.randrange(256)
    path.write_bytes(content)
    watcher = Counting()
    with suppress(BadInput, Malformed), open_rows(str(path), Layout(watcher=watcher)) as source:
        source.read()


@pytest.mark.parametrize(("row_field", "event_id"), [(None, None), ("row", None), ("row", "id")])
def test_fields_of_redis_and_values_of_kafka(row_field: str | None, event_id: str | None) -> None:
    layout = FeedLayout("s", row_field, "label", event_id)
    rng = random.Random(1)
    contents = [text.encode("utf-8", "surrogatepass") for text in TEXTS]
    contents += [b"\xff", b"\xef\xbb\xbf1", b"null", b"[]", b'"x"', b"1" * 5000]
    documents = [json.dumps(value, default=str).encode() for value in VALUES if not isinstance(value, Evil) and small(value)]
    nested = [b'{"features":%s,"label":1,"id":%s}' % (one, one) for one in documents]
    events = [b'{"specversion":"1.0","id":%s,"source":"s","data":%s}' % (one, one) for one in documents]
    for content in [*contents, *documents, *nested, *events, b'{"features":' + b"[" * 100_000]:
        fields = {b"row": content, b"a": content, b"label": rng.choice([b"1", content])}
        with suppress(ValueError):
            json.loads(event_of(Message("7-1", fields), layout))


def small(value: Any) -> bool:
    try:
        json.dumps(value, default=str)
    except Exception:
        return False
    return True
