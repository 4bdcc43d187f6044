"""The commands of Redis that the scripts use, over plain dictionaries, with the append-only file as a list of effects.

A value is bytes (string), bytearray (bitmap), dict (hash), Stream or SortedSet. What a command writes is put on `effects`,
so that any prefix of the file can be played again: that is what a crash leaves.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any, Final

Key = bytes
Effect = tuple[Any, ...]


class RedisError(Exception):
    """An error reply; its text begins with the class, as in the protocol."""


class Stream:
    """Entries by id, ids increasing."""

    __slots__ = ("fields", "ids", "last")

    def __init__(self) -> None:
        self.ids: list[tuple[int, int]] = []
        self.fields: list[list[bytes]] = []
        self.last: tuple[int, int] = (0, 0)


class SortedSet(dict[bytes, float]):
    """Members and scores."""


def stream_id(text: bytes, end: bool = False) -> tuple[int, int]:
    """Read an id; `-` and `+` are the ends, a missing second part is its minimum or maximum."""
    if text == b"-":
        return (0, 0)
    if text == b"+":
        return (2**64 - 1, 2**64 - 1)
    first, dash, second = text.partition(b"-")
    return int(first), int(second) if dash else (2**64 - 1 if end else 0)


def written(at: tuple[int, int]) -> bytes:
    """The text of an id."""
    return b"%d-%d" % at


def as_bytes(value: Any) -> bytes:
    """An argument as the server receives it."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, float):
        return repr(value).encode() if value != int(value) else b"%d" % int(value)
    if isinstance(value, int):
        return b"%d" % value
    return str(value).encode()


def number_text(value: float) -> bytes:
    """A score as the server writes it."""
    return b"%d" % int(value) if value == int(value) else repr(value).encode()


class MiniRedis:
    """One database. `now_ms` is the server's own clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.data: dict[Key, Any] = {}
        self.expiry: dict[Key, int] = {}
        self.effects: list[Effect] = []  # of the script that runs

    # -- the door --------------------------------------------------------------------------------------------------

    def call(self, command: str, *arguments: Any) -> Any:
        """Run one command. Raises `RedisError`."""
        run = COMMANDS.get(command)
        if run is None:
            raise RedisError(f"ERR unknown command '{command}'")
        return run(self, *[part if type(part) is bytes else as_bytes(part) for part in arguments])

    def play(self, effects: list[Effect]) -> None:
        """Apply the writes of a file again."""
        for command, *parts in effects:
            COMMANDS[command](self, *parts)
        self.effects.clear()

    def _did(self, *effect: Any) -> None:
        self.effects.append(effect)

    def _value(self, key: Key, kind: type) -> Any:
        if self.expiry and key in self.expiry and self.expiry[key] <= self.now_ms():
            self._drop(key)
        value = self.data.get(key)
        if value is not None and type(value) is not kind:
            raise RedisError("WRONGTYPE Operation against a key holding the wrong kind of value")
        return value

    def _made(self, key: Key, kind: Callable[[], Any], type_: type) -> Any:
        value = self._value(key, type_)
        if value is None:
            value = self.data[key] = kind()
        return value

    def _drop(self, key: Key) -> bool:
        self.expiry.pop(key, None)
        return self.data.pop(key, None) is not None

    def _live(self, key: Key) -> bool:
        if key in self.expiry and self.expiry[key] <= self.now_ms():
            self._drop(key)
        return key in self.data

    # -- strings and keys ------------------------------------------------------------------------------------------

    def time(self) -> list[bytes]:
        now = self.now_ms()
        return [b"%d" % (now // 1000), b"%d" % (now % 1000 * 1000)]

    def get(self, key: Key) -> bytes | None:
        value: bytes | None = self._value(key, bytes)
        return value

    def set(self, key: Key, value: bytes, *options: bytes) -> bytes:
        """Set a string, with PX and a time, or without options."""
        self._drop(key)
        self.data[key] = value
        self._did("SET", key, value)
        if options:
            self.pexpireat(key, b"%d" % (self.now_ms() + int(options[1])))
        return b"OK"

    def setnx(self, key: Key, value: bytes) -> int:
        if key in self.data:
            return 0
        self.set(key, value)
        return 1

    def getbit(self, key: Key, offset: bytes) -> int:
        bits = self._value(key, bytearray)
        byte, bit = divmod(int(offset), 8)
        return bits[byte] >> (7 - bit) & 1 if bits is not None and byte < len(bits) else 0

    def setbit(self, key: Key, offset: bytes, value: bytes) -> int:
        bits = self._made(key, bytearray, bytearray)
        byte, bit = divmod(int(offset), 8)
        if byte >= len(bits):
            bits.extend(bytes(byte + 1 - len(bits)))
        before: int = bits[byte] >> (7 - bit) & 1
        if before != int(value):
            bits[byte] ^= 1 << (7 - bit)
        self._did("SETBIT", key, offset, value)
        return before

    def delete(self, *keys: Key) -> int:
        gone = [key for key in dict.fromkeys(keys) if self._live(key) and self._drop(key)]
        if gone:
            self._did("UNLINK", *gone)
        return len(gone)

    def exists(self, *keys: Key) -> int:
        return sum(self._live(key) for key in keys)

    def pexpireat(self, key: Key, at: bytes) -> int:
        if key not in self.data:
            return 0
        self.expiry[key] = int(at)
        self._did("PEXPIREAT", key, at)
        return 1

    # -- hashes ----------------------------------------------------------------------------------------------------

    def hget(self, key: Key, field: bytes) -> bytes | None:
        found = self._value(key, dict)
        return found.get(field) if found else None

    def hmget(self, key: Key, *fields: bytes) -> list[bytes | None]:
        found = self._value(key, dict) or {}
        return [found.get(field) for field in fields]

    def hgetall(self, key: Key) -> list[bytes]:
        found = self._value(key, dict) or {}
        return [part for pair in found.items() for part in pair]

    def hkeys(self, key: Key) -> list[bytes]:
        return list(self._value(key, dict) or {})

    def hlen(self, key: Key) -> int:
        return len(self._value(key, dict) or {})

    def hexists(self, key: Key, field: bytes) -> int:
        return int(field in (self._value(key, dict) or {}))

    def hstrlen(self, key: Key, field: bytes) -> int:
        return len((self._value(key, dict) or {}).get(field, b""))

    def hset(self, key: Key, *pairs: bytes) -> int:
        if not pairs or len(pairs) % 2:
            raise RedisError("ERR wrong number of arguments for 'hset' command")
        found = self._made(key, dict, dict)
        before = len(found)
        found.update(zip(pairs[::2], pairs[1::2], strict=True))
        self._did("HSET", key, *pairs)
        return len(found) - before

    def hdel(self, key: Key, *fields: bytes) -> int:
        found = self._value(key, dict)
        if not found:
            return 0
        gone = [field for field in dict.fromkeys(fields) if found.pop(field, None) is not None]
        if not found:
            self._drop(key)
        if gone:
            self._did("HDEL", key, *gone)
        return len(gone)

    def hincrby(self, key: Key, field: bytes, by: bytes) -> int:
        number = int(self.hget(key, field) or b"0") + int(by)
        self.hset(key, field, b"%d" % number)
        return number

    # -- sorted sets -----------------------------------------------------------------------------------------------

    def zadd(self, key: Key, *pairs: bytes) -> int:
        found = self._made(key, SortedSet, SortedSet)
        before = len(found)
        for score, member in zip(pairs[::2], pairs[1::2], strict=True):
            found[member] = float(score)
        self._did("ZADD", key, *pairs)
        return len(found) - before

    def zrem(self, key: Key, *members: bytes) -> int:
        found = self._value(key, SortedSet)
        if not found:
            return 0
        gone = [member for member in dict.fromkeys(members) if found.pop(member, None) is not None]
        if not found:
            self._drop(key)
        if gone:
            self._did("ZREM", key, *gone)
        return len(gone)

    def zcard(self, key: Key) -> int:
        return len(self._value(key, SortedSet) or ())

    def _ordered(self, key: Key) -> list[tuple[float, bytes]]:
        return sorted((score, member) for member, score in (self._value(key, SortedSet) or {}).items())

    def zrangebyscore(self, key: Key, low: bytes, high: bytes, *options: bytes) -> list[bytes]:
        words = [option.upper() for option in options]
        least, strictly_above = _score_bound(low)
        most, strictly_below = _score_bound(high)
        some = [
            (score, member)
            for score, member in self._ordered(key)
            if (score > least if strictly_above else score >= least) and (score < most if strictly_below else score <= most)
        ]
        if b"LIMIT" in words:
            at = words.index(b"LIMIT")
            skip, count = int(options[at + 1]), int(options[at + 2])
            some = some[skip:] if count < 0 else some[skip : skip + count]
        return _scored(some, b"WITHSCORES" in words)

    # -- streams ---------------------------------------------------------------------------------------------------

    def xadd(self, key: Key, at: bytes, *fields: bytes) -> bytes:
        stream: Stream = self._made(key, Stream, Stream)
        number = stream_id(at)
        if number <= stream.last:
            raise RedisError(
                "ERR The ID specified in XADD is equal or smaller than the target stream top item"
                if number != (0, 0)
                else "ERR The ID specified in XADD must be greater than 0-0"
            )
        stream.ids.append(number)
        stream.fields.append(list(fields))
        stream.last = number
        self._did("XADD", key, at, *fields)
        return written(number)

    def xlen(self, key: Key) -> int:
        stream = self._value(key, Stream)
        return len(stream.ids) if stream else 0

    def xrange(self, key: Key, low: bytes, high: bytes, *options: bytes) -> list[Any]:
        stream = self._value(key, Stream)
        if stream is None:
            return []
        first, last = _span(stream, low, high)
        if options:
            last = min(last, first + int(options[1]))
        return [[written(stream.ids[i]), list(stream.fields[i])] for i in range(first, last)]

    def xrevrange(self, key: Key, high: bytes, low: bytes, *options: bytes) -> list[Any]:
        stream = self._value(key, Stream)
        if stream is None:
            return []
        first, last = _span(stream, low, high)
        if options:
            first = max(first, last - int(options[1]))
        return [[written(stream.ids[i]), list(stream.fields[i])] for i in range(last - 1, first - 1, -1)]

    def xtrim(self, key: Key, how: bytes, *rest: bytes) -> int:
        stream = self._value(key, Stream)
        if stream is None:
            return 0
        options = [option for option in rest if option not in (b"=", b"~")]
        if how.upper() == b"MINID":
            count = bisect.bisect_left(stream.ids, stream_id(options[0]))
        else:
            count = max(len(stream.ids) - int(options[0]), 0)
        del stream.ids[:count], stream.fields[:count]
        if count:
            self._did("XTRIM", key, how, b"=", options[0])
        return count

    def xread(self, *arguments: bytes) -> list[Any] | None:
        """Without BLOCK, which the caller implements."""
        at = [argument.upper() for argument in arguments].index(b"STREAMS")
        options = [argument.upper() for argument in arguments[:at]]
        count = [b"COUNT", arguments[options.index(b"COUNT") + 1]] if b"COUNT" in options else []
        names = arguments[at + 1 :]
        half = len(names) // 2
        found = []
        for key, after in zip(names[:half], names[half:], strict=True):
            entries = self.xrange(key, b"(" + (after if b"-" in after else after + b"-0"), b"+", *count)
            if entries:
                found.append([key, entries])
        return found or None


def _score_bound(text: bytes) -> tuple[float, bool]:
    return (float(text[1:]), True) if text.startswith(b"(") else (float(text), False)


def _scored(pairs: list[tuple[float, bytes]], with_scores: bool) -> list[bytes]:
    if not with_scores:
        return [member for _, member in pairs]
    return [part for score, member in pairs for part in (member, number_text(score))]


def _span(stream: Stream, low: bytes, high: bytes) -> tuple[int, int]:
    if low.startswith(b"("):
        first = bisect.bisect_right(stream.ids, stream_id(low[1:]))
    else:
        first = bisect.bisect_left(stream.ids, stream_id(low))
    if high.startswith(b"("):
        last = bisect.bisect_left(stream.ids, stream_id(high[1:]))
    else:
        last = bisect.bisect_right(stream.ids, stream_id(high, end=True))
    return first, max(first, last)


COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    name.upper(): getattr(MiniRedis, name)
    for name in (
        "time", "get", "set", "setnx", "getbit", "setbit", "exists", "pexpireat", "hget", "hmget", "hgetall", "hkeys", "hlen",
        "hexists", "hstrlen", "hset", "hdel", "hincrby", "zadd", "zrem", "zcard", "zrangebyscore", "xadd", "xlen", "xrange",
        "xrevrange", "xtrim", "xread",
    )
} | {"UNLINK": MiniRedis.delete}  # fmt: skip
