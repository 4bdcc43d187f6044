"""What is accepted, what is refused and with which slug: one refusal beside each acceptance."""

from __future__ import annotations

import dataclasses
import math
import time
from threading import Thread

import numpy as np
import pytest

from riata.base.errors import BadInput, Malformed, RiataError, TooLarge, Unsupported
from riata.base.limits import (
    BODY_BYTES_MAX,
    FEATURES_PER_REQUEST_MAX,
    FEATURES_PER_ROW_MAX,
    QUERY_BYTES_MAX,
    ROWS_PER_REQUEST_MAX,
)
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, Labels, explain_query, explain_rows, parse_examples, parse_query
from riata.wire.parsed import LEFT_FROM, Parsed
from riata.wire.workspace import FeaturePool, PaddedBuffer, leave_features, workspace
from tests.twins.hashing import hash_name
from tests.wire.bodies import ACCEPTED, JSON, REFUSED

NDJSON = "application/x-ndjson"
PLAIN = Context(EncoderConfig(text=("t",)))


def lines(body: str | bytes, context: Context = PLAIN, labelled: bool = True) -> Parsed:
    return parse_examples(body.encode() if isinstance(body, str) else body, NDJSON, context, labelled)


def code_of(example: str | bytes, labels: Labels = "0/1", labelled: bool = True) -> str:
    parsed = lines(example, Context(PLAIN.encoder, labels), labelled)
    assert parsed.rows == 1
    return parsed.errors[0].code if parsed.errors else "accepted"


def feature(value: str, name: str = "age") -> str:
    return f'{{"features":{{"{name}":{value}}},"label":1}}'


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("41.5", "accepted"),
        ("9e15", "accepted"),
        ("1732692000123456", "accepted"),
        ("1e-999", "accepted"),
        ("true", "accepted"),
        ('"de"', "accepted"),
        ('""', "accepted"),
        ('["a","b"]', "accepted"),
        ("[]", "accepted"),
        ("-1e999", "out_of_range"),
        ("1.", "malformed"),
        (".5", "malformed"),
        ("+1", "malformed"),
        ("0x1", "malformed"),
        ("{}", "accepted"),
        ('{"b":1,"c":"d","e":["f","g"],"h":null}', "accepted"),
        ('{"b":{}}', "bad_feature"),
        ('{"b":1,"b":"c"}', "duplicate_key"),
        ('{"":1}', "bad_name"),
        ('{"b":1,}', "malformed"),
        ("[1]", "bad_feature"),
        ("[[]]", "bad_feature"),
        ("[null]", "bad_feature"),
        ("[true]", "bad_feature"),
        ('"\x01"', "malformed"),
        ('"\x7f"', "bad_name"),
        ('"\\u0000"', "bad_name"),
        ('"\u0085"', "bad_name"),
        ('"\\u009f"', "bad_name"),
        ('"\u00a0"', "accepted"),
        ('"' + "x" * 256 + '"', "accepted"),
        ('"' + "é" * 129 + '"', "name_too_long"),
        ('"\u00e9"', "accepted"),
        ('"e\u0301"', "not_nfc"),
        ("[" * 6 + "]" * 6, "bad_feature"),
        ("[" * 7 + "]" * 7, "too_deep"),
    ],
)
def test_values(value: str, code: str) -> None:
    assert code_of(feature(value)) == code


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a", "accepted"),
        ("a b|:=", "accepted"),
        ("日本", "accepted"),
        ("\\u0041", "accepted"),
        ("\x7f", "bad_name"),
        ("\\n", "bad_name"),
        ("\u0080", "bad_name"),
        ("a\u009fb", "bad_name"),
        ("\\u0085", "bad_name"),
        ("\u00a0", "accepted"),
        ("\u202e", "accepted"),
    ],
)
def test_names(name: str, code: str) -> None:
    assert code_of(feature("1", name)) == code


@pytest.mark.parametrize(
    ("label", "labels", "code"),
    [
        ("0", "0/1", "accepted"),
        ("[1]", "0/1", "bad_label"),
        ("-1", "-1/+1", "accepted"),
        ("1", "-1/+1", "accepted"),
        ("0", "-1/+1", "bad_label"),
        ("true", "-1/+1", "bad_label"),
        ("-3.5", "real", "accepted"),
        ("9e15", "real", "accepted"),
        ("1e16", "real", "bad_label"),
        ("1e999", "real", "bad_label"),
        ("true", "real", "bad_label"),
    ],
)
def test_labels(label: str, labels: Labels, code: str) -> None:
    assert code_of(f'{{"features":{{}},"label":{label}}}', labels) == code


def test_labels_inside_are_zero_and_one() -> None:
    body = '{"features":{},"label":-1}\n{"features":{},"label":1}'
    assert lines(body, Context(EncoderConfig(), "-1/+1")).batch.label.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("member", "code"),
    [
        ('"weight":1000.5', "bad_weight"),
        ('"weight":null', "accepted"),
        ('"event_id":"x"', "accepted"),
        (f'"event_id":"{"x" * 256}"', "accepted"),
        (f'"event_id":"{"x" * 257}"', "bad_event_id"),
        ('"ts":"2026-11-20T11:14:00Z"', "accepted"),
        ('"ts":"yesterday"', "bad_ts"),
        ('"ts":5', "bad_ts"),
        ('"prediction_id":"p"', "prediction_id_with_features"),
        ('"lable":1', "unknown_key"),
        ('"label":1', "duplicate_key"),
        ('"features":{}', "duplicate_key"),
        ('"l\\u0061bel":1', "duplicate_key"),
    ],
)
def test_other_members(member: str, code: str) -> None:
    assert code_of(f'{{"features":{{"a":1}},"label":1,{member}}}') == code


@pytest.mark.parametrize(
    ("example", "code"),
    [
        ('{"features":{"a":1,"b":2},"label":1}', "accepted"),
        ('{"features":{"a":1,"a":"x"},"label":1}', "duplicate_key"),
        ('{"features":{"a":null,"a":[]},"label":1}', "duplicate_key"),
        ('{"features":{"a":1,"\\u0061":2},"label":1}', "duplicate_key"),
        ("{}", "missing_features"),
        ('{"features":null,"label":1}', "missing_features"),
        ('{"features":[],"label":1}', "missing_features"),
        ("[]", "not_an_object"),
        ('{"lable":1,"features":tru}', "malformed"),
        ('{"features":{}, /*c*/ "label":1}', "malformed"),
        ("7", "not_an_object"),
    ],
)
def test_examples(example: str, code: str) -> None:
    assert code_of(example) == code


@pytest.mark.parametrize(("kind", "body", "status", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_bodies_that_are_refused(kind: str, body: bytes, status: int, code: str) -> None:
    assert refusal(body, kind) == (status, code)


STATUSES: dict[type[RiataError], int] = {Malformed: 400, TooLarge: 413, BadInput: 422}


def refusal(body: bytes, kind: str) -> tuple[int, str]:
    """The class of the first refusal, as the status that it has over HTTP, and its code."""
    try:
        parsed = parse_examples(body, kind, PLAIN, True)
    except RiataError as error:
        return next(status for refused, status in STATUSES.items() if isinstance(error, refused)), error.code
    assert parsed.batch.n == 0
    return 422, parsed.errors[0].code


@pytest.mark.parametrize("body", [row[1] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED])
def test_bodies_that_are_accepted(body: bytes) -> None:
    parsed = parse_examples(body, JSON, PLAIN, True)
    assert (parsed.errors, parsed.batch.n) == ([], 1)


def test_a_label_is_refused_where_it_is_not_asked_for() -> None:
    assert code_of('{"features":{},"label":1}', labelled=False) == "label_not_allowed"
    assert code_of('{"features":{},"label":null}', labelled=False) == "accepted"
    assert math.isnan(lines('{"features":{}}', labelled=False).batch.label[0])


def test_bytes_that_are_no_utf8_are_refused() -> None:
    assert code_of(b'{"features":{"a":"\xff"},"label":1}') == "invalid_utf8"
    assert code_of(b'{"features":{"a":"\xed\xa0\x80"},"label":1}') == "invalid_utf8"
    with pytest.raises(Malformed, match="byte 18"):
        parse_examples(b'{"features":{"a":"\xff"},"label":1}', "application/json", PLAIN, True)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"[ ] x", "malformed"),
        (b"\xef\xbb\xbf{}", "byte_order_mark"),
        (b"{", "malformed"),
        (b"[{}", "malformed"),
        (b"[{},]", "malformed"),
        (b"[{}{}]", "malformed"),
        (b"{} {}", "malformed"),
        (b"nul", "malformed"),
        ("{}".encode("utf-16"), "invalid_utf8"),
        (b"[" * 100_000, "too_deep"),
        (b"[" * 9 + b"]" * 9, "too_deep"),
    ],
)
def test_documents_that_are_none_are_malformed(body: bytes, code: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse_examples(body, "application/json", PLAIN, True)
    assert caught.value.code == code


@pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
def test_a_hundred_thousand_brackets_cost_no_more_than_their_bytes(bracket: bytes) -> None:
    def least_s(count: int) -> float:
        return min(seconds_to_refuse(bracket * count) for _ in range(5))

    assert least_s(100_000) < 50 * least_s(10_000)  # ten times as many; what went back to the first would take a hundred times


def seconds_to_refuse(body: bytes) -> float:
    """Processor time of this thread."""
    started = time.thread_time()
    with pytest.raises(Malformed):
        parse_examples(body, "application/json", PLAIN, True)
    return time.thread_time() - started


@pytest.mark.parametrize("body", [b"", b"\n \r\n", b"\t"])
def test_lines_without_a_row_are_malformed(body: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        lines(body)
    assert caught.value.code == "empty_body"


def test_a_bad_line_does_not_stop_the_others_and_blank_lines_are_not_counted() -> None:
    good = '{"features":{"a":1},"label":1}'
    parsed = lines(f"\r\n{good}\r\n  \n{{\n{good}")
    assert (parsed.rows, parsed.row.tolist(), [error.index for error in parsed.errors]) == (3, [0, 2], [1])
    assert parsed.errors[0].detail == "not well-formed, at byte 1 of the row"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("NaN", "17 of the row: NaN and Infinity are not numbers here"),
        ("-Infinity", "17 of the row: NaN and Infinity are not numbers here"),
        ("nul", "17 of the row"),
        (r'"\ud83d"', "18 of the row: half of a surrogate pair"),
        (r'"\udE00\ud83d"', "18 of the row: half of a surrogate pair"),
        (r'"\ux"', "18 of the row"),
    ],
)
def test_invalid_json_is_named(value: str, found: str) -> None:
    row = '{"features":{"a":' + value + "}}"
    assert [error.detail for error in lines(row + "\n").errors] == ["not well-formed, at byte " + found]
    with pytest.raises(Malformed, match="at byte " + found.replace("row", "body")):
        parse_examples(row.encode(), "application/json", PLAIN, True)


def test_errors_name_the_field_and_the_nearest_key() -> None:
    details = [error.detail for error in lines(feature("1e16") + '\n{"lable":1}\n' + feature('"e\u0301"')).errors]
    assert details[0].startswith("features.age: ")
    assert "did you mean 'label'" in details[1]
    assert details[2].startswith("features.age: ")


def test_a_row_without_an_envelope_is_told_where_features_belong() -> None:
    detail = lines('{"age": 1, "label": 1}\n').errors[0].detail
    assert detail == (
        "age: unknown key; known: event_id, features, label, prediction_id, subject, ts, weight; "
        'features belong in "features": {"features": {"age": 41}, "label": 1}'
    )


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "APPLICATION/JSON; charset=UTF-8",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl; x=y",
    ],
)
def test_known_content_types_are_read(content_type: str) -> None:
    assert parse_examples(feature("1").encode(), content_type, PLAIN, True).batch.n == 1


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/json; charset=latin-1", "multipart/form-data; boundary=x"]
)
def test_other_content_types_are_unsupported(content_type: str) -> None:
    with pytest.raises(Unsupported):
        parse_examples(feature("1").encode(), content_type, PLAIN, True)


def test_vw_and_svmlight_use_the_same_route() -> None:
    vw = parse_examples(b"1 2.0 'tag|user:2 age:1.5 de\n", "text/x-vw", Context(EncoderConfig(), names=NamesSeen()), True)
    assert sorted(name for _, name in vw.names) == [b"user^age", b"user^de"]
    svmlight = parse_examples(b"1 3:1.5 # c\n", "text/x-libsvm", PLAIN, True)
    json = parse_examples(b'{"features":{"3":1.5},"label":1}', "application/json", PLAIN, True)
    assert svmlight.batch.hash.tolist() == json.batch.hash.tolist()


def test_limits_of_a_request() -> None:
    cases = [
        (b" " * (BODY_BYTES_MAX + 1), "body_too_large"),
        (b'{"features":{},"label":1}\n' * (ROWS_PER_REQUEST_MAX + 1), "too_many_rows"),
        (_row(FEATURES_PER_ROW_MAX) * (FEATURES_PER_REQUEST_MAX // FEATURES_PER_ROW_MAX + 1), "too_many_features"),
    ]
    for body, code in cases:
        with pytest.raises(TooLarge) as caught:
            lines(body)
        assert caught.value.code == code
    assert lines(b'{"features":{},"label":1}\n' * ROWS_PER_REQUEST_MAX).batch.n == ROWS_PER_REQUEST_MAX
    with pytest.raises(TooLarge) as caught:
        parse_examples(b"[" + b"{}," * ROWS_PER_REQUEST_MAX + b"{}]", "application/json", PLAIN, True)
    assert caught.value.code == "too_many_rows"


def _row(n: int) -> bytes:
    return b'{"features":{' + b",".join(b'"f%d":1' % k for k in range(n)) + b'},"label":1}\n'


def test_a_row_of_too_many_features_is_refused_and_the_next_is_not() -> None:
    parsed = lines(_row(FEATURES_PER_ROW_MAX + 5) + _row(FEATURES_PER_ROW_MAX - 5))
    assert [error.code for error in parsed.errors] == ["too_many_features_in_row"]
    assert parsed.batch.nnz == FEATURES_PER_ROW_MAX - 5


def test_names_are_found_once_and_not_again_after_they_were_added() -> None:
    names = NamesSeen()
    context = Context(EncoderConfig(text=("t",), hash_key=9), names=names)
    body = '{"features":{"age":1,"country":"de","t":"Hi hi","\u00e9":2,"zero":0},"label":1}\n'
    body += '{"features":{"age":2,"bad":1e16},"label":1}'
    found = lines(body, context).names
    assert sorted(name.decode() for _, name in found) == ["age", "country=de", "t:hi", "\u00e9"]
    fingerprints = {name: fingerprint for fingerprint, name in found}
    assert fingerprints[b"age"] == hash_name(b"age", 9, 0)
    assert fingerprints[b"country=de"] == hash_name(b"de", hash_name(b"country", 9, 1), 0)
    assert fingerprints[b"t:hi"] == hash_name(b"hi", hash_name(b"t", 9, 2), 0)
    assert len(lines(body, context).names) == 4
    names.add(fingerprint for fingerprint, _ in found)
    assert lines(body, context).names == []


def test_rows_of_both_readers_keep_their_order() -> None:
    body = "\n".join(
        feature(str(k)) if k % 3 else f'{{"features":{{"\\u0061ge":{k}}},"label":0,"event_id":"\\u00e9"}}' for k in range(1, 50)
    )
    batch = lines(body).batch
    assert batch.value.tolist() == list(map(float, range(1, 50)))
    assert batch.has_id.tolist() == [k % 3 == 0 for k in range(1, 50)]
    assert batch.hash.tolist() == [hash_name(b"age", 0, 0) >> 32] * 49
    assert batch.label.tolist() == [float(k % 3 != 0) for k in range(1, 50)]


def test_explanation_lists_what_the_batch_holds() -> None:
    context = Context(EncoderConfig(text=("t",), normalise="l2"))
    body = b'{"features":{"a":3,"c":"d","t":"x X","\xc3\xa9":["p"]}}\n{"bad":1}\n{"features":{"b":1}}'
    rows = explain_rows(body, NDJSON, context)
    batch = lines(body, context, labelled=False).batch
    assert [[h for h, _, _ in row] for row in rows] == [batch.hash[:4].tolist(), batch.hash[4:].tolist()]
    assert np.concatenate([[v for _, v, _ in row] for row in rows]) == pytest.approx(
        batch.value, rel=1e-15
    )  # shares are added last
    assert sorted(name for _, _, name in rows[0]) == ["a", "c=d", "t:x", "\u00e9=p"]


def test_batches_do_not_depend_on_the_content_type() -> None:
    example = feature("1.5").encode()
    first = parse_examples(example, "application/json", PLAIN, True)
    second = parse_examples(example, NDJSON, PLAIN, True)
    assert first.batch.value.tobytes() == second.batch.value.tobytes()
    assert (first.single, second.single) == (True, False)


def test_refusals_are_bad_input() -> None:
    assert issubclass(Unsupported, BadInput)


def long_body(kind: str, rng: np.random.Generator) -> bytes:
    """Some thousand rows; some of them are refused."""
    rows = []
    for i in range(1500):
        pairs = list(zip(rng.choice(500, 12, replace=i % 50 == 0).tolist(), rng.normal(size=12).round(4).tolist(), strict=True))
        if kind == NDJSON:
            features = ",".join(f'"f{name}":{value}' for name, value in pairs)
            rows.append(f'{{"features":{{{features}}},"label":{i % 2},"event_id":"e{i}"}}')
        else:
            form = "%s" if kind == "text/x-svmlight" else "f%s"
            words = " ".join(f"{form % name}:{value}" for name, value in pairs)
            rows.append(f"{2 * (i % 2) - 1} {words}" if kind == "text/x-svmlight" else f"{2 * (i % 2) - 1} | {words}")
        rows += ["", "wrong"] if i % 97 == 0 else []
    return "\n".join(rows).encode()


def content(batch: Batch) -> list[bytes]:
    """Every array of a batch."""
    return [getattr(batch, field.name).tobytes() for field in dataclasses.fields(batch) if field.name not in ("subject", "time")]


@pytest.mark.parametrize("end", [b"\n", b"", b"\n\n \n"])
@pytest.mark.parametrize("kind", [NDJSON, "text/x-vw", "text/x-svmlight"])
def test_a_long_body_is_read_in_place_like_a_copy(kind: str, end: bytes) -> None:
    body = long_body(kind, np.random.default_rng(1)) + end
    context = Context(EncoderConfig(), "0/1" if kind == NDJSON else "-1/+1", NamesSeen())
    own = PaddedBuffer.of(body)
    found, expected = (parse_examples(given, kind, context, True) for given in (own, body))
    assert bytes(own) == body
    assert len(own) == len(body)
    assert found.batch.n > 1450
    assert content(found.batch) == content(expected.batch)
    assert (found.errors, found.rows, found.lines) == (expected.errors, expected.rows, expected.lines)
    assert found.names == expected.names
    assert found.row.tobytes() == expected.row.tobytes()
    assert len(found.errors) > 15


def test_features_of_a_long_body_stay_in_place_until_they_are_released() -> None:
    context = Context(EncoderConfig(), "-1/+1")
    bodies = [long_body("text/x-vw", np.random.default_rng(seed)) for seed in range(7)]
    batches = [parse_examples(body, "text/x-vw", context, True).batch for body in bodies]
    assert batches[0].nnz >= LEFT_FROM
    for body, batch in zip(bodies, batches, strict=True):
        assert content(batch) == content(parse_examples(body, "text/x-vw", context, True).batch)
    places = {batch.hash.ctypes.data for batch in batches}
    assert len(places) == len(bodies)
    del batch, batches
    again = {parse_examples(body, "text/x-vw", context, True).batch.hash.ctypes.data for body in bodies}
    assert len(again) <= 3, "one after another, in two by turns"
    assert again & places


def test_a_document_whose_features_stay_in_place_takes_no_room_for_rows_from_the_next_body() -> None:
    work = workspace(20_000, 1)
    rows = len(work.sink.code)
    assert leave_features(work.emptied())
    assert len(workspace(20_000, 1).sink.code) == rows


def test_memory_of_features_is_lent_again_only_after_the_last_view_of_it_is_gone() -> None:
    pool = FeaturePool(8)
    lent = [pool.lend() for _ in range(4)]
    assert pool.lend() is None, "four sets of memory are the most"
    first, second = lent[0], lent[1]
    assert first is not None
    assert second is not None
    hashes, values = first
    assert (len(hashes), len(values)) == (8, 8)
    hashes[:], values[:] = np.arange(8), np.arange(8) / 3
    view = values[2:5].reshape(3, 1)
    lent[0] = first = None
    del hashes, values
    assert pool.lend() is None, "a view of a view still has it"
    assert view.ravel().tolist() == [2 / 3, 1.0, 4 / 3]
    dropped = view[1:]
    del view
    assert pool.lend() is None
    place = dropped.ctypes.data
    thread = Thread(target=lambda held: held.clear(), args=([dropped],))
    del dropped
    thread.start()
    thread.join()
    del thread
    again = pool.lend()
    assert again is not None
    assert again[1].ctypes.data == place - 3 * 8


# The features of a query are one row to predict.


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
