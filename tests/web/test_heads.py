"""Heads: what is made of them, however they arrive, is what uvicorn makes of them."""

from __future__ import annotations

import asyncio
import random
from http import HTTPMethod
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from riata.base.errors import BadInput
from riata.web.server import bounds
from riata.web.server.bounds import Refused
from riata.web.server.heads import HeadReader
from riata.web.server.request import CHUNKED, Request, headers_of
from tests.settings import connection_bounds
from tests.web.test_head_parser import GET, PIECES, POST

CHUNKS = POST.replace(b"CONTENT-LENGTH:  7", b"Transfer-Encoding: chunked")
READ = {
    "a path": (GET, ("GET", b"/predict", b"a=1&b=x", 0, True)),
    "a body": (POST, ("POST", b"/models/m/observe", b"", 7, True)),
    "chunks": (CHUNKS, ("POST", b"/models/m/observe", b"", CHUNKED, True)),
    "another method": (GET.replace(b"GET", b"DELETE"), ("DELETE", b"/predict", b"a=1&b=x", 0, True)),
    "a fragment": (GET.replace(b"b=x", b"b=x#c"), ("GET", b"/predict", b"a=1&b=x", 0, True)),
    "an address": (GET.replace(b"/predict", b"http://t:80/predict"), ("GET", b"/predict", b"a=1&b=x", 0, True)),
    "an address without a path": (GET.replace(b"/predict", b"http://t:80"), ("GET", b"/", b"a=1&b=x", 0, True)),
    "the last request": (GET.replace(b"Accept: */*", b"Connection: close"), ("GET", b"/predict", b"a=1&b=x", 0, False)),
    "an old client": (GET.replace(b"1.1", b"1.0"), ("GET", b"/predict", b"a=1&b=x", 0, False)),
    "an old client that stays": (
        GET.replace(b"1.1", b"1.0").replace(b"Accept: */*", b"Connection: keep-alive"), ("GET", b"/predict", b"a=1&b=x", 0, False)
    ),
}  # fmt: skip


def reader() -> HeadReader:
    return HeadReader(connection_bounds(), None)


def in_pieces(data: bytes, cut: random.Random) -> tuple[Request | None, bytes]:
    """Read bytes that arrive in pieces."""
    heads = reader()
    while data:
        size = cut.randint(1, 30)
        request, rest = heads.feed(data[:size])
        data = rest + data[size:]
        if request is not None:
            return request, data
    return None, b""


def known(request: Request | None) -> Any:
    return request and (request.method, request.path, request.query, request.length, request.keep_alive)


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("after", [b"", GET, b"\r\n\r\n"])
def test_a_head_is_read_however_it_arrives(name: str, after: bytes) -> None:
    head, wanted = READ[name]
    for before in (b"", b"\r\n"):
        request, rest = reader().feed(before + head + after)
        assert (known(request), rest) == (wanted, after)
        for seed in range(20):
            request, rest = in_pieces(before + head + after, random.Random(seed))
            assert (known(request), rest) == (wanted, after)


def test_heads_of_one_connection_are_read_one_after_the_other() -> None:
    heads = reader()
    for head, wanted in [READ[name] for name in ("a path", "a body", "a path", "chunks", "another method")]:
        request, _ = heads.feed(head)
        assert known(request) == wanted
        assert not heads.has_begun


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (GET.replace(b"Host: t:80\r\n", b""), bounds.BAD_HOST),
        (GET.replace(b"Accept: */*", b"Host: t"), bounds.BAD_HOST),
        (GET.replace(b"t:80", b"a/b"), bounds.BAD_HOST),
        (GET.replace(b"/predict", b"http://u/predict"), bounds.BAD_TARGET),
        (GET.replace(b"1.1", b"2.0"), bounds.MALFORMED),
        (GET.replace(b"1.1", b"0.9"), bounds.MALFORMED),
        (b"PRI * HTTP/2.0\r\n\r\n", bounds.MALFORMED),
        (CHUNKS.replace(b"chunked", b"xchunked"), bounds.BAD_CODING),
        (CHUNKS.replace(b"1.1", b"1.0"), bounds.BAD_CODING),
        (POST.replace(b"Keep-Alive", b"Upgrade\r\nUpgrade: h2c"), bounds.UPGRADE_WITH_BODY),
        (GET.replace(b"a=1", b"a" * 2**16), bounds.TARGET_TOO_LONG),
        (GET.replace(b"*/*", b"a" * 2**14), bounds.HEAD_TOO_LARGE),
        (GET.replace(b"*/*", b"*/*" + b"\r\nA: b" * 64), bounds.HEAD_TOO_LARGE),
    ],
)
def test_a_head_that_is_ambiguous_or_too_long_is_refused(head: bytes, answer: bounds.Refusal) -> None:
    for data in (head, head[:-1]):
        if data is head or answer in (bounds.TARGET_TOO_LONG, bounds.HEAD_TOO_LARGE):
            with pytest.raises(Refused) as refused:
                reader().feed(data)
            assert refused.value.answer is answer


class Wire(asyncio.Transport):
    """A transport of which uvicorn's protocol needs little."""

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        pass


def scope_of(head: bytes) -> Scope | None:
    """The scope that uvicorn makes of a head, None if it refuses it."""
    scopes: list[Scope] = []

    async def application(scope: Scope, _receive: Receive, _send: Send) -> None:
        scopes.append(scope)

    async def read() -> None:
        config = uvicorn.Config(cast(Any, application), log_config=None)
        config.load()
        config.loaded_app = application
        protocol = HttpToolsProtocol(config, ServerState(), {}, asyncio.get_running_loop())
        protocol.connection_made(Wire())
        protocol.data_received(head)
        await asyncio.sleep(0)

    asyncio.run(read())
    return scopes[0] if scopes else None


def test_what_the_reader_accepts_uvicorn_reads_alike() -> None:
    chance, accepted = random.Random(5), 0
    more = [b"#", b"http://t:80", b"DELETE", b"Connection: close\r\n", b"1.0", b"%41", b"Expect: 100-continue\r\n"]
    for _ in range(400):
        head = bytearray(chance.choice((GET, POST, CHUNKS)))
        for _ in range(chance.randint(0, 3)):
            at = chance.randrange(len(head) + 1)
            head[at : at + chance.choice((0, 0, 1, 2))] = chance.choice(PIECES + more)
        try:
            request, _ = reader().feed(bytes(head))
        except Refused:
            continue
        if request is None or request.method not in list(HTTPMethod):  # uvicorn refuses methods that it does not know
            continue
        scope = scope_of(bytes(head))
        assert scope is not None, head
        assert (scope["method"], scope["raw_path"], scope["query_string"]) == (request.method, request.path, request.query)
        headers = [(name, value.rstrip(b" \t")) for name, value in scope["headers"]]
        assert (headers, scope["http_version"]) == (headers_of(request.lines), request.version)
        accepted += 1
    assert accepted > 100


def test_the_longest_idempotency_key_is_taken() -> None:
    def key(values: dict[bytes, bytes]) -> str | None:
        return Request("POST", b"/observe", b"", b"", values, 0.0).idempotency_key

    assert key({b"idempotency-key": b"~" * 200}) == "~" * 200
    assert key({}) is None
    with pytest.raises(BadInput, match="1 to 200"):
        key({b"idempotency-key": b"~" * 201})
