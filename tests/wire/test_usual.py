"""Rows of the usual kinds, and of others, through the readers of lines, compared with the slow readers."""

from __future__ import annotations

import json
import random

import pytest

from riata.native.reading import read_svmlight, read_vw
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, parse_examples
from riata.wire.readers.svmlight_reference import reference_svmlight
from riata.wire.readers.vw_reference import reference_vw
from riata.wire.rows import SlowRow
from tests.twins import rows as rows_twin
from tests.twins import svmlight as svmlight_twin
from tests.twins import vw_text as vw_twin
from tests.twins.hashing import hash_name
from tests.wire.compiled_reader import compare, rules_of

PREFETCHED_FROM = 2**14  # places of a table of names
TAKEN = 2**17  # bytes of a body that are copied at once
_PIECES = (
    b"a",
    b"ff12",
    b"0.5",
    b":",
    b" ",
    b"|",
    b"-1",
    b"1e-5",
    b"\t",
    b"longer_than_eight",
    b"  ",
    b"#",
    b'"',
    b",",
    b"}",
    b"\xc3",
    b".25",
)

MANY = pytest.mark.parametrize("lines", [600, pytest.param(6000, marks=pytest.mark.slow)])


def some_line(rng: random.Random) -> bytes:
    """A line of the common form, or any line."""
    if rng.random() < 0.5:
        names = rng.sample(range(2000), rng.randrange(90))
        pairs = b" ".join(b"%d:%s" % (name, str(round(rng.gauss(0, 1), rng.randrange(1, 16))).encode()) for name in names)
        return rng.choice((b"1 |", b"1 | ", b"0 2.5 'tag|user ")) + pairs
    return b"1 |" + b"".join(rng.choice(_PIECES) for _ in range(rng.randrange(30)))


def some_words(rng: random.Random) -> bytes:
    """A line of words separated by single spaces, with rare exceptions."""
    words = []
    for _ in range(rng.choice((0, 1, 7, 8, 9, 40, 90))):
        name = rng.choice("abcdefgh") * rng.choice((1, 2, 7, 8, 9, 15, 16, 17, 40))
        value = repr(round(rng.gauss(0, 10 ** rng.randrange(-3, 5)), rng.randrange(12)))
        odd = ("-0", "0", "1.", ".5", "01", "-.5", "1e3", "", "--1", "1-")
        value = rng.choice((value, value, value, "1", *odd[: rng.choice((2, 10))]))
        words.append(name + rng.choice(("", f"{rng.randrange(99)}")) + rng.choice(("", f":{value}", f":{value}")))
    line = f"1 |{rng.choice(('', 'ns', 'a_long_namespace'))} {' '.join(words)}{rng.choice(('', '', ' ', '  '))}".encode()
    if rng.random() < 0.3:
        at = rng.randrange(3, len(line))
        line = line[:at] + rng.choice(_PIECES) + line[at:]
    return line


def some_pairs(rng: random.Random) -> bytes:
    """A line of svmlight, with rare exceptions."""
    words = [rng.choice((b"1", b"-1", b"0.5", b"1e3", b"x", b"3:1" if rng.random() < 0.1 else b"0"))]
    indices = {rng.randrange(10 ** rng.randrange(1, 9)) for _ in range(rng.choice((0, 1, 7, 8, 9, 40, 90)))}
    for index in sorted(indices - {0, 7}):
        value = repr(round(rng.gauss(0, 10 ** rng.randrange(-3, 5)), rng.randrange(12))).encode()
        words.append(b"%d:" % index + value)
    if rng.random() < 0.4:
        odd = (
            b"07:1",
            b"0:1",
            b"7",
            b":1",
            b"7:",
            b"a1:2",
            b"123456789:1",
            b"7:1:2",
            b"7 8:1",
            b" 7:1",
            b"7\t8:1",
            b"#7:1",
            b"7:x",
            b"/:1",
            b"::",
        )
        words.insert(rng.randrange(len(words) + 1), rng.choice(odd))
    return b" ".join(words) + rng.choice((b"", b" ", b"  "))


@pytest.mark.parametrize("size", [*range(1, 60), TAKEN - 1, TAKEN, TAKEN + 1, 2 * TAKEN, 3 * TAKEN + 70])
def test_a_body_is_cut_into_lines_wherever_its_parts_end(size: int) -> None:
    """Now and then a line is longer than what is copied at once."""
    rng = random.Random(size)
    letters, newline = b"abcdef|" * (1 if size < 60 else 100), b"\n" if size < 60 or size % 2 else b""
    body = bytes(rng.choices(letters + newline, k=size))
    lines = body.split(b"\n")
    parsed = parse_examples(b"| a\n" + body, "text/x-vw", Context(EncoderConfig()), labelled=False)
    assert parsed.lines == len(lines) + 1
    assert parsed.rows == sum(line != b"" for line in lines) + 1


def compared(lines: list[bytes], kind: str) -> tuple[int, int]:
    """Compare features and names with those of the slow reader; returns how many lines were accepted and refused."""
    slow, read, twin = {
        "text/x-vw": (reference_vw, read_vw, vw_twin.read_vw),
        "text/x-svmlight": (reference_svmlight, read_svmlight, svmlight_twin.read_svmlight),
    }[kind]
    rules = rules_of(labelled=False)
    accepted, refused, left = compare(read, twin, b"\n".join(lines), rules)
    assert left == 0
    parsed = parse_examples(b"\n".join(lines), kind, Context(EncoderConfig(), names=NamesSeen()), labelled=False)
    rows = [row for row in (slow(line, rules) for line in lines) if isinstance(row, SlowRow)]
    # A row may be refused for its sums after it was read.
    listed = {(fingerprint, name) for row in rows for fingerprint, value, _, name in row.records if value != 0.0}
    assert set(parsed.names) <= listed
    assert len(rows) > accepted or set(parsed.names) == listed
    return accepted, refused


@MANY
def test_lines_of_vw_text_of_any_kind_come_out_the_same(lines: int) -> None:
    rng = random.Random(2)
    accepted, refused = compared([some_line(rng) for _ in range(lines)], "text/x-vw")
    assert accepted > lines / 2
    assert refused > lines / 6


@MANY
def test_lines_of_words_come_out_the_same(lines: int) -> None:
    rng = random.Random(8)
    accepted, refused = compared([some_words(rng) for _ in range(lines)], "text/x-vw")
    assert accepted > lines / 4
    assert refused > lines / 6


@MANY
def test_lines_of_pairs_come_out_the_same(lines: int) -> None:
    rng = random.Random(9)
    accepted, refused = compared([some_pairs(rng) for _ in range(lines)], "text/x-svmlight")
    assert accepted > lines / 3
    assert refused > lines / 12


def test_a_label_that_is_none_is_refused_where_pairs_are_usual() -> None:
    context = Context(EncoderConfig(), "-1/+1")
    parsed = parse_examples(b"-1 1:2 3:4\n2 1:2\n+1 5:1\n1 5:1 5:1\n", "text/x-svmlight", context, labelled=True)
    assert parsed.batch.label.tolist() == [0.0, 1.0]
    assert [(error.index, error.code) for error in parsed.errors] == [(1, "bad_label"), (3, "duplicate_index")]


def test_a_body_without_usual_rows_equals_one_with_them() -> None:
    """A space before the bracket keeps a row from the fast reader, and has no meaning."""
    rng = random.Random(7)
    rows = []
    for _ in range(300):
        members = [
            f'"{rng.choice("abcdefgh")}{i}":{rng.choice((rng.random(), rng.randrange(9), -0.25, 1e-7))!r}'
            for i in range(rng.randrange(12))
        ]
        members += [f'"s{i}":"v{rng.randrange(5)}"' for i in range(rng.randrange(3))]
        rows.append(
            f'{{"features":{{{",".join(members)}}},"label":{rng.randrange(2)},"event_id":"e{rng.random()}","weight":2.5}}'
        )
    usual = "\n".join(rows).encode()
    other = "\n".join(row[:-1] + " }" for row in rows).encode()
    spaced = "\n".join(row.replace(":", ": ").replace(",", ", ") for row in rows).encode()
    listed = f"[{','.join(rows)}]".encode()
    context = Context(EncoderConfig())
    first = parse_examples(usual, "application/x-ndjson", context, labelled=True)
    assert first.batch.n == 300
    for body, kind in ((other, "application/x-ndjson"), (spaced, "application/x-ndjson"), (listed, "application/json")):
        again = parse_examples(body, kind, context, labelled=True).batch
        for name in ("indptr", "hash", "value", "label", "weight", "event_id", "has_id"):
            assert getattr(first.batch, name).tobytes() == getattr(again, name).tobytes(), name


def some_example(rng: random.Random) -> str:
    """An example whose features are numbers, with rare exceptions."""
    colon, comma = rng.choice(((":", ","), (":", ","), (": ", ", "), (":", ", ")))
    members = []
    for i in range(rng.choice((0, 1, 2, 7, 8, 9, 16, 17, 40))):
        name = rng.choice("abcdefgh") * rng.choice((1, 1, 2, 6, 8, 12, 15, 17, 40)) + rng.choice(("", str(i)))
        value = repr(round(rng.gauss(0, 10 ** rng.randrange(-3, 5)), rng.randrange(12)))
        if rng.random() < 0.02:
            value = rng.choice(('"x"', "true", "[]", "1e3", "-0", "0", "01", "1.", ".5", "--1", "1 ", "1e400", "1000001", '"'))
        members.append(f'"{name}"{colon}{value}')
    text = f'{{"features"{colon}{{{comma.join(members)}}}{comma}"label"{colon}1}}'
    if rng.random() < 0.3:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(("a", '"', ",", "}", "{", ":", " ", "\\", "\\u0061", "0", '"b":1,', "é", "\t")) + text[at:]
    return text


def test_members_that_are_read_eight_at_a_time_come_out_as_others_do() -> None:
    """A space before the brace keeps a row from the fast reader, and has no meaning; no name is known."""
    rng, context = random.Random(9), Context(EncoderConfig(), names=NamesSeen())
    rows = [some_example(rng) for _ in range(4000)]
    usual, other = (
        parse_examples("\n".join(text).encode(), "application/x-ndjson", context, labelled=True)
        for text in (rows, [row.removesuffix("}") + " }" * row.endswith("}") for row in rows])
    )
    assert 1500 < usual.batch.n < 3800
    assert usual.row.tolist() == other.row.tolist()
    assert [(error.index, error.code) for error in usual.errors] == [(error.index, error.code) for error in other.errors]
    for name in ("indptr", "hash", "value"):
        assert getattr(usual.batch, name).tobytes() == getattr(other.batch, name).tobytes(), name
    assert list(usual.names) == list(other.names)


@pytest.mark.parametrize("others", [0, PREFETCHED_FROM])  # beside this many other names, whose table is asked for ahead of time
def test_names_that_are_new_are_listed_once_and_known_ones_are_not(others: int) -> None:
    seen = NamesSeen(100 + others)
    assert seen.add(hash_name(b"other%d" % k, 0, 0) for k in range(others)) == others
    assert (len(seen.table()) > PREFETCHED_FROM) == (others > 0)
    context = Context(EncoderConfig(), names=seen)
    body = b'{"features":{"a":1,"b":0,"c":"d"},"label":1}\n{"features":{"a":2,"e":1},"label":0}'
    parsed = parse_examples(body, "application/x-ndjson", context, labelled=True)
    assert [name for _, name in parsed.names] == [b"a", b"c=d", b"e"]
    seen.mark(parsed.names.fingerprint)
    assert len(parse_examples(body, "application/x-ndjson", context, labelled=True).names) == 0
    known = {int(fingerprint) for fingerprint in parsed.names.fingerprint}
    assert rows_twin.list_new([(fingerprint, 1.0, 0) for fingerprint in known] + [(5, 1.0, 0)], known) == [5]


@pytest.mark.parametrize("normalise", ["none", "l2"])
def test_rows_of_the_same_names_come_out_as_each_alone(normalise: str) -> None:
    """Such rows are neither hashed nor sorted nor looked up again; some names have the value 0 in every row, others in some."""
    rng, seen = random.Random(5), NamesSeen()
    seen.add(hash_name(b"n%d" % k, 0, 0) for k in range(0, 20, 2))
    context = Context(EncoderConfig(normalise=normalise), names=seen)  # type: ignore[arg-type]
    rows = [
        {f"n{k}": 0.0 if k % 5 == 0 or rng.random() < 0.3 else rng.random() for k in range(20 + (number % 50 == 0))}
        for number in range(300)
    ]
    lines = [json.dumps({"features": row, "label": 1}).encode() for row in rows]
    whole = parse_examples(b"\n".join(lines), "application/x-ndjson", context, labelled=True)
    names = set[bytes]()
    for row, line in enumerate(lines):
        alone = parse_examples(line, "application/x-ndjson", context, labelled=True)
        span = slice(int(whole.batch.indptr[row]), int(whole.batch.indptr[row + 1]))
        assert whole.batch.hash[span].tobytes() == alone.batch.hash.tobytes()
        assert whole.batch.value[span].tobytes() == alone.batch.value.tobytes()
        names.update(name for _, name in alone.names)
    assert {name for _, name in whole.names} == names
    assert names == {b"n%d" % k for k in (1, 3, 7, 9, 11, 13, 17, 19)}


def test_rows_after_refused_ones_come_out_as_each_alone() -> None:
    """A name is remembered by its place in the row before, which may have ended at any member."""
    rng, context = random.Random(6), Context(EncoderConfig())
    names = ("a", "b", "länge", "a_name_of_many_bytes", "東京")
    values = ("1", "-2.5", "0.125", '"x"', '"München"', '"東京"', "true", "null", '["y","ü"]', '{"z":1}')
    wrong = ('"u\u0308"', '"\\u0000"', "[1]", "01", "1.2.3", "1e", "--1", "12345678a", '"', "[", "{}x")
    lines = []
    for _ in range(2000):
        chosen = [values if rng.random() < 0.97 else wrong for _ in range(rng.randrange(1, 6))]
        members = [f'"{rng.choice(names)}":{rng.choice(some)}' for some in chosen]
        lines.append(f'{{"features":{{{",".join(members)}}},"label":1}}'.encode())
    whole = parse_examples(b"\n".join(lines), "application/x-ndjson", context, labelled=True)
    codes = {error.index: error.code for error in whole.errors}
    read = {row: k for k, row in enumerate(whole.row.tolist())}
    assert 500 < len(read) < 1900
    for row, line in enumerate(lines):
        alone = parse_examples(line, "application/x-ndjson", context, labelled=True)
        assert codes.get(row, "ok") == next((error.code for error in alone.errors), "ok"), line
        if row in read:
            span = slice(int(whole.batch.indptr[read[row]]), int(whole.batch.indptr[read[row] + 1]))
            assert whole.batch.hash[span].tobytes() == alone.batch.hash.tobytes(), line
            assert whole.batch.value[span].tobytes() == alone.batch.value.tobytes(), line
