"""Rows of the fault matrix about flipped bits in the stored files of one model of three, while processes serve it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import damaging
from tests.chaos.repeats import slow
from tests.redis_server import RedisServer, redis_version
from tests.running import Running

NO_RESERVE = {"RIATA_DISK_RESERVE_BYTES": "0"}
WAIT_S = 60.0
MODELS = ("a", "b", "default")
LONG_ROWS = 1500  # in one request: their payload lies in a file


def rows(n: int, seed: int) -> list[dict[str, Any]]:
    more = {f"more {k}": 0.37 * k for k in range(12)} if n >= LONG_ROWS else {}
    return [{"features": {"x": seed + i / 8, f"w{(seed + i) % 50}": 1, **more}, "label": (i + seed) % 2} for i in range(n)]


def send(url: str, model: str, n: int, seed: int) -> httpx.Response:
    return httpx.post(f"{url}/models/{model}/observe?wait=applied", json=rows(n, seed), timeout=WAIT_S)


def riata(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "riata", *words], capture_output=True, text=True, timeout=600, check=False)


def fill(running: Running) -> dict[str, float]:
    """Three models, each with some records before its checkpoint and some after it. Returns a margin of each."""
    for name in MODELS[:2]:
        document = {"encoder": {"bits": 12}, "checkpoint_every_s": 3600}
        httpx.put(f"{running.url}/models/{name}", json=document, timeout=WAIT_S).raise_for_status()
    httpx.patch(f"{running.url}/models/default", json={"checkpoint_every_s": 3600}, timeout=WAIT_S).raise_for_status()
    for k, name in enumerate(MODELS):
        for n in (30, LONG_ROWS, 40):
            send(running.url, name, n, 100 * k + n).raise_for_status()
        httpx.post(f"{running.url}/models/{name}/snapshots", timeout=WAIT_S).raise_for_status()
        for n in (20, LONG_ROWS + 1, 50):
            send(running.url, name, n, 100 * k + n).raise_for_status()
    return {name: margin(running, name) for name in MODELS}


def margin(running: Running, model: str) -> float:
    answer = httpx.get(f"{running.url}/models/{model}/predict?x=1&w3=1", timeout=WAIT_S)
    assert answer.status_code == 200, answer.text
    return float(answer.json()["margin"])


def metric(running: Running, name: str, model: str) -> float:
    text = httpx.get(f"{running.url}/metrics", timeout=WAIT_S).text
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f'{name}{{model="{model}"}}'))


def refused_by_name(running: Running, model: str) -> None:
    """Every request for the model is answered 503 with its name, the damage and the repair."""
    at = f"{running.url}/models/{model}"
    with httpx.Client(timeout=WAIT_S) as client:
        answers = [
            client.post(f"{at}/observe", json=rows(3, 1)),
            client.post(f"{at}/observe", json=rows(3, 1)[0]),
            client.post(f"{at}/observe", content=json.dumps(rows(1, 1)[0]), headers={"Content-Type": "application/x-ndjson"}),
            client.get(f"{at}/predict?x=1"),
            client.post(f"{at}/predict", json={"features": {"x": 1}}),
            client.get(at),
            client.get(f"{at}/weights"),
            client.get(f"{at}/metrics"),
            client.get(f"{at}/path"),
            client.get(f"{at}/snapshots"),
            client.post(f"{at}/snapshots"),
            client.post(f"{at}/restore", json={"generation": 1}),
            client.get(f"{at}/export"),
            client.patch(at, json={"publish_every_ms": 100}),
            client.put(at, json={"encoder": {"bits": 12}}),
        ]
    for answer in answers:
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (503, "model_damaged"), (answer.request.url, answer.text)
        assert f"model {model} is damaged" in problem["detail"]
        assert "riata repair" in problem["detail"]
    assert answers[0].json()["outcome"] == "not_accepted"


def others_go_on(running: Running, model: str) -> None:
    for k, name in enumerate(other for other in MODELS if other != model):
        before = httpx.get(f"{running.url}/models/{name}", timeout=WAIT_S).json()["examples"]
        assert send(running.url, name, 25, 7 + k).json()["applied"]
        assert httpx.get(f"{running.url}/models/{name}", timeout=WAIT_S).json()["examples"] == before + 25
        margin(running, name)


def stopped(tmp_path: Path, seed: int = 0) -> tuple[Path, dict[str, float]]:
    """The directory of a killed service, and its margins."""
    directory = tmp_path / f"data{seed}"
    with Running(directory, NO_RESERVE) as running:
        running.start()
        margins = fill(running)
        running.kill()
    damaging.fold(directory)
    return directory, margins


def spoil(directory: Path, model: str, what: str) -> int:
    """Flip a bit; returns the first damaged event. The events that are needed are after the checkpoint."""
    records = damaging.firsts(directory, model)
    if what == "row":
        assert damaging.flip_payload(directory, model, records[-1]).name == "riata.db"
        return records[-1]
    if what == "file":
        assert damaging.flip_payload(directory, model, records[-2]).name != "riata.db"
        return records[-2]
    number = damaging.number_of(directory, model)
    damaging.flip_generations(directory, model)
    first = records[4]  # and the log, which would do without them, begins later
    damaging.change(directory, "DELETE FROM log WHERE key >= ? AND key < ?", number << 44, number << 44 | first)
    damaging.change(directory, "UPDATE models SET first_seq = ? WHERE id = ?", first, number)
    return 0


@pytest.mark.parametrize(
    ("model", "what", "ways"),
    [
        ("a", "row", ["cut"]),
        slow("b", "file", ["cut"]),
        slow("a", "generation", ["set_aside"]),
        slow("default", "row", ["set_aside"]),
    ],
)
def test_row_50_a_flipped_bit_damages_one_model_and_repair_fixes_it(
    model: str, what: str, ways: list[str], tmp_path: Path
) -> None:
    directory, margins = stopped(tmp_path)
    event = spoil(directory, model, what)
    with Running(directory, NO_RESERVE) as running:
        running.start()
        assert {name: margin(running, name) for name in MODELS if name != model} == {
            name: margins[name] for name in MODELS if name != model
        }
        refused_by_name(running, model)
        others_go_on(running, model)
        ready = httpx.get(f"{running.url}/readyz", timeout=WAIT_S).json()
        assert list(ready["damaged"]) == [model]
        assert ready["damaged"][model] in ready["warnings"]
        assert not event or f"at event {event}" in ready["damaged"][model]
        listed = {line["name"]: line for line in httpx.get(f"{running.url}/models", timeout=WAIT_S).json()["models"]}
        assert [name for name in listed if "damaged" in listed[name]] == [model]
        for name in MODELS:
            assert metric(running, "riata_model_damaged", name) == (name == model)
        in_use = riata("repair", "--data", str(directory), "--yes")
        assert (in_use.returncode, "in use" in in_use.stderr) == (1, True)
        running.kill()
        running.start()  # and again after a kill
        refused_by_name(running, model)
        assert running.stop() == 0
    said = riata("repair", "--data", str(directory))
    assert (said.returncode, [f"--action {way}" in said.stdout for way in ways]) == (1, [True] * len(ways))
    done = riata("repair", "--data", str(directory), "--yes", "--action", ways[0])
    assert done.returncode == 0, done.stdout + done.stderr
    with Running(directory, NO_RESERVE) as running:
        running.start()
        assert httpx.get(f"{running.url}/readyz", timeout=WAIT_S).json()["damaged"] == {}
        if ways[0] == "set_aside" and model != "default":
            assert httpx.get(f"{running.url}/models/{model}", timeout=WAIT_S).status_code == 404
        else:
            assert send(running.url, model, 30, 5).status_code == 200
        running.kill()
    verified = riata("replay", "--data", str(directory), "--verify")
    assert verified.returncode == 0 or "no snapshot" in verified.stdout + verified.stderr, verified.stdout + verified.stderr


def edit(url: str, model: str, number: int) -> int:
    """Flip a bit of the payload of the `number`-th entry of a model's log in a Redis; return its first event."""
    import redis

    client = redis.Redis.from_url(url, protocol=2)
    incarnation = client.hget("{riata:riata}:models", model)
    assert isinstance(incarnation, bytes)
    key = f"{{riata:riata}}:m:{incarnation.decode()}:log"
    entries: Any = client.xrange(key)
    client.delete(key)
    event = 0
    for i, (place, fields) in enumerate(entries):
        if i == number % len(entries):
            payload = fields[b"payload"]
            at = len(payload) // 2
            fields[b"payload"] = payload[:at] + bytes([payload[at] ^ 4]) + payload[at + 1 :]
            event = int(place.split(b"-")[0]) - int(fields[b"count"]) + 1
        client.xadd(key, fields, id=place)
    client.close()
    return event


@pytest.mark.slow
@pytest.mark.skipif(redis_version() < (7,), reason="needs a Redis server of version 7 or newer")
def test_row_52_a_flipped_bit_in_a_shared_store_affects_one_model_in_every_process(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        writer, web = (Running.of_role(tmp_path / role, role, server.url) for role in ("writer", "web"))
        with writer, web:
            for process in (writer, web):
                process.start(wait=False)
            for process in (writer, web):
                process.wait_until_ready()
            margins = fill_shared(web, writer)
            writer.kill()
            web.kill()
            event = edit(server.url, "a", -1)
            history = edit(server.url, "b", 1)
            said = riata("repair", "--store", server.url)
            assert (said.returncode, f"a: DAMAGED at event {event}" in said.stdout) == (1, True), said.stdout + said.stderr
            assert f"b: DAMAGED at event {history}" in said.stdout
            for process in (writer, web):
                process.start(wait=False)
            for process in (writer, web):
                process.wait_until_ready()
            deadline = time.monotonic() + WAIT_S
            while "a" not in httpx.get(f"{web.url}/readyz", timeout=WAIT_S).json().get("damaged", {}):
                assert time.monotonic() < deadline, web.output()
                time.sleep(0.1)
            others_go_on(web, "a")
            for process in (writer, web):
                answer = httpx.get(f"{process.url}/models/a/predict?x=1", timeout=WAIT_S)
                assert (answer.status_code, answer.json()["code"]) == (503, "model_damaged"), answer.text
            answer = send(web.url, "a", 3, 3)
            assert (answer.status_code, answer.json()["code"], answer.json()["outcome"]) == (503, "model_damaged", "not_accepted")
            owned = riata("repair", "--store", server.url, "--yes")
            assert (owned.returncode, "owns the store" in owned.stderr) == (1, True), owned.stdout + owned.stderr
            margins["b"] = margin(web, "b")
            assert (writer.stop(), web.stop()) == (0, 0)
            cut = riata("repair", "--store", server.url, "--model", "a", "--yes")
            assert (cut.returncode, "DELETE /models/a" in cut.stderr) == (1, True), cut.stdout + cut.stderr
            mended = riata("repair", "--store", server.url, "--model", "b", "--yes")
            assert (mended.returncode, "restored from snapshot" in mended.stdout) == (0, True), mended.stdout + mended.stderr
            for process in (writer, web):
                process.start(wait=False)
            for process in (writer, web):
                process.wait_until_ready()
            httpx.delete(f"{writer.url}/models/a?confirm=a", timeout=WAIT_S).raise_for_status()
            assert margin(web, "b") == margins["b"]
            deadline = time.monotonic() + WAIT_S
            while httpx.get(f"{web.url}/models/a", timeout=WAIT_S).status_code != 404:
                assert time.monotonic() < deadline, web.output()
                time.sleep(0.1)
            assert (writer.stop(), web.stop()) == (0, 0)
        verified = riata("replay", "--store", server.url, "--verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr


def fill_shared(web: Running, writer: Running) -> dict[str, float]:
    """The same as `fill`, through a process that accepts events while another learns."""
    for name in MODELS[:2]:
        document = {"encoder": {"bits": 12}, "checkpoint_every_s": 3600}
        httpx.put(f"{web.url}/models/{name}", json=document, timeout=WAIT_S).raise_for_status()
    httpx.patch(f"{web.url}/models/default", json={"checkpoint_every_s": 3600}, timeout=WAIT_S).raise_for_status()
    for name in MODELS:
        for n in (30, 40):
            send(web.url, name, n, n).raise_for_status()
        httpx.post(f"{writer.url}/models/{name}/snapshots", timeout=WAIT_S).raise_for_status()
        for n in (20, 50):
            send(web.url, name, n, n).raise_for_status()
    return {name: margin(web, name) for name in MODELS}
