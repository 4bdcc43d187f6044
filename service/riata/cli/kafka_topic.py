"""A topic of Kafka as the source of `riata feed`: one member of a consumer group. The only file that imports confluent_kafka.

Offsets are committed after the service has the messages. What was not committed is read again, by this consumer or by another
one of the group. While the service does not answer, no message is asked for, so the broker may give the partitions to another
consumer after `max.poll.interval.ms`. Then the commit is refused, and the messages come again with the same event ids.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)  # fmt: skip
from confluent_kafka import (
    Message as Received,
)

from riata.base.errors import BadInput
from riata.cli.feed_rows import CLOUD_EVENT, VALUE, Message

SCHEME: Final = "kafka://"
PASSWORD_VARIABLE: Final = "RIATA_FEED_PASSWORD"
TIMEOUT_S: Final = 5.0  # of one question to a broker
REFUSED: Final = "refused"  # topic of refused messages: the name, a dot, and this
_CE: Final = "ce_"  # header names of a CloudEvent in binary mode begin with it
_REFUSALS: Final = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
_UNKNOWN: Final = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.TOPIC_EXCEPTION}
_NOT_OURS: Final = {  # another consumer has the partitions by now
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._STATE,
}


class KafkaTopic:
    """One consumer of a group.

    Calls raise `ConnectionError` while the brokers do not answer, `PermissionError` if they refuse this user, and `BadInput` for
    other faults that stay.
    """

    def __init__(self, url: str, topic: str, group: str, consumer: str, start: str, options: Sequence[str]) -> None:
        """
        url      : kafka://host:port, several brokers separated by commas
        consumer : the client id
        start    : where a new group begins: 0 for the oldest message, $ for those that come from now on
        options  : settings of librdkafka, NAME=VALUE each

        Raises `BadInput`. Connects later.
        """
        shared = {"bootstrap.servers": url.removeprefix(SCHEME).rstrip("/"), "client.id": consumer, "log_level": 0}
        for option in options:
            name, equals, value = option.partition("=")
            if not equals:
                raise BadInput(f"--kafka {option[:64]}: expected NAME=VALUE, such as security.protocol=SASL_SSL", "bad_option")
            shared[name] = value
        if (password := os.environ.get(PASSWORD_VARIABLE)) is not None:
            shared["sasl.password"] = password
        self._from_oldest = start == "0"
        own = {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest" if self._from_oldest else "latest",
        }
        logger = logging.getLogger("riata.feed")
        try:
            self._consumer = Consumer({**own, **shared}, logger=logger)
            self._producer = Producer({"enable.idempotence": True, **shared}, logger=logger)
        except (KafkaException, ValueError) as error:
            raise BadInput(f"Kafka does not take the settings: {_sentence(error)}", "bad_option") from None
        self._topic = topic

    def begin(self) -> None:
        """Join the group. Raises `BadInput` if there is no such topic."""
        try:
            found = self._consumer.list_topics(self._topic, timeout=TIMEOUT_S).topics[self._topic]
            if found.error is not None:
                raise KafkaException(found.error)
            self._consumer.subscribe([self._topic])
        except KafkaException as error:
            raise self._meant(error) from None

    def read(self, most: int, wait_ms: int) -> list[Message]:
        """Return up to `most` messages, those of a partition in their order. Empty if there is none that is not fed yet."""
        try:
            while True:
                received = self._consumer.consume(1, timeout=wait_ms / 1000)
                received += self._consumer.consume(most - 1, timeout=0) if received and most > 1 else []
                errors = [error for one in received if (error := one.error()) is not None]
                if len(errors) < len(received):  # the position is behind these messages: an error beside them must not lose them
                    return [_message(one) for one in received if one.error() is None]
                if errors:
                    raise KafkaException(errors[0])
                if not self._is_behind():
                    return []
        except KafkaException as error:
            raise self._meant(error) from None

    def acknowledge(self, messages: Sequence[Message], refused: Mapping[str, str]) -> None:
        """Write refused messages, with the reason of each, to another topic; then commit."""
        try:
            self._keep([(message, refused[message.id]) for message in messages if message.id in refused])
            after: dict[int, int] = {}
            for message in messages:
                partition, offset = map(int, message.id.split("/"))
                after[partition] = max(after.get(partition, 0), offset + 1)
            self._consumer.commit(offsets=[TopicPartition(self._topic, *one) for one in after.items()], asynchronous=False)
        except KafkaException as error:
            if _error_of(error).code() not in _NOT_OURS:
                raise self._meant(error) from None

    def lost(self) -> list[str]:
        """None is known: a broker does not tell which messages it deleted."""
        return []

    def _keep(self, refused: Sequence[tuple[Message, str]]) -> None:
        failed: list[KafkaError] = []
        for message, why in refused:
            headers: list[tuple[str, str | bytes | None]] = [("refused.id", message.id), ("refused.why", why)]
            self._producer.produce(
                f"{self._topic}.{REFUSED}",
                message.fields[VALUE],
                headers=headers,
                on_delivery=lambda error, _message: failed.append(error) if error is not None else None,
            )
        if self._producer.flush(TIMEOUT_S) > 0:
            self._producer.purge()
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if failed:
            raise KafkaException(failed[0])

    def _is_behind(self) -> bool:
        """Whether there are messages that were not read, or the group has not given this consumer its partitions yet."""
        mine = self._consumer.assignment()
        if not mine:
            return True
        positions = {one.partition: one.offset for one in self._consumer.position(mine)}
        committed = {one.partition: one.offset for one in self._consumer.committed(mine, timeout=TIMEOUT_S)}
        for one in mine:
            low, high = self._consumer.get_watermark_offsets(one, timeout=TIMEOUT_S)
            known = [at[one.partition] for at in (positions, committed) if at[one.partition] >= 0]
            begun = known[0] if known else low if self._from_oldest else high
            if max(begun, low) < high:
                return True
        return False

    def _meant(self, error: KafkaException) -> Exception:
        told, code = _sentence(error), _error_of(error).code()
        if code in _REFUSALS:
            return PermissionError(told)
        if code in _UNKNOWN:
            return BadInput(f"topic {self._topic!r}: {told}", "bad_option")
        return ConnectionError(told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._consumer.close()


def _message(received: Received) -> Message:
    """Return a message; a CloudEvent in binary mode, whose attributes are headers, as it is in structured mode."""
    if received.value() is None:
        return Message(f"{received.partition()}/{received.offset()}", {VALUE: b""}, is_tombstone=True)
    value = received.value() or b""
    headers: dict[str, Any] = dict(received.headers() or [])
    if f"{_CE}{CLOUD_EVENT}" in headers:
        attributes = {name: (headers.get(_CE + name) or b"").decode("utf-8", "replace") for name in (CLOUD_EVENT, "source", "id")}
        value = json.dumps(attributes).encode()[:-1] + b', "data": ' + value + b"}"
    return Message(f"{received.partition()}/{received.offset()}", {VALUE: value})


def _error_of(error: KafkaException) -> KafkaError:
    found: KafkaError = error.args[0]
    return found


def _sentence(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return str(first.str()) if isinstance(first, KafkaError) else str(first)
