"""The sentence of a refusal names what is wrong with the row, where it is, and what to write instead."""

from __future__ import annotations

import pytest

from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples

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
