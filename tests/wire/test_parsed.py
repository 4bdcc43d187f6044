"""What becomes of a body: accepted rows are listed, and rows that are left are found, as the twins do."""

from __future__ import annotations

import random

import numpy as np
import pytest

from riata.native.library import core
from riata.native.reading import list_rows, sink_struct
from riata.wire.codes import BAD_LABEL, HANDOVER, OK
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from riata.wire.rows import BEGIN, END, ID_START, ID_STOP, ROW_START, ROWS, SUBJECT_START, SUBJECT_STOP, TIME_AT, make_sink
from tests.twins import parsed as twin


def test_rows_are_listed_as_the_twin_does() -> None:
    rng, scattered = random.Random(1), 0
    for _ in range(300):
        n = rng.randrange(7)
        code = [rng.choice((OK, OK, OK, BAD_LABEL)) for _ in range(n)]
        spans, end = [], rng.randrange(3)
        for _ in range(n):
            begin = end + (rng.random() < 0.1)
            end = begin + rng.randrange(4)
            spans.append((begin, end))
        has = [(rng.random() < 0.3, rng.random() < 0.3, rng.random() < 0.3) for _ in range(n)]
        sink = make_sink(4, n, 1)
        sink.count[ROWS], sink.code[:], place = n, code, sink.place
        for i, (begin, end_of) in enumerate(spans):
            place[i, BEGIN], place[i, END] = begin, end_of
            place[i, ID_START], place[i, ID_STOP] = 5, 5 + has[i][0]
            place[i, SUBJECT_START], place[i, SUBJECT_STOP] = 9, 9 + has[i][1]
            place[i, ROW_START], place[i, TIME_AT] = 2, 2 + has[i][2]
        sink.label[:], sink.weight[:] = [rng.random() for _ in range(n)], [rng.random() for _ in range(n)]
        rows, indptr = np.empty(n, np.int64), np.empty(n + 1, np.int64)
        kept = (np.empty(n), np.empty(n), np.empty(n, np.bool_))
        expected, numbers, ends = twin.list_rows(code, spans, has)
        found = list_rows(sink, rows, indptr, *kept)
        count = expected[0]
        assert (found, rows[:count].tolist(), indptr[: count + 1].tolist()) == (expected, numbers, ends)
        for held, whole in zip(kept, (sink.label, sink.weight, np.array([one[0] for one in has], bool)), strict=True):
            assert held[:count].tolist() == whole[numbers].tolist()
        scattered += expected[-1] < 0
    assert 20 < scattered < 200


def test_rows_that_are_left_are_found_as_the_twin_finds_them() -> None:
    rng = random.Random(12)
    for _ in range(100):
        code = [rng.choice((OK, OK, HANDOVER, BAD_LABEL)) for _ in range(rng.randrange(9))]
        sink = make_sink(4, len(code), 1)
        sink.count[ROWS], sink.code[:] = len(code), code
        for start in range(len(code) + 1):
            assert core.next_row(sink_struct(sink), start, HANDOVER) == twin.first_left(code, start)


# The sentence of a refusal names what is wrong with the row, where it is, and what to write instead.


LINES = "application/x-ndjson"
VW = "text/x-vw"
SVMLIGHT = "text/x-svmlight"


def error_of(row: str, kind: str = LINES) -> tuple[str, str]:
    (error,) = parse_examples(row.encode(), kind, Context(EncoderConfig()), True).errors
    return error.code, error.detail


def featured(features: str) -> str:
    return f'{{"features":{{{features}}},"label":1}}'


@pytest.mark.parametrize(
    ("row", "kind", "code", "said"),
    [
        ("0| a", VW, "missing_label", 'the word before the bar is a tag; put a blank after the label, as in "0 |"'),
        ("'tag| a", VW, "missing_label", "the word before the bar is a tag"),
        ("| a", VW, "missing_label", "expected a label"),
        ("1 | time=12:30 url:http://x.y/z a", VW, "bad_number", "url: the second colon of 'url:http://x.y/z' is the reason"),
        ("1 |n when:12:30:00", VW, "bad_number", "when: the second colon of 'when:12:30:00' is the reason"),
        ("1 | a:1x", VW, "bad_number", "a: not a decimal number"),
        ("1,3 5:1", SVMLIGHT, "bad_label", "received 1,3; several labels in a line are not supported"),
        ("1,x 5:1", SVMLIGHT, "bad_label", 'received "1,x"; send 0 and 1'),
        (featured('"id":1234567890123456789'), LINES, "out_of_range", "features.id: beyond 9e+15 numbers are not exact"),
        (featured('"id" : -1234567890123456789'), LINES, "out_of_range", "send ids as strings (of a table: --category id)"),
        (featured('"a":{"id":1234567890123456789}'), LINES, "out_of_range", "(of a table: --category id)"),
        ("1 | id:1234567890123456789", VW, "out_of_range", "id: beyond 9e+15 numbers are not exact; send ids as strings"),
        ("1 7:1234567890123456789", SVMLIGHT, "out_of_range", "send ids as strings"),
        (featured('"a":1e999'), LINES, "out_of_range", "features.a: value too large: at most 9e15"),
        (featured('"a":12345678901234567.5'), LINES, "out_of_range", "value too large: at most 9e15 (duplicates"),
        (featured('"a":{"b":{"c":1}}'), LINES, "bad_feature", "features.a.b: an object in an object; objects"),
        (featured('"x":1,"a":{"d":2,"b":{}}'), LINES, "bad_feature", 'features.a.b: .*"a.b": {…} beside "a"'),
        (featured('"a":{"b":[1]}'), LINES, "bad_feature", "features.a.b: expected a number, a string, true"),
        (featured('"a":{"b":[["x"]]}'), LINES, "bad_feature", "features.a.b: expected a number"),
        (featured('"a":[1]'), LINES, "bad_feature", "features.a: expected a number, .* or an object of these"),
        (featured('"\\u202e":{"b":{}}'), LINES, "bad_feature", "features.\ufffd.b: an object in an object"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_write_instead(row: str, kind: str, code: str, said: str) -> None:
    found, detail = error_of(row, kind)
    assert found == code
    first, _, rest = said.partition(" .*")
    assert first in detail
    assert rest.strip() in detail
    assert detail.isprintable()


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("0 | a", VW),
        ("1 | time=12:30 url=http%3A//x.y/z a", VW),
        ("1 5:1", SVMLIGHT),
        (featured('"id":"1234567890123456789"'), LINES),
        (featured('"a.b":{"c":1},"a":{"d":2}'), LINES),
    ],
)
def test_the_advice_when_followed_works(row: str, kind: str) -> None:
    assert parse_examples(row.encode(), kind, Context(EncoderConfig()), True).batch.n == 1
