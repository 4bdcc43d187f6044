"""`riata feed`: messages of a real Redis stream, each once and in order, whoever is killed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from riata.cli.feed_rows import FieldsSeen, Layout, Message, event_of
from riata.cli.redis_stream import RedisStream
from riata.store.payload import decode_batch
from riata.store.sqlite.store import read_sqlite
from tests.cli.test_verbs import run
from tests.redis_server import RedisServer
from tests.running import HANG_S, Running, environment

FLAT = Layout("s", None, "label")
IN_FIELD = Layout("s", "row", "label")


def row(fields: dict[str, str], layout: Layout) -> Any:
    return json.loads(event_of(Message("7-1", {k.encode(): v.encode() for k, v in fields.items()}), layout))


# -- messages as rows


def cloud_event(**attributes: Any) -> str:
    """A CloudEvent with these attributes; one that is None is left out."""
    data = {"features": {}, "label": 1}
    whole = {"specversion": "1.0", "type": "click", "id": "1", "source": "/shop", "data": data, **attributes}
    return json.dumps({name: value for name, value in whole.items() if value is not None})


def test_the_fields_of_a_message_are_features_as_in_a_query() -> None:
    given = {"age": "41.5", "n": "-3", "country": "de", "t": "true", "zip": "01234", "e": "1e3", "inf": "NaN", "label": "1"}
    features = {"age": 41.5, "n": -3, "country": "de", "t": "true", "zip": "01234", "e": 1000.0, "inf": "NaN"}
    assert row(given, FLAT) == {"features": features, "label": 1, "event_id": "s/7-1"}
    assert row({"a": "1", "y": "-1"}, Layout("s", None, "y")) == {"features": {"a": 1}, "label": -1, "event_id": "s/7-1"}


def test_the_first_value_of_a_field_or_its_kind_in_the_model_decides_how_a_text_is_read() -> None:
    ids, fields = ["12e45678", "12345678", "68fd1e64", "00501", "1e5"], FieldsSeen({"zip": "category"}, meets=True)
    rows = []
    for one in ids:
        content = {b"site_id": one.encode(), b"age": b"30", b"zip": b"94107.0", b"gap": b"NA", b"label": b"1"}
        rows.append(json.loads(event_of(Message("7-1", content), FLAT, fields))["features"])
    assert rows == [{"site_id": one, "age": 30, "zip": "94107", "gap": "NA"} for one in ids]
    assert fields.kinds == {"zip": "category", "site_id": "category", "age": "number"}
    by_value = [row({"site_id": one, "label": "1"}, FLAT)["features"]["site_id"] for one in ids]
    assert by_value == ["12e45678", 12345678, "68fd1e64", "00501", 100000.0]


def test_a_field_may_hold_the_row_or_a_cloud_event_or_the_label_of_a_prediction() -> None:
    plain = {"features": {"a": 1}, "label": 1, "weight": 2.0}
    assert row({"row": json.dumps(plain), "other": "x"}, IN_FIELD) == {**plain, "event_id": "s/7-1"}
    event = {"specversion": "1.0", "id": "e9", "source": "/shop", "type": "click", "data": plain}
    assert row({"row": json.dumps(event)}, IN_FIELD) == {**plain, "event_id": "/shop/e9"}
    label = {"prediction_id": "0" * 32, "label": 0}
    assert row({"row": json.dumps(label)}, IN_FIELD) == label


@pytest.mark.parametrize(
    ("fields", "layout", "why"),
    [
        ({"a": "1"}, FLAT, "no field 'label' for the label; --label names another"),
        ({"a": "1"}, IN_FIELD, "no field 'row'"),
        ({"row": "[1]"}, IN_FIELD, "the field 'row' is not a JSON object"),
        ({"row": "{"}, IN_FIELD, "not UTF-8 JSON: Expecting property name"),
        ({"row": ""}, IN_FIELD, "empty value"),
        ({"row": "[" * 100_000}, IN_FIELD, "not UTF-8 JSON: nested too deeply"),
        ({"row": "\0\0\0\0\7Obj"}, IN_FIELD, "begins with a zero byte, as Avro and Protobuf of a schema registry do; send JSON"),
        ({"row": cloud_event(data=3)}, IN_FIELD, "the data of the CloudEvent is not a JSON object"),
        ({"row": cloud_event(id=None)}, IN_FIELD, "attribute id of the CloudEvent is missing; id and source are both required"),
        ({"row": cloud_event(id="")}, IN_FIELD, "attribute id of the CloudEvent is missing"),
        ({"row": cloud_event(source=None)}, IN_FIELD, "attribute source of the CloudEvent is missing"),
        ({"row": cloud_event(id=7)}, IN_FIELD, "attribute id of the CloudEvent is no text: 7"),
        ({"row": cloud_event(id=None, source=None)}, IN_FIELD, "id and source are both required"),
    ],
)
def test_what_is_no_row_is_refused_with_the_reason(fields: dict[str, str], layout: Layout, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        row(fields, layout)


def test_bytes_that_are_no_text_are_named() -> None:
    with pytest.raises(ValueError, match="not UTF-8 JSON: byte 3 is not UTF-8, as in Avro and other binary formats"):
        event_of(Message("7-1", {b"row": b'{"a\xff"}'}), IN_FIELD)


def test_the_event_id_may_be_a_field_of_the_message_or_a_key_of_the_row() -> None:
    assert row({"a": "1", "order": "007", "label": "1"}, Layout("s", None, "label", "order")) == {
        "features": {"a": 1}, "label": 1, "event_id": "007",
    }  # fmt: skip
    plain = {"features": {"a": 1}, "label": 1, "event_id": "mine"}
    assert row({"row": json.dumps(plain)}, IN_FIELD)["event_id"] == "s/7-1"
    own = Layout("s", "row", "label", "event_id")
    assert row({"row": json.dumps(plain)}, own) == plain
    event = {"specversion": "1.0", "id": "e9", "source": "/shop", "data": {**plain, "event_id": 12}}
    assert row({"row": json.dumps(event)}, own)["event_id"] == "12"
    for bad in ({}, {"event_id": None}, {"event_id": ""}, {"event_id": True}, {"event_id": [1]}):
        with pytest.raises(ValueError, match="its event id, 'event_id', is missing or neither a text nor a whole number"):
            row({"row": json.dumps({"features": {"a": 1}, "label": 1, **bad})}, own)


# -- a real Redis and a real service


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("broker")) as server:
        yield server


def feed(broker: RedisServer, service: Running, stream: str, *more: str) -> Any:
    return run("feed", broker.url, "--stream", stream, "--url", service.url, "--model", stream, "--until-empty", *more)


def test_refused_messages_are_kept_with_the_reason_and_the_others_fed(broker: RedisServer, service: Running) -> None:
    httpx.put(f"{service.url}/models/mixed", json={}, timeout=HANG_S).raise_for_status()
    with broker.client() as client:
        for i in range(300):
            client.xadd("mixed", {"a": i, "label": i % 2 if i % 2 else "no"}, id=f"{i + 1}-0")
        client.xadd("mixed", {"a": 1}, id="999-0")
        result = feed(broker, service, "mixed", "--rows-per-request", "200")
        assert (result.exit_code, "150 accepted, 0 duplicate, 151 refused" in result.stdout) == (1, True), result.output
        assert "message 1-0: bad_label: " in result.output
        kept = client.xrange("mixed.refused")
        assert len(kept) == 151
        assert kept[0][1][b"refused.id"] == b"1-0"
        assert kept[-1][1][b"refused.why"] == b"not_a_row: it has no field 'label' for the label; --label names another"
        assert client.xpending("mixed", "riata")["pending"] == 0
        client.xadd("mixed", {"a": 5, "label": 1}, id="1000-0")
    again = feed(broker, service, "mixed")
    assert (again.exit_code, "1 accepted, 0 duplicate, 0 refused" in again.stdout) == (0, True), again.output
    other = feed(broker, service, "mixed", "--group", "second", "--from", "$")
    assert "0 accepted, 0 duplicate" in other.stdout
    third = feed(broker, service, "mixed", "--group", "third")
    assert "0 accepted, 151 duplicate, 151 refused" in third.stdout  # every message was fed before, by another group


def test_a_field_of_numbers_that_are_names_is_a_category_if_the_option_says_so(broker: RedisServer, service: Running) -> None:
    httpx.put(f"{service.url}/models/places", json={"encoder": {"fields": {"age": "number"}}}, timeout=HANG_S).raise_for_status()
    with broker.client() as client:
        for i in range(4):
            client.xadd("places", {"zip": "94107", "age": str(i), "label": "1"})
    result = feed(broker, service, "places", "--category", "zip", "--category", "age")
    assert (result.exit_code, "4 accepted" in result.stdout) == (0, True), result.output
    found = httpx.get(f"{service.url}/models/places/fields", timeout=HANG_S).json()["fields"]
    assert {one["name"]: one["kind"] for one in found} == {"zip": "category", "age": "number"}  # the model knows better


def test_an_event_id_in_the_message_is_used_if_the_option_says_so(broker: RedisServer, service: Running) -> None:
    httpx.put(f"{service.url}/models/own-ids", json={}, timeout=HANG_S).raise_for_status()
    with broker.client() as client:
        for i in range(6):
            client.xadd("own-ids", {"row": json.dumps({"features": {"a": i % 3}, "label": 1, "event_id": f"e{i % 3}"})})
    result = feed(broker, service, "own-ids", "--field", "row", "--event-id", "event_id")
    assert (result.exit_code, "3 accepted, 3 duplicate, 0 refused" in result.stdout) == (0, True), result.output
    again = feed(broker, service, "own-ids", "--field", "row", "--group", "other")
    assert "6 accepted, 0 duplicate" in again.stdout  # without the option the id is that of the message


@pytest.mark.parametrize("consumer", ["feeder", "another"])
def test_messages_that_were_trimmed_while_pending_are_counted_and_named(
    consumer: str, broker: RedisServer, service: Running
) -> None:
    stream = f"trimmed-{consumer}"
    httpx.put(f"{service.url}/models/{stream}", json={}, timeout=HANG_S).raise_for_status()
    with broker.client() as client:
        for i in range(5):
            client.xadd(stream, {"a": i, "label": 1}, id=f"{i + 1}-0")
        killed = RedisStream(broker.url, stream, "riata", consumer, "0", 300)
        killed.begin()
        assert len(killed.read(3, 1)) == 3
        client.xtrim(stream, minid="3-0", approximate=False)
    time.sleep(1.1)  # until messages of another consumer may be taken over
    result = feed(broker, service, stream, "--claim-after-s", "1")
    assert (result.exit_code, "3 accepted, 0 duplicate, 0 refused, 2 lost" in result.stdout) == (1, True), result.output
    assert "message 1-0: it was delivered, and left the stream before it was fed" in result.output
    assert "message 2-0: it was delivered" in result.output
    again = feed(broker, service, stream)
    assert (again.exit_code, "0 refused\n" in again.stdout) == (0, True), again.output


def test_pending_messages_come_first_also_those_of_a_consumer_that_is_gone(broker: RedisServer) -> None:
    with broker.client() as client:
        for i in range(6):
            client.xadd("pending", {"a": i}, id=f"{i + 1}-0")
        gone = RedisStream(broker.url, "pending", "g", "gone", "0", 300)
        gone.begin()
        assert [m.id for m in gone.read(2, 1)] == ["1-0", "2-0"]
        mine = RedisStream(broker.url, "pending", "g", "mine", "0", 1)
        mine.begin()
        assert [m.id for m in mine.read(2, 1)] == ["3-0", "4-0"]
        client.xdel("pending", "3-0")
        again = RedisStream(broker.url, "pending", "g", "mine", "0", 1)
        found = again.read(1, 1)
        assert [m.id for m in found] == ["4-0"]  # what was deleted is passed over, and acknowledged
        again.acknowledge(found, {})
        ids: list[str] = []
        while ids[-2:] != ["1-0", "2-0"]:  # new ones, until those of the other are old enough
            if found := again.read(5, 1):
                again.acknowledge(found, {})
            ids += [m.id for m in found]
        assert sorted(ids) == ["1-0", "2-0", "5-0", "6-0"]
        assert client.xpending("pending", "g")["pending"] == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("redis://127.0.0.1:port", "--stream", "s"), "not the URL of a Redis"),
        (("nats://somewhere", "--stream", "s"), "expected a URL that begins with redis://"),
        (("redis://127.0.0.1", "--stream", "s", "--from", "5"), "expected 0 or $"),
        (("redis://127.0.0.1", "--stream", "s", "--field", "row", "--category", "zip"), "values of rows as JSON have types"),
    ],
)
def test_wrong_usage_is_answered_at_once(words: tuple[str, ...], why: str) -> None:
    result = run("feed", *words)
    assert (result.exit_code, why in result.output) == (2, True), result.output


def test_a_key_that_is_no_stream_and_a_model_that_is_not_there_are_named(broker: RedisServer, service: Running) -> None:
    with broker.client() as client:
        client.set("text", "x")
        client.xadd("nomodel", {"a": 1, "label": 1})
        assert "WRONGTYPE" in feed(broker, service, "text").output
        lost = feed(broker, service, "nomodel")
        assert (lost.exit_code, "no model named 'nomodel'" in lost.output) == (1, True), lost.output
        assert client.xpending("nomodel", "riata")["pending"] == 1  # it is fed once the model is there


# -- killed at any moment


class Feeding:
    """`riata feed` as a process."""

    def __init__(self, broker: RedisServer, service: Running, log: Path) -> None:
        self._command = [sys.executable, "-m", "riata", "feed", broker.url, "--stream", "s", "--url", service.url]
        self._command += ["--rows-per-request", "50"]
        self._log = log
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(self._command, stdout=output, stderr=output, env=environment())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def produce(broker: RedisServer, first: int, count: int) -> None:
    """Add messages; each has the id that it has in the order, so adding one again after a lost answer is refused."""
    with broker.client() as client:  # connects again after an error
        for number in range(first, first + count):
            end = time.monotonic() + HANG_S
            while time.monotonic() < end:
                try:
                    client.xadd("s", {"n": number, "label": number % 2}, id=f"{number}-0")
                except redis.ResponseError:
                    pass  # it is there
                except (redis.ConnectionError, redis.TimeoutError):
                    time.sleep(0.02)
                    continue
                break


def fed(directory: Path) -> list[float]:
    """The values of the events of the log, in its order."""
    store = read_sqlite(directory)
    values: list[float] = []
    at, head = 0, store.head("default")
    while at < head.seq:
        for record in store.read("default", at):
            at = record.last
            values += decode_batch(record.payload).value.tolist() if record.kind == "observe" else []
    store.close()
    return values


@pytest.mark.parametrize("moments", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_every_message_is_learnt_once_and_in_order_whoever_is_killed(tmp_path: Path, moments: int) -> None:
    chance = random.Random(moments)
    broker, service = RedisServer(tmp_path / "broker"), Running(tmp_path / "data")
    broker.start()
    service.start()
    feeding = Feeding(broker, service, tmp_path / "feed.log")
    all_three: list[RedisServer | Running | Feeding] = [broker, service, feeding]
    sent = 0
    try:
        for moment in range(moments):
            victim = all_three[moment % 3] if moments == len(all_three) else chance.choice(all_three)
            many = chance.randrange(20, 400)
            produce(broker, sent + 1, many)
            sent += many
            time.sleep(chance.random() * 0.3)
            victim.kill()
            time.sleep(chance.random() * 0.2)
            victim.start()
        produce(broker, sent + 1, 10)
        sent += 10
        end = time.monotonic() + HANG_S
        while time.monotonic() < end:
            assert feeding.process.poll() is None, (tmp_path / "feed.log").read_text()
            with broker.client() as client:
                groups = client.xinfo_groups("s")  # none before the feeder has begun
                if groups and groups[0]["last-delivered-id"] == f"{sent}-0".encode() and groups[0]["pending"] == 0:
                    break
            time.sleep(0.05)
    finally:
        feeding.kill()
        service.kill()
        broker.kill()
    assert fed(tmp_path / "data") == [float(number) for number in range(1, sent + 1)]


def test_a_stream_with_the_labels_of_another_setting_is_not_fed_and_waits(broker: RedisServer, service: Running) -> None:
    httpx.put(f"{service.url}/models/signs", json={}, timeout=HANG_S).raise_for_status()
    with broker.client() as client:
        for i in range(20):
            client.xadd("signs", {"a": i, "label": 2 * (i % 2) - 1}, id=f"{i + 1}-0")
        result = feed(broker, service, "signs")
        assert (result.exit_code, "0 accepted, 0 duplicate, 0 refused" in result.stdout) == (1, True), result.output
        assert "the labels are -1 and 1" in result.stderr
        assert "--rows-per-request 1" in result.stderr
        assert client.xpending("signs", "riata")["pending"] == 20
        assert httpx.get(f"{service.url}/models/signs", timeout=HANG_S).json()["metrics"]["cumulative"]["examples"] == 0
    alone = feed(broker, service, "signs", "--rows-per-request", "1")  # as the message says
    assert "10 accepted, 0 duplicate, 10 refused" in alone.stdout, alone.output


def test_a_few_strange_labels_late_in_a_stream_do_not_stop_it(broker: RedisServer, service: Running) -> None:
    httpx.put(f"{service.url}/models/late", json={}, timeout=HANG_S).raise_for_status()
    with broker.client() as client, client.pipeline() as together:
        for i in range(1000):
            together.xadd("late", {"a": i % 7, "label": i % 2}, id=f"{i + 1}-0")
        together.xadd("late", {"a": 1, "label": 1}, id="1001-0")
        together.xadd("late", {"a": 1, "label": -1}, id="1002-0")
        together.execute()
    result = feed(broker, service, "late", "--rows-per-request", "1000")
    assert (result.exit_code, "1001 accepted, 0 duplicate, 1 refused" in result.stdout) == (1, True), result.output
