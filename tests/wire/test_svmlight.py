from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import numpy as np
import pytest

from riata.maths.hashing import NUMBER
from riata.native.reading import hash_of, read_svmlight
from riata.wire import codes
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, Labels, parse_examples
from riata.wire.parsed import Parsed
from tests.twins import svmlight as twin
from tests.wire.compiled_reader import compare, mutate, rules_of, run


def _parse(text: str | bytes, labelled: bool = True, labels: Labels = "0/1", names: NamesSeen | None = None) -> Parsed:
    body = text.encode() if isinstance(text, str) else text
    return parse_examples(body, "text/x-svmlight", Context(EncoderConfig(), labels, names), labelled)


def _hash(index: str) -> int:
    return hash_of(index.encode(), 0, NUMBER) >> 32


def _features(text: str | bytes, labelled: bool = True) -> dict[int, float]:
    batch = _parse(text, labelled).batch
    assert batch.n == 1
    return dict(zip(batch.hash.tolist(), batch.value.tolist(), strict=True))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1 1:2 3:4.5", {"1": 2.0, "3": 4.5}), ("1 3:1 1:-2e-1", {"3": 1.0, "1": -0.2}), ("1", {}), ("+1 0:1", {"0": 1.0}),
        ("1 1:0 2:5e-324", {}), ("\t1 \t 2:.5  ", {"2": 0.5}), ("1 1:2 # 3:4", {"1": 2.0}), ("1 1:2#x", {"1": 2.0}),
        ("1 9223372036854775807:1", {"9223372036854775807": 1.0}), ("1 1:2\r", {"1": 2.0}), ("1#", {}),
    ],
)  # fmt: skip
def test_pairs_become_features(line: str, expected: dict[str, float]) -> None:
    assert _features(line) == {_hash(index): value for index, value in expected.items()}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("2 1:1", "bad_label"), ("x 1:1", "bad_label"), ("-1 1:1", "bad_label"), ("nan 1:1", "bad_label"),
        ("1:1", "missing_label"), ("1 qid:3 1:1", "qid_not_supported"),
        ("1 01:1", "bad_index"), ("1 -1:1", "bad_index"), ("1 +1:1", "bad_index"),
        ("1 1.0:1", "bad_index"), ("1 :1", "bad_index"), ("1 9223372036854775808:1", "bad_index"),
        ("1 99999999999999999999:1", "bad_index"),
        ("1 18446744073709551617:1", "bad_index"), ("1 a:1", "bad_index"), ("1 00:1", "bad_index"), ("1 1:", "bad_number"),
        ("1 1:x", "bad_number"), ("1 1:nan", "bad_number"), ("1 1:inf", "bad_number"), ("1 1:2:3", "bad_number"),
        ("1 1:9000000000000001", "out_of_range"), ("1 1:-1e400", "out_of_range"), ("1 3:1 2:1 3:1", "duplicate_index"),
        ("1 3:0 3:0", "duplicate_index"), ("1 3", "malformed"), ("1 2 3:4", "malformed"),
    ],
)  # fmt: skip
def test_a_line_at_fault_is_refused_with_its_reason_and_the_others_go_on(line: str, code: str) -> None:
    parsed = _parse(f"0 7:1\n{line}\n1 8:1\n")
    assert parsed.row.tolist() == [0, 2]
    assert parsed.batch.hash.tolist() == [_hash("7"), _hash("8")]
    assert [(error.index, error.code) for error in parsed.errors] == [(1, code)]


@pytest.mark.parametrize(
    ("labels", "good", "bad"),
    [("0/1", ["0", "1"], "-1"), ("-1/+1", ["-1", "+1"], "0"), ("real", ["0", "1"], "1e16")],
)
def test_labels_follow_the_setting(labels: Labels, good: list[str], bad: str) -> None:
    parsed = _parse("\n".join(f"{label} 1:1" for label in [*good, bad]), labels=labels)
    assert parsed.batch.label.tolist() == [0.0, 1.0]
    assert [(error.index, error.code) for error in parsed.errors] == [(2, "bad_label")]


def test_comments_may_hold_any_bytes_and_make_no_rows() -> None:
    parsed = _parse(b"# \xff\xfe head\n\n1 1:2 # caf\xe9\n  # more\n0 3:1\n\r\n")
    assert parsed.rows == 2
    assert parsed.batch.hash.tolist() == [_hash("1"), _hash("3")]
    assert [error.code for error in _parse(b"1 \xff:1").errors] == ["bad_index"]


def test_a_row_to_predict_may_have_no_label_or_one_that_is_not_looked_at() -> None:
    batch = _parse("1:2\n-7 1:2\nx 1:2\n", labelled=False).batch
    assert batch.n == 3
    assert np.isnan(batch.label).all()
    assert batch.hash.tolist() == [_hash("1")] * 3


def test_indices_are_the_names_of_json() -> None:
    context = Context(EncoderConfig(hash_key=5))
    a = parse_examples(b'{"features": {"3": 0.1, "12": 4}}', "application/json", context, labelled=False).batch
    b = parse_examples(b"12:4 3:0.1", "text/x-libsvm", context, labelled=False).batch
    assert a.hash.tolist() == b.hash.tolist()
    assert a.value.tolist() == b.value.tolist()
    assert [name for _, name in _parse("1 3:1 12:2", names=NamesSeen()).names] == [b"3", b"12"]


def test_numbers_next_to_a_tie_are_read_too() -> None:
    text = "0.50000000000000005551115123125782702118158340454101562500000001"
    _, _, (out,) = run(read_svmlight, f"1 1:{text}\n".encode(), rules_of())
    assert out.code == codes.HANDOVER
    assert _features(f"1 1:{text}") == {_hash("1"): float(text)}
    assert [error.code for error in _parse(f"1 1:{text} 2:1 2:1").errors] == ["duplicate_index"]


def test_too_many_rows_end_the_reading() -> None:
    assert run(read_svmlight, b"1 1:1\n1 1:1\n", rules_of(), rows_max=2)[0] == codes.OK
    assert run(read_svmlight, b"1 1:1\n1 1:1\n1\n", rules_of(), rows_max=2)[0] == codes.TOO_MANY_ROWS


def _line(rng: random.Random) -> bytes:
    words = [rng.choice(["1", "0", "-1", "+1", "0.5", "1:1"]) if rng.random() < 0.4 else rng.choice("01")]
    for _ in range(rng.randrange(0, 8)):
        index = str(rng.getrandbits(64) if rng.random() < 0.02 else rng.randrange(rng.choice([12, 10**6])))
        words.append(index + ":" + rng.choice(["1", "0", f"{rng.uniform(-9, 9):.5f}", f"{rng.random():.7e}", "9e15", "-.5"]))
    return rng.choice([" ", " ", "  ", "\t"]).join(words).encode() + rng.choice([b"", b"", b" ", b"\r", b" # end", b"#1:2"])


@pytest.mark.parametrize("labels", ["0/1", "-1/+1", "real", "classes"])
def test_both_readers_agree_on_mutated_lines(labels: Labels) -> None:
    rng = random.Random(f"svmlight {labels}")
    total = np.zeros(3, dtype=np.int64)
    for _ in range(10):
        lines = [mutate(rng, _line(rng), b" :#\t\r.-+e019qidn\xff") for _ in range(1000)]
        total += compare(read_svmlight, twin.read_svmlight, b"\n".join(lines), rules_of(labels, labelled=rng.random() < 0.7))
    assert total.sum() > 9_500
    assert (total[:2] > 500).all()  # both outcomes are well represented; hardly a number is next to a tie


@pytest.mark.parametrize("seed", range(4))
def test_short_lines_of_any_bytes_agree_with_the_twin(seed: int) -> None:
    rng, lines = random.Random(seed), []
    for _ in range(9000):
        text = bytes(rng.choice(b"0123:9.-eqid# \xb2") for _ in range(rng.randrange(12)))
        if rng.random() < 0.3:
            text = str(rng.choice([2**63 - 1, 2**63, 2**64, rng.getrandbits(66)])).encode() + text[:1] + b":1"
        lines.append(rng.choice((b"1 ", b"1 ", b"0 5:1 ", b"")) + text + rng.choice((b"", b":1", b" 7:2")))
    accepted, refused, left = compare(read_svmlight, twin.read_svmlight, b"\n".join(lines), rules_of(key=5))
    assert accepted > 500
    assert refused > 4000
    assert left == 0


def test_the_indices_of_a_row_before_are_compared_wholly() -> None:
    """An index that stood in the same place is not hashed again: rows that differ in a little each way."""
    rng = random.Random(6)
    lines = [
        b"1 "
        + b" ".join(
            b"%d:%d" % (i, rng.randrange(9)) for i in rng.sample((0, 1, 2, 12, 123456789, 123456788), rng.randrange(1, 5))
        )
        for _ in range(5000)
    ]
    accepted, refused, left = compare(read_svmlight, twin.read_svmlight, b"\n".join(lines), rules_of(key=5))
    assert (accepted, refused, left) == (5000, 0, 0)


@pytest.mark.parametrize(("name", "rows", "labels"), [("a9a_train", 8000, "-1/+1"), ("news20_pcmac", 1943, "real")])
def test_real_files_are_read_like_their_twin(name: str, rows: int, labels: Labels) -> None:
    if "RIATA_SHARED" not in os.environ:
        pytest.skip("RIATA_SHARED is not set: no data sets to read")
    body = gzip.decompress((Path(os.environ["RIATA_SHARED"]) / "data" / f"{name}.svmlight.gz").read_bytes())
    lines = body.split(b"\n")[:rows]
    assert compare(read_svmlight, twin.read_svmlight, b"\n".join(lines), rules_of(labels)) == (rows, 0, 0)
