"""`riata feed kafka://…`: messages of a topic, each once, in the order of its partition; the broker is the mock of librdkafka."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from riata.base.errors import BadInput
from tests.cli.test_feed import fed
from tests.cli.test_verbs import run
from tests.running import HANG_S, Running, environment

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
from riata.cli.kafka_topic import KafkaTopic  # noqa: E402  needs the package

PARTITIONS = 4
QUICK = ("--kafka", "session.timeout.ms=6000")  # the mock gives partitions to a new group after 3 s


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    owner = confluent_kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    (one,) = owner.list_topics(timeout=HANG_S).brokers.values()
    yield f"{one.host}:{one.port}"
    owner.flush()


def produce(broker: str, topic: str, messages: Sequence[tuple[int, bytes | None, dict[str, bytes]]]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker, "log_level": 0})
    for partition, value, headers in messages:
        producer.produce(topic, value, partition=partition, headers=headers)
    assert producer.flush(HANG_S) == 0


def kept(broker: str, topic: str, count: int) -> list[Any]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker, "group.id": "reader", "log_level": 0})
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    found: list[Any] = []
    while len(found) < count:
        found += consumer.consume(count, timeout=1)
    consumer.close()
    return found


def learnt(service: Running) -> int:
    found: int = httpx.get(f"{service.url}/predict?n=1", timeout=HANG_S).json()["model"]["seq"]
    return found


def row(n: int, label: object = 1) -> bytes:
    return json.dumps({"features": {"n": n}, "label": label}).encode()


@pytest.mark.parametrize("kills", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_a_topic_is_fed_once_in_the_order_of_its_partitions(broker: str, tmp_path: Path, kills: int) -> None:
    topic = f"clicks{kills}"
    service = Running(tmp_path / "data")
    service.start()
    event = {"specversion": "1.0", "id": "e1", "source": "/shop", "type": "click", "data": json.loads(row(2000))}
    binary = {"ce_specversion": b"1.0", "ce_id": b"e2", "ce_source": b"/shop", "ce_type": b"click"}
    messages: list[tuple[int, bytes, dict[str, bytes]]] = [(n % PARTITIONS, row(n + 1), {}) for n in range(400)]
    messages += [(0, json.dumps(event).encode(), {}), (0, row(2001), binary), (1, row(2001), binary)]  # the last one: again
    produce(broker, topic, [*messages, (2, row(5, "no"), {}), (3, b"{", {})])
    command = ["feed", f"kafka://{broker}", "--stream", topic, "--url", service.url, "--rows-per-request", "50", *QUICK]
    try:
        for kill in range(1, kills + 1):
            feeding = subprocess.Popen([sys.executable, "-m", "riata", *command], env=environment())
            end = time.monotonic() + HANG_S
            while learnt(service) < 50 * kill and time.monotonic() < end:
                time.sleep(0.01)
            feeding.kill()
            feeding.wait()
        done = run(*command, "--until-empty")
        assert done.exit_code in (0, 1), done.output
        refused = kept(broker, f"{topic}.refused", 2)
    finally:
        service.kill()
    values = fed(tmp_path / "data")
    assert sorted(values) == [*map(float, range(1, 401)), 2000.0, 2001.0]
    for partition in range(PARTITIONS):
        mine = [value for value in values if value <= 400 and int(value - 1) % PARTITIONS == partition]
        assert mine == sorted(mine)
    why = {message.value(): dict(message.headers())["refused.why"] for message in refused}
    assert why[row(5, "no")].startswith(b"bad_label: ")
    assert why[b"{"].startswith(b"not_a_row: not UTF-8 JSON: Expecting property name")


def test_tombstones_of_a_compacted_topic_are_counted_apart_and_are_no_failure(broker: str, tmp_path: Path) -> None:
    topic = "compacted"
    with Running(tmp_path / "data") as service:
        service.start()
        produce(broker, topic, [(0, row(1), {}), (0, None, {}), (1, None, {"ce_specversion": b"1.0"}), (1, row(2, 0), {})])
        command = ["feed", f"kafka://{broker}", "--stream", topic, "--url", service.url, "--until-empty", *QUICK]
        first = run(*command)
        assert (first.exit_code, "2 accepted, 0 duplicate, 0 refused, 2 tombstones" in first.stdout) == (0, True), first.output
        produce(broker, topic, [(0, b"", {}), (0, b"\0\0\0\0\7avro", {})])
        second = run(*command)
        assert (second.exit_code, "0 accepted, 0 duplicate, 2 refused (2 not_a_row)\n" in second.stdout) == (1, True), (
            second.output
        )
        assert "not_a_row: empty value" in second.output
        assert "as Avro and Protobuf of a schema registry do; send JSON" in second.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--field", "row"), "its value is the row as JSON"),
        (("--kafka", "session"), "expected NAME=VALUE"),
        (("--kafka", "no.such.setting=1"), "Kafka does not take the settings"),
    ],
)
def test_wrong_usage_is_answered_at_once(broker: str, words: tuple[str, ...], why: str) -> None:
    result = run("feed", f"kafka://{broker}", "--stream", "s", *words)
    assert (result.exit_code, why in result.output) == (2, True), result.output


def test_a_topic_that_is_not_there_is_named_and_a_broker_that_is_not_there_is_waited_for(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaTopic(f"kafka://{broker}", "absent", "g", "c", "0", []) as topic, pytest.raises(BadInput, match="topic 'absent': "):
        topic.begin()
    monkeypatch.setattr("riata.cli.kafka_topic.TIMEOUT_S", 0.1)
    with KafkaTopic("kafka://127.0.0.1:1", "t", "g", "c", "0", []) as topic, pytest.raises(ConnectionError):
        topic.begin()


class Beside:
    """Stands for a consumer: a message and an error in one answer, then the error alone."""

    def __init__(self, broker: str) -> None:
        self._real = confluent_kafka.Consumer({"bootstrap.servers": broker, "group.id": "beside", "log_level": 0})
        self._real.assign([confluent_kafka.TopicPartition("beside", 0, 0)])
        self._error = confluent_kafka.KafkaError(confluent_kafka.KafkaError._TRANSPORT)

    def consume(self, _most: int, timeout: float) -> list[Any]:
        return [*self._real.consume(1, timeout=HANG_S if timeout else 0), self] if timeout != 1 else [self]

    def error(self) -> Any:
        return self._error

    def close(self) -> None:
        self._real.close()


def test_an_error_beside_messages_loses_none(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(broker, "beside", [(0, row(1), {})])
    with KafkaTopic(f"kafka://{broker}", "beside", "g", "c", "0", []) as topic:
        topic._consumer.close()
        monkeypatch.setattr(topic, "_consumer", Beside(broker))
        assert [message.id for message in topic.read(1, 2000)] == ["0/0"]
        with pytest.raises(ConnectionError):
            topic.read(1, 1000)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "riata.cli.kafka_topic", None)
    result = run("feed", "kafka://127.0.0.1:1", "--stream", "s")
    assert (result.exit_code, "pip install 'riata[kafka]'" in result.output) == (2, True), result.output
