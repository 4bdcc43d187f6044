"""A row is answered from the socket as it is from its bytes, or what has come is handed out as it came."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from riata.learn.learner import Weights
from riata.predict import heard
from riata.predict.heard import HEARD_BYTES, Ear, Head
from riata.predict.model import Model, Origin
from riata.predict.one_row import BYTES_MAX, LEFT, OneRow, Plan, RowAnswer, plan_of
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context
from tests.twins import heard as twin

BITS = 8
CONTEXT = Context(EncoderConfig(bits=BITS))
MODEL = Model(
    Origin("m", bytes(16), "", "0/1"),
    Weights(np.arange(2**BITS, dtype=np.uint32), np.linspace(-1.0, 1.0, 2**BITS), 0.5, "logistic", BITS),
    gen=1, version=1, seq=5, created_ms=0,
)  # fmt: skip
GET = (b"GET /predict?", b" HTTP/1.1\r\nhost: h\r\n\r\n", True, 4000)
POST = (b"POST /predict HTTP/1.1\r\nhost: h\r\ncontent-length: ", b"\r\naccept: */*\r\n\r\n", False, 70_000)
ROW = b'{"features":{"a":1,"b":-2.5}}'
NOTHING = (-1, LEFT)
HeadOf = tuple[bytes, bytes, bool, int]


def answer_of(plan: Plan, said: bytes, head: HeadOf) -> RowAnswer:
    """What the row of a request is answered by itself."""
    row = twin.hear_row(said, *head)
    found = None if row is None else OneRow().answer(plan, row, json=not head[2])
    return LEFT if found is None else found


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(MODEL, CONTEXT)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    client, server = socket.socketpair()
    with client, server:
        yield client, server


def get(query: bytes, head: HeadOf = GET) -> bytes:
    return head[0] + query + head[1]


def post(body: bytes, length: bytes | None = None) -> bytes:
    return POST[0] + (b"%d" % len(body) if length is None else length) + POST[1] + body


HEARD = [
    (GET, get(b"a=1&b=2.5")),
    (GET, get(b"")),
    (GET, get(b"a=%41")),
    (GET, get(b"a=1") + get(b"a=1")),
    (GET, get(b"a=1")[:-1]),
    (GET, get(b"a=1") + b"\r\n"),
    (GET, get(b"a=1").replace(b"host: h", b"host: i")),
    (GET, b"g" + get(b"a=1")[1:]),
    (GET, get(b"a=" + b"1" * (4000 - len(get(b"a="))))),
    (GET, get(b"a=" + b"1" * (4001 - len(get(b"a="))))),
    (GET, b"G"),
    (GET, post(ROW)),
    (POST, post(ROW)),
    (POST, post(b" " + ROW + b"\r\n ")),
    (POST, post(b"")),
    (POST, post(b"", b"")),
    (POST, post(b"[" + ROW + b"]")),
    (POST, post(ROW.replace(b"a", b"\xc3\xa4"))),
    (POST, post(ROW, b"0%d" % len(ROW))),
    (POST, post(ROW, b"+%d" % len(ROW))),
    (POST, post(ROW, b"%d" % (len(ROW) + 1))),
    (POST, post(ROW, b"%d" % (len(ROW) - 1))),
    (POST, post(ROW)[: -len(ROW)]),
    (POST, post(ROW) + post(ROW)),
    (POST, post(ROW).replace(b"accept", b"accepu")),
    (POST, post(ROW).replace(b"host: h", b"host: H")),
    (POST, post(ROW.ljust(BYTES_MAX))),
    (POST, post(ROW.ljust(BYTES_MAX + 1))),
    (POST, post(ROW.ljust(100_000), b"100000")[:HEARD_BYTES]),
    (POST, POST[0] + b"9" * 30),
    (POST, POST[0]),
    (POST, b"\0"),
    (POST, get(b"a=1")),
]  # fmt: skip


@pytest.mark.parametrize(("head", "said"), HEARD)
def test_what_is_taken_is_answered_as_its_row_is(
    plan: Plan, ends: tuple[socket.socket, socket.socket], head: HeadOf, said: bytes
) -> None:
    client, server = ends
    ear = Ear(OneRow())
    client.sendall(said)
    size, found = ear.listen(server.fileno(), Head(*head), plan)
    assert ear.said(size) == said
    assert found == answer_of(plan, said, head)


def test_heads_that_differ_in_one_byte_are_others(plan: Plan, ends: tuple[socket.socket, socket.socket]) -> None:
    client, server = ends
    ear, draw, head = Ear(OneRow()), random.Random(3), Head(*POST)
    answered = 0
    for _ in range(300):
        said = bytearray(post(ROW))
        if draw.random() < 0.9:
            said[draw.randrange(len(said) - len(ROW))] ^= 1 << draw.randrange(8)
        client.sendall(said)
        size, found = ear.listen(server.fileno(), head, plan)
        assert (size, found) == (len(said), answer_of(plan, bytes(said), POST))
        answered += found != LEFT
    assert 10 < answered < 100


def test_what_a_row_leaves_behind_is_not_in_the_next(plan: Plan, ends: tuple[socket.socket, socket.socket]) -> None:
    client, server = ends
    ear = Ear(OneRow())
    long = b'{"features":{%b}}' % b",".join(b'"f%d":%d' % (k, k) for k in range(300))
    for row in (ROW, long, b'{"features":{"a":1}', ROW):
        client.sendall(post(row))
        found = ear.listen(server.fileno(), Head(*POST), plan)[1]
        assert found == answer_of(plan, post(row), POST)


def test_nothing_the_end_and_an_error_are_left_to_the_loop(plan: Plan, ends: tuple[socket.socket, socket.socket]) -> None:
    client, server = ends
    ear, head = Ear(OneRow()), Head(*GET)
    assert ear.listen(server.fileno(), head, plan) == NOTHING
    client.sendall(get(b"a=1"))
    assert ear.listen(server.fileno(), head, plan, looks=0) == NOTHING
    assert ear.listen(server.fileno(), head, plan)[0] == len(get(b"a=1"))
    client.close()
    assert ear.listen(server.fileno(), head, plan) == (0, LEFT)
    assert server.recv(1) == b"", "the loop meets the end as well"
    assert ear.listen(-1, head, plan) == NOTHING


def test_more_than_there_is_room_for_comes_in_parts(plan: Plan, ends: tuple[socket.socket, socket.socket]) -> None:
    client, server = ends
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    said = random.Random(5).randbytes(HEARD_BYTES + 1000)
    client.sendall(said)
    ear, parts = Ear(OneRow()), b""
    while len(parts) < len(said):
        size, found = ear.listen(server.fileno(), Head(*POST), plan)
        assert 0 < size <= HEARD_BYTES
        assert found == LEFT
        parts += ear.said(size)
    assert parts == said


def test_what_is_compiled_beforehand_is_what_is_used(plan: Plan) -> None:
    heard.warm_up()
    before = len(heard.hear_row.signatures)  # type: ignore[attr-defined]
    Ear(OneRow()).listen(-1, Head(*POST), plan)
    assert len(heard.hear_row.signatures) == before == 1  # type: ignore[attr-defined]
