"""What a JSON row may be, to the byte: the native reader against regular expressions and the standard library."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import numpy as np
import pytest

from riata.native.reading import EXACT, HAND_OVER, NOT_A_NUMBER, hash_of, parse_number
from riata.wire.codes import SLUGS
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, explain_rows, parse_examples
from riata.wire.parsed import Parsed
from riata.wire.readers.json_reference import decode
from riata.wire.scan import Refused
from tests.running import ROOT
from tests.twins import json_text as twin
from tests.wire.json_bodies import NUMBERS, STRINGS, make_line, mutate

PLAIN = Context(EncoderConfig())


def read(body: bytes, kind: str = "application/x-ndjson", context: Context = PLAIN) -> Parsed:
    return parse_examples(body, kind, context, labelled=False)


def value_of(text: bytes) -> float | None:
    """The value of a feature that is written as `text`; None if the row is refused."""
    found = explain_rows(b'{"features":{"x":%b}}' % text, "application/json", PLAIN)
    return found[0][0][1] if found and found[0] else None


def test_hashes_are_those_of_the_first_version() -> None:
    golden = json.loads((ROOT / "tests/golden/feature_hash.json").read_text())
    tags = {"number": 0, "equals": 1, "word": 2, "namespace": 3}
    for vector in golden["vectors"]:
        key, tag = int(vector["key"]), tags[vector["tag"]]
        if "prefix" in vector:
            key, tag = hash_of(vector["prefix"].encode(), key, tag), tags["number"]
        found = hash_of(vector["name"].encode(), key, tag)
        assert f"{found:016x}" == vector["hash"], vector
    rng = random.Random(1)
    for size in [*range(34), 63, 64, 65, 255, 256]:
        text, key = bytes(rng.randrange(256) for _ in range(size)), rng.randrange(2**64)
        h = key ^ (size * 0x9E3779B97F4A7C15 % 2**64) ^ 0xD6E8FEB86659FD93
        for i in range(0, size, 8):
            h = (h ^ int.from_bytes(text[i : i + 8], "little")) * 0x9E3779B97F4A7C15 % 2**64
            h ^= h >> 32
        h = h * 0xD6E8FEB86659FD93 % 2**64
        assert hash_of(text, key, 1) == h ^ (h >> 32)


def numbers() -> list[str]:
    rng = random.Random(12)
    texts = [
        *NUMBERS,
        "0.0",
        "-0",
        "00",
        "0.",
        ".0",
        "1.5.2",
        "1..2",
        "12345678",
        "1234567.8",
        "123456.78",
        "9999999",
        "-.5",
        "1e5",
    ]
    texts += [f"{rng.randrange(10 ** rng.randrange(1, 18))}.{rng.randrange(10 ** rng.randrange(1, 12))}" for _ in range(3000)]
    texts += [f"-{rng.randrange(10 ** rng.randrange(1, 20))}" for _ in range(1000)]
    texts += [repr(rng.uniform(-9, 9) * 10.0 ** rng.randrange(-330, 308)) for _ in range(3000)]
    texts += [f"{rng.randrange(10**19)}e{rng.randrange(-340, 300)}" for _ in range(2000)]
    texts += [mutate(rng, text.encode()).decode("latin-1") for text in texts[:2000]]
    return texts


def test_numbers_are_read_to_the_last_bit_or_handed_over() -> None:
    seen = {EXACT: 0, NOT_A_NUMBER: 0, HAND_OVER: 0}
    for text in numbers():
        encoded = text.encode("latin-1")
        value, status = parse_number(encoded)
        seen[status] += 1
        wanted = twin.read_scalar(encoded) if encoded[:1] not in b"tfn" and encoded == encoded.strip() else None
        if status == HAND_OVER:
            assert sum(map(str.isdigit, text)) > 19
            continue
        assert (status == EXACT) == (wanted is not None), text
        assert wanted is None or value.hex() == wanted.hex(), text
    assert min(seen[EXACT], seen[NOT_A_NUMBER]) > 500


@pytest.mark.parametrize("text", ["true", "false", "null", "tru", "nul", "fals", "falsey", "nullx", "True"])
def test_literals_are_whole_words(text: str) -> None:
    accepted = read(b'{"features":{"x":%b,"y":1}}' % text.encode()).errors == []
    assert accepted == (text in ("true", "false", "null"))


def test_strings_are_those_of_the_standard_library() -> None:
    rng = random.Random(5)
    seen = {True: 0, False: 0}
    parts = [
        *STRINGS,
        "\\ud83d\\ude00",
        "\\ud83d\\ud83d",
        "\\ude00",
        "\\u00e9",
        "\\uD7ff",
        "\\udbffx",
        "\\n",
        "\\q",
        "\\u00g0",
        "a" * 17,
    ]
    for _ in range(6000):
        text = "".join(rng.choice(parts) for _ in range(rng.randrange(4))).encode()
        text = mutate(rng, text) if rng.random() < 0.4 else text
        row = b'{"features":{},"event_id":"%b"}' % text
        codes = [error.code for error in read(row).errors]
        try:
            decoded = json.loads(row)["event_id"]
            good = (
                json.loads(row).keys() == {"features", "event_id"} and 1 <= len(decoded.encode()) <= 256 and "\0" not in decoded
            )
        except (ValueError, KeyError, TypeError):
            good = False
        if b'"' in text.replace(b'\\"', b""):
            continue  # may have become another row
        assert (codes == []) == good, (text, codes)
        seen[good] += 1
    assert min(seen.values()) > 500


def code_of(line: bytes) -> str | None:
    """Why the strict decoder refuses a line."""
    try:
        decode(line)
    except Refused as refused:
        return SLUGS[refused.refusal.code][0]
    return None


def test_a_row_is_well_formed_if_the_standard_library_says_so() -> None:
    rng = random.Random(6)
    lines = [line for line in (make_line(rng).replace(b"\n", b" ") for _ in range(4000)) if line.strip(b" \t\r")]
    codes = {error.index: error.code for error in read(b"\n".join(lines)).errors}
    shape, seen = ("malformed", "invalid_utf8", "too_deep"), 0  # which of them comes first differs
    for k, line in enumerate(lines):
        if line.startswith(b"\xef\xbb\xbf"):
            continue
        assert (codes.get(k) in shape) == (code_of(line) is not None), line
        seen += codes.get(k) in shape
    assert seen > 500


@pytest.mark.parametrize("depth", range(1, 12))
def test_the_depth_is_limited(depth: int) -> None:
    row = b'{"features":1,"x":' + b"[" * depth + b"]" * depth + b"}"
    (error,) = read(row).errors
    assert error.code == ("too_deep" if depth > 7 else "missing_features")


def test_a_hundred_thousand_brackets_are_too_deep() -> None:
    (error,) = read(b"[" * 100_000).errors
    assert (error.code, error.detail) == ("too_deep", "nested too deeply, at byte 8 of the row")


def test_a_syntax_error_is_told_where_it_is() -> None:
    (error,) = read(b'{"features":{"a": tru}}').errors
    assert (error.code, error.detail) == ("malformed", "not well-formed, at byte 18 of the row")


def test_a_name_that_stands_where_another_row_had_it_is_read_again() -> None:
    """Names are recognised by the bytes that stood in their place in the row before; only a plain, whole name may be."""
    rows = [
        b'{"features":{"ab":1,"c":"x"}}',
        b'{"features":{"ab" :2,"c":"y"}}',
        b'{"features":{"ab" 2,"c":"y"}}',
        b'{"features":{"ab":"z","c":4}}',
        b'{"features":{"a\\u0062":5,"c":"x"}}',
        b'{"features":{"ab":6,"c":"x"}}',
        b'{"features":{"abc":7,"c":"x"}}',
        b'{"features":{"a":8,"c":"x"}}',
        b'{"features":{"ab":null,"c":["x"]}}',
        b'{"features":{"ab":"q","c":null}}',
        b'{"features":{"n":{"ab":1,"c":2}}}',
        b'{"features":{"ab":9,"c":"x"}}',
    ]
    together = read(b"\n".join(rows))
    alone = [read(row) for row in rows]
    assert [error.index for error in together.errors] == [k for k, one in enumerate(alone) if one.errors] == [2]
    good = [one.batch for one in alone if one.batch.n]
    assert together.batch.hash.tolist() == np.concatenate([batch.hash for batch in good]).tolist()
    assert together.batch.value.tolist() == np.concatenate([batch.value for batch in good]).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_the_same_keys_read_together_are_those_read_alone(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{k}" * rng.randrange(1, 9) for k in range(rng.choice((1, 3, 20, 40, 150)))]
    rows = []
    for _ in range(12):
        if rng.random() < 0.3:
            rng.shuffle(names)
        if rng.random() < 0.3:
            names[rng.randrange(len(names))] = f"é{rng.randrange(5)}"
        kinds: list[Callable[[], object]] = [
            lambda: rng.uniform(-9, 9),
            lambda: f"v{rng.randrange(3)}",
            lambda: None,
            lambda: 0,
            lambda: ["a", "b"],
            lambda: True,
        ]
        chosen = kinds[: rng.choice((1, 2, 6))]
        rows.append(
            json.dumps({"features": {name: rng.choice(chosen)() for name in names}}, ensure_ascii=rng.random() < 0.5).encode()
        )
    context = Context(EncoderConfig(crosses=(("n0", "n1"),) if rng.random() < 0.3 else (), text=("n2",)))
    together = read(b"\n".join(rows), context=context)
    alone = [read(row, context=context).batch for row in rows]
    assert together.errors == []
    assert together.batch.hash.tolist() == np.concatenate([batch.hash for batch in alone]).tolist()
    assert together.batch.value.tobytes() == np.concatenate([batch.value for batch in alone]).tobytes()
