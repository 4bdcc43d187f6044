"""A stream of a Redis as the source of `riata feed`: one consumer of a consumer group.

A message that was delivered and not acknowledged is pending: it is read again before anything else, so that the order of the
stream is kept whoever was killed in between.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004
    ReadOnlyError,
    ResponseError,
    TimeoutError,  # noqa: A004
)
from redis.retry import Retry

from riata.base.errors import BadInput
from riata.cli.feed_rows import Message

PASSWORD_VARIABLE: Final = "RIATA_FEED_PASSWORD"
SCHEMES: Final = ("redis://", "rediss://", "unix://")
TIMEOUT_S: Final = 30.0
REFUSALS: Final = (AuthenticationError, AuthorizationError)  # trying again does not help
NOT_NOW: Final = (ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError)  # it may answer later
REFUSED: Final = "refused"  # stream of refused messages: the name, a dot, and this
_DELETED: Final = 2  # where an answer to XAUTOCLAIM has the messages that were deleted, from Redis 7 on
REFUSED_KEPT: Final = 100_000  # about as many of them are kept


class RedisStream:
    """One consumer of a group. All calls raise the errors of `redis`; after one, the next `read` begins with what is pending."""

    def __init__(self, url: str, stream: str, group: str, consumer: str, start: str, claim_after_s: int) -> None:
        """Raises `BadInput` if `url` is not that of a Redis. Connects later."""
        if not url.startswith(SCHEMES):
            raise BadInput(f"{url[:64]!r}: expected a URL that begins with {', '.join(SCHEMES)} or kafka://", "bad_url")
        password = os.environ.get(PASSWORD_VARIABLE)
        given: dict[str, Any] = {} if password is None else {"password": password}
        try:
            self._redis = redis.Redis.from_url(
                url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0), protocol=2, **given
            )
        except ValueError as error:
            raise BadInput(f"{url[:64]!r}: not the URL of a Redis: {error}", "bad_url") from None
        self._stream, self._group, self._consumer, self._start = stream, group, consumer, start
        self._claim_after_ms = 1000 * claim_after_s
        self._after = "0"  # pending messages after this id are read next; ">": new ones
        self._lost: list[str] = []

    def begin(self) -> None:
        """Create the group if it does not exist. Raises `BadInput` if the key is not a stream."""
        try:
            self._redis.xgroup_create(self._stream, self._group, id=self._start, mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise BadInput(f"stream {self._stream!r}: {error}", "bad_option") from None

    def read(self, most: int, wait_ms: int) -> list[Message]:
        """Return up to `most` messages in their order: those that are pending first, then abandoned ones, then new ones.

        Empty if there is none within `wait_ms`.
        """
        try:
            return self._read(most, wait_ms)
        except ResponseError as error:
            if isinstance(error, (*NOT_NOW, *REFUSALS)):
                raise
            raise BadInput(f"stream {self._stream!r}: {error}", "bad_option") from None
        except NOT_NOW:
            self._after = "0"  # what was delivered and got lost on the way is pending
            raise

    def _read(self, most: int, wait_ms: int) -> list[Message]:
        while self._after != ">":
            found = self._group_read(self._after, most, None)
            self._after = found[-1].id if found else ">"
            self._give_up([message.id for message in found if not message.fields])  # trimmed from the stream meanwhile
            if there := [message for message in found if message.fields]:
                return there
        claimed = self._redis.xautoclaim(self._stream, self._group, self._consumer, self._claim_after_ms, "0-0", count=most)
        abandoned = [Message(_name(one), fields) for one, fields in claimed[1] if fields]
        self._give_up([_name(one) for one, fields in claimed[1] if not fields])  # of a Redis before 7
        self._lost += map(_name, claimed[2] if len(claimed) > _DELETED else ())
        return abandoned or self._group_read(">", most, wait_ms)

    def _give_up(self, gone: Sequence[str]) -> None:
        if gone:
            self._redis.xack(self._stream, self._group, *gone)
            self._lost += gone

    def lost(self) -> list[str]:
        """The ids of pending messages that were trimmed from the stream, since the last call."""
        lost, self._lost = self._lost, []
        return lost

    def acknowledge(self, messages: Sequence[Message], refused: Mapping[str, str]) -> None:
        """Acknowledge messages, and keep the refused ones, by id with the reason, in another stream, in one transaction."""
        with self._redis.pipeline(transaction=True) as together:
            for message in messages:
                if message.id in refused:
                    entry = {**message.fields, b"refused.id": message.id, b"refused.why": refused[message.id]}
                    together.xadd(f"{self._stream}.{REFUSED}", entry, maxlen=REFUSED_KEPT)  # type: ignore[arg-type]
            together.xack(self._stream, self._group, *[message.id for message in messages])
            together.execute()

    def _group_read(self, after: str, most: int, wait_ms: int | None) -> list[Message]:
        answer: Any = self._redis.xreadgroup(self._group, self._consumer, {self._stream: after}, count=most, block=wait_ms)
        return [Message(_name(one), fields or {}) for _, found in answer or () for one, fields in found]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._redis.close()


def _name(one: bytes | str) -> str:
    return one.decode() if isinstance(one, bytes) else one
