"""The features of a query are one row to predict."""

from __future__ import annotations

import pytest

from riata.base.errors import TooLarge
from riata.base.limits import QUERY_BYTES_MAX
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, explain_query, parse_examples, parse_query

PLAIN = Context(EncoderConfig(text=("t",)))


def test_query_values_are_numbers_or_indicators() -> None:
    pairs = [("age", "41.5"), ("country", "de"), ("t", "Big cat"), ("tags", "a"), ("tags", "b"), ("n", "1e-3x"), ("empty", "")]
    parsed = parse_query(pairs, PLAIN)
    body = b'{"features":{"age":41.5,"country":"de","t":"Big cat","tags":["a","b"],"n":"1e-3x","empty":""}}'
    assert parsed.single
    assert parsed.batch.hash.tolist() == parse_examples(body, "application/json", PLAIN, labelled=False).batch.hash.tolist()
    assert parsed.batch.value.tolist() == parse_examples(body, "application/json", PLAIN, labelled=False).batch.value.tolist()
    assert [name for _, _, name in explain_query([("age", "2")], PLAIN)[0]] == ["age"]


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        ([("a", "1"), ("a", "2")], "duplicate_key"),
        ([("a", "1"), ("a", "x")], "duplicate_key"),
        ([("", "1")], "bad_name"),
        ([("a", "1e999")], "out_of_range"),
        ([("a", "x" * 257)], "name_too_long"),
        ([("a", "\udcff")], "invalid_utf8"),
        ([("a", "\0")], "bad_name"),
        ([("a", "b\x85")], "bad_name"),
        ([("a\x9f", "1")], "bad_name"),
    ],
)
def test_queries_at_fault_are_row_errors(pairs: list[tuple[str, str]], code: str) -> None:
    parsed = parse_query(pairs, PLAIN)
    assert [error.code for error in parsed.errors] == [code]
    assert parsed.batch.n == 0


def test_a_text_with_a_control_character_is_split_there() -> None:
    spoilt, plain = (explain_query([("t", text)], PLAIN) for text in ("Big\0cat\x85food", "Big cat food"))
    assert spoilt == plain


def test_a_query_beyond_its_limit_is_too_large() -> None:
    with pytest.raises(TooLarge):
        parse_query([("t", "x" * QUERY_BYTES_MAX)], PLAIN)


def test_an_empty_query_is_a_row_without_features() -> None:
    parsed = parse_query([], PLAIN)
    assert (parsed.batch.n, parsed.batch.nnz, parsed.rows) == (1, 0, 1)
