"""Rows read from the positions of their delimiters, held to the slow lanes: what is taken comes out the same."""

from __future__ import annotations

import random

import numpy as np
import pytest

from riata.base.arrays import U8
from riata.wire.encoder import EncoderConfig
from riata.wire.finish import place_row
from riata.wire.marks import JSON, PADDING, SVMLIGHT, VW, line_ends, mark_row
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, parse_examples
from riata.wire.plain_numbers import any_number
from riata.wire.rows import PLAIN, Row, make_row, make_sink
from riata.wire.sorting import RANKED_MAX, rank_keys
from riata.wire.usual_lines import LEFT, usual_svmlight, usual_vw
from riata.wire.vw_text import read_any
from tests.twins import marks as marks_twin
from tests.twins import numbers as numbers_twin
from tests.twins import rows as rows_twin
from tests.twins import usual_lines as twin
from tests.wire.lane import rules_of

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


def padded(body: bytes) -> U8:
    """Bytes for a kernel, with the padding that readers of usual rows want."""
    return np.frombuffer(body + b"\n" + bytes(PADDING), np.uint8).copy()


def shown(body: bytes, row: Row, n: int) -> list[tuple[int, float, bytes]]:
    """Records with their names as they are shown, but for the namespace of VW text."""
    found = []
    for i in range(n):
        a, b, c, d = row.span[i].tolist()
        name = body[c:d] if row.kind[i] & 3 == PLAIN else body[a:b] + b"^" + body[c:d]
        found.append((int(row.fingerprint[i]), float(row.value[i]), name))
    return found


def some_line(rng: random.Random) -> bytes:
    """A line that is usual, or any line."""
    if rng.random() < 0.5:
        names = rng.sample(range(2000), rng.randrange(90))
        pairs = b" ".join(b"%d:%s" % (name, str(round(rng.gauss(0, 1), rng.randrange(1, 16))).encode()) for name in names)
        return rng.choice((b"1 |", b"1 | ", b"0 2.5 'tag|user ")) + pairs
    return b"1 |" + b"".join(rng.choice(_PIECES) for _ in range(rng.randrange(30)))


@pytest.mark.parametrize("form", [JSON, VW, SVMLIGHT])
def test_marks_are_those_of_the_twin(form: int) -> None:
    rng = random.Random(form)
    for _ in range(200):
        data = padded(bytes(rng.choice(b'ab,:}"|# \\\x01\x7f\xc3{') for _ in range(rng.randrange(300))))
        positions, stop = np.empty(1000, np.uint32), len(data) - PADDING
        n = mark_row(data, 0, stop, form, positions)
        assert positions[:n].tolist() == marks_twin.mark_row(data.tobytes(), 0, stop, form)
        assert positions[n : n + 8].tolist() == [0] * 8
    assert mark_row(data, 0, stop + 1, form, positions) == 0, "no padding, no positions"
    assert mark_row(padded(b"|" * 600), 0, 600, VW, np.empty(100, np.uint32)) == 0, "no room, no positions"


def test_line_ends_are_those_of_the_twin() -> None:
    rng = random.Random(1)
    for _ in range(200):
        data = padded(bytes(rng.choice(b"abcdef\n") for _ in range(rng.randrange(400))))
        size = rng.randrange(len(data) - PADDING + 1)
        ends = np.empty(len(data), np.int64)
        assert ends[: line_ends(data, size, ends)].tolist() == marks_twin.line_ends(data.tobytes(), size)


def test_lines_of_vw_text_that_are_taken_come_out_the_same() -> None:
    rng, rules, taken, left = random.Random(2), rules_of(labelled=False), 0, 0
    row = make_row(400)
    for _ in range(3000):
        line = some_line(rng)
        data, bar = padded(line), line.index(b"|")
        assert mark_row(data, 0, len(line), VW, row.position) > 0
        n = usual_vw(data, bar, len(line), row, rules)
        if n == LEFT:
            left += 1
            continue
        taken += 1
        assert shown(line, row, n) == twin.usual_vw(line, rules)
        assert read_any(data, 0, bar, len(line), row, make_sink(1000, 1, 1), rules, 0) == n
        assert shown(line, row, n) == twin.read_any(line, rules)
    assert taken > 1000
    assert left > 500


def test_lines_of_svmlight_that_are_taken_come_out_the_same() -> None:
    rng, rules, taken, left = random.Random(3), rules_of(labelled=False), 0, 0
    row = make_row(400)
    for _ in range(3000):
        line = some_line(rng).partition(b"|")[2].strip(b" ")
        if not line:
            continue
        data = padded(line)
        assert mark_row(data, 0, len(line), SVMLIGHT, row.position) > 0
        n = usual_svmlight(data, 0, len(line), row, 0, rules)
        if n == LEFT:
            left += 1
            continue
        taken += 1
        assert shown(line, row, n) == twin.usual_svmlight(line, rules)
    assert taken > 1000
    assert left > 500


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
        if parsed is not None and wanted is not None and 1e-300 < abs(wanted) <= 1e6:
            assert parsed.batch.value.tolist() == [wanted]


def test_keys_are_ranked() -> None:
    rng = random.Random(5)
    for n in (0, 1, 2, 15, 16, 17, 75, RANKED_MAX):
        for spread in (3, 2**32):
            wanted = [rng.randrange(spread) for _ in range(n)]
            keys, rank = np.zeros(RANKED_MAX, np.uint32), np.empty(RANKED_MAX, np.uint32)
            keys[:n] = wanted
            assert (rank_keys(keys, rank, n), rank[:n].tolist()) == rows_twin.rank_keys(wanted)


def test_short_rows_are_placed_or_left() -> None:
    rng, placed = random.Random(6), 0
    for _ in range(500):
        records = [
            (rng.randrange(1, 2**64), rng.choice((1.5, -2.0, 0.0, 1e7, 5e-324)) if rng.random() < 0.1 else 1.0, 0)
            for _ in range(rng.randrange(9))
        ]
        row, hashes, sums = make_row(16), np.zeros(20, np.uint32), np.zeros(20)
        for i, (fingerprint, value, _) in enumerate(records):
            row.fingerprint[i], row.value[i] = fingerprint, value
        n = place_row(row.fingerprint, row.value, (row.ranked, row.rank), len(records), hashes, sums, 2)
        wanted = rows_twin.place_row(records)
        assert (wanted is None) == (n < 0)
        if wanted is not None:
            placed += 1
            assert (hashes[2 : 2 + n].tolist(), sums[2 : 2 + n].tolist()) == wanted
    assert 250 < placed < 500


def test_a_body_without_usual_rows_equals_one_with_them() -> None:
    """A space before the bracket makes a row unusual, and means nothing."""
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


def test_names_that_are_new_are_listed_once_and_known_ones_are_not() -> None:
    seen = NamesSeen(100)
    context = Context(EncoderConfig(), names=seen)
    body = b'{"features":{"a":1,"b":0,"c":"d"},"label":1}\n{"features":{"a":2,"e":1},"label":0}'
    parsed = parse_examples(body, "application/x-ndjson", context, labelled=True)
    assert [name for _, name in parsed.names] == [b"a", b"c=d", b"e"]
    seen.mark(parsed.names.fingerprint)
    assert len(parse_examples(body, "application/x-ndjson", context, labelled=True).names) == 0
    known = {int(fingerprint) for fingerprint in parsed.names.fingerprint}
    assert rows_twin.list_new([(fingerprint, 1.0, 0) for fingerprint in known] + [(5, 1.0, 0)], known) == [5]
