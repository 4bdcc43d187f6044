"""Rows read from the positions of their delimiters, compared with the slow readers: accepted rows are equal."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from riata.base.arrays import U8
from riata.base.limits import VALUE_ABS_MAX
from riata.jit.simd.rank import RANK_KEYS
from riata.wire.codes import OK
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, parse_examples
from riata.wire.readers.svmlight.reference import reference_svmlight
from riata.wire.readers.vw.body import SIDE, read_any
from riata.wire.readers.vw.fast import LEFT, fast_vw
from riata.wire.readers.vw.reference import reference_vw
from riata.wire.rows import EQUALS, PLAIN, RecordScratch, Refusal, Rules, SlowRow, make_row, make_sink
from riata.wire.scan.assemble import PREFETCHED_FROM, place_row
from riata.wire.scan.delimiters import FRONT, PADDING, SVMLIGHT, TAKEN, VW, Text, mark_row, take_in
from riata.wire.scan.simple_numbers import any_number
from riata.wire.scan.tokens import settle, svmlight_tokens, vw_tokens
from riata.wire.scan.unicode import string_code
from tests.twins import delimiters as marks_twin
from tests.twins import numbers as numbers_twin
from tests.twins import rows as rows_twin
from tests.twins.hashing import hash_name
from tests.twins.vw_text import fast_vw as fast_vw_twin
from tests.twins.vw_text import read_any as read_any_twin
from tests.wire.compiled_reader import rules_of

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


def padded(body: bytes) -> U8:
    """Bytes for a kernel, with the padding that fast readers need."""
    return np.frombuffer(body + b"\n" + bytes(PADDING), np.uint8).copy()


def shown(body: bytes, row: RecordScratch, n: int) -> list[tuple[int, float, bytes]]:
    """Records with their displayed names."""
    found = []
    for i in range(n):
        a, b, c, d = row.span[i].tolist()
        between = b"=" if row.kind[i] & 3 == EQUALS else b"^"
        name = body[c:d] if row.kind[i] & 3 == PLAIN else body[a:b] + between + body[c:d]
        found.append((int(row.fingerprint[i]), float(row.value[i]), name))
    return found


def some_line(rng: random.Random) -> bytes:
    """A line of the common form, or any line."""
    if rng.random() < 0.5:
        names = rng.sample(range(2000), rng.randrange(90))
        pairs = b" ".join(b"%d:%s" % (name, str(round(rng.gauss(0, 1), rng.randrange(1, 16))).encode()) for name in names)
        return rng.choice((b"1 |", b"1 | ", b"0 2.5 'tag|user ")) + pairs
    return b"1 |" + b"".join(rng.choice(_PIECES) for _ in range(rng.randrange(30)))


@pytest.mark.parametrize("form", [VW, SVMLIGHT])
def test_marks_are_those_of_the_twin(form: int) -> None:
    rng = random.Random(form)
    for _ in range(200):
        data = padded(bytes(rng.choice(b'ab,:}"|# \\\x01\x7f\xc3{') for _ in range(rng.randrange(300))))
        positions, stop = np.empty(1000, np.uint32), len(data) - PADDING
        n = mark_row(data, 0, stop, form, positions)
        wanted = marks_twin.mark_row(data.tobytes(), 0, stop, form)
        n, high = abs(n), n < 0
        assert positions[:n].tolist() == wanted
        assert high == any(c >= 0x80 for c in data[: positions[n - 1]]) or data[positions[n - 1]] != 10
        assert positions[n : n + 8].tolist() == [0] * 8
    assert mark_row(data, 0, stop + 1, form, positions) == 0, "no padding, no positions"
    assert mark_row(padded(b"|" * 600), 0, 600, VW, np.empty(100, np.uint32)) == 0, "no room, no positions"


@pytest.mark.parametrize("intact_ids", [False, True])
@pytest.mark.parametrize("sizes", [range(200), [TAKEN - 1, TAKEN, TAKEN + 1, 2 * TAKEN, 3 * TAKEN + 70]])
def test_a_body_is_taken_in_part_by_part_as_the_twin_does_at_once(sizes: Sequence[int], intact_ids: bool) -> None:
    rng = random.Random(1)
    for size in sizes:
        # Now and then a line is longer than what is taken in at once.
        body = bytes(rng.choices(b"abcdef\n" if size < TAKEN or size % 2 else b"abcdef", k=size))
        expected, held = marks_twin.take_in(body), np.frombuffer(body, np.uint8)
        data, ends = np.full(size + 9, 7, np.uint8), np.full(size + 3, -1, np.int64)
        if intact_ids:
            data[:size] = held
        text = Text((data if intact_ids else held).ctypes.data, size, data, ends)
        known, taken = take_in(text, 0, 0)
        while True:
            assert ends[: known + 1].tolist() == expected[: known + 1]
            assert taken == min(size + 1, -(-taken // TAKEN) * TAKEN)
            assert data[:taken].tobytes() == (body + b"\n")[:taken]
            before = known
            known, taken = take_in(text, known, taken)
            if known == before:
                break
        assert (known, taken, ends[-1]) == (len(expected) - 1, size + 1, known)
        assert data[size + 1 :].tolist() == [7] * 8


def test_a_body_that_is_read_in_place_is_not_written_to() -> None:
    for body, expected in ((b"a\nbc\n", [0, 2, 5, 6]), (b"a\nbc", [0, 2, 5])):
        memory, ends = np.frombuffer(body + b"|", np.uint8).copy(), np.full(len(body) + 3, -1, np.int64)
        data = memory[:-1]
        known, taken = take_in(Text(data.ctypes.data, len(body), data, ends), 0, 0)
        assert (ends[: known + 1].tolist(), taken) == (expected, len(body) + 1)
        assert memory.tobytes() == body + b"|"


def reference(
    line: bytes, rules: Rules, read: Callable[[bytes, Rules], SlowRow | Refusal]
) -> list[tuple[int, float, bytes]] | None:
    """Records of a line by its reference reader, or None if it is refused."""
    row = read(line, rules)
    return [(fingerprint, value, name) for fingerprint, value, _, name in row.records] if isinstance(row, SlowRow) else None


@MANY
def test_lines_of_vw_text_of_any_kind_come_out_the_same(lines: int) -> None:
    rng, rules, read, left = random.Random(2), rules_of(labelled=False), 0, 0
    row = make_row(400)
    for _ in range(lines):
        line = some_line(rng)
        data, bar = padded(line), line.index(b"|")
        row.mark[SIDE] = len(line) + 1
        n = read_any(data, 0, bar, len(line), row, make_sink(1000, 1, 1), rules, 0)
        if n >= 0:
            read += 1
            assert shown(data.tobytes(), row, n) == read_any_twin(line, rules)
        assert mark_row(data, 0, len(line), VW, row.position) != 0
        fast = fast_vw(data, bar, len(line), row, rules)
        if fast == LEFT or string_code(data, 0, len(line)) != OK:  # which whoever calls it has to check
            left += 1
            continue
        assert fast == n
        assert shown(line, row, n) == fast_vw_twin(line, rules)
    assert read > lines / 2
    assert left > lines / 6


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


@MANY
def test_lines_of_words_that_are_taken_eight_at_a_time_come_out_the_same(lines: int) -> None:
    rng, rules, taken, left = random.Random(8), rules_of(labelled=False), 0, 0
    row = make_row(400)
    row.position[:], row.named[:] = 0xFFFFFFFF, 0xFFFFFFFF  # nothing that was left there is followed
    for number in range(lines):
        line = some_words(rng) if number % 3 else some_line(rng)
        data, bar = padded(bytes(FRONT) + line)[FRONT:], line.index(b"|")
        n = vw_tokens(data, bar, len(line), row, VW, rules.key)
        if n < 0:
            left += 1
            continue
        taken += 1
        settle(row)
        assert shown(line, row, n) == reference(line, rules, reference_vw), line
        assert n == 0 or row.span[n - 1, 3] <= len(line)
    assert taken > lines / 4
    assert left > lines / 6
    line = b"1 |" + b" a" * 395
    assert vw_tokens(padded(bytes(FRONT) + line)[FRONT:], 2, len(line), row, VW, rules.key) == -1, "no room for eight more"
    assert vw_tokens(padded(line)[: -PADDING + 60], 2, len(line), row, VW, rules.key) == -1, "no padding"


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


@MANY
def test_pairs_that_are_taken_eight_at_a_time_come_out_the_same(lines: int) -> None:
    rng, rules, taken, left = random.Random(9), rules_of(labelled=False), 0, 0
    row = make_row(400)
    row.position[:], row.named[:] = 0xFFFFFFFF, 0xFFFFFFFF  # nothing that was left there is followed
    for _ in range(lines):
        line = some_pairs(rng)
        data = padded(bytes(FRONT) + line)[FRONT:]
        n = svmlight_tokens(data, 0, len(line), row, rules.key)
        if n < 0:
            left += 1
            continue
        taken += 1
        settle(row)
        assert shown(line, row, n) == reference(line, rules, reference_svmlight), line
    assert taken > lines / 3
    assert left > lines / 12
    line = b"1" + b" 2:1" * 395
    assert svmlight_tokens(padded(bytes(FRONT) + line)[FRONT:], 0, len(line), row, rules.key) == -1, "no room for eight more"


def test_a_label_that_is_none_is_refused_where_pairs_are_usual() -> None:
    context = Context(EncoderConfig(), "-1/+1")
    parsed = parse_examples(b"-1 1:2 3:4\n2 1:2\n+1 5:1\n1 5:1 5:1\n", "text/x-svmlight", context, labelled=True)
    assert parsed.batch.label.tolist() == [0.0, 1.0]
    assert [(error.index, error.code) for error in parsed.errors] == [(1, "bad_label"), (3, "duplicate_index")]


@pytest.mark.parametrize("json", [True, False])
def test_numbers_of_any_length_are_those_of_the_language(json: bool) -> None:
    rng = random.Random(4)
    for _ in range(20_000):
        text = repr(
            rng.choice((rng.random(), rng.gauss(0, 1e3), round(rng.random(), rng.randrange(12)), float(rng.randrange(10**9))))
        )
        if rng.random() < 0.2:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice("0.e-x") + text[at:]
        body = b"12345678" + text.encode()
        wanted = numbers_twin.any_number(text.encode(), json)
        value, good = any_number(padded(body), 8, len(body), json)
        assert (value.hex() if good else None) == (None if wanted is None else wanted.hex())
        parsed = (
            parse_examples(b"0 | a:" + text.encode(), "text/x-vw", Context(EncoderConfig()), labelled=True) if not json else None
        )
        if parsed is not None and wanted is not None and 1e-300 < abs(wanted) <= VALUE_ABS_MAX:
            assert parsed.batch.value.tolist() == [wanted]


def test_short_rows_are_placed_or_left() -> None:
    rng, placed = random.Random(6), 0
    for _ in range(500):
        records = [
            (rng.randrange(1, 2**64), rng.choice((1.5, -2.0, 0.0, 1e16, 5e-324)) if rng.random() < 0.1 else 1.0, 0)
            for _ in range(rng.choice((*range(9), RANK_KEYS - 1, RANK_KEYS, RANK_KEYS + 1)))
        ]
        row, hashes, sums = make_row(2 * RANK_KEYS), np.zeros(2 * RANK_KEYS, np.uint32), np.zeros(2 * RANK_KEYS)
        for i, (fingerprint, value, _) in enumerate(records):
            row.fingerprint[i], row.value[i] = fingerprint, value
        n = place_row(row.fingerprint, row.value, (row.keys, row.ranks), len(records), hashes, sums, 2)
        wanted = rows_twin.place_row(records)
        assert (wanted is None) == (n < 0)
        if wanted is not None:
            placed += 1
            assert (hashes[2 : 2 + n].tolist(), sums[2 : 2 + n].tolist()) == wanted
    assert 250 < placed < 500


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
