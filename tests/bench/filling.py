"""A service with much in it: a long log of small rows, and as many non-zero weights as are asked for.

Rows have `FEATURES` binary features whose names are drawn evenly, so that after a few rows a name all of them have a weight;
gravity is zero, so that they keep it. Bodies are Vowpal Wabbit text of `ROWS` rows; a few are made and sent again and again.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from tests.bench.service import Connection, ServiceFailed, connect

ROWS: Final = 10_000  # of one body: the limit of a request
FEATURES: Final = 8
DRAWS_A_NAME: Final = 4  # of a weight that is wanted, in all different bodies together
CONNECTIONS: Final = 4
LEARNT_S_MAX: Final = 300.0
SEED: Final = 32
VW_TEXT: Final = "text/x-vw"
LEARNER: Final[dict[str, Any]] = {"kind": "truncated_gradient", "gravity": 0.0}


def bodies(names: int) -> list[bytes]:
    """Bodies with about `names` different names, each of which occurs a few times."""
    rng = np.random.default_rng(SEED)
    made = []
    for _ in range(max(1, -(-names * DRAWS_A_NAME // (ROWS * FEATURES)))):
        drawn = rng.integers(0, names, (ROWS, FEATURES)).astype(str)
        labels = np.where(rng.random(ROWS) < 0.5, "1", "0")
        rows = [f"{label} |f n" + " n".join(row) for label, row in zip(labels.tolist(), drawn.tolist(), strict=True)]
        made.append(("\n".join(rows) + "\n").encode())
    return made


def fill(port: int, model: str, made: Sequence[bytes], events: int) -> int:
    """Send `events` rows to `model` in complete bodies, in rotation; wait until they are learnt. Returns the last event."""
    count = -(-events // ROWS)

    def send(sender: int) -> int:
        link = connect(port)
        return max((_sent(link, model, made[k % len(made)]) for k in range(sender, count, CONNECTIONS)), default=0)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        last = max(pool.map(send, range(CONNECTIONS)))
    wait_served(port, model, last)
    return last


def wait_served(port: int, model: str, seq: int) -> None:
    """Wait until the served model has learnt event `seq`; it is published at once, because a request waits for it."""
    link, deadline = connect(port), time.monotonic() + LEARNT_S_MAX
    while True:
        link.http.request("GET", f"/models/{model}/predict?n1=1&_min_seq={seq}")
        answer = link.http.getresponse()
        answer.read()
        if answer.status == http.HTTPStatus.OK:
            return
        if time.monotonic() > deadline:
            raise ServiceFailed(f"event {seq} of {model} is not served after {LEARNT_S_MAX:.0f} s")


def _sent(link: Connection, model: str, body: bytes) -> int:
    """Send one body; repeat while the service is overloaded."""
    while True:
        link.http.request("POST", f"/models/{model}/observe", body, {"Content-Type": VW_TEXT})
        answer = link.http.getresponse()
        text = answer.read()
        if answer.status == http.HTTPStatus.ACCEPTED:
            return int(json.loads(text)["seq"])
        if answer.status not in (http.HTTPStatus.TOO_MANY_REQUESTS, http.HTTPStatus.SERVICE_UNAVAILABLE):
            raise ServiceFailed(f"{answer.status} {text[:500].decode(errors='replace')}")
        time.sleep(0.02)


def make_model(port: int, model: str, checkpoint: bool = True, **encoder: int) -> None:
    """Create `model`, with checkpoints as by default or, if not `checkpoint`, as rarely as possible."""
    config: dict[str, Any] = {"learner": LEARNER, "encoder": encoder}
    if not checkpoint:
        config |= {"checkpoint_every_s": 86_400, "checkpoint_every_events": 10**9}
    connect(port).call("PUT", f"/models/{model}", json.dumps(config).encode())


def non_zeros(port: int, model: str) -> int:
    """Number of non-zero weights of the served model."""
    return int(connect(port).call("GET", f"/models/{model}")["non_zeros"])
