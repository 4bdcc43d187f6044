"""The compiled grammar of JSON against regular expressions and the standard library."""

from __future__ import annotations

import random

import numpy as np

from riata.base.arrays import U8
from riata.wire.codes import HANDOVER, OK, SYNTAX, TOO_DEEP
from riata.wire.readers.json.features import read_scalar
from riata.wire.readers.json.grammar import HAS_NON_ASCII, escaped, literal_end, scan_escape, scan_hex, scan_string, unescape
from riata.wire.readers.json.members import digits_at, is_time, known_key
from riata.wire.readers.json.texts import MARKS
from riata.wire.readers.json.values import skip_key, skip_scalar, skip_value
from tests.twins import json_scan as twin
from tests.twins import json_text as twin_text
from tests.wire.json_bodies import NUMBERS, STRINGS, TIMES, make_line, mutate


def array(text: bytes) -> U8:
    return np.frombuffer(text, np.uint8)


def pieces(count: int, seed: int) -> list[bytes]:
    """Short texts: strings, numbers, keys and times of the generator, half of them mutated."""
    rng = random.Random(seed)
    plain = [f'"{text}"' for text in STRINGS] + [f'"{text}" :1' for text in STRINGS] + [*NUMBERS, *TIMES, "true", "false", "null"]
    plain += ["\\ud83d\\ude00", "\\ud83d\\ud83d", "\\ude00", "\\u00e9", "\\uD7ff", "\\udbffx", "\\n", "\\q", "00fF", "00g0"]
    chosen = [rng.choice(plain).encode() for _ in range(count)]
    return [mutate(rng, text) if rng.random() < 0.5 else text for text in chosen]


def positive(end: int) -> int | None:
    return end if end >= 0 else None


def test_leaves_equal_their_twins() -> None:
    for text in pieces(6000, seed=5):
        data, stop = array(text), len(text)
        assert scan_hex(data, 0, stop) == twin.scan_hex(text, 0)
        assert literal_end(data, 0, stop) == (twin.literal_end(text, 0) or -1)
        assert positive(skip_key(data, 0, stop)) == twin.skip_key(text, 0), text
        end, holds = scan_string(data, min(1, stop), stop)
        assert ((end, holds) if end >= 0 else None) == twin.scan_string(text, min(1, stop)), text
        if end >= 0 and not holds & HAS_NON_ASCII:
            room = np.concatenate([data, np.zeros(stop, np.uint8)])
            assert room[stop : unescape(room, 1, end, stop)].tobytes() == twin.unescape(text[1:end]), text
        if text.startswith(b"\\") and scan_escape(data, 0, stop) > 0:
            assert escaped(data, 0, stop) == twin.escaped(text, 0), text
        if text.startswith(b"\\"):
            assert scan_escape(data, 0, stop) == twin.scan_escape(text, 0), text
        if text:
            assert positive(skip_scalar(data, 0, stop)) == twin.skip_scalar(text, 0), text


def test_skip_value_agrees_with_the_standard_library() -> None:
    rng = random.Random(6)
    seen = {True: 0, False: 0}
    for _ in range(4000):
        text = make_line(rng)
        depth = rng.randrange(6)
        code, end = skip_value(array(text), 0, len(text), depth)
        good = code == OK and not text[end:].strip(b" \t\r\n")
        assert good == twin.skip_value(text, depth), text
        seen[good] += 1
    assert min(seen.values()) > 500


def test_skip_value_stops_at_the_depth_limit_and_not_before() -> None:
    for depth in range(1, 12):
        text = b"[" * depth + b"]" * depth
        code, end = skip_value(array(text), 0, len(text), 0)
        assert (code, end) == ((OK, 2 * depth) if depth <= 8 else (TOO_DEEP, 8))


def test_skip_value_stands_a_hundred_thousand_brackets() -> None:
    text = b"[" * 100_000
    assert skip_value(array(text), 0, len(text), 0) == (TOO_DEEP, 8)


def test_skip_value_reports_where_the_fault_is() -> None:
    assert skip_value(array(b'{"a": tru}'), 0, 10, 0) == (SYNTAX, 6)


def test_read_scalar_equals_its_twin_to_the_last_bit() -> None:
    rng = random.Random(12)
    texts = [*NUMBERS, "true", "false", "null", "nul", "tru", "{}", "x"]
    texts += [f"{rng.randrange(10 ** rng.randrange(1, 18))}.{rng.randrange(10 ** rng.randrange(1, 12))}" for _ in range(3000)]
    texts += [f"-{rng.randrange(10 ** rng.randrange(1, 20))}" for _ in range(1000)]
    mark = np.zeros(MARKS, np.int64)
    for text in texts:
        end, value, _ = read_scalar(array(text.encode() + b","), 0, len(text) + 1, mark)
        wanted = twin_text.read_scalar(text.encode())
        if end == -HANDOVER:
            assert sum(map(str.isdigit, text)) > 19  # shorter numbers are always decided here
            continue
        assert (value.hex() if end == len(text) else None) == (None if wanted is None else wanted.hex()), text


def test_is_time_equals_its_twin() -> None:
    rng = random.Random(7)
    seen = {True: 0, False: 0}
    for _ in range(4000):
        text = rng.choice(TIMES).strip('"').encode()
        text = mutate(rng, text) if rng.random() < 0.6 else text
        assert is_time(array(text), 0, len(text)) == twin_text.is_time(text), text
        assert digits_at(array(text), 0, 4, len(text)) == twin_text.digits_at(text, 0, 4)
        seen[twin_text.is_time(text)] += 1
    assert min(seen.values()) > 100


def test_known_key_equals_its_twin() -> None:
    for name in [
        b"features",
        b"label",
        b"weight",
        b"event_id",
        b"ts",
        b"prediction_id",
        b"",
        b"Label",
        b"labels",
        b"tS",
        b"weighs",
    ]:
        assert known_key(array(name), 0, len(name)) == twin_text.known_key(name)
