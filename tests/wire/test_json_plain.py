"""The usual members of a features object against a regular expression."""

from __future__ import annotations

import random

import numpy as np

from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, make_rules
from riata.wire.rows import make_row
from riata.wire.simple_strings import read_plain
from tests.twins import simple_strings as twin
from tests.wire.json_bodies import NUMBERS, mutate

KEY = 9_000_000_000_000_000_000
BEHIND = 64  # bytes behind the end, as other rows are behind one


def member(rng: random.Random) -> str:
    name = "".join(rng.choice("abcXYZ_09 ~") for _ in range(rng.choice((1, 2, 7, 8, 9, 15, 16, 17, 30, 255, 256, 257))))
    if rng.random() < 0.3:
        value = '"' + "v" * rng.choice((0, 1, 7, 8, 9, 256, 257)) + '"'
    elif rng.random() < 0.1:
        value = rng.choice(NUMBERS)
    else:
        whole, part = rng.randrange(10 ** rng.randrange(9)), rng.randrange(25)
        value = rng.choice(("", "-")) + str(whole)
        value += "." + "".join(rng.choice("0123456789") for _ in range(part)) if part else ""
    return f'"{name}"{rng.choice((":", ":", ": ", " :", ":  "))}{value}'


def check(text: bytes, room: int = 100, texts: tuple[str, ...] = ()) -> int:
    rules = make_rules(Context(EncoderConfig(text=texts, hash_key=KEY)), True)
    row = make_row(room)
    data = np.array(bytearray(text + b"1" * BEHIND), np.uint8)
    at, n, closed = read_plain(data, 0, len(text), row, 0, rules)
    expected_at, expected, expected_closed = twin.read_plain(text, 0, len(text), KEY, bool(texts))
    assert (at, n, closed) == (expected_at, len(expected), expected_closed), text
    found = zip(row.fingerprint, row.value, row.kind, row.span, strict=True)
    for (fingerprint, value, kind, span), wanted in zip(list(found)[:n], expected, strict=True):
        assert (int(fingerprint), float(value).hex(), int(kind), tuple(span.tolist())) == (
            wanted[0],
            wanted[1].hex(),
            *wanted[2:],
        )
    return int(n)


def test_members_equal_the_twin() -> None:
    rng, records = random.Random(51), 0
    for _ in range(3000):
        text = rng.choice((",", ", ")).join(member(rng) for _ in range(rng.randrange(1, 6))) + rng.choice(("}", "}", ""))
        line = text.encode()
        records += check(line, texts=rng.choice(((), (), ("t",))))
        check(mutate(rng, line))
        check(line[: rng.randrange(len(line) + 1)])
    assert records > 1000


def test_numbers_of_up_to_nineteen_digits_are_read_to_the_last_bit() -> None:
    rng = random.Random(52)
    for _ in range(3000):
        text = (
            f'"a":{rng.choice(("", "-"))}{rng.randrange(10 ** rng.randrange(1, 8))}.{rng.randrange(10 ** rng.randrange(1, 13))}'
        )
        assert check(text.encode() + b"}") == 1
        assert check(f'"a":{rng.random()!r},'.encode()) in (0, 1)
    assert check(b'"a":0.123456789012345678}') == 1
    assert check(b'"a":0.1234567890123456789}') == 0


def test_reading_stops_where_the_records_end() -> None:
    data = np.array(bytearray(b'"a":1,"b":2,"c":"d","e":3}' + b" " * BEHIND), np.uint8)
    rules = make_rules(Context(EncoderConfig()), True)
    # An indicator takes two records, so the last one is left to the general reader.
    assert read_plain(data, 0, 26, make_row(3), 0, rules) == (12, 2, False)
    assert read_plain(data, 0, 26, make_row(5), 0, rules) == (20, 4, False)
    assert read_plain(data, 0, 26, make_row(6), 0, rules) == (25, 5, True)


def test_nothing_is_read_near_the_end_of_the_body() -> None:
    data = np.array(bytearray(b'"a":1}'), np.uint8)
    assert read_plain(data, 0, 6, make_row(9), 0, make_rules(Context(EncoderConfig()), True)) == (0, 0, False)
