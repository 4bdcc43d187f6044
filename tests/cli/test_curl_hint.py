from __future__ import annotations

import shlex
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest

from riata.cli.demo_run import observe_line, predict_line
from riata.cli.model_setup import without_label
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples, parse_query

URL = "http://127.0.0.1:8080/"
CONTENT = {"ndjson": "application/x-ndjson", "vw": "text/x-vw", "svmlight": "text/x-svmlight"}


def words(line: str) -> list[str]:
    found = shlex.split(line)
    assert found[0] == "curl"
    return found


def context() -> Context:
    return Context(EncoderConfig(), "0/1", None)


def test_a_generated_row_is_asked_as_a_query() -> None:
    row = b'{"features":{"site":"s1","segments":["u1","u2"],"seen":0.5,"new":true},"label":0}'
    assert words(predict_line(URL, "demo", row, "ndjson")) == [
        "curl",
        "http://127.0.0.1:8080/models/demo/predict?site=s1&segments=u1&segments=u2&seen=0.5&new=1",
    ]


@pytest.mark.parametrize(
    ("row", "form"),
    [
        (b'{"features":{"site":"s 1&x=\xc3\xa9","segments":["u1","u2"],"seen":0.5,"new":true,"old":false},"label":0}', "ndjson"),
        (b'{"features":{"a":1e-3,"b":-2},"label":0}', "ndjson"),
        (b"1 3:1 17:0.25", "svmlight"),
    ],
)
def test_the_query_means_the_same_as_the_row(row: bytes, form: str) -> None:
    """The parsed features of the printed query and of the row's body are equal to the last bit."""
    pairs = parse_qsl(urlsplit(words(predict_line(URL, "m", row, form))[1]).query, keep_blank_values=True)
    asked = parse_query(pairs, context()).batch
    sent = parse_examples(row, CONTENT[form], context(), labelled=True).batch
    assert sent.nnz > 0
    np.testing.assert_array_equal(asked.hash, sent.hash)
    np.testing.assert_array_equal(asked.value, sent.value)


@pytest.mark.parametrize(
    ("row", "form", "kind", "body"),
    [
        (b'{"features":{"code":"41"},"label":1}', "ndjson", "application/json", '{"features":{"code":"41"}}'),
        (b'{"features":{"_x":1},"label":1}', "ndjson", "application/json", '{"features":{"_x":1}}'),
        (b'{"features":{"gone":null},"label":1}', "ndjson", "application/json", '{"features":{"gone":null}}'),
        (b"1 2.0 'it's |a b:2 c", "vw", "text/x-vw", "|a b:2 c"),
    ],
)
def test_a_row_that_a_query_cannot_say_is_sent_as_a_body(row: bytes, form: str, kind: str, body: str) -> None:
    line = words(predict_line(URL, "m", row, form))
    assert line == ["curl", "http://127.0.0.1:8080/models/m/predict", "-H", f"content-type: {kind}", "--data-binary", body]


def test_a_long_row_is_sent_as_a_body() -> None:
    row = b'{"features":{"w":["%s"]},"label":1}' % b'","'.join(b"word%d" % i for i in range(300))
    assert "--data-binary" in words(predict_line(URL, "m", row, "ndjson"))


@pytest.mark.parametrize(
    ("row", "form"), [(b'{"features":{"it\'s":1},"label":1}', "ndjson"), (b"1 'tag|a b", "vw"), (b"1 3:1", "svmlight")]
)
def test_the_row_to_observe_is_the_row_itself(row: bytes, form: str) -> None:
    line = words(observe_line(URL, "m", row, form))
    assert line[1] == "http://127.0.0.1:8080/models/m/observe"
    assert line[-1].encode() == row


@pytest.mark.parametrize(
    ("row", "form"),
    [
        (b'{"features":{"a":1},"label":1,"weight":2}', "ndjson"),
        (b"1 2.0 t|a b", "vw"),
        (b"1", "vw"),
        (b"1 3:1", "svmlight"),
        (b"-1", "svmlight"),
    ],
)
def test_a_row_without_its_label_is_still_one_row(row: bytes, form: str) -> None:
    parsed = parse_examples(without_label(row, form), CONTENT[form], context(), labelled=False)
    assert (parsed.rows, parsed.batch.n, parsed.errors) == (1, 1, [])
