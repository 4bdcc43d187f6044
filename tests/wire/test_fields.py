"""Fields: the same value is the same feature in every format, by the kind of its field, and kinds are a function of the names."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.base.errors import BadInput
from riata.predict.name_book import NameBook
from riata.wire.batch import slice_rows
from riata.wire.encoder import EncoderConfig, fingerprint
from riata.wire.fields import (
    AUTO,
    FIELDS_MET_MAX,
    KINDS,
    NO_FIELDS,
    FieldKinds,
    Fields,
    hash_of_field,
    meet_of_each,
    read_as,
    read_untyped,
)
from riata.wire.names import Names, NamesOfEach
from riata.wire.parse import (
    Context,
    explain_query,
    explain_rows,
    make_rules,
    parse_examples,
    read_for_models,
    read_together,
)
from riata.wire.parsed import Parsed, Reading
from riata.wire.read_body import FORMATS, read_body
from riata.wire.readers.json_reference import reference_json
from riata.wire.rows import SHADOWED, SlowRow
from tests.store.batches import same
from tests.twins.fields import fields_of
from tests.twins.hashing import TAGS, hash_name

LINES = "application/x-ndjson"
DECLARED = {
    "a": "number",
    "c": "category",
    "b": "boolean",
    "t": "time",
    "s": "unix_s",
    "ms": "unix_ms",
    "n^c": "category",
    "n^a": "number",
    "l": "list",
    "x": "text",
}
NOON = "2026-11-29T12:00:00Z"
DAYS = 20786.5
AT_NOON = {"when": DAYS, "when.hour=12": 1.0, "when.weekday=Sun": 1.0}


class Model:
    """The fields and names of a model, and bodies read as a service reads them."""

    def __init__(self, fields: Any = "auto", **encoder: Any) -> None:
        self.encoder = EncoderConfig(fields=Fields.from_document(fields), **encoder)
        self.names = NameBook.of(self.encoder)

    @property
    def context(self) -> Context:
        return Context(self.encoder, names=self.names.seen, kinds=self.names.kinds)

    def observe(self, *rows: dict[str, Any]) -> Parsed:
        body = b"\n".join(json.dumps({"features": row, "label": 1}).encode() for row in rows)
        parsed = parse_examples(body, LINES, self.context, labelled=True)
        assert parsed.errors == []
        self.names.add_all(parsed.names)
        return parsed

    def features(self, row: dict[str, Any]) -> dict[str, float]:
        body = json.dumps({"features": row}, ensure_ascii=False).encode()
        (found,) = explain_rows(body, LINES, self.context)
        slow = reference_json(body, make_rules(self.context, labelled=False))
        assert isinstance(slow, SlowRow)
        counts: Counter[str] = Counter()
        for _, value, kind, shown in slow.records:
            counts.update({shown.decode(): value} if not kind & SHADOWED and value else {})
        assert counts == named(found)
        return named(found)

    def of_query(self, *pairs: tuple[str, str]) -> dict[str, float]:
        (found,) = explain_query(list(pairs), self.context)
        return named(found)

    def of_vw(self, line: str) -> dict[str, float]:
        (found,) = explain_rows(line.encode(), "text/x-vw", self.context)
        return named(found)

    def kinds(self) -> dict[str, str]:
        assert self.names.kinds is not None
        return self.names.kinds.documents()


def named(row: list[tuple[int, float, str]]) -> dict[str, float]:
    return {name: value for _, value, name in row}


@pytest.mark.parametrize(
    ("name", "value", "features"),
    [
        ("a", 41.5, {"a": 41.5}),
        ("a", "41.5", {"a": 41.5}),
        ("a", "+.5", {"a": 0.5}),
        ("a", " 7 ", {"a": 7.0}),
        ("a", True, {"a": 1.0}),
        ("a", "true", {"a": 1.0}),
        ("a", "FALSE", {}),
        ("a", "NA", {}),
        ("a", "\\N", {}),
        ("a", "#N/A", {}),
        ("a", None, {}),
        ("a", "many", {"a=many": 1.0}),
        ("a", "1e9", {"a": 1e9}),
        ("a", "12345678901234567890123", {"a=12345678901234567890123": 1.0}),
        ("a", ["1", "x"], {"a=1": 1.0, "a=x": 1.0}),
        ("c", "de", {"c=de": 1.0}),
        ("c", 94107, {"c=94107": 1.0}),
        ("c", -0.0, {"c=0": 1.0}),
        ("c", 94107.0, {"c=94107": 1.0}),
        ("c", 1e5, {"c=100000": 1.0}),
        ("c", 1.5, {"c=1.5": 1.0}),
        ("c", "01067", {"c=01067": 1.0}),
        ("c", "1.0", {"c=1.0": 1.0}),
        ("c", True, {"c=true": 1.0}),
        ("c", False, {"c=false": 1.0}),
        ("c", "NA", {"c=NA": 1.0}),
        ("c", [1, "x", True], {"c=1": 1.0, "c=x": 1.0, "c=true": 1.0}),
        ("c", None, {}),
        ("b", "Yes", {"b": 1.0}),
        ("b", "n", {}),
        ("b", "1", {"b": 1.0}),
        ("b", True, {"b": 1.0}),
        ("b", 1, {"b": 1.0}),
        ("b", "maybe", {"b=maybe": 1.0}),
        ("t", "soon", {"t=soon": 1.0}),
        ("t", "2026-02-30", {"t=2026-02-30": 1.0}),
        ("t", "2026/02/30", {"t=2026/02/30": 1.0}),
        ("t", "2026/11-29", {"t=2026/11-29": 1.0}),
        ("t", "29/11/2026", {"t=29/11/2026": 1.0}),
        ("l", "a", {"l=a": 1.0}),
        ("l", ["a", "b"], {"l=a": 1.0, "l=b": 1.0}),
        ("l", '["a","b"]', {"l=a": 1.0, "l=b": 1.0}),
        ("l", '["a", 5.0, true]', {"l=a": 1.0, "l=5": 1.0, "l=true": 1.0}),
        ("l", ["a", 5, False], {"l=a": 1.0, "l=5": 1.0, "l=false": 1.0}),
        ("l", 5, {"l=5": 1.0}),
        ("l", "[]", {}),
        ("l", "", {}),
        ("l", "[null]", {"l=[null]": 1.0}),
        ("l", "[x", {"l=[x": 1.0}),
        ("l", "5.0", {"l=5.0": 1.0}),
        ("x", "Grüße an ALLE, an alle", {"x:grüße": 1.0, "x:an": 2.0, "x:alle": 2.0}),
        ("x", ["two words", "one"], {"x:two": 1.0, "x:words": 1.0, "x:one": 1.0}),
        ("x", [5, "one"], {"x:5": 1.0, "x:one": 1.0}),
        ("x", 7, {"x:7": 1.0}),
        ("x", True, {"x:true": 1.0}),
        ("x", None, {}),
        ("u", 94107, {"u": 94107.0}),
        ("u", "94107", {"u=94107": 1.0}),
        ("ü", "x", {"ü=x": 1.0}),
    ],
)
def test_a_value_is_read_by_the_kind_of_its_field(name: str, value: Any, features: dict[str, float]) -> None:
    assert Model(DECLARED).features({name: value}) == features


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("time", NOON),
        ("time", "2026-11-29 14:00:00+02:00"),
        ("time", "2026-11-29t12:00:00.000z"),
        ("time", "2026-11-29T12:00"),
        ("time", DAYS),
        ("unix_s", DAYS * 86_400),
        ("unix_ms", DAYS * 86_400_000),
        ("unix_ms", NOON),
    ],
)
def test_a_time_is_a_number_of_days_its_hour_and_its_day_of_the_week(kind: str, value: Any) -> None:
    assert Model({"when": kind}).features({"when": value}) == AT_NOON


def test_every_hour_of_a_week_is_its_own() -> None:
    model = Model({"when": "unix_s"})
    for hour in range(7 * 24):
        found = model.features({"when": 1_795_910_400 + 3600 * hour})  # a Sunday
        day = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")[hour // 24]
        assert set(found) == {"when", f"when.hour={hour % 24}", f"when.weekday={day}"}


def test_a_date_has_no_hour() -> None:
    for written in ("2026-11-29", "2026/11/29"):
        assert Model({"when": "time"}).features({"when": written}) == {"when": 20786.0, "when.weekday=Sun": 1.0}


@pytest.mark.parametrize(
    ("pairs", "features"),
    [
        ([("c", "94107")], {"c=94107": 1.0}),
        ([("c", "94107.0")], {"c=94107": 1.0}),
        ([("c", "1e5")], {"c=1e5": 1.0}),
        ([("c", "1"), ("c", "2")], {"c=1": 1.0, "c=2": 1.0}),
        ([("a", "5")], {"a": 5.0}),
        ([("a", "+5")], {"a": 5.0}),
        ([("a", "NA")], {}),
        ([("b", "yes")], {"b": 1.0}),
        ([("s", str(int(DAYS * 86_400)))], {"s": DAYS, "s.hour=12": 1.0, "s.weekday=Sun": 1.0}),
        ([("l", '["a",5]')], {"l=a": 1.0, "l=5": 1.0}),
        ([("l", "a"), ("l", "b")], {"l=a": 1.0, "l=b": 1.0}),
        ([("l", "5.0")], {"l=5": 1.0}),
        ([("x", "Two words")], {"x:two": 1.0, "x:words": 1.0}),
        ([("x", "7")], {"x:7": 1.0}),
        ([("u", "5")], {"u": 5.0}),
    ],
)
def test_a_query_is_read_by_the_kinds_too(pairs: list[tuple[str, str]], features: dict[str, float]) -> None:
    assert Model(DECLARED).of_query(*pairs) == features


@pytest.mark.parametrize(
    ("line", "features"),
    [
        ("| c:94107 a:5", {"c=94107": 1.0, "a": 5.0}),
        ("|n c:3 a:2", {"n^c:3": 1.0, "n^a": 2.0}),
        ("| c", {"c=1": 1.0}),
        ("| l:5 l:a", {"l=5": 1.0, "l=a": 1.0}),
        ("| x:5", {"x": 5.0}),  # it has no texts
        ("| c:x", {"c=x": 1.0}),
    ],
)
def test_vw_text_is_read_by_the_kinds_too(line: str, features: dict[str, float]) -> None:
    assert Model(DECLARED).of_vw(line) == features


def test_fields_of_a_namespace_have_kinds() -> None:
    model = Model(DECLARED)
    assert model.features({"n": {"c": 3, "a": "4"}}) == {"n^c:3": 1.0, "n^a": 4.0}


def test_svmlight_is_read_by_the_kinds_too() -> None:
    model = Model({"3": "category"})
    (found,) = explain_rows(b"3:7 5:2", "text/x-svmlight", model.context)
    assert named(found) == {"3=7": 1.0, "5": 2.0}


def test_a_body_with_new_fields_is_read_twice_unless_they_can_only_be_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = list[bytes]()

    def counted(body: bytes, *args: Any) -> Reading:
        reads.append(body)
        return read_body(body, *args)

    monkeypatch.setattr("riata.wire.parse.read_body", counted)
    model, body = Model(), b"1 3:7 5:1\n0 3:1 9:2\n"
    model.observe({"5": "x"})
    reads.clear()
    found = parse_examples(body, "text/x-svmlight", model.context, labelled=True)
    assert reads == [body]
    assert sorted(name for _, name in found.names) == [b"3", b"5=1", b"9"]
    parse_examples(b"1 | a:1\n-1 | a:2\n", "text/x-vw", replace(model.context, labels="-1/+1"), labelled=True)
    assert len(reads) == 3


def test_the_first_feature_of_a_field_decides_its_kind() -> None:
    model = Model()
    model.observe({"zip": "01067", "age": 41, "n": {"c": "x", "k": 2}, "ok": True, "tags": ["x", "y"]})
    categories, numbers = ("zip", "n^c", "tags"), ("age", "n^k", "ok")
    assert model.kinds() == dict.fromkeys(categories, "category") | dict.fromkeys(numbers, "number")
    assert model.features({"zip": 94107, "age": "42"}) == {"zip=94107": 1.0, "age": 42.0}
    assert model.of_query(("zip", "94107"), ("age", "42")) == model.features({"zip": 94107, "age": "42"})


def test_all_rows_of_a_body_are_read_by_the_same_kinds() -> None:
    """Also if a row before the first of a field goes to the reference reader, which ends later."""
    model = Model()
    parsed = model.observe({"zip": "01067"}, {"zip": 94107}, {"zip": 94107.0})
    assert [name for _, name in parsed.names] == [b"zip=01067", b"zip=94107"]
    model = Model({"when": "time"})
    model.observe({"when": NOON, "zip": "a"}, {"zip": 5})
    assert model.kinds()["zip"] == "category"
    assert parsed.batch.n == 3


def test_a_word_that_says_that_there_is_no_value_decides_nothing() -> None:
    model = Model()
    model.observe({"age": "NA"})
    assert model.kinds() == {}
    model.observe({"age": 5})
    assert model.kinds() == {"age": "number"}


def test_models_without_fields_read_by_the_value() -> None:
    model = Model("off")
    assert model.names.kinds is None
    model.observe({"zip": "01067"})
    assert model.features({"zip": 94107}) == {"zip": 94107.0}
    assert EncoderConfig(fields=NO_FIELDS).fields.written() == "off"


def test_only_declared_fields_have_kinds_if_others_are_off() -> None:
    model = Model({"zip": "category", "*": "off"})
    model.observe({"zip": 1, "age": 5})
    assert model.kinds() == {"zip": "category"}


def test_kinds_that_are_set_later_are_met_in_the_names_so_far() -> None:
    model = Model("off")
    model.observe({"zip": "01067", "age": 5})
    model.names.set_fields(AUTO)
    assert model.kinds() == {"zip": "category", "age": "number"}
    model.names.set_fields(Fields.from_document({"age": "category"}))
    assert model.kinds() == {"zip": "category", "age": "category"}
    model.names.set_fields(NO_FIELDS)
    assert model.names.kinds is None


def test_values_that_are_not_of_the_kind_are_counted() -> None:
    model = Model({"age": "number", "zip": "category"})
    model.observe({"age": 1, "zip": "a"}, {"age": "2", "zip": 3}, {"age": "many", "zip": True}, {"age": ["x"]}, {"age": "few"})
    assert model.names.kinds is not None
    assert {one.name: (one.contrary, one.unreadable) for one in model.names.kinds} == {"age": (0, 3), "zip": (2, 0)}


def random_names(rng: random.Random, key: int, count: int) -> list[tuple[int, bytes]]:
    words = ["a", "b", "x=y", "n^m", "c:d", "é", "q" * 40, "", "a=b=c=d", "^", "="]
    names = []
    for _ in range(count):
        one, two, space = (rng.choice(words).encode() for _ in range(3))
        inner = hash_name(space, key, TAGS["namespace"])
        names.append(
            rng.choice(
                [
                    (hash_name(one, key, TAGS["number"]), one),
                    (hash_name(two, hash_name(one, key, TAGS["equals"]), TAGS["number"]), one + b"=" + two),
                    (hash_name(two, hash_name(one, key, TAGS["word"]), TAGS["number"]), one + b":" + two),
                    (hash_name(one, inner, TAGS["number"]), space + b"^" + one),
                    (hash_name(two, hash_name(one, inner, TAGS["equals"]), TAGS["number"]), space + b"^" + one + b":" + two),
                    (rng.getrandbits(64), one + b"=" + two),
                ]
            )
        )
    return names


@pytest.mark.parametrize("seed", range(20))
def test_fields_are_found_as_the_slow_twin_finds_them(seed: int) -> None:
    rng = random.Random(seed)
    key = rng.choice([0, 1, 2**63 - 1])
    names = random_names(rng, key, 200)
    kinds = FieldKinds(AUTO, key)
    for start in range(0, len(names), 50):
        kinds.meet(Names.of(names[start : start + 50]))
    assert [(one.name.encode(), one.kind) for one in kinds] == fields_of(names, key)


def test_several_models_meet_with_one_call_what_each_would_alone() -> None:
    rng = random.Random(3)
    fields: list[Any] = ["auto", None, {"a": "time", "other": "list"}, "off", "auto", "auto"]
    encoders = [None if one is None else Fields.from_document(one) for one in fields]
    several = [None if one is None else FieldKinds(one, key) for key, one in enumerate(encoders)]
    alone = [None if one is None else FieldKinds(one, key) for key, one in enumerate(encoders)]
    for size in [0, 5, 60, 3, 700, 700, 50]:  # until tables grow, and until models are wide
        wide = [(hash_name(b"f%d" % i, 5, TAGS["number"]), b"f%d" % i) for i in range(size)]
        given = [Names.of(random_names(rng, key, rng.randrange(size + 1))) for key in range(len(fields) - 1)] + [Names.of(wide)]
        meet_of_each(several, NamesOfEach.of(given))
        for one, other, names in zip(several, alone, given, strict=True):
            if one is None or other is None:
                continue
            other.meet(names)
            assert (list(one), len(one), one.is_wide) == (list(other), len(other), other.is_wide)
            assert [one.kind(hash_of_field(field.name, 0)) for field in other] == [
                other.kind(hash_of_field(field.name, 0)) for field in other
            ]
            assert (one.native.others, one.native.room) == (other.native.others, other.native.room)
    wide = [(hash_name(b"w%d" % i, 5, TAGS["number"]), b"w%d" % i) for i in range(FIELDS_MET_MAX)]
    meet_of_each(several, NamesOfEach.of([Names.of([])] * 5 + [Names.of(wide)]))
    assert [one is not None and one.is_wide for one in several] == [False] * 5 + [True]


def test_a_model_meets_so_many_fields_and_no_more() -> None:
    kinds = FieldKinds(Fields.from_document({"declared": "time"}))
    names = Names.of([(hash_name(b"f%d" % i, 0, 0), b"f%d" % i) for i in range(FIELDS_MET_MAX + 5)])
    kinds.meet(names)
    assert (len(kinds), kinds.is_wide) == (FIELDS_MET_MAX + 1, True)
    assert kinds.kind(hash_of_field("f7", 0)) == KINDS["number"]
    assert kinds.kind(hash_of_field("declared", 0)) == KINDS["time"]
    assert kinds.kind(hash_of_field(f"f{FIELDS_MET_MAX + 1}", 0)) == 0


def test_bodies_of_several_models_are_read_by_the_kinds_of_each() -> None:
    models = [Model({"zip": "category"}), Model(), Model("off")]
    body = b'{"features":{"zip":5},"label":1}'
    read = read_for_models(
        [body] * 4,
        np.array([2, 3, 4]),
        FORMATS[LINES],
        models[0].context,
        [model.names.seen for model in models],
        [model.names.kinds for model in models],
    )
    assert read is not None
    assert [[name for _, name in names] for names in read.names] == [[b"zip=5"], [b"zip"], [b"zip"]]
    slow = b'{"features":{"zip":5.5},"label":1}'  # left to the reference reader, which has the kinds of one model only
    seen = [models[0].names.seen] * 2
    kinds = [models[0].names.kinds] * 2
    assert read_for_models([slow, body], np.array([1, 2]), FORMATS[LINES], models[0].context, seen, kinds) is None
    mixed = [b'{"features":{"new":"a"},"label":1}', b'{"features":{"new":5},"label":1}']
    new = read_for_models(mixed, np.array([2]), FORMATS[LINES], models[1].context, seen[:1], [models[1].names.kinds])
    together = read_together(mixed, FORMATS[LINES], models[1].context)
    assert new is not None
    assert [name for _, name in together.names] == [name for _, name in new.names[0]] == [b"new=a", b"new=5"]


@pytest.mark.parametrize(("values", "rounds_min"), [([5, 8], 120), ([5, "x"], 20), ([5, "x", "5"], 5)])
def test_what_several_models_meet_and_count_is_what_each_would_alone(values: list[Any], rounds_min: int) -> None:
    rng = np.random.default_rng(7)
    rounds = 0

    def row() -> bytes:
        features = {"abcdefgh"[rng.integers(8)]: values[rng.integers(len(values))] for _ in range(2)}
        return json.dumps({"features": features, "label": 1}).encode()

    for _ in range(40):
        made: list[Any] = ["auto", "auto", {"a": "category"}, "off"]
        several, alone = [Model(fields) for fields in made], [Model(fields) for fields in made]
        for _ in range(3):
            rows = [[row() for _ in range(rng.integers(1, 4))] for _ in made]
            stop = np.array([len(some) for some in rows]).cumsum()
            seen, kinds = [one.names.seen for one in several], [one.names.kinds for one in several]
            every = [body for some in rows for body in some]
            read = read_for_models(every, stop, FORMATS[LINES], several[0].context, seen, kinds)
            if read is None:  # a value is left to the reference reader, so each model is read by itself
                break
            rounds, begun = rounds + 1, 0
            for one, other, some, last, names in zip(several, alone, rows, read.last.tolist(), read.names, strict=True):
                expected = read_together(some, FORMATS[LINES], other.context)
                assert same(slice_rows(read.batch, begun, last), expected.batch)
                assert sorted(names) == sorted(expected.names)
                one.names.add_all(names)
                other.names.add_all(expected.names)
                assert list(one.names.kinds or ()) == list(other.names.kinds or ())
                begun = last
    assert rounds >= rounds_min


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        (5, 'encoder.fields: expected "auto", "off", or an object such as {"zip": "category"}'),
        ({"zip": "categroy"}, "encoder.fields.zip: 'categroy' is no kind of field; did you mean 'category'?"),
        ({"ecg": "curve"}, "encoder.fields.ecg: name the field in encoder.curves, with its tree"),
        ({"n^body": "text"}, "encoder.fields.n^body: a namespace has no texts"),
        ({"": "number"}, "encoder.fields.: the name of a field has 1 to 513 bytes"),
        ({"*": "number"}, "encoder.fields.*: 'number' is no kind of field"),
    ],
)
def test_a_setting_that_is_none_is_refused(given: Any, detail: str) -> None:
    with pytest.raises(BadInput) as refused:
        Fields.from_document(given)
    assert str(refused.value).startswith(detail)


def test_the_fingerprint_of_an_encoder_is_that_without_fields() -> None:
    assert fingerprint(EncoderConfig()) == fingerprint(EncoderConfig(fields=NO_FIELDS))


def test_a_field_is_a_text_from_the_change_on_that_says_so() -> None:
    model = Model()
    model.observe({"body": "Two words"})
    assert model.features({"body": "Two words"}) == {"body=Two words": 1.0}
    model.names.set_fields(Fields.from_document({"body": "text"}))
    assert model.features({"body": "Two words"}) == {"body:two": 1.0, "body:words": 1.0}


def test_fields_that_other_settings_declare_have_a_kind_too() -> None:
    model = Model(text=("body",))
    model.observe({"body": "Two words", "age": 1})
    assert model.kinds() == {"body": "text", "age": "number"}
    assert model.features({"body": 7}) == model.of_query(("body", "7")) == {"body:7": 1.0}
    assert Model("off", text=("body",)).features({"body": 7}) == {"body": 7.0}


@pytest.mark.parametrize("kind", [0, *KINDS.values()])
@pytest.mark.parametrize("value", [None, 5.0, True, "5", "x", "", ["x"], "[1", 1e300, "0001-01-01", "9999-12-31T23:59:60Z"])
def test_reading_a_value_never_fails(kind: int, value: Any) -> None:
    read_as(kind, value)
    if isinstance(value, str):
        read_untyped(kind, value)


def test_a_key_that_comes_twice_is_refused_whatever_its_kind() -> None:
    model = Model(DECLARED)
    for name, value in (("a", '"5"'), ("c", "5"), ("b", '"yes"')):
        body = f'{{"features":{{"{name}":{value},"{name}":{value}}}}}'.encode()
        parsed = parse_examples(body, LINES, model.context, labelled=False)
        assert [error.code for error in parsed.errors] == ["duplicate_key"]


KEY = 5


def names(*texts: str) -> Names:
    found = []
    for text in texts:
        field, is_indicator, value = text.encode().partition(b"=")
        number, prefix = (hash_name(field, KEY, TAGS[tag]) for tag in ("number", "equals"))
        found.append((hash_name(value, prefix, TAGS["number"]) if is_indicator else number, text.encode()))
    return Names.of(found)


def test_readers_of_lines_look_for_kinds_once_a_field_may_be_no_number() -> None:
    model = Model()
    model.observe({"a": 1})
    assert model.of_vw("| zip:5") == {"zip": 5.0}
    model.observe({"zip": "01067"})
    assert model.of_vw("| zip:5") == {"zip=5": 1.0}
    kinds = FieldKinds(AUTO, KEY)
    kinds.meet(names("zip", "a"), is_ahead=True)
    assert not kinds.uncounted().native.others
    kinds.settle(names("a", "zip=B"))
    assert kinds.uncounted().native.others


def test_names_of_the_log_decide_fields_that_were_met_ahead_of_them() -> None:
    kinds = FieldKinds(Fields((("d", "number"),), True), KEY)
    kinds.meet(names("a", "d=x"))
    kinds.meet(names("zip", "city", "late"), is_ahead=True)
    kinds.settle(names("a=1", "zip=B", "d=x", "city", "zip"))
    assert kinds.documents() == {"a": "number", "zip": "category", "city": "number", "late": "number", "d": "number"}
    kinds.settle(names("zip", "late=x", "city=x"))  # only `late` is still to be decided
    assert kinds.documents() == {"a": "number", "zip": "category", "city": "number", "late": "category", "d": "number"}
    assert kinds.kind(hash_of_field("late", KEY)) == KINDS["category"]
