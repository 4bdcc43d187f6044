"""Bodies of labelled rows that are refused or accepted, whichever way they come in."""

from __future__ import annotations

from typing import Final

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"


def example(feature: str, label: str = "1") -> bytes:
    return f'{{"features":{{{feature}}},"label":{label}}}'.encode()


REFUSED: list[tuple[str, str, bytes, int, str]] = [
    ("depth, open", JSON, b'{"features":' * 20_000, 400, "too_deep"),
    ("depth, closed", JSON, b"[" * 100_000 + b"]" * 100_000, 400, "too_deep"),
    ("depth of objects", JSON, b'{"features":' * 10_000 + b"1" + b"}" * 10_000, 400, "too_deep"),
    ("NaN", JSON, example('"a":NaN'), 400, "malformed"),
    ("Infinity", JSON, example('"a":Infinity'), 400, "malformed"),
    ("-Infinity", JSON, example('"a":-Infinity'), 400, "malformed"),
    ("duplicate keys of an example", JSON, b'{"features":{},"label":1,"label":1}', 422, "duplicate_key"),
    ("duplicate features", JSON, example('"a":1,"a":1'), 422, "duplicate_key"),
    ("duplicate features, escaped", JSON, example('"a":1,"\\u0061":1'), 422, "duplicate_key"),
    ("1e999", JSON, example('"a":1e999'), 422, "out_of_range"),
    ("1e308", JSON, example('"a":1e308'), 422, "out_of_range"),
    ("beyond the bound of values", JSON, example('"a":9000000000000001'), 422, "out_of_range"),
    ("integer of 400 digits", JSON, example('"a":' + "1" * 400), 422, "out_of_range"),
    ("integer of 5000 digits", JSON, example('"a":' + "1" * 5000), 422, "out_of_range"),
    ("label as a string", JSON, example('"a":1', '"1"'), 422, "bad_label"),
    ("label 2", JSON, example('"a":1', "2"), 422, "bad_label"),
    ("label -1 where labels are 0/1", JSON, example('"a":1', "-1"), 422, "bad_label"),
    ("labels -1 and 1 where labels are 0/1", LINES, example('"a":1') + b"\n" + example('"a":1', "-1"), 422, "other_labels"),
    ("two words as labels", LINES, example('"a":1', '"x"') + b"\n" + example('"a":1', '"y"'), 422, "other_labels"),
    ("a label before the bar", "text/x-vw", b"1| a", 422, "missing_label"),
    ("two labels in a line", "text/x-svmlight", b"1,3 5:1", 422, "bad_label"),
    ("label absent", JSON, b'{"features":{"a":1}}', 422, "missing_label"),
    ("label null", JSON, example('"a":1', "null"), 422, "missing_label"),
    ("weight as a string", JSON, b'{"features":{},"label":1,"weight":"1"}', 422, "bad_weight"),
    ("weight 0", JSON, b'{"features":{},"label":1,"weight":0}', 422, "bad_weight"),
    ("weight beyond its bound", JSON, b'{"features":{},"label":1,"weight":1001}', 422, "bad_weight"),
    ("event id empty", JSON, b'{"features":{},"label":1,"event_id":""}', 422, "bad_event_id"),
    ("event id a number", JSON, b'{"features":{},"label":1,"event_id":7}', 422, "bad_event_id"),
    ("time without a zone", JSON, b'{"features":{},"label":1,"ts":"2026-11-20"}', 422, "bad_ts"),
    ("feature an object of an object", JSON, example('"a":{"b":{"c":1}}'), 422, "bad_feature"),
    ("feature a list of numbers", JSON, example('"a":[1,2]'), 422, "bad_feature"),
    ("features a list", JSON, b'{"features":[1],"label":1}', 422, "missing_features"),
    ("features absent", JSON, b'{"label":1}', 422, "missing_features"),
    ("unknown key", JSON, b'{"features":{},"label":1,"wieght":1}', 422, "unknown_key"),
    ("label of no prediction", JSON, b'{"prediction_id":"x","label":1}', 422, "bad_prediction_id"),
    ("element that is no object", JSON, b"[1]", 422, "not_an_object"),
    ("body that is no object", JSON, b"1", 422, "not_an_object"),
    ("invalid UTF-8", JSON, b'{"features":{"\xff":1},"label":1}', 400, "invalid_utf8"),
    ("overlong UTF-8", JSON, b'{"features":{"\xc0\xaf":1},"label":1}', 400, "invalid_utf8"),
    ("lone surrogate", JSON, example('"\\ud800":1'), 400, "malformed"),
    ("UTF-16", JSON, example('"a":1').decode().encode("utf-16"), 400, "invalid_utf8"),
    ("UTF-16 without a mark", JSON, example('"a":1').decode().encode("utf-16-le"), 400, "malformed"),
    ("byte order mark", JSON, b"\xef\xbb\xbf" + example('"a":1'), 400, "byte_order_mark"),
    ("NUL in a name", JSON, example('"a\\u0000":1'), 422, "bad_name"),
    ("C1 in a name", JSON, '{"features":{"a\u0085":1},"label":1}'.encode(), 422, "bad_name"),
    ("C1 in an indicator", JSON, '{"features":{"a":"b\u009f"},"label":1}'.encode(), 422, "bad_name"),
    ("C1 in VW text", "text/x-vw", "1 |f a\u0085b".encode(), 422, "bad_name"),
    ("raw NUL", JSON, b'{"features":{"a\x00":1},"label":1}', 400, "malformed"),
    ("name that is not NFC", JSON, '{"features":{"e\u0301":1},"label":1}'.encode(), 422, "not_nfc"),
    ("name of 257 bytes", JSON, example('"' + "a" * 257 + '":1'), 422, "name_too_long"),
    ("name of 200 KB", JSON, example('"' + "a" * 200_000 + '":1'), 422, "name_too_long"),
    ("empty name", JSON, example('"":1'), 422, "bad_name"),
    ("indicator of 257 bytes", JSON, example('"a":"' + "b" * 257 + '"'), 422, "name_too_long"),
    ("10 001 features in a row", JSON, example(",".join(f'"{i}":1' for i in range(10_001))), 422, "too_many_features_in_row"),
    ("10 001 rows", LINES, b"{}\n" * 10_001, 413, "too_many_rows"),
    ("empty array", JSON, b"[]", 400, "empty_body"),
    ("empty body", JSON, b"", 400, "empty_body"),
    ("nothing but space", JSON, b" \n ", 400, "empty_body"),
    ("no lines", LINES, b"\n\n", 400, "empty_body"),
    ("trailing bytes", JSON, example('"a":1') + b"x", 400, "malformed"),
    ("two documents", JSON, example('"a":1') * 2, 400, "malformed"),
    ("trailing comma", JSON, b"[" + example('"a":1') + b",]", 400, "malformed"),
    ("comment", JSON, b"/**/" + example('"a":1'), 400, "malformed"),
    ("leading zero", JSON, example('"a":01'), 400, "malformed"),
    ("cut off", JSON, example('"a":1')[:-1], 400, "malformed"),
]

ACCEPTED: list[tuple[str, bytes]] = [
    ("-0.0", example('"a":-0.0')),
    ("subnormal", example('"a":5e-324')),
    ("largest value", example('"a":1000000')),
    ("label 1.0", example('"a":1', "1.0")),
    ("label true", example('"a":1', "true")),
    ("largest weight", b'{"features":{},"label":1,"weight":1000}'),
    ("name of 256 bytes", example('"' + "a" * 256 + '":1')),
    ("name in NFC", '{"features":{"\u00e9":1},"label":1}'.encode()),
    ("right-to-left mark", '{"features":{"a\u200f":1},"label":1}'.encode()),
    ("surrogate pair", example('"\\ud83d\\ude00":1')),
    ("no features", example("")),
    ("null feature", example('"a":null')),
    ("10 000 features", example(",".join(f'"{i}":1' for i in range(10_000)))),
    ("space around", b" \r\n\t" + example('"a":1') + b"\n "),
]
