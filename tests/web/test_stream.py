"""Server-sent events: what is sent and when, what a client that comes back gets, how streams end, and how many there may be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from riata.web.api.routes import stream
from riata.web.api.routes.watching import FADED_SHOWN
from riata.web.auth.gate import Buckets, Gate, KeysFile
from riata.web.auth.keys import KeyEntry, digest_of, new_token, ring_of
from tests.running import HANG_S
from tests.web.serving import Whole, serving

ROW = '{"features":{"a":1},"label":1}'
JSON = {"Content-Type": "application/json"}
Event = tuple[str, str, Any]  # id, kind, document


@pytest.fixture
def client(service: Whole, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    monkeypatch.setattr(stream, "LOOK_S", 0.01)
    monkeypatch.setattr(stream, "BEAT_S", 0.1)
    with serving(service.app(streams_max=2)) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=HANG_S) as found:
        service.until_ready()
        yield found


def events(lines: Iterator[str]) -> Iterator[Event]:
    """Read events as an EventSource does; comments are passed over."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line == "":
            if "data" in fields:
                yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
            fields = {}
        elif name:
            fields[name] = value


def once_there_is_room(client: httpx.Client, path: str) -> httpx.Response:
    """Ask until the server has noticed that other streams ended."""
    while (answer := client.get(path)).status_code == 503:
        pass
    return answer


def begun(client: httpx.Client, **headers: str) -> Any:
    return client.stream("GET", "/models/default/stream", headers=headers)


def test_events_come_as_the_model_learns_and_go_on_after_the_last_id(client: httpx.Client) -> None:
    with begun(client) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert "content-length" not in answer.headers
        found = events(answer.iter_lines())
        first, kind, document = next(found)
        assert (kind, document["seq"]) == ("model", int(first))
        client.post("/observe?wait=applied", content=ROW, headers=JSON)
        second, kind, document = next(found)
        assert (kind, int(second), document["seq"]) == ("model", int(first) + 1, int(second))
        assert document["faded"].keys() == set(FADED_SHOWN)
        job = client.post("/models/default/refits", content="{}", headers=JSON).json()["id"]
        told = next(found)
        assert (told[:2], told[2]["id"], set(told[2])) == (("", "refit"), job, set(stream.REFIT_SHOWN))
    with begun(client, **{"Last-Event-ID": second}) as answer:
        found = events(answer.iter_lines())
        assert next(found)[1] == "refit"  # nothing of the model is newer
        client.post("/observe", content=ROW, headers=JSON)
        assert next(one for one in found if one[1] == "model")[0] == str(int(second) + 1)
    assert once_there_is_room(client, "/models/default/stream?events=2").text.count("data: ") == 2


def test_a_quiet_stream_beats_and_a_dropped_model_ends_it(client: httpx.Client) -> None:
    client.put("/models/m", content="{}", headers=JSON)
    with client.stream("GET", "/models/m/stream") as answer:
        lines = answer.iter_lines()
        while next(lines) != ":":
            pass
        assert client.delete("/models/m?confirm=m").json()["dropped"]
        (last,) = events(lines)
        assert last == ("", "gone", {"name": "m"})


def test_there_are_so_many_streams_and_no_more(client: httpx.Client) -> None:
    with begun(client) as one, begun(client) as two:
        for answer in (one, two):
            assert next(events(answer.iter_lines()))[1] == "model"
        refused = client.get("/models/default/stream")
        assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "streams_full", "5")
    assert once_there_is_room(client, "/models/default/stream?events=1").status_code == 200
    assert client.get("/models/nobody/stream").json()["code"] == "model_not_found"
    assert client.get("/models/default/stream?events=0").json()["code"] == "bad_option"


def test_one_key_leaves_streams_to_the_others(service: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LOOK_S", 0.01)
    monkeypatch.setattr(stream, "BEAT_S", 0.1)  # a beat notices that the client of a stream has gone
    tokens = {name: new_token(name) for name in ("one", "two")}
    ring = ring_of([KeyEntry(name, digest_of(token), ["watch"], "*") for name, token in tokens.items()])
    one, two = ({"Authorization": f"Bearer {token}"} for token in tokens.values())
    gate = Gate(service.clock, KeysFile(Path("/nowhere"), ring), Buckets(0.0, 0.0))
    app = service.app(gate, streams_max=9, streams_per_key=2)
    with serving(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=HANG_S) as client:
        service.until_ready()
        with begun(client, **one) as first, begun(client, **one) as second:
            for answer in (first, second):
                assert next(events(answer.iter_lines()))[1] == "model"
            refused = client.get("/models/default/stream", headers=one)
            assert (refused.status_code, refused.json()["code"]) == (503, "streams_full")
            assert "the key one" in refused.json()["detail"]
            assert client.get("/models/default/stream?events=1", headers=two).status_code == 200
        while (answer := client.get("/models/default/stream?events=1", headers=one)).status_code == 503:
            pass
        assert answer.status_code == 200
    assert not app.state.parts.streams.by_key


def test_streams_end_well_when_the_server_stops(service: Whole) -> None:
    app = service.app()
    with httpx.Client(timeout=HANG_S) as client:
        with serving(app, graceful_stop_s=60) as port:
            service.until_ready()
            answer = client.send(client.build_request("GET", f"http://127.0.0.1:{port}/models/default/stream"), stream=True)
            lines = answer.iter_lines()
            next(events(lines))
        assert list(events(lines)) == []  # an answer that was cut off would raise here
    assert app.state.parts.streams.open == 0
