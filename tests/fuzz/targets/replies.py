"""What a Redis server answers: true replies, some of their parts changed, and bytes that are no protocol at all."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.base.errors import RiataError
from riata.store import records
from riata.store.layout import checkpoint_digest
from riata.store.payload import decode_batch
from riata.store.redis.link import Calls, Credentials, Link, Lost, NotSent, Refused, Reply, Wire
from riata.store.redis.session import Chance
from riata.store.redis.store import RedisStore
from riata.store.redis.url import read_url
from riata.store.store import Append, Edition, Generation, Owner, PendingPrediction
from riata.wire.batch import Batch
from tests.fuzz.draw import Draw
from tests.settings import redis_settings

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "redis_replies.json"
LINEAGE: Final = bytes(range(16))
INFO: Final = (b"redis_version", b"role", b"aof_", b"maxmemory", b"used_memory:", b"loading", b"connected_slaves")
CALLS_MAX: Final = 600  # of one session: who asks again and again must end
TOKENS: Final = (
    b"+OK\r\n",
    b"-ERR ",
    b":1\r\n",
    b"$5\r\nhello\r\n",
    b"*2\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"$99999999999\r\n",
    b"%1\r\n",
)
CODES: Final = (
    "LOADING x",
    "READONLY x",
    "OOM x",
    "NOSCRIPT x",
    "NOPERM x",
    "WRONGTYPE x",
    "MISCONF x",
    "MOVED 1 h:1",
    "ERR x",
    "",
)
OTHERS: Final[tuple[Reply, ...]] = (
    None, b"", b"0", b"1", b"-1", b"\xff", b"99999999999999999999", 0, 1, -1, 2**62, [], [b"OK"], [None], [[[]]], b"OK", b"MODEL",
    b"KNOWN", b"FENCED", b"GONE", b"DAMAGED", bytes(16), bytes(20), bytes(32),
)  # fmt: skip


class Clock:
    """A clock that advances when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0

    def sleep(self, ms: int) -> None:
        self.now += ms + 1


class Told:
    """`Calls` that give the recorded answers, changed as `draw` decides."""

    address = "the fuzzer"

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._truth = {name: list(replies) for name, replies in truth().items()}
        self._left = CALLS_MAX

    def script(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:  # noqa: ARG002
        return self._answer(name)

    def command(self, parts: Sequence[bytes], timeout_ms: int) -> Reply:  # noqa: ARG002
        return self._answer(parts[0].decode())

    def close(self) -> None:
        pass

    def _answer(self, name: str) -> Reply:
        self._left -= 1
        if self._left < 0:
            raise AssertionError("it asks for ever")
        replies = self._truth.get(name) or [[b"OK"]]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if self._draw.below(8) < 7:
            return reply
        how = self._draw.below(4)
        if how == 0:
            raise self._draw.pick((Lost("lost"), NotSent("not sent"), Refused(self._draw.pick(CODES))))
        return changed(self._draw, reply)


def changed(draw: Draw, reply: Reply) -> Reply:
    """Replace one part of a reply with another."""
    if isinstance(reply, list) and reply and draw.below(8) != 7:
        at = draw.below(len(reply))
        how = draw.below(6)
        rest = list(reply)
        if how == 0:
            del rest[at]
        elif how == 1:
            rest.insert(at, draw.pick(OTHERS))
        elif how == 2:
            rest = rest[:at]
        else:
            rest[at] = changed(draw, rest[at])
        return rest
    if isinstance(reply, bytes) and reply and draw.below(2):
        part = bytearray(reply)
        part[draw.below(len(part))] ^= 1 << draw.below(8)
        return bytes(part)
    return draw.pick(OTHERS)


def one_input(data: bytes) -> None:
    """Whatever the answers are, the store raises only declared errors, soon, and returns nothing unchecked."""
    draw = Draw(data)
    if draw.below(4) == 3:
        raw(draw)
        return
    clock = Clock()
    chance = Chance(lambda: clock.now, clock.sleep, lambda: 0.5)
    store = RedisStore(Told(draw), redis_settings(timeout_ms=100), chance, lambda size: bytes(range(size)))
    session(store, lambda work: _suppressed(work))


def _suppressed(work: Callable[[], object]) -> None:
    with contextlib.suppress(RiataError):
        work()


def raw(draw: Draw) -> None:
    """Bytes that a server sends: one reply, or the name of the error if they are none."""
    text = b"".join(draw.text() if draw.left < 40 else draw.take(1 + draw.below(30)) for _ in range(1 + draw.below(8)))
    near, far = socket.socketpair()
    far.sendall(text)
    far.shutdown(socket.SHUT_WR)
    link = Link(read_url("redis://h/0"), Credentials())
    link._wire = Wire(near)
    try:
        with contextlib.suppress(Lost, NotSent, Refused):
            link._ask([b"PING"], time.monotonic() + 60)
    finally:
        link.close()
        far.close()


def batch(value: float) -> Batch:
    """One event."""
    return Batch(np.array([0, 1], np.int64), np.array([7], np.uint32), np.array([value]), np.ones(1), np.ones(1),
                 np.full((1, 16), 3, np.uint8), np.ones(1, np.bool_))  # fmt: skip


def session(store: RedisStore, do: Callable[[Callable[[], object]], None]) -> None:
    """All operations of a store, once."""
    head = records.first_chain(LINEAGE)
    content = b"checkpoint" * 3
    owner = Owner(1, bytes(16))
    generation = Generation(
        1, 0, 0, head, LINEAGE, 1, 1, 5, 1, len(content), checkpoint_digest(content), bytes(32), False, {"a": 1}
    )
    edition = Edition(0, 0, head, LINEAGE, 1, 1, 5, len(content), checkpoint_digest(content))
    row = PendingPrediction(bytes(16), 9, b"row")
    do(store.attach)
    do(lambda: store.acquire(bytes(16), 1, "here", 0, 60_000))
    do(lambda: store.create("m", LINEAGE))
    do(store.models)
    do(
        lambda: store.append(
            [Append("m", "config", 1, payload=b"\1{}"), Append("m", "observe", 2, batch(1.5), names=[(5, b"n")])]
        )
    )
    do(lambda: store.append([Append("m", "observe", 3, batch(1.5)), Append("m", "observe", 3, batch(2.5))]))
    do(lambda: store.head("m"))
    do(lambda: [decode_batch(record.payload) for record in store.read("m", 0) if record.kind == "observe"])
    do(lambda: list(store.names("m")))
    do(lambda: store.stage(owner, "m", 1, 0, content))
    do(lambda: store.commit(owner, "m", 0, generation))
    do(lambda: store.generations("m"))
    do(lambda: same(store.open_generation("m", 1), content))
    do(lambda: store.mark_verified(owner, "m", 1))
    do(lambda: store.trim(owner, "m", 3, 0))
    do(lambda: store.publish(owner, "m", edition, content))
    do(lambda: same((store.open_edition("m") or (None, content))[1], content))
    do(lambda: store.remember("m", [row], 1000))
    do(lambda: store.recall("m", [row.key]))
    do(lambda: store.due("m", 100, 5))
    do(lambda: store.forget("m", [row.key]))
    do(lambda: store.mark_inflight(owner, "m", 1, 1))
    do(lambda: store.inflight("m"))
    do(lambda: store.heartbeat(owner, 60_000))
    do(store.standings)
    do(store.holder)
    do(store.refusals)
    do(lambda: store.await_log({"m": 0}, 10))
    do(lambda: store.drop_stale_stages(owner))
    do(store.idle)
    do(lambda: store.drop(owner, "m"))
    do(lambda: store.release(owner))


def same(found: bytes, written: bytes) -> None:
    """Check that verified data that is read back is what was written."""
    if found != written:
        raise AssertionError("changed bytes were read as if they were those written")


def truth() -> dict[str, list[Reply]]:
    """The answers of a real server, by script or command, in order."""
    if not _TRUTH:
        _TRUTH.update({name: [_read(reply) for reply in replies] for name, replies in json.loads(GOLDEN.read_text()).items()})
    return _TRUTH


_TRUTH: dict[str, list[Reply]] = {}


def record(url: str) -> None:
    """Record the answers of a real server: `python -c "from tests.fuzz.targets.replies import record; record(URL)"`."""
    received: defaultdict[str, list[Any]] = defaultdict(list)
    link = Link(read_url(url), Credentials())

    class Received:
        address = link.address
        close = link.close

        def script(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
            reply = link.script(name, keys, arguments, timeout_ms)
            received[name].append(_written(reply))
            return reply

        def command(self, parts: Sequence[bytes], timeout_ms: int) -> Reply:
            reply = link.command(parts, timeout_ms)
            if parts[0] == b"INFO" and isinstance(reply, bytes):  # the rest is about the machine
                kept = [line for line in reply.splitlines() if line.startswith(INFO)]
                received["INFO"].append(_written(b"\r\n".join(kept)))
            else:
                received[parts[0].decode()].append(_written(reply))
            return reply

    calls: Calls = Received()
    store = RedisStore(calls, redis_settings(), draw=lambda size: bytes(range(size)))
    session(store, lambda work: _suppressed(work))
    GOLDEN.write_text(json.dumps(received, sort_keys=True, indent=1) + "\n", encoding="utf-8")


def _written(reply: Reply) -> Any:
    if isinstance(reply, bytes):
        return {"hex": reply.hex()}
    return [_written(part) for part in reply] if isinstance(reply, list) else reply


def _read(reply: Any) -> Reply:
    if isinstance(reply, dict):
        return bytes.fromhex(reply["hex"])
    return [_read(part) for part in reply] if isinstance(reply, list) else reply


def starts() -> list[bytes]:
    """The recorded answers, a change at each of the first calls, and replies as bytes."""
    true_calls = [bytes([0, *[0] * calls, 7, 1, 0, 1, 1, 1, 1, 1]) for calls in range(40)]
    protocol = [
        b"\3" + text.ljust(44, b"\0")
        for text in (b"\x06+PONG\r\n", b"\x0c*1\r\n$4\r\nPONG\r\n", b"\x05-ERR x\r\n", b"\x03:1\r\n")
    ]
    return [b"\0", *true_calls, *protocol]
