"""A row is answered from the socket as it is from its bytes, or what has come is handed out as it came."""

from __future__ import annotations

import functools
import random
import select
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from riata.learn.learner import Weights
from riata.predict import heard
from riata.predict.heard import AT_ONCE, HEARD_BYTES, SEATS, Ear, Head
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
HeadOf = tuple[bytes, bytes, bool, int]


def answers_of(plan: Plan, said: Sequence[bytes], head: HeadOf) -> list[RowAnswer]:
    """What the rows of requests are answered by themselves."""
    rows = [twin.hear_rows(request, *head) for request in said]
    return twin.answer_rows(rows, [0] * len(rows), 0, lambda row: OneRow().answer(plan, row, json=not head[2]))[1]


class Room:
    """Some connections that are heard."""

    def __init__(self, connections: int = 1) -> None:
        self.pairs = [socket.socketpair() for _ in range(connections)]
        self.epoll = select.epoll()
        self.ear = Ear(OneRow())
        self.heads: list[Head] = []
        for client, server in self.pairs:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            self.epoll.register(server.fileno(), select.EPOLLIN)

    def expect(self, at: int, head: HeadOf, group: int = 0) -> None:
        self.heads.append(Head(*head))
        self.ear.seat(self.pairs[at][1].fileno(), self.heads[-1], group)

    def say(self, *said: bytes) -> None:
        for (client, _), part in zip(self.pairs, said, strict=True):
            client.sendall(part)

    def hear(self, plan: Plan | None, looks: int = 1) -> list[tuple[bytes, RowAnswer]]:
        """What was said, and the answers, in the order of the connections; all of one group."""
        count = self.ear.hear(self.epoll.fileno(), looks)
        assert self.ear.answer(0, count, plan) == count
        found = {number: (self.ear.said(begin, size), answer) for number, begin, size, *answer in self.ear.found(0, count)}
        assert [self.ear.socket(at) for at in range(count)] == [*found]
        return [(said, cast(RowAnswer, tuple(answer))) for _, server in self.pairs
                for number, (said, answer) in found.items() if number == server.fileno()]  # fmt: skip

    def close(self) -> None:
        self.epoll.close()
        for pair in self.pairs:
            for end in pair:
                end.close()


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(MODEL, CONTEXT)


@pytest.fixture
def room() -> Iterator[Room]:
    """One connection."""
    found = Room()
    yield found
    found.close()


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
def test_what_is_taken_is_answered_as_its_row_is(plan: Plan, room: Room, head: HeadOf, said: bytes) -> None:
    room.expect(0, head)
    room.say(said)
    assert room.hear(plan) == [(said, *answers_of(plan, [said], head))]


def test_heads_that_differ_in_one_byte_are_others(plan: Plan, room: Room) -> None:
    draw = random.Random(3)
    room.expect(0, POST)
    answered = 0
    for _ in range(300):
        said = bytearray(post(ROW))
        if draw.random() < 0.9:
            said[draw.randrange(len(said) - len(ROW))] ^= 1 << draw.randrange(8)
        room.say(bytes(said))
        [(heard_of, found)] = room.hear(plan)
        assert heard_of == said
        assert [found] == answers_of(plan, [heard_of], POST)
        answered += found != LEFT
    assert 10 < answered < 100


def test_what_a_row_leaves_behind_is_not_in_the_next(plan: Plan, room: Room) -> None:
    room.expect(0, POST)
    long = b'{"features":{%b}}' % b",".join(b'"f%d":%d' % (k, k) for k in range(300))
    for row in (ROW, long, b'{"features":{"a":1}', ROW):
        room.say(post(row))
        assert room.hear(plan) == [(post(row), *answers_of(plan, [post(row)], POST))]


def test_many_are_heard_together_and_nobody_is_forgotten(plan: Plan) -> None:
    draw, room = random.Random(7), Room(AT_ONCE + 20)
    for at in range(len(room.pairs)):
        room.expect(at, (GET, POST)[at % 2])
    for _ in range(3):
        said = [(get(b"a=%d" % at), post(b'{"features":{"a":%d}}' % at), b"what")[draw.choice([at % 2, 2])]
                for at in range(len(room.pairs))]  # fmt: skip
        room.say(*said)
        turns = [room.hear(plan), room.hear(plan)]
        assert [len(turn) for turn in turns] == [AT_ONCE, 20]
        wanted = [answers_of(plan, [part], (GET, POST)[at % 2])[0] for at, part in enumerate(said)]
        assert sorted(turns[0] + turns[1], key=str) == sorted(zip(said, wanted, strict=True), key=str)
        assert room.hear(plan) == []
    room.close()


def test_each_group_is_answered_by_its_own_plan(plan: Plan) -> None:
    room, other = Room(6), plan_of(replace(MODEL, weights=replace(MODEL.weights, intercept=2.0)), CONTEXT)
    groups = [3, 3, -1, 3, 3, 3]
    for at, group in enumerate(groups):
        room.expect(at, GET, group)
    room.say(*[get(b"a=1")] * len(groups))
    count = room.ear.hear(room.epoll.fileno())
    numbers = [server.fileno() for _, server in room.pairs]
    order = [numbers.index(room.ear.socket(at)) for at in range(count)]
    rows, owners = [b"a=1"] * count, [groups[at] for at in order]
    found: list[RowAnswer] = []
    at = 0
    while at < count:
        its_plan = other if owners[at] == -1 else plan
        stop, wanted = twin.answer_rows(rows, owners, at, functools.partial(OneRow().answer, its_plan, json=False))
        assert room.ear.answer(at, count, its_plan) == stop
        assert [tuple(answer) for _, _, _, *answer in room.ear.found(at, stop)] == wanted
        found, at = found + wanted, stop
    assert len(set(found)) == 2
    room.close()


def test_rows_that_are_not_to_be_predicted_are_handed_out() -> None:
    room = Room(4)
    for at, group in enumerate((0, 0, 0, 1)):
        room.expect(at, POST, group)
    room.say(post(ROW), post(ROW)[:-1], post(b""), post(b"[]"))
    count = room.ear.hear(room.epoll.fileno())
    numbers = [server.fileno() for _, server in room.pairs]
    assert [room.ear.socket(at) for at in range(count)] == numbers
    stop, found = room.ear.rows(0, count)
    assert stop == 3
    assert [(number, row) for number, _, _, row in found] == [*zip(numbers, (ROW, None, b""), strict=False)]
    assert [room.ear.said(begin, size) for _, begin, size, _ in found] == [post(ROW), post(ROW)[:-1], post(b"")]
    assert [row for *_, row in room.ear.rows(stop, count)[1]] == [b"[]"]
    room.close()


def test_without_a_plan_all_is_left(room: Room) -> None:
    room.expect(0, GET)
    room.say(get(b"a=1"))
    assert room.hear(None) == [(get(b"a=1"), LEFT)]


def test_nothing_the_end_and_an_error_are_left_to_the_loop(plan: Plan, room: Room) -> None:
    room.expect(0, GET)
    assert room.hear(plan, looks=2) == []
    room.say(get(b"a=1"))
    assert room.hear(plan, looks=0) == []
    assert room.hear(plan) == [(get(b"a=1"), *answers_of(plan, [get(b"a=1")], GET))]
    client, server = room.pairs[0]
    client.close()
    assert room.hear(plan) == [(b"", LEFT)]
    assert server.recv(1) == b"", "the loop meets the end as well"
    assert room.ear.hear(-1) <= 0


def test_who_is_alone_is_asked_first_and_the_others_where_he_says_nothing(plan: Plan) -> None:
    room = Room(3)
    for at in range(len(room.pairs)):
        room.expect(at, GET)
    numbers, number = [server.fileno() for _, server in room.pairs], room.epoll.fileno()
    room.say(get(b"a=1"), get(b"a=2"), get(b"a=3"))
    for alone, wanted in ((1, [1]), (1, [0, 2]), (1, [])):
        count = room.ear.hear(number, 2, numbers[alone])
        assert sorted(numbers.index(room.ear.socket(at)) for at in range(count)) == wanted
        if count:
            assert room.ear.answer(0, count, plan) == count
        for socket_number, begin, size, *answer in room.ear.found(0, count):
            said = get(b"a=%d" % (numbers.index(socket_number) + 1))
            assert (room.ear.said(begin, size), [tuple(answer)]) == (said, answers_of(plan, [said], GET))
    room.pairs[1][0].close()
    assert room.ear.hear(number, 2, numbers[1]) == 1
    assert [found[2] for found in room.ear.found(0, 1)] == [0], "his end is heard"
    room.close()


def test_somebody_with_a_high_number_has_a_seat(plan: Plan, room: Room) -> None:
    room.expect(0, POST)
    room.ear.seat(5 * SEATS, Head(*GET), 1)
    room.say(post(ROW))
    assert room.hear(plan) == [(post(ROW), *answers_of(plan, [post(ROW)], POST))]


def test_more_than_there_is_room_for_comes_in_parts(plan: Plan) -> None:
    room, draw = Room(8), random.Random(5)
    said = [draw.randbytes(HEARD_BYTES + 1000) for _ in room.pairs]
    for at in range(len(room.pairs)):
        room.expect(at, POST)
    room.say(*said)
    parts: dict[int, bytes] = {}
    while sum(map(len, parts.values())) < sum(map(len, said)):
        count = room.ear.hear(room.epoll.fileno())
        assert count > 0
        assert room.ear.answer(0, count, plan) == count
        for number, begin, size, *answer in room.ear.found(0, count):
            assert 0 < size <= HEARD_BYTES
            assert tuple(answer) == LEFT
            parts[number] = parts.get(number, b"") + room.ear.said(begin, size)
    assert [parts[server.fileno()] for _, server in room.pairs] == said
    room.close()


def test_what_is_compiled_beforehand_is_what_is_used(plan: Plan, room: Room) -> None:
    heard.warm_up()
    kernels: tuple[Any, ...] = (heard.hear_rows, heard.answer_rows)
    before = [len(kernel.signatures) for kernel in kernels]
    room.expect(0, POST)
    room.say(post(ROW))
    assert len(room.hear(plan)) == 1
    assert [len(kernel.signatures) for kernel in kernels] == before == [1, 1]
