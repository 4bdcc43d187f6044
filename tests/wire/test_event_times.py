"""When the event of a row happened: `ts` is kept in the batch and the log, counted when the row is accepted, and not learnt."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from riata.store.payload import TIME_VERSION, decode_batch, encode_batch
from riata.wire.batch import NO_TIME, slice_rows
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from riata.wire.parsed import Parsed
from riata.wire.readers.json_reference import unix_ms
from riata.wire.workspace import PaddedBuffer
from tests.twins import json_text as twin

NDJSON = "application/x-ndjson"
ROW: dict[str, Any] = {"features": {"age": 41.5, "ts": "2026-01-01T00:00:00Z"}, "label": 1, "event_id": "x"}
NOON = "2026-11-20T12:00:00Z"
NOON_MS = 1_795_176_000_000


def parsed(*rows: Any, labelled: bool = True) -> Parsed:
    body = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()
    return parse_examples(body, NDJSON, Context(EncoderConfig()), labelled)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (NOON, NOON_MS),
        ("2026-11-20t12:00:00.25z", NOON_MS + 250),
        ("2026-11-20 14:30:00.1239999+02:30", NOON_MS + 123),
        ("2026-11-20T11:59:60Z", NOON_MS - 1000),  # a leap second
        ("1969-12-31T23:59:59.9999Z", -1),
        ("2026-13-20T12:00:00Z", None),
        ("2026-02-29T12:00:00Z", None),
        ("2026-11-20T24:30:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("2026-11-20T12:00:00+01:60", None),
    ],
)
def test_a_time_is_read_to_the_millisecond_if_it_exists(text: str, ms: int | None) -> None:
    assert unix_ms(text) == ms
    found = parsed({**ROW, "ts": text}, ROW)
    if ms is None:
        assert [(error.index, error.code) for error in found.errors] == [(0, "bad_ts")]
        assert found.errors[0].detail.startswith("ts: expected an RFC 3339 time")
        assert (found.batch.n, found.batch.time) == (1, None)
    else:
        assert found.batch.time is not None
        assert found.batch.time.tolist() == [ms, NO_TIME]


def test_a_row_with_a_time_is_the_same_row() -> None:
    rows = [{**ROW, "ts": NOON}, {"ts": None, **ROW}, ROW, {"ts": NOON, "subject": "ann", **ROW}]
    found, plain = parsed(*rows, f'{{"\\u0074s":"{NOON}","features":{{"tsx":1}},"label":0}}'), parsed(*[ROW] * 4)
    assert found.errors == []
    assert found.batch.time is not None
    assert found.batch.time.tolist() == [NOON_MS, NO_TIME, NO_TIME, NOON_MS, NOON_MS]
    first = slice_rows(found.batch, 0, 4)
    for part in ("indptr", "hash", "value", "label", "weight", "event_id", "has_id"):
        assert np.array_equal(getattr(first, part), getattr(plain.batch, part)), part
    assert plain.batch.time is None
    document = json.dumps(rows[:2]).encode()
    for body in (document, PaddedBuffer.of(document)):
        times = parse_examples(body, "application/json", Context(EncoderConfig()), True).batch.time
        assert times is not None
        assert times.tolist() == [NOON_MS, NO_TIME]


def test_rows_to_predict_have_no_time() -> None:
    row = {"features": {"a": 1}, "ts": NOON}
    assert parsed(row, labelled=False).batch.time is None


def test_a_payload_with_wrong_times_is_refused() -> None:
    good = encode_batch(parsed({**ROW, "ts": NOON}, ROW).batch)
    assert decode_batch(good).n == 2
    unsaid = NO_TIME.to_bytes(8, "little", signed=True)
    for bad in (
        good[:-16] + 2 * unsaid,  # times that say nothing
        bytes([2]) + good[1:],  # a flag of a later version
        good[:1] + bytes([good[1] & ~64]) + good[2:],  # the version without the flag
        good[:-8],
        bytes([TIME_VERSION + 1]) + good[1:],
    ):
        with pytest.raises(Exception, match="payload"):
            decode_batch(bad)
    batch = parsed({**ROW, "ts": NOON}, ROW).batch
    with pytest.raises(Exception, match="time is not 2"):
        encode_batch(replace(batch, time=np.zeros(1, np.int64)))


def random_time(rng: random.Random) -> str:
    """The shape of a time; about half of them do not exist."""
    year = rng.choice((0, 1, 1600, 1900, 1970, 2000, 2024, 9999, rng.randrange(10_000)))
    day = f"{year:04}-{rng.randrange(14):02}-{rng.choice((0, 1, 28, 29, 30, 31, 32)):02}"
    clock = f"{rng.randrange(25):02}:{rng.choice((0, 59, 60)):02}:{rng.choice((0, 59, 60, 61)):02}"
    offset = rng.choice(("Z", "z", f"{rng.choice('+-')}{rng.choice((0, 23, 24)):02}:{rng.choice((0, 30, 59, 60)):02}"))
    return f"{day}{rng.choice('Tt ')}{clock}{rng.choice(('', '.5', '.0019', '.123456789'))}{offset}"


def test_random_times_and_misspelt_ones_are_read_by_the_native_reader_as_by_its_twin() -> None:
    rng = random.Random(5)
    texts = [random_time(rng) for _ in range(3000)]
    for _ in range(3000):
        text = list(random_time(rng))
        text[rng.randrange(len(text))] = rng.choice("0 -:.+Zz9aT")
        texts.append("".join(text)[: rng.choice((None, -1, 19, 20))])
    found = parsed(*({**ROW, "ts": text} for text in texts))
    refused = {error.index for error in found.errors}
    assert all(error.code == "bad_ts" for error in found.errors)
    wanted = [twin.unix_ms(text.encode()) if twin.is_time(text.encode()) else NO_TIME for text in texts]
    assert refused == {k for k, time in enumerate(wanted) if time == NO_TIME}
    assert found.batch.time is not None
    assert found.batch.time.tolist() == [time for time in wanted if time != NO_TIME]
    assert 500 < len(refused) < 5500
