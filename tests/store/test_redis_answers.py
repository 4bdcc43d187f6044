"""Answers of Redis that are errors, garbage or of the wrong shape become a named error, never another exception."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import hiredis
import numpy as np
import pytest

from riata.base.errors import Corrupt, RiataError, Unavailable
from riata.store.layout import checkpoint_digest
from riata.store.redis import link as redis_wire
from riata.store.redis.link import Credentials, Link, Lost, NotSent, Refused, Reply, packed
from riata.store.redis.store import RedisStore, open_redis
from riata.store.redis.url import read_url
from riata.store.store import Edition, Owner, PendingPrediction
from tests.redis_server import RedisServer
from tests.refused import refused
from tests.settings import redis_settings
from tests.store.batches import generation, observe, one_row

LINEAGE = bytes(range(16))
OK = b"*1\r\n$2\r\nOK\r\n"
OPENED = b"*3\r\n$2\r\nOK\r\n$16\r\n" + bytes(16) + b"\r\n$1\r\n1\r\n"
VERSION = b"$20\r\nredis_version:7.0.15\r\n"


class Scripted:
    """A small server: the n-th script call gets the n-th of `answers`, all later calls the last one."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = [OPENED, *answers]
        self.asked: list[bytes] = []
        self.received: list[bytes] = []  # the same, and how the connection introduces itself
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        while not self._ending.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(0.05)
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        reader = hiredis.Reader()
        while not self._ending.is_set():
            try:
                data = connection.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            reader.feed(data)
            try:
                while (command := reader.gets()) is not False:
                    answer = self._answer(command)
                    if not answer:
                        return
                    connection.sendall(answer)
            except hiredis.ProtocolError:
                return  # another test that looks for a server that had this port

    def _answer(self, command: Any) -> bytes:
        self.received.append(command[0])
        if command[0] == b"INFO":
            return VERSION
        self.asked.append(command[0])
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()
        self._listener.close()


def mark(store: RedisStore) -> None:
    """A call that changes data and has the shortest valid answer: OK."""
    store.release(Owner(1, bytes(16)))


PASSING = [
    "LOADING",
    "MASTERDOWN",
    "BUSY",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "READONLY",
    "ASK 1 h:2",
    "ERR max number of clients reached",
]


@pytest.mark.parametrize("error", PASSING)
def test_an_error_that_passes_is_waited_out(error: str) -> None:
    with Scripted(f"-{error} later\r\n".encode(), f"-{error} later\r\n".encode(), OK) as fake:
        store = open_redis(fake.url, redis_settings(timeout_ms=2000))
        mark(store)
        assert len(fake.asked) == 4
        store.close()


@pytest.mark.parametrize("error", PASSING)
def test_an_error_that_does_not_pass_in_time_leaves_nothing_unknown(error: str) -> None:
    with Scripted(f"-{error} later\r\n".encode()) as fake:
        store = open_redis(fake.url, redis_settings(timeout_ms=600))
        with refused(Unavailable, "store_unreachable", "not_accepted", match=error.partition(" ")[0]):
            mark(store)
        store.close()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("NOAUTH Authentication required.", "store_forbidden"),
        ("WRONGPASS invalid username-password pair", "store_forbidden"),
        ("NOPERM this user has no permissions", "store_forbidden"),
        ("OOM command not allowed when used memory > 'maxmemory'.", "memory_reserve"),
        ("MISCONF Redis is configured to save", "store_cannot_write"),
        ("MOVED 1 127.0.0.1:7000", "store_refuses"),
        ("ERR unknown command 'EVALSHA'", "store_refuses"),
        ("", "store_refuses"),
    ],
)
def test_a_permanent_error_is_reported_at_once(error: str, code: str) -> None:
    with Scripted(f"-{error}\r\n".encode()) as fake:
        store = open_redis(fake.url, redis_settings(timeout_ms=60_000))
        with pytest.raises(Unavailable) as raised:
            mark(store)
        assert (raised.value.code, raised.value.outcome) == (code, "not_accepted")
        assert len(fake.asked) == 2
        store.close()


@pytest.mark.parametrize("error", ["WRONGTYPE Operation against a key", "ERR Error running script user_script:3: nil"])
def test_a_script_that_fails_on_the_content_reports_a_damaged_store(error: str) -> None:
    with Scripted(f"-{error}\r\n".encode()) as fake:
        store = open_redis(fake.url, redis_settings(timeout_ms=60_000))
        with refused(Corrupt, "store_damaged"):
            mark(store)
        store.close()


def test_a_forgotten_script_is_sent_whole() -> None:
    with Scripted(b"-NOSCRIPT No matching script.\r\n", OK) as fake:
        store = open_redis(fake.url, redis_settings())
        mark(store)
        assert fake.asked == [b"EVALSHA", b"EVALSHA", b"EVAL"]
        store.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\xff\xfe", b"*-7\r\n", b"$99999999999999999999\r\n", b"*4294967295\r\n",
        b">2\r\n$1\r\na\r\n$1\r\nb\r\n", b"%1\r\n*1\r\n:1\r\n:2\r\n", b",1.5\r\n", b"#t\r\n", OK + OK,
        b"*1\r\n" * 500, b"", b"$5\r\nabc",
    ],
)  # fmt: skip
def test_garbage_ends_the_connection_and_not_the_process(garbage: bytes) -> None:
    with Scripted(garbage, OK) as fake:
        store = open_redis(fake.url, redis_settings(timeout_ms=2000))
        mark(store)
        store.close()
    with Scripted(garbage) as fake:
        store = open_redis(fake.url, redis_settings(timeout_ms=2000))
        store._session.timeout_ms = 400  # not for the opening: a busy machine would try it again and get the garbage
        with refused(Unavailable, "store_unreachable", "unknown"):
            mark(store)
        store.close()


@pytest.mark.parametrize("loss", [b"", b"$5\r\nabc", b"%1\r\n*1\r\n:1\r\n:2\r\n", b">2\r\n$1\r\na\r\n$1\r\nb\r\n", OK + OK])
def test_a_call_is_one_attempt_on_a_connection_without_other_commands(loss: bytes) -> None:
    """Whatever the session does, the connection itself sends nothing twice and sends no commands of its own."""
    with Scripted() as fake:
        fake.answers = [loss]
        link = Link(read_url(fake.url), Credentials())
        for calls in range(1, 4):
            with pytest.raises(Lost):
                link.script("holder", [b"k"], [], 1000)
            assert fake.received == [b"INFO", b"EVALSHA"] * calls
        link.close()


def test_an_introduction_that_is_not_answered_is_made_once_in_a_call() -> None:
    with Scripted() as fake:
        fake.answers = [b""]
        link = Link(read_url(fake.url), Credentials("me", "secret"))
        for calls in range(1, 4):
            with pytest.raises(NotSent):
                link.script("holder", [b"k"], [], 2000)
            assert fake.received == [b"AUTH"] * calls
        link.close()


def test_a_connection_is_kept_from_call_to_call_and_after_an_error() -> None:
    with Scripted() as fake:
        fake.answers = [b":1\r\n", b"-BUSY later\r\n", b":2\r\n"]
        link = Link(read_url(fake.url), Credentials())
        assert link.command([b"GET"], 2000) == 1
        with pytest.raises(Refused, match="BUSY later"):
            link.command([b"GET"], 2000)
        assert link.command([b"GET"], 2000) == 2
        assert fake.received == [b"INFO", b"GET", b"GET", b"GET"]
        link.close()


@pytest.mark.parametrize("parts", [[b"PING"], [b"SET", b"", b"\r\n$1\r\n"], [b"GET", bytes(range(256)) * 300]])
def test_a_command_is_packed_as_hiredis_packs_it(parts: list[bytes]) -> None:
    assert packed(parts) == hiredis.pack_command(tuple(parts))  # type: ignore[arg-type]


class Strange:
    """A server that answers INFO. `then` handles the next command; it is called until it returns true."""

    def __init__(self, then: Callable[[socket.socket], bool]) -> None:
        self._then = then
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(VERSION)
            connection.settimeout(10)
            with contextlib.suppress(OSError):
                while not self._ending.is_set() and not self._then(connection):
                    pass
            self._ending.wait()

    def __enter__(self) -> Link:
        self._thread.start()
        return Link(read_url(self.url), Credentials())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()
        self._listener.close()


def late(link: Link, call: Callable[[Link], object]) -> float:
    """The time after which a call is given up, in s."""
    start = time.monotonic()
    with pytest.raises(Lost, match="no answer in time"):
        call(link)
    link.close()
    return time.monotonic() - start


def test_a_peer_that_answers_slowly_is_given_up_at_the_deadline_of_the_call() -> None:
    def trickle(connection: socket.socket) -> bool:
        connection.recv(65536)
        connection.sendall(b"*1000\r\n")
        while True:
            connection.sendall(b":1\r\n")
            time.sleep(0.02)

    with Strange(trickle) as link:
        assert 0.35 < late(link, lambda link: link.command([b"GET"], 400)) < 300


def test_a_peer_that_reads_no_request_is_given_up_at_the_deadline_of_the_call() -> None:
    """This also holds if the connection was opened by a call with a longer deadline."""
    answered: list[bool] = []

    def once(connection: socket.socket) -> bool:
        if not answered:
            connection.recv(65536)
            connection.sendall(b":1\r\n")
            answered.append(True)
        return True

    with Strange(once) as link:
        assert link.command([b"GET"], 60_000) == 1
        assert 0.35 < late(link, lambda link: link.command([b"SET", bytes(2**26)], 400)) < 300


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_wire, "READS_MAX", 50)

    def flood(connection: socket.socket) -> bool:
        connection.recv(65536)
        connection.sendall(b"$1073741824\r\n")
        while True:
            connection.sendall(bytes(2**16))

    with Strange(flood) as link:
        with pytest.raises(Lost, match="more than 50 pieces"):
            link.command([b"GET"], 60_000)
        link.close()


class Recorded(Link):
    """A real link that records its answers and can then give a chosen answer to one script or command."""

    def __init__(self, url: str) -> None:
        super().__init__(read_url(url), Credentials())
        self.answers: dict[str, Reply] = {}
        self.spoilt: tuple[str, Reply] | None = None

    def script(self, name: str, keys: Sequence[bytes], arguments: Sequence[bytes], timeout_ms: int) -> Reply:
        if self.spoilt is not None and self.spoilt[0] == name:
            return self.spoilt[1]
        self.answers[name] = super().script(name, keys, arguments, timeout_ms)
        return self.answers[name]

    def command(self, parts: Sequence[bytes], timeout_ms: int) -> Reply:
        name = parts[0].decode()
        if self.spoilt is not None and self.spoilt[0] == name:
            return self.spoilt[1]
        self.answers[name] = super().command(parts, timeout_ms)
        return self.answers[name]


OWNER = Owner(1, b"n" * 16)
EDITION = Edition(0, 1, b"", LINEAGE, 0, 1, 5, 1, checkpoint_digest(b"z"))
ROWS = [PendingPrediction(bytes([7] * 16), 1, b"row")]
CALLS: dict[str, Callable[[RedisStore], Any]] = {
    "open": lambda store: store.attach(),
    "acquire": lambda store: store.acquire(OWNER.nonce, 1, "here", 1, 600_000),
    "heartbeat": lambda store: store.heartbeat(OWNER, 600_000),
    "standings": lambda store: (store.standings(), store.head("m"), store.inflight("m")),
    "models": lambda store: store.models(),
    "holder": lambda store: store.holder(),
    "announce": lambda store: store.announce("here", 600_000, b"{}"),
    "append": lambda store: store.append([observe("m", one_row(3)), observe("m", one_row(4)), observe("m", one_row(1))]),
    "read": lambda store: store.read("m", 0),
    "XREAD": lambda store: store.await_log({"m": 0}, 1),
    "names": lambda store: list(store.names("m")),
    "generations": lambda store: store.generations("m"),
    "pieces": lambda store: (store.open_generation("m", 1), store.open_edition("m")),
    "edition": lambda store: store.open_edition("m"),
    "recall": lambda store: (store.recall("m", [ROWS[0].key]), store.remembered("m")),
    "due": lambda store: store.due("m", 9, 9),
    "forget": lambda store: store.forget("m", [b"x" * 16]),
    "remember": lambda store: store.remember("m", ROWS, 100),
    "stage": lambda store: store.stage(OWNER, "m", 2, 0, b"chunk"),
    "staged": lambda store: store.drop_stale_stages(OWNER),
    "unstage": lambda store: store.drop_stale_stages(OWNER),
    "commit": lambda store: store.commit(OWNER, "m", 1, generation(2, 1, bytes(20), b"chunk")),
    "publish": lambda store: store.publish(OWNER, "m", EDITION, b"z"),
    "trim": lambda store: store.trim(OWNER, "m", 3, 0),
    "verify": lambda store: store.mark_verified(OWNER, "m", 1),
    "mark": lambda store: store.mark_inflight(OWNER, "m", 1, 1),
    "ranges": lambda store: store.idle(),
    "create": lambda store: store.create("o", LINEAGE),
    "drop": lambda store: store.drop(OWNER, "o"),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    with RedisServer(tmp_path_factory.mktemp("redis"), "--appendfsync", "no") as server:
        link = Recorded(server.url)
        store = RedisStore(link, redis_settings(timeout_ms=2000))
        store.attach()
        store.create("m", LINEAGE)
        store.acquire(OWNER.nonce, 1, "here", 1, 600_000)
        store.append([observe("m", one_row(1))])
        head = store.head("m")
        store.stage(OWNER, "m", 1, 0, b"chunk")
        store.commit(OWNER, "m", 0, generation(1, 1, head.chain, b"chunk"))
        store.publish(OWNER, "m", Edition(0, 1, head.chain, LINEAGE, 0, 1, 5, 1, checkpoint_digest(b"z")), b"z")
        store.remember("m", ROWS, 100)
        for call in CALLS.values():
            call(store)
        yield link
        link.close()


ZOO: list[Reply] = [
    None, 0, -1, 2**70, b"", b"OK", b"\xff", [], [None], [0], [[]], [b""], [b"NO"], [b"OK"], [b"OK", b"x"], [b"OK", None],
    [b"OK", []], [b"OK", [[]]], [b"OK", b"1"], [b"OK", b"9" * 400], [b"OK", b"-1"], [b"OK", *[b"7"] * 7],
    [b"OK", [b"1"] * 20], [b"OK", [bytes(16), b"1", bytes(20), b"1", b"1"], [b"0", bytes(20)], b"1", [b"1"] * 7], [b"GONE"],
    [b"MODEL"], [b"DAMAGED"], [b"FENCED"], [b"EXISTS"], [b"OWNED"], [b"OLDER"], [b"NUMBER"], [b"NUMBER", b"0"], [b"MODELS"],
    [b"GENERATIONS"], [b"KNOWN"], [b"OK", [], b"KNOWN", [b"0", b"0", b"1", bytes(16)], [b"9", b"1", b"1"]], [b"STALE"],
    [b"OK", [], b"", [], []], [b"OK", [b"0", bytes(20), bytes(20)], b"", [], []], [b"NOTICKET"], [b"OK", b"1", b"\xff", b"\xff"],
]  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_of_the_wrong_shape_is_a_named_error(recorded: Recorded, name: str) -> None:
    named = 0
    for spoilt in [*ZOO, *spoilt_ones(recorded.answers[name])]:
        store = opened(recorded, name, spoilt)
        try:
            CALLS[name](store)
        except RiataError:
            named += 1
    assert named > 15


def test_a_record_that_is_not_the_one_that_was_written_is_left_to_be_read(recorded: Recorded) -> None:
    written = opened(recorded, "", None).read("m", 0)[0]
    left = 0
    for spoilt in spoilt_ones(recorded.answers["XREAD"]):
        with contextlib.suppress(Corrupt):
            for record in opened(recorded, "XREAD", spoilt).await_log({"m": 0}, 1).get("m", ()):
                assert replace(record, chain=written.chain) == written
                break
            else:
                left += 1
    assert left > 15
    assert opened(recorded, "", None).await_log({"m": 0}, 1) == {"m": [written]}


def opened(recorded: Recorded, name: str, spoilt: Reply) -> RedisStore:
    recorded.spoilt = None
    store = RedisStore(recorded, redis_settings(timeout_ms=2000))
    store.attach()
    store.models()
    recorded.spoilt = (name, spoilt)
    return store


def spoilt_ones(answer: Reply) -> Iterator[Reply]:
    """Each part of a valid answer left out, doubled, emptied, shortened, or of another type."""
    if not isinstance(answer, list):
        return
    for i, part in enumerate(answer):
        others: list[Reply] = [None, 7, b"", [], [part]]
        if isinstance(part, bytes):
            others += [part[:-1], part + b"0", bytes(len(part)), bytes(255 - byte for byte in part)]
        yield answer[:i] + answer[i + 1 :]
        yield answer[: i + 1] + answer[i:]
        yield answer[:i]
        for other in [*others, *spoilt_ones(part)]:
            yield [*answer[:i], other, *answer[i + 1 :]]


@contextlib.contextmanager
def opened_at(answer: bytes) -> Iterator[RedisStore]:
    """A store whose calls wait 100 ms, at a small server; begun again if a busy machine needed longer to open it."""
    for _ in range(100):
        with Scripted(answer) as fake:
            try:
                store = open_redis(fake.url, redis_settings(timeout_ms=100))
            except Unavailable:
                continue
            yield store
            store.close()
            return
    raise TimeoutError("the store was never opened within 100 ms")


def test_random_bytes_from_the_wire_raise_no_other_error() -> None:
    rng = np.random.default_rng(9)
    pieces = [b"*", b"$", b"-", b":", b"+", b"\r\n", b"1", b"16", b"OK", b"4294967296", b">", b"_", b"\x00"]
    for _ in range(15):
        garbage = b"".join(pieces[int(k)] for k in rng.integers(0, len(pieces), 12)) + b"\r\n"
        with opened_at(garbage) as store:
            for call in (CALLS["models"], CALLS["holder"]):
                with pytest.raises(RiataError):
                    call(store)
