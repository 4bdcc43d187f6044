"""JSON bodies the slow way: `wire.readers.json_reference` reads, `tests.twins.rows` finishes."""

from __future__ import annotations

import re
from typing import NamedTuple

from riata.wire.batch import NO_TIME
from riata.wire.codes import OK
from riata.wire.readers import json_reference
from riata.wire.readers.json_reference import EXAMPLE_KEYS, Pairs, decode, example_row, reference_json
from riata.wire.rows import Refusal, Rules, SlowRow
from riata.wire.scan import Record, Refused, feature_records
from tests.twins import rows as twin_rows
from tests.twins.crossing import Crosses

TWINS_OF = ("json", "rows")


class Outcome(NamedTuple):
    """What became of a row."""

    code: int
    hashes: list[int]
    values: list[float]
    label: float
    weight: float
    event_id: bytes
    subject: bytes = b""
    time: int | None = None


def known_key(name: bytes) -> int:
    """Index in EXAMPLE_KEYS, or -1."""
    text = name.decode("latin-1")
    return EXAMPLE_KEYS.index(text) if text in EXAMPLE_KEYS else -1


def digits_at(text: bytes, p: int, count: int) -> bool:
    """Whether `count` digits stand at `p`."""
    return re.compile(rb"[0-9]{%d}" % count).match(text, p) is not None


def is_time(text: bytes) -> bool:
    """Whether `text` has the shape of an RFC 3339 time."""
    pattern = rb"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
    return re.fullmatch(pattern, text) is not None


def read_words(name: str, value: object, rules: Rules) -> list[Record]:
    """Records of a string or a list of strings."""
    return list(feature_records(name, value, rules))


def read_scalar(text: bytes) -> float | None:
    """The value of a number, true, false or null (which is 0 if it is read); None if it is none of them."""
    try:
        value = decode(text)
    except Refused:
        return None
    if isinstance(value, str | list):
        return None
    return 0.0 if value is None else float(value)


def read_key(text: bytes) -> bytes | None:
    """The name before a colon, without escapes; None if it is no string."""
    try:
        return str(next(iter(decode(b"{" + text + b"0}")))[0]).encode()
    except Refused:
        return None


def read_value(text: bytes, rules: Rules) -> list[Record] | Refusal:
    """Records of the value of a feature `v`."""
    return read_feature(b'"v":' + text, rules)


def read_feature(text: bytes, rules: Rules) -> list[Record] | Refusal:
    """Records of one feature."""
    return read_features(b"{" + text + b"}", rules)


def read_features(text: bytes, rules: Rules) -> list[Record] | Refusal:
    """Records of an object of features."""
    result = read_member(b"features", text, rules._replace(labelled=0))
    return result if isinstance(result, Refusal) else result.records


def read_member(key: bytes, text: bytes, rules: Rules) -> SlowRow | Refusal:
    """One member of an example, by itself but for the features that every example has."""
    features = b"" if key == b"features" else b'"features":{},'
    return reference_json(b"{" + features + b'"' + key + b'":' + text + b"}", rules)


def read_number_member(key: bytes, text: bytes, rules: Rules) -> float | Refusal:
    """A label or a weight."""
    result = read_member(key, text, rules)
    if isinstance(result, Refusal):
        return result
    return result.label if key == b"label" else result.weight


def unix_ms(text: bytes) -> int:
    """The unix time of a text that `is_time` takes, ms; NO_TIME if there is no such time."""
    found = json_reference.unix_ms(text.decode())
    return NO_TIME if found is None else found


def read_string_member(key: bytes, text: bytes, rules: Rules) -> bytes | Refusal:
    """An event id or a subject, or nothing for a time that is one."""
    result = read_member(key, text, rules)
    return result if isinstance(result, Refusal) else result.event_id or result.subject


def read_example(line: bytes, rules: Rules) -> SlowRow | Refusal:
    """One example from its bytes."""
    return reference_json(line, rules)


def crosses_of(rules: Rules) -> Crosses:
    """The hashes of the fields of each cross."""
    return Crosses([[int(rules.fields[k]) for k in cross if k >= 0] for cross in rules.crosses.tolist()], rules.cross_scale)


def take_row(read: SlowRow | Refusal, rules: Rules) -> Outcome:
    """Finish what was read."""
    if isinstance(read, Refusal):
        return Outcome(read.code, [], [], 0.0, 0.0, b"")
    code, hashes, values = twin_rows.finish_row([record[:3] for record in read.records], bool(rules.l2), crosses_of(rules))
    return Outcome(code, hashes, values, read.label, read.weight, read.event_id, read.subject, read.time)


def read_json(body: bytes, rules: Rules) -> list[Outcome] | int:
    """One example or an array of them; a code where the body is no document."""
    try:
        value = decode(body)
    except Refused as refused:
        return refused.refusal.code
    outcomes: list[Outcome] = []
    for item in value if isinstance(value, list) and not isinstance(value, Pairs) else [value]:
        try:
            outcomes.append(take_row(example_row(item, rules), rules))
        except Refused as refused:
            outcomes.append(Outcome(refused.refusal.code, [], [], 0.0, 0.0, b""))
    assert all(outcome.code >= OK for outcome in outcomes)
    return outcomes
