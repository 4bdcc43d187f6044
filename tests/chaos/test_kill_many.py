"""SIGKILL while one record holds rows of many models: each acknowledged row is in the log of its model, at its event, once."""

from __future__ import annotations

import json
import random
import re
import select
import socket
import threading
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from riata.store.payload import decode_batch
from riata.store.sqlite.store import read_sqlite
from tests.chaos.repeats import repeats
from tests.chaos.replaying import replayed
from tests.running import Running

MODELS = 24
KILLS = 3
SEQ = re.compile(rb'"seq": ?(\d+)')


def request(model: int, value: int) -> bytes:
    body = json.dumps({"features": {f"w{value % 7}": value}, "label": value % 2}).encode()
    head = f"POST /models/m{model}/observe HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


def send_until_killed(running: Running, first: int) -> tuple[dict[tuple[int, int], int], int]:
    """Each connection sends rows to a model of its own. Returns the value of each acknowledged row, by model and event, and the
    next value."""
    links = [socket.create_connection(("127.0.0.1", running.port), 60) for _ in range(MODELS)]
    sent, found, value = dict[int, int](), dict[tuple[int, int], int](), first
    try:
        while True:
            for model, link in enumerate(links):
                if model not in sent:
                    value += 1
                    link.sendall(request(model, value))
                    sent[model] = value
            ready, _, _ = select.select(links, [], [], 60)
            for link in ready:
                answer = link.recv(65536)
                if not answer:
                    return found, value
                assert b" 202 " in answer[:20], answer
                seq = SEQ.search(answer)
                assert seq is not None, answer
                model = links.index(link)
                found[model, int(seq[1])] = sent.pop(model)
    except (ConnectionError, TimeoutError):
        return found, value
    finally:
        for link in links:
            link.close()


@pytest.mark.parametrize("seed", repeats(1, 5))
def test_every_acknowledged_row_of_many_models_survives(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    found: dict[tuple[int, int], int] = {}
    value = 0
    with Running(tmp_path / "data", {"RIATA_DISK_RESERVE_BYTES": "0"}) as running:
        running.start()
        for model in range(MODELS):
            httpx.put(f"{running.url}/models/m{model}", json={"checkpoint_every_s": 1}, timeout=300).raise_for_status()
        for _ in range(KILLS):
            timer = threading.Timer(rng.uniform(0.3, 2.0), running.process.kill)
            timer.start()
            more, value = send_until_killed(running, value)
            assert not more.keys() & found.keys()
            found |= more
            timer.join()
            running.process.wait()
            running.start()
        assert running.stop() == 0
    with closing(read_sqlite(tmp_path / "data")) as store:
        for model in range(MODELS):
            rows = [
                (record.first + at, int(x))
                for record in store.read(f"m{model}", 0)
                if record.kind == "observe"
                for at, x in enumerate(decode_batch(record.payload).value.tolist())
            ]
            values = [x for _, x in rows]
            assert sorted(set(values)) == values, "rows in the order in which they were sent, each once"
            assert {seq: x for (one, seq), x in found.items() if one == model}.items() <= dict(rows).items()
    assert len(found) > 10 * MODELS
    replayed(tmp_path / "data", "m0")
