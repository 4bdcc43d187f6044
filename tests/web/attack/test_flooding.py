"""Features made to be slow: keys that collide in Python's own tables, and names that share a slot or a fingerprint."""

from __future__ import annotations

import json
import time

import numpy as np

from riata.base.limits import FEATURES_PER_ROW_MAX
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples

ROWS = 2
SLOWER_MAX = 5.0  # a table that falls apart is hundreds of times slower; the rest is for a busy machine
MERSENNE = 2**61 - 1  # integers apart by this have one hash in Python


def body_of(names: list[str]) -> bytes:
    """The necessary number of rows, each as full as allowed."""
    parts = [names[at : at + FEATURES_PER_ROW_MAX] for at in range(0, len(names), FEATURES_PER_ROW_MAX)]
    return json.dumps([{"features": dict.fromkeys(part, 1.0), "label": 1} for part in parts]).encode()


def seconds_to_parse(body: bytes) -> float:
    """The minimum of several measurements."""
    times = []
    for _ in range(5):
        context = Context(EncoderConfig())
        begun = time.thread_time()
        parsed = parse_examples(body, "application/json", context, labelled=True)
        times.append(time.thread_time() - begun)
        assert parsed.batch.n == ROWS
    return min(times)


def test_names_that_collide_as_integers_of_python_cost_the_same_as_others() -> None:
    count = ROWS * FEATURES_PER_ROW_MAX
    rng = np.random.default_rng(60)
    crafted = body_of([str(at * MERSENNE) for at in range(1, count + 1)])
    ordinary = body_of([str(number) for number in rng.choice(2**62, count, replace=False)])
    seconds_to_parse(ordinary)  # the reader is loaded
    assert seconds_to_parse(crafted) < SLOWER_MAX * seconds_to_parse(ordinary) + 0.01


def test_features_that_differ_only_in_the_last_character_cost_the_same_as_others() -> None:
    count = ROWS * FEATURES_PER_ROW_MAX
    rng = np.random.default_rng(61)
    crafted = body_of(["a" * 60 + format(at, "05x") for at in range(count)])
    ordinary = body_of([rng.bytes(33).hex()[:65] for _ in range(count)])
    seconds_to_parse(ordinary)
    assert seconds_to_parse(crafted) < SLOWER_MAX * seconds_to_parse(ordinary) + 0.01


def test_models_with_another_hash_key_put_the_same_names_elsewhere() -> None:
    body = body_of([f"w{at}" for at in range(ROWS * FEATURES_PER_ROW_MAX)])
    found = []
    for key in (0, 1):
        context = Context(EncoderConfig(hash_key=key))
        found.append(parse_examples(body, "application/json", context, labelled=True).batch.hash)
    assert len(np.intersect1d(found[0], found[1])) < 5, "what collides under one key does not under another"
