"""The rows that the chaos tests send. Each is a function of its id, so that a checker can derive the content from the id."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from tests.twins.hashing import TAGS, hash_name

MARK = "chaosmark"  # every feature name begins with it: it must never be found in a log of the service
NAMES = 60
FEATURES = 6
MODEL = "m"
# On the grid sums are exact, so plain Python finds the same bits as the kernels (tests/learn/test_truncated_gradient.py).
DOCUMENT: dict[str, Any] = {
    "encoder": {"bits": 12},
    "learner": {
        "kind": "truncated_gradient",
        "rate": "adaptive",
        "normalised": False,
        "grid": True,
        "eta": 0.3,
        "accumulator": 1.0,
        "gravity": 0.01,
        "period": 7,
        "ceiling": "infinite",
    },
    "checkpoint_every_s": 1,
    "publish_every_ms": 20,
}


def features_of(event_id: str) -> dict[str, float]:
    """The features of the event with this id."""
    rng = random.Random(event_id)
    names = rng.sample(range(NAMES), FEATURES)
    return {f"{MARK}{name}": rng.randint(-2000, 2000) / 1000 or 1.0 for name in names}


def label_of(event_id: str) -> int:
    """0 or 1: depends on a fifth of the names, with rare exceptions."""
    features = features_of(event_id)
    score = sum(value for name, value in features.items() if int(name.removeprefix(MARK)) % 5 == 0)
    return int(score > 0) ^ int(random.Random(f"{event_id}!").random() < 0.1)


def encoded(event_id: str) -> list[tuple[int, float]]:
    """(hash, value) of the event, as its row in the log must have them."""
    hashed = [(hash_name(name.encode(), 0, TAGS["number"]) >> 32, value) for name, value in features_of(event_id).items()]
    return sorted(hashed)


def observe_body(ids: Sequence[str]) -> bytes:
    """The body of a request to observe these events."""
    rows = [{"features": features_of(event_id), "label": label_of(event_id), "event_id": event_id} for event_id in ids]
    return "\n".join(map(json.dumps, rows)).encode()


def predict_body(event_id: str) -> bytes:
    """The body of a request to predict this event."""
    return json.dumps({"features": features_of(event_id)}).encode()
