"""JSON bodies the slow way: `wire.readers.json_reference` reads, `tests.twins.rows` finishes."""

from __future__ import annotations

import re
from typing import NamedTuple

from riata.wire.batch import NO_TIME
from riata.wire.codes import OK
from riata.wire.readers import json_reference
from riata.wire.readers.json_reference import Pairs, decode, example_row, reference_json
from riata.wire.rows import Refusal, Rules, SlowRow
from riata.wire.scan import Refused
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


def is_time(text: bytes) -> bool:
    """Whether `text` has the shape of an RFC 3339 time."""
    pattern = rb"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
    return re.fullmatch(pattern, text) is not None


def read_scalar(text: bytes) -> float | None:
    """The value of a number, true, false or null (which is 0 if it is read); None if it is none of them."""
    try:
        value = decode(text)
    except Refused:
        return None
    if isinstance(value, str | list):
        return None
    return 0.0 if value is None else float(value)


def unix_ms(text: bytes) -> int:
    """The unix time of a text that `is_time` takes, ms; NO_TIME if there is no such time."""
    found = json_reference.unix_ms(text.decode())
    return NO_TIME if found is None else found


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
