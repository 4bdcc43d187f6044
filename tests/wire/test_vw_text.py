from __future__ import annotations

import gzip
import math
import os
import random
from pathlib import Path

import numpy as np
import pytest

from riata.base.limits import NAME_BYTES_MAX
from riata.maths.hashing import FIELD_EQUALS, FIELD_NAMESPACE, NUMBER
from riata.native.reading import hash_of, read_vw
from riata.wire import codes
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, Labels, parse_examples
from riata.wire.parsed import Parsed
from riata.wire.readers.vw_reference import reference_vw
from riata.wire.rows import SlowRow
from tests.twins import vw_text as twin
from tests.wire.compiled_reader import compare, mutate, rules_of, run


def _parse(text: str | bytes, labelled: bool = True, labels: Labels = "0/1", names: NamesSeen | None = None) -> Parsed:
    body = text.encode() if isinstance(text, str) else text
    return parse_examples(body, "text/x-vw", Context(EncoderConfig(), labels, names), labelled)


def _features(text: str) -> dict[int, float]:
    batch = _parse(text, labelled=False).batch
    assert batch.n == 1
    return dict(zip(batch.hash.tolist(), batch.value.tolist(), strict=True))


def _hash(name: str, namespace: str = "") -> int:
    key = hash_of(namespace.encode(), 0, FIELD_NAMESPACE) if namespace else 0
    return hash_of(name.encode(), key, NUMBER) >> 32


def _word(name: str, word: str, namespace: str = "") -> int:
    key = hash_of(namespace.encode(), 0, FIELD_NAMESPACE) if namespace else 0
    return hash_of(word.encode(), hash_of(name.encode(), key, FIELD_EQUALS), NUMBER) >> 32


def _code(text: str | bytes, labelled: bool = True, labels: Labels = "0/1") -> str:
    parsed = _parse(text, labelled, labels)
    assert parsed.batch.n == 0
    (error,) = parsed.errors
    return error.code


@pytest.mark.parametrize(
    ("line", "label", "weight"),
    [
        ("1 |f a", 1.0, 1.0), ("0 |f a", 0.0, 1.0), ("1 2.5 |f a", 1.0, 2.5), ("1 2 0 |f a", 1.0, 2.0), ("1 'tag |f a", 1.0, 1.0),
        ("1 2 'tag |f a", 1.0, 2.0), ("1 2 tag|f a", 1.0, 2.0), ("1 2 0 tag|f a", 1.0, 2.0), ("1 'tag|f a", 1.0, 1.0),
        ("1 0.5|f a", 1.0, 1.0), ("\t 1\t3  |f a", 1.0, 3.0), ("1 ' |f a", 1.0, 1.0), ("1.0e0 1e3 |f a", 1.0, 1000.0),
        ("-0 |f a", 0.0, 1.0), ("1 |f a\r", 1.0, 1.0),
    ],
)  # fmt: skip
def test_label_importance_base_and_tag_are_told_apart(line: str, label: float, weight: float) -> None:
    batch = _parse(line).batch
    assert batch.n == 1
    assert math.copysign(1, batch.label[0]) == 1
    assert (batch.label[0], batch.weight[0]) == (label, weight)
    assert batch.hash.tolist() == [_hash("a", "f")]
    assert not batch.has_id.any()


@pytest.mark.parametrize(
    ("labels", "good", "bad"),
    [
        ("0/1", {"0": 0.0, "1": 1.0, "+1": 1.0}, ["-1", "2", "0.5", "nan", "inf", "x", "1:2:0.5"]),
        ("-1/+1", {"-1": 0.0, "+1": 1.0, "1.0": 1.0}, ["0", "2", "nan"]),
        ("real", {"-2.5": -2.5, "9e15": 9e15, "-0": 0.0}, ["9000000000000001", "1e400", "x", "inf"]),
    ],
)
def test_labels_follow_the_setting(labels: Labels, good: dict[str, float], bad: list[str]) -> None:
    for text, label in good.items():
        assert _parse(f"{text} | a", labels=labels).batch.label.tolist() == [label]
    for text in bad:
        assert _code(f"{text} | a", labels=labels) == "bad_label"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("| a", "missing_label"), ("1| a", "missing_label"), ("'1 | a", "missing_label"), ("1 0 | a", "bad_weight"),
        ("1 -1 | a", "bad_weight"), ("1 1001 | a", "bad_weight"), ("1 x | a", "bad_weight"), ("1 nan | a", "bad_weight"),
        ("1 1 0.5 | a", "base_not_supported"), ("1 1 x | a", "base_not_supported"), ("1 1 0 0 | a", "malformed"),
        ("1", "malformed"), ("1 f a", "malformed"), ("1 | a:", "bad_number"), ("1 | a:1x", "bad_number"),
        ("1 | a:1:2", "bad_number"), ("1 | a:x:y", "bad_number"), ("1 | a:nan", "bad_number"), ("1 | a:-inf", "bad_number"),
        ("1 | a:Infinity", "bad_number"), ("1 | a:0x1", "bad_number"), ("1 | a:-", "bad_number"), ("1 | :", "bad_number"),
        ("1 |:2 a", "bad_name"), ("1 |f: a", "bad_number"), ("1 |f:x a", "bad_number"), ("1 |f:1e16 a", "out_of_range"),
        ("1 | a:9000000000000001", "out_of_range"), ("1 | a:1e999", "out_of_range"), ("1 |f:1e14 a:100", "out_of_range"),
        ("1 | a:9e15 a:9e15", "out_of_range"), ("1 | a\x01b", "bad_name"),
        ("1 |f\x7f a", "bad_name"), ("1 | a:b\x00", "bad_name"),
        ("1 | a\x85b", "bad_name"), ("1 |f\x80 a", "bad_name"), ("1 | a:b\x9f", "bad_name"),
        ("1 | a\rb", "bad_name"), ("1 | :paris", "bad_name"), ("1 | e\u0301", "not_nfc"), ("1 | a:e\u0301", "not_nfc"),
    ],
)  # fmt: skip
def test_a_line_at_fault_is_refused_with_its_reason_and_the_others_go_on(line: str, code: str) -> None:
    assert _code(line) == code
    parsed = _parse(f"0 | x\n{line}\n1 | y\n")
    assert parsed.row.tolist() == [0, 2]
    assert parsed.batch.hash.tolist() == [_hash("x"), _hash("y")]
    assert [(error.index, error.code) for error in parsed.errors] == [(1, code)]


def test_bytes_that_are_not_utf8_are_refused_and_utf8_is_read() -> None:
    assert _code(b"1 | a\xff") == "invalid_utf8"
    assert _code(b"1 \xff| a") == "invalid_utf8"
    assert _features("|caf\u00e9:2 cr\u00e8me:3 \u4e16:\u754c") == {
        _hash("cr\u00e8me", "caf\u00e9"): 6.0,
        _word("\u4e16", "\u754c", "caf\u00e9"): 1.0,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("| a b:2", {("a", ""): 1.0, ("b", ""): 2.0}),
        ("|f a b:.5|g a", {("a", "f"): 1.0, ("b", "f"): 0.5, ("a", "g"): 1.0}),
        ("|f:2 a b:3 |g:-.5 a:4 | a", {("a", "f"): 2.0, ("b", "f"): 6.0, ("a", "g"): -2.0, ("a", ""): 1.0}),
        ("|f a a:2 |f a:4", {("a", "f"): 7.0}),
        ("|f a:1 a:-1 b:0", {}),
        ("|f", {}),
        ("||| a", {("a", ""): 1.0}),
        ("|'f 'a \"b", {("'a", "'f"): 1.0, ('"b', "'f"): 1.0}),
        ("|f\ta\t\tb:2  ", {("a", "f"): 1.0, ("b", "f"): 2.0}),
        ("| 5:1 #:2 a=b", {("5", ""): 1.0, ("#", ""): 2.0, ("a=b", ""): 1.0}),
        ("|f :3 :4 b :5", {("0", "f"): 3.0, ("1", "f"): 4.0, ("b", "f"): 1.0, ("2", "f"): 5.0}),
        ("| :3 |f :4", {("0", ""): 3.0, ("0", "f"): 4.0}),
        ("|f:0 a b:2", {}),
        ("| a:5e-324", {}),
    ],
)
def test_namespaces_scales_and_values_make_features(text: str, expected: dict[tuple[str, str], float]) -> None:
    assert _features(text) == {_hash(*name): value for name, value in expected.items()}


def test_a_value_that_is_a_word_is_an_indicator_that_no_scale_touches() -> None:
    assert _features("|user:3 city:paris n:2") == {_word("city", "paris", "user"): 1.0, _hash("n", "user"): 6.0}
    assert _features("| city:paris city:nantes in:no") == {
        _word("city", "paris"): 1.0,
        _word("city", "nantes"): 1.0,
        _word("in", "no"): 1.0,
    }


def test_nameless_namespaces_have_the_names_of_json() -> None:
    json = b'{"features": {"age": 41.5, "city": "paris"}}'
    context = Context(EncoderConfig(hash_key=77))
    a = parse_examples(json, "application/json", context, labelled=False).batch
    b = parse_examples(b"| age:41.5 city:paris", "text/x-vw", context, labelled=False).batch
    assert a.hash.tolist() == b.hash.tolist()
    assert a.value.tolist() == b.value.tolist()


def test_names_are_shown_as_they_are_written() -> None:
    line = "1 |user age:4 city:paris | b city:rome |caf\u00e9 \u00e9:2 :7"
    names = [name.decode() for _, name in _parse(line, names=NamesSeen()).names]
    ascii_names = [name.decode() for _, name in _parse(line.partition("|caf")[0], names=NamesSeen()).names]
    assert names == ["user^age", "user^city:paris", "b", "city=rome", "caf\u00e9^\u00e9", "caf\u00e9^0"]
    assert ascii_names == names[:4]


def test_a_row_to_predict_may_have_no_label_or_one_that_is_not_looked_at() -> None:
    body = "| a\n1 | a\n-1 7 'tag | a\nx y| a\n"
    batch = _parse(body, labelled=False).batch
    assert batch.n == 4
    assert np.isnan(batch.label).all()
    assert batch.weight.tolist() == [1.0] * 4
    assert _code("1 1 0.5 | a", labelled=False) == "base_not_supported"


def test_blank_lines_are_no_rows() -> None:
    parsed = _parse("\n1 | a\r\n\r\n  \t\n0 | b\nx | c\n\n")
    assert parsed.rows == 3
    assert parsed.batch.label.tolist() == [1.0, 0.0]
    assert [error.index for error in parsed.errors] == [2]


def test_long_names_are_refused_one_byte_too_late() -> None:
    for make in ("|{} a", "| {}", "| {}:2", "| a:{}", "|f {}:b"):
        assert _parse(make.format("x" * NAME_BYTES_MAX), labelled=False).batch.n == 1
        assert _code(make.format("x" * (NAME_BYTES_MAX + 1)), labelled=False) == "name_too_long"


def test_numbers_next_to_a_tie_are_read_too() -> None:
    text = "0.50000000000000005551115123125782702118158340454101562500000001"
    slow = reference_vw(f"| a:{text}".encode(), rules_of(labelled=False))
    assert isinstance(slow, SlowRow)
    assert slow.records == [(hash_of(b"a", 0, NUMBER), float(text), 0, b"a")]
    _, _, (out,) = run(read_vw, f"| a:{text}\n".encode(), rules_of(labelled=False))
    assert out.code == codes.HANDOVER
    assert _features(f"| a:{text}") == {_hash("a"): float(text)}
    assert _parse(f"1 | a |f:{text} b").batch.nnz == 2


def test_too_many_rows_or_features_end_the_reading() -> None:
    assert run(read_vw, b"1 | a\n1 | b\n", rules_of(), rows_max=2)[0] == codes.OK
    assert run(read_vw, b"1 | a\n1 | b\n1 | c\n", rules_of(), rows_max=2)[0] == codes.TOO_MANY_ROWS
    line = "1 | " + " ".join(f"f{i}" for i in range(10_000))
    assert _parse(line).batch.nnz == 10_000
    assert _code(line + " one_more") == "too_many_features_in_row"


_PARTS = ["a", "b:2", "c:.5", "age:41.25", "city:paris", "x:-1e-3"]
_RARER_PARTS = ["long_name_here:123456.789", ":3", "0:1", "z:0", "b:1", "na:nan", "i:inf", "e:1e16"]
_RARER_PARTS += ["caf\u00e9:2", "\u6771\u4eac", "city:S\u00e3o", "e\u0301", "x\u0085"]
_FRONTS = ["1", "0", "1 2", "0 .5 'tag", "1 1 0", "tag", "1 2 tag", "'t", "", "-1", "1 0", "1 1 0.5", "1 x", "0 1 0 1"]


def _line(rng: random.Random) -> bytes:
    front = rng.choice(_FRONTS[:5] if rng.random() < 0.8 else _FRONTS)
    line = front + rng.choice(["", " ", " ", " ", "\t"])
    for _ in range(rng.randrange(1, 4)):
        line += "|" + rng.choice(["", "f", "g:2", "user", "h:0.1", "k:-3", "\u00e9", "u"])
        parts = _PARTS if rng.random() < 0.6 else _PARTS + _RARER_PARTS
        line += "".join(rng.choice([" ", " ", "  ", "\t"]) + rng.choice(parts) for _ in range(rng.randrange(0, 6)))
        line += rng.choice(["", " "])
    return line.encode() + rng.choice([b"", b"", b"\r"])


@pytest.mark.parametrize("labels", ["0/1", "-1/+1", "real", "classes"])
def test_both_readers_agree_on_mutated_lines(labels: Labels) -> None:
    rng = random.Random(f"vw {labels}")
    total = np.zeros(3, dtype=np.int64)
    for _ in range(10):
        lines = [mutate(rng, _line(rng), b" |:'\t\r.-+eE019nafix\x00\x7f\xc3\xa9\xff") for _ in range(1000)]
        rules = rules_of(labels, labelled=rng.random() < 0.7, key=rng.getrandbits(63))
        total += compare(read_vw, twin.read_vw, b"\n".join(lines), rules)
    assert total.sum() > 9_500
    assert (total[:2] > 500).all()  # both outcomes are well represented
    assert total[2] < (100 if labels == "classes" else 1), "hardly a line is left to the reader in Python"


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("labels", ["0/1", "-1/+1", "real", "classes"])
def test_fronts_of_any_kind_agree_with_the_twin(labels: Labels, labelled: bool) -> None:
    fronts = [
        "0",
        "1",
        "-1",
        "-0",
        "7",
        "-7",
        "11",
        "--1",
        "-",
        "",
        "x",
        "/",
        ":",
        "+1",
        "+1.0",
        "0.5",
        "9e15",
        "1e16",
        "1e999",
        "nan",
    ]
    fronts += ["1 2", "1 2 0", "1 2 0 0", "1 't", "1 2 't", "1 x", "0 0", "c" * 128, "c" * 129, "\u00e9", "e\u0301"]
    lines = [
        f"{space}{front}{gap}|{rest}"
        for front in fronts
        for space in ("", " ")
        for gap in ("", " ", "  ", "\t", " t")
        for rest in ("", " a", "f b")
    ]
    accepted, refused, _ = compare(read_vw, twin.read_vw, "\n".join(lines).encode(), rules_of(labels, labelled))
    assert accepted > 100
    assert refused > (50 if labelled else 10)


@pytest.mark.parametrize("seed", range(4))
def test_short_lines_of_any_bytes_agree_with_the_twin(seed: int) -> None:
    rng = random.Random(seed)
    lines = [
        b"1 |" + bytes(rng.choice(b"ab:| \t19.-+einf\x01\xc3\xa9\x85") for _ in range(rng.randrange(20))) for _ in range(9000)
    ]
    accepted, refused, left = compare(read_vw, twin.read_vw, b"\n".join(lines), rules_of(key=5))
    assert accepted > 500
    assert refused > 5000
    assert left == 0


def test_the_names_of_a_row_before_are_compared_wholly() -> None:
    """A name that stood in the same place, in the same namespace, is not hashed again: rows that differ in a little each way."""
    fronts = ("|", "|f", "|g", "|f:2", "|ff")
    words = ("a", "b", "ab", "a:2", "b:3", "ab:4", "a:x", "a:y", "longer_than_eight:5", "longer_than_eighT:6", ":7", "0:8", "1:9")
    rng = random.Random(6)
    lines = [
        f"1 {rng.choice(fronts)} {' '.join(rng.choices(words, k=rng.randrange(1, 4)))}{rng.choice(('', ' |f a'))}"
        for _ in range(800)
    ]
    body = "\n".join(lines).encode()
    for seen in (False, True):
        for config in (EncoderConfig(), EncoderConfig(crosses=(("f", "a"), ("a", "b")))):
            context = Context(config, names=NamesSeen() if seen else None)
            whole = parse_examples(body, "text/x-vw", context, labelled=True)
            assert whole.batch.n == len(lines)
            names = set[bytes]()
            for row, line in enumerate(lines):
                alone = parse_examples(line.encode(), "text/x-vw", context, labelled=True)
                span = slice(int(whole.batch.indptr[row]), int(whole.batch.indptr[row + 1]))
                assert whole.batch.hash[span].tobytes() == alone.batch.hash.tobytes()
                assert whole.batch.value[span].tobytes() == alone.batch.value.tobytes()
                names.update(name for _, name in alone.names)
            assert {name for _, name in whole.names} == names


def test_a_real_file_is_read_like_its_twin() -> None:
    if "RIATA_SHARED" not in os.environ:
        pytest.skip("RIATA_SHARED is not set: no data sets to read")
    body = gzip.decompress((Path(os.environ["RIATA_SHARED"]) / "data" / "rcv1_vw_train1000.vw.gz").read_bytes())
    accepted, refused, left = compare(read_vw, twin.read_vw, body, rules_of("-1/+1"))
    assert (accepted, refused, left) == (1000, 0, 0)
