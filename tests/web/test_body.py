"""Bodies as they arrive in practice: in parts, late, too long, broken off."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections.abc import Callable

import pytest
from starlette.types import Message

from riata.base.errors import BadInput, Busy, Malformed, TooLarge
from riata.web.server.body import (
    BODIES,
    PIECE_BYTES,
    SMALL_BYTES,
    WINDOW_LOG_MAX,
    Bodies,
    ClientGone,
    counted_bytes,
    header,
    read_body,
)
from tests.web.asking import Client, post_scope, run_asgi
from tests.web.conftest import BODY_BYTES_MAX
from tests.web.serving import Whole

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ROW = b'{"features":{"a":1},"label":1}'


def part(body: bytes, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_in_parts_is_one_body(client: Client) -> None:
    parts = [part(ROW[i : i + 1]) for i in range(len(ROW))]
    assert run_asgi(client, post_scope("/observe"), [*parts, part(b"", more=False)]).status == 202


def test_a_body_without_length_is_cut_at_its_bound(client: Client, service: Whole) -> None:
    endless = [part(b" " * 65_536)] * 100
    received = run_asgi(client, post_scope("/observe"), endless)
    assert (received.status, json.loads(received.body)["code"]) == (413, "body_too_large")
    assert received.asked == BODY_BYTES_MAX // 65_536 + 1
    assert received.header(b"connection") == b"close"
    assert service.logged() == 1


@pytest.mark.parametrize("length", [BODY_BYTES_MAX + 1, 10**30])
def test_an_announced_length_beyond_the_bound_is_refused_unread(client: Client, length: int) -> None:
    received = run_asgi(client, post_scope("/observe", [(b"content-length", str(length).encode())]), [])
    assert (received.status, received.asked) == (413, 0)


def test_a_broken_off_body_is_not_answered_and_not_accepted(client: Client, service: Whole) -> None:
    received = run_asgi(client, post_scope("/observe"), [part(ROW), {"type": "http.disconnect"}])
    assert received.messages == []
    assert service.logged() == 1


def test_a_broken_off_document_creates_nothing(client: Client, service: Whole) -> None:
    scope = {**post_scope("/models/m"), "method": "PUT"}
    run_asgi(client, scope, [part(b"{}"), {"type": "http.disconnect"}])
    assert service.models == {"default"}


def test_a_body_that_is_sent_slowly_is_given_up() -> None:
    async def trickle() -> Message:
        await asyncio.sleep(0.01)
        return part(b" ")

    with pytest.raises(BadInput) as caught:
        asyncio.run(read_body(post_scope("/observe"), trickle, 10**6, 0.1))
    assert caught.value.code == "body_too_slow"


@pytest.mark.parametrize("size", [99, 100])
def test_a_body_may_fill_its_bound(size: int) -> None:
    async def whole() -> Message:
        return part(b"x" * size, more=False)

    assert len(asyncio.run(read_body(post_scope("/observe"), whole, 100, 1.0))) == size


def test_a_body_one_byte_longer_may_not() -> None:
    async def whole() -> Message:
        return part(b"x" * 101, more=False)

    with pytest.raises(TooLarge):
        asyncio.run(read_body(post_scope("/observe"), whole, 100, 1.0))


def test_a_client_that_is_gone_is_an_error_of_its_own() -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGone):
        asyncio.run(read_body(post_scope("/observe"), gone, 100, 1.0))


def test_a_header_that_comes_twice_is_malformed() -> None:
    scope = post_scope("/observe", [(b"content-type", b"text/x-vw")])
    with pytest.raises(Malformed):
        header(scope, b"content-type")
    assert header(scope, b"accept") is None


def test_bytes_are_counted_until_they_are_given_back() -> None:
    bodies = Bodies(bytes_max=10)
    assert bodies.take_bytes(6)
    assert not bodies.take_bytes(5)
    assert bodies.held == 6
    bodies.give_bytes(6)
    assert bodies.held == 0
    assert bodies.take_bytes(10)
    assert bodies.most_since() == 10
    assert counted_bytes(SMALL_BYTES) == 0
    assert counted_bytes(SMALL_BYTES + 1) == SMALL_BYTES + 1


PACK: dict[bytes, Callable[[bytes], bytes]] = {b"gzip": gzip.compress, b"zstd": zstd.compress}
PACKED = pytest.mark.parametrize("encoding", PACK)


@pytest.mark.parametrize("encoding", [*PACK, b"x-gzip", b"GZip "])
@pytest.mark.parametrize("length", [1, 20, 10_000])
def test_a_packed_body_is_its_content_in_one_member_or_more(client: Client, encoding: bytes, length: int) -> None:
    pack = PACK.get(encoding, gzip.compress)
    packed = pack(ROW[:9]) + pack(b"") + pack(ROW[9:])
    scope = post_scope("/observe", [(b"content-encoding", encoding)])
    sent = [part(packed[at : at + length]) for at in range(0, len(packed), length)]
    assert run_asgi(client, scope, [*sent, part(b"", more=False)]).status == 202


def given(encoding: bytes, bodies: Bodies | None, *sent: bytes) -> tuple[bytes, int]:
    """What `read_body` returns, and how many parts it asked for."""
    messages = [part(each) for each in sent]
    messages[-1]["more_body"] = False
    scope = {**post_scope("/observe", [(b"content-encoding", encoding)]), **({} if bodies is None else {BODIES: bodies})}
    waiting = iter(messages)

    async def receive() -> Message:
        return next(waiting)

    return asyncio.run(read_body(scope, receive, BODY_BYTES_MAX, 60.0)), len(messages) - len(list(waiting))


@PACKED
def test_a_packed_body_may_fill_its_bound_and_is_cut_there_before_the_rest_arrives(encoding: bytes) -> None:
    whole = b" " * (BODY_BYTES_MAX - len(ROW)) + ROW
    assert given(encoding, None, PACK[encoding](whole)) == (whole, 1)
    bodies = Bodies(bytes_max=10 * BODY_BYTES_MAX)
    with pytest.raises(TooLarge):
        given(encoding, bodies, PACK[encoding](bytes(64 * BODY_BYTES_MAX)))
    assert bodies.held <= BODY_BYTES_MAX + PIECE_BYTES


@PACKED
def test_unpacked_bytes_are_counted_among_those_of_all_bodies(encoding: bytes) -> None:
    bodies = Bodies(bytes_max=100_000)
    with pytest.raises(Busy):
        given(encoding, bodies, PACK[encoding](bytes(BODY_BYTES_MAX)))
    assert bodies.held <= 100_000


@PACKED
def test_what_was_packed_otherwise_or_cut_off_is_malformed(encoding: bytes) -> None:
    packed = PACK[encoding](ROW)
    assert given(encoding, None, packed)[0] == ROW
    for wrong in (b"", ROW, packed[:-1], packed + b"x", packed + ROW, b"\0" + packed[1:]):
        with pytest.raises(Malformed) as caught:
            given(encoding, None, wrong)
        assert caught.value.code == f"bad_{encoding.decode()}"
    assert given(b"identity", None, packed)[0] == packed


def test_a_frame_that_wants_a_window_beyond_what_http_allows_is_refused() -> None:
    def packed(window_log: int) -> bytes:
        compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window_log})
        return compressor.compress(ROW) + compressor.flush()

    assert given(b"zstd", None, packed(WINDOW_LOG_MAX))[0] == ROW
    with pytest.raises(Malformed):
        given(b"zstd", None, packed(WINDOW_LOG_MAX + 1))
