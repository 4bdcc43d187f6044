"""Arrow streams: what is read equals the same rows in other formats, to the bit; what is not read says why."""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from riata.base.errors import BadInput, Malformed, TooLarge, Unsupported
from riata.wire.batch import Batch
from riata.wire.codes import OK, subject_digest
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, Labels, explain_rows, parse_examples
from riata.wire.parsed import Parsed
from tests.arrow_stream import (
    END,
    MARK,
    Column,
    batch,
    examples,
    lists,
    message,
    numbers,
    schema,
    stream,
    strings,
    table,
)
from tests.twins import arrow_rows as twin

NAMES: Sequence[Sequence[str]] = [["a", "bb"], ["c"], []]
ARROW = "application/vnd.apache.arrow.stream"
VALUES = [[1.0, 2.5], [3.0], []]
PLAIN = Context(EncoderConfig())


def read(body: bytes, labels: Labels = "0/1", labelled: bool = True, names: NamesSeen | None = None) -> Parsed:
    """Parse an Arrow body."""
    return parse_examples(body, ARROW, Context(EncoderConfig(), labels, names), labelled)


def columns(label: object = (1.0, 0.0, 1.0)) -> list[Column]:
    """Three valid rows."""
    return examples(NAMES, VALUES, list(label) if isinstance(label, tuple) else label)


def refused(body: bytes) -> str:
    """The reason why a body is refused as a whole."""
    with pytest.raises(BadInput) as error:
        read(body)
    return str(error.value)


def codes(parsed: Parsed) -> dict[int, str]:
    """Row errors by row."""
    return {error.index: error.code for error in parsed.errors}


def same_bits(left: Batch, right: Batch) -> bool:
    fields = ("indptr", "hash", "value", "label", "weight", "event_id", "has_id")
    return all(getattr(left, name).tobytes() == getattr(right, name).tobytes() for name in fields)


def random_rows(rng: random.Random) -> tuple[list[list[int]], list[list[float]], list[int]]:
    names = [rng.sample(range(10**6), rng.randrange(200)) for _ in range(50)]
    values = [[rng.choice((rng.gauss(0, 1), 0.0, 1.0)) for _ in row] for row in names]
    return names, values, [rng.randrange(2) for _ in names]


def test_rows_equal_those_of_ndjson_and_svmlight_to_the_bit() -> None:
    names, values, label = random_rows(random.Random(1))
    named = [[f"n{name}" for name in row] for row in names]
    json_rows = (
        json.dumps({"features": dict(zip(row, held, strict=True)), "label": y})
        for row, held, y in zip(named, values, label, strict=True)
    )
    seen = NamesSeen(20_000)
    context = Context(EncoderConfig(), names=seen)
    expected = parse_examples("\n".join(json_rows).encode(), "application/x-ndjson", context, labelled=True)
    found = read(stream(examples(named, values, label), 50), names=seen)
    assert same_bits(found.batch, expected.batch)
    assert sorted(found.names) == sorted(expected.names)
    lines = (
        f"{y} " + " ".join(f"{n}:{v!r}" for n, v in zip(row, held, strict=True))
        for row, held, y in zip(names, values, label, strict=True)
    )
    expected = parse_examples("\n".join(lines).encode(), "text/x-svmlight", context, labelled=True)
    found = read(stream(examples(names, values, label), 50), names=seen)
    assert same_bits(found.batch, expected.batch)
    assert sorted(found.names) == sorted(expected.names)


def test_large_lists_and_every_type_of_number_are_read() -> None:
    ends = [0, 2, 3, 3]
    for held in (np.array([1.0, 2.5, 3.0], np.float32), np.array([1.0, 2.5, 3.0])):
        for label in (np.array([1, 0, 1], kind) for kind in ("i1", "u1", "i4", "u8", "f4", "f8", "?")):
            body = stream(
                [
                    lists("names", ends, strings("", ["a", "bb", "c"], large=True), large=True),
                    lists("values", ends, numbers("", held), large=True),
                    numbers("label", label),
                    numbers("weight", np.array([1, 2, 3], np.int64)),
                    strings("event_id", ["x", None, "\u00e9"]),
                ],
                3,
            )
            parsed = read(body)
            assert parsed.batch.value.tolist() == read(stream(columns(), 3)).batch.value.tolist()
            assert parsed.batch.label.tolist() == [1.0, 0.0, 1.0]
            assert parsed.batch.weight.tolist() == [1.0, 2.0, 3.0]
            assert parsed.batch.has_id.tolist() == [True, False, True]


def test_labels_are_as_the_model_has_them() -> None:
    assert read(stream(columns((1.0, -1.0, 1.0)), 3), "-1/+1").batch.label.tolist() == [1.0, 0.0, 1.0]
    assert read(stream(columns((1.5, -1.0, 0.0)), 3), "real").batch.label.tolist() == [1.5, -1.0, 0.0]
    assert codes(read(stream(columns((1.0, -3.0, float("nan"))), 3))) == {1: "bad_label", 2: "bad_label"}
    assert refused(stream(columns((1.0, -1.0, 1.0)), 3)).startswith("the labels are -1 and 1")
    assert codes(read(stream(columns((1.0, -1.0, 0.0)), 3))) == {1: "bad_label"}
    assert codes(read(stream(columns((1.0, None, 0.0)), 3))) == {1: "missing_label"}
    assert codes(read(stream(columns(None), 3))) == dict.fromkeys(range(3), "missing_label")
    assert read(stream(columns(None), 3), labelled=False).batch.n == 3
    assert codes(read(stream(columns((None, 1.0, None)), 3), labelled=False)) == {1: "label_not_allowed"}


def test_rows_at_fault_are_refused_alone() -> None:
    extra = [numbers("weight", [1.0, 0.0, float("nan"), None]), strings("event_id", ["a", "b", "c", "d"])]
    names = [["a"], ["b"], ["c"], ["d"]]
    parsed = read(stream([*examples(names, [[1.0]] * 4, [1, 1, 1, 1]), *extra], 4))
    assert codes(parsed) == {1: "bad_weight", 2: "bad_weight"}
    assert parsed.batch.weight.tolist() == [1.0, 1.0]
    ids = strings("event_id", ["", "x" * 257, b"\xff", "a\0b"])
    parsed = read(stream([*examples(names, [[1.0]] * 4, [1, 1, 1, 1]), ids], 4))
    assert codes(parsed) == dict.fromkeys(range(4), "bad_event_id")
    whose = [strings("subject", ["", "ann", b"\xff", None]), strings("event_id", ["a", "b", "", "d"])]
    parsed = read(stream([*examples(names, [[1.0]] * 4, [1, 1, 1, 1]), *whose], 4))
    assert codes(parsed) == {0: "bad_subject", 2: "bad_event_id"}
    assert parsed.batch.subject is not None
    assert [row.tobytes() for row in parsed.batch.subject] == [subject_digest(b"ann", 0), bytes(16)]
    odd = [["a", "a"], [""], ["x" * 257], ["a\x01"], ["e\u0301"], ["\u00e9"], ["b"], ["b"], ["b"], ["b", "c"], ["ok"], ["\x85"]]
    held = [[1.0, 2.0], [1.0], [1.0], [1.0], [1.0], [1.0], [float("nan")], [float("inf")], [1e16], [1.0], [0.0], [1.0]]
    parsed = read(stream(examples(odd, held, [1] * 12), 12))
    assert codes(parsed) == {
        0: "duplicate_key", 1: "bad_name", 2: "name_too_long", 3: "bad_name", 4: "not_nfc", 6: "out_of_range", 7: "out_of_range",
        8: "out_of_range", 9: "lengths_differ", 11: "bad_name",
    }  # fmt: skip
    assert parsed.row.tolist() == [5, 10]
    assert parsed.errors[0].detail.startswith("features.a: ")
    accented = parse_examples('{"features":{"\u00e9":1.0},"label":1}'.encode(), "application/json", PLAIN, labelled=True)
    assert parsed.batch.hash.tolist() == accented.batch.hash.tolist()
    broken = lists("names", [0, 1], strings("", [b"\xff"]))
    assert codes(read(stream([broken, *examples([["a"]], [[1.0]], [1])[1:]], 1))) == {0: "invalid_utf8"}


def test_indices_are_those_of_svmlight() -> None:
    parsed = read(stream(examples([[2**63 - 1, 0], [2**63], [3, 3]], [[1.0, 2.0], [1.0], [1.0, 2.0]], [1, 1, 1]), 3))
    assert codes(parsed) == {1: "bad_index", 2: "duplicate_index"}
    line = parse_examples(b"1 9223372036854775807:1 0:2", "text/x-svmlight", PLAIN, labelled=True)
    assert parsed.batch.hash.tolist() == line.batch.hash.tolist()
    short = lists("indices", [0, 1], numbers("", np.array([7], np.uint32)))
    assert read(stream([short, *examples([["a"]], [[1.0]], [1])[1:]], 1)).batch.n == 1
    for kind in ("i4", "i8", "u2", "f8"):
        wrong = lists("indices", [0, 1], numbers("", np.array([7], kind)))
        assert "uint32 or uint64" in refused(stream([wrong, *examples([["a"]], [[1.0]], [1])[1:]], 1))


def test_columns_are_named_in_the_refusal() -> None:
    good = columns()
    assert "unknown column" in refused(stream([*good, numbers("weigth", [1.0] * 3)], 3))
    assert "comes twice" in refused(stream([*good, numbers("label", [1.0] * 3)], 3))
    assert "names or indices" in refused(stream(good[1:], 3))
    assert "values" in refused(stream([good[0], good[2]], 3))
    both = lists("indices", [0, 0, 0, 0], numbers("", np.zeros(0, np.uint64)))
    assert "names or indices" in refused(stream([*good, both], 3))
    assert "expected lists" in refused(stream([strings("names", ["a"] * 3), *good[1:]], 3))
    assert "lists of strings" in refused(stream([lists("names", [0, 1, 1, 1], numbers("", [1.0])), *good[1:]], 3))
    assert "float or double" in refused(stream([good[0], lists("values", [0, 1, 1, 1], numbers("", np.array([1], np.int32)))], 3))
    assert "float or double" in refused(
        stream([good[0], lists("values", [0, 1, 1, 1], numbers("", np.array([1], np.float16)))], 3)
    )
    assert "expected numbers" in refused(stream([*good[:2], strings("label", ["1"] * 3)], 3))
    assert "expected strings" in refused(stream([*good, numbers("event_id", [1.0] * 3)], 3))


def test_nulls_in_lists_are_refused() -> None:
    good = columns()
    hollow = lists("values", [0, 2, 3, 3], numbers("", [1.0, None, 3.0]))
    assert "no nulls" in refused(stream([good[0], hollow, good[2]], 3))
    missing = lists("values", [0, 2, 3, 3], numbers("", [1.0, 2.0, 3.0]))
    missing.buffers[0], missing.nulls = b"\x03", 1
    assert "no nulls" in refused(stream([good[0], missing, good[2]], 3))


@pytest.mark.parametrize("at", ["names", "values", "strings"])
@pytest.mark.parametrize("item", [np.int32, np.int64])
@pytest.mark.parametrize("ends", [[0, 2, 9, 9], [0, 2, 1, 3], [-1, 2, 3, 3], [0, 2, 3, 2**31 - 1]])
def test_offsets_are_checked(at: str, ends: list[int], item: type[np.signedinteger]) -> None:
    large = item is np.int64
    good = [
        lists("names", [0, 2, 3, 3], strings("", ["a", "b", "c"], large), large),
        lists("values", [0, 2, 3, 3], numbers("", np.ones(3)), large),
        numbers("label", [1.0, 0.0, 1.0]),
    ]
    assert read(stream(good, 3)).batch.n == 3
    wrong = np.array(ends, item).tobytes()
    if at == "strings":
        good[0].children[0].buffers[1] = wrong
    else:
        good[at == "values"].buffers[1] = wrong
    assert "offset" in refused(stream(good, 3))


def test_streams_of_another_kind_are_refused() -> None:
    good = columns()
    head, body = schema(good), batch(good, 3)
    assert read(head + body).batch.n == read(head + body + END).batch.n == 3
    assert "one batch a request" in refused(head + body + body + END)
    assert "behind its end" in refused(head + body + END + b"x")
    assert "a record batch" in refused(head + END)
    assert "expected a schema" in refused(body)
    assert "compressed" in refused(head + batch(good, 3, compressed=True) + END)
    assert "dictionaries" in refused(head + message(2, table([("<q", 1)])) + body + END)
    good[2].dictionary = True
    assert "Dictionary" in refused(stream(good, 3))


def test_a_schema_is_known_again_by_its_bytes_alone() -> None:
    """Schemas of usual and of great length, each read twice."""
    good = columns()
    for padding in (0, 5000):
        head = schema(good)
        size = int.from_bytes(head[4:8], "little")
        head = MARK + struct.pack("<i", size + padding) + head[8:] + bytes(padding)
        for _ in range(2):
            assert read(head + batch(good, 3) + END).batch.n == 3
            assert "expected numbers" in refused(schema([*good[:2], strings("label", ["1"] * 3)]) + batch(good, 3) + END)
            assert "metadata bytes" in refused(head[:-1])


def test_announced_lengths_are_checked() -> None:
    good = columns()
    whole = stream(good, 3)
    for size in range(len(whole) - len(END)):
        assert refused(whole[:size])
    assert "did not match" in refused(schema(good) + batch(good, 4) + END)
    assert refused(schema(good) + batch(good, -1) + END)
    assert refused(schema(good) + batch(good, 2**40) + END)
    with pytest.raises(TooLarge):
        read(stream(examples([[]] * 10_001, [[]] * 10_001, [1] * 10_001), 10_001))
    for change in (_longer, _more_nulls, _cut, _fewer):
        good = columns()
        change(good)
        assert refused(schema(columns()) + batch(good, 3) + END)
    assert refused(MARK + struct.pack("<i", 2**31 - 1) + whole[8:])
    assert refused(MARK + struct.pack("<i", -8) + whole[8:])
    with pytest.raises(Malformed, match="no rows"):
        read(stream(examples([], [], []), 0))


def _longer(held: list[Column]) -> None:
    held[1].children[0].length = 2**40


def _more_nulls(held: list[Column]) -> None:
    held[2].nulls = 7


def _cut(held: list[Column]) -> None:
    held[2].buffers[1] = held[2].buffers[1][:8]


def _fewer(held: list[Column]) -> None:
    del held[2]


def test_no_change_of_bytes_does_harm() -> None:
    """Any bytes are refused as a body, or read as rows that are accepted or refused."""
    rng, whole, read_well = random.Random(9), stream([*columns(), strings("event_id", ["x", None, "y"])], 3), 0
    for _ in range(4000):
        body = bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            body[rng.randrange(len(body))] = rng.choice((0, 1, 4, 127, 128, 255, rng.randrange(256)))
        try:
            parsed = read(bytes(body))
        except BadInput:
            continue
        read_well += 1
        assert parsed.batch.n + len(parsed.errors) == parsed.rows == 3
        assert bool(np.isfinite(parsed.batch.value).all())
    assert read_well > 400


def test_rows_equal_those_of_the_twin() -> None:
    rng = random.Random(10)
    for _ in range(100):
        names = [rng.choice((f"n{rng.randrange(30)}", "\x01", "ok", "é", "e\u0301")) for _ in range(rng.randrange(5))]
        values = [
            rng.choice((1.0, -2.5, 0.0, 1e16)) if rng.random() < 0.2 else 1.0 for _ in range(len(names) + (rng.random() < 0.1))
        ]
        parsed = read(stream(examples([names, ["z"]], [values, [1.0]], [1, 1]), 2))
        code, features = twin.read_lists([name.encode() for name in names], values, 0)
        assert (code == OK) == (parsed.batch.n == 2)
        if code == OK:
            first = slice(0, int(parsed.batch.indptr[1]))
            assert list(zip(parsed.batch.hash[first].tolist(), parsed.batch.value[first].tolist(), strict=True)) == features


def test_columns_may_begin_anywhere_in_the_stream() -> None:
    """Numbers that are not aligned as the format requires are read too."""
    head = schema(columns())
    longer = MARK + struct.pack("<i", len(head) - 7) + head[8:] + b"\0"
    assert same_bits(read(longer + batch(columns(), 3) + END).batch, read(stream(columns(), 3)).batch)


def test_rows_to_predict_can_be_explained() -> None:
    body = stream(columns(None), 3)
    explained = explain_rows(body, ARROW, PLAIN)
    assert [sorted(name for _, _, name in row) for row in explained] == [["a", "bb"], ["c"], []]


def test_without_pyarrow_a_body_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Unsupported, match=r"install it with `pip install 'riata\[parquet\]'`") as refusal:
        read(stream(columns(), 3))
    assert refusal.value.code == "no_pyarrow"
