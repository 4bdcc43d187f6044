"""The fast path and ASGI give the same bytes: every request is sent to a server with the fast path and to one without."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.run.served_model import Coming
from riata.run.state.config import ModelConfig
from riata.web.auth.gate import Buckets, Gate, KeysFile
from riata.web.auth.keys import KeyEntry, digest_of, new_token, ring_of
from riata.web.server.answers import Answer
from riata.web.server.fast_path import FastPath
from riata.web.server.request import Request
from riata.wire.parse import parse_examples
from tests.web.serving import Whole, serving

NOW_MS = 1_800_000_000_000
BODY_BYTES_MAX = 32 * 1024
TOKEN, OTHER, OBSERVER, HASTY, BRIEF = (new_token(name) for name in ("reader", "stranger", "observer", "hasty", "brief"))
ENTRIES = [
    KeyEntry("reader", digest_of(TOKEN), ["predict"], ["default", "signs", "texts"]),
    KeyEntry("observer", digest_of(OBSERVER), ["observe"], "*"),
    KeyEntry("brief", digest_of(BRIEF), ["predict"], "*", expires=datetime.fromtimestamp(NOW_MS / 1000 + 30, UTC)),
    KeyEntry("hasty", digest_of(HASTY), ["predict"], "*", requests_per_s=1.0),
]
MODELS: dict[str, dict[str, Any]] = {
    "signs": {"labels": "-1/+1", "learner": {"loss": "hinge"}},
    "real": {"labels": "real", "learner": {"loss": "squared"}},
    "texts": {"encoder": {"text": ["subject"], "ngrams": 2, "normalise": "l2"}},
    "sketched": {"learner": {"kind": "taylor_sketch"}},
}
LAST = b"GET /livez HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"
ALIVE = b'{"alive":true}'
DATE = re.compile(rb"\r\ndate: [^\r]+")


@dataclass
class Lane:
    """One server, and the answers of its fast path."""

    port: int
    fast: list[int] = field(default_factory=list)
    path: FastPath | None = None
    metrics: bytes = b""


async def teach(whole: Whole) -> None:
    """Create the models. They have learnt about half of the names in the requests below. One more is not ready."""
    draw = np.random.default_rng(4)
    known: list[dict[str, Any]] = [{"a": 1}, {"age": 41}, {"country": "de"}, {"b": "x"}, {"subject": "one"}]
    known += [{f"f{k}": k + 0.5} for k in range(0, 75, 2)]
    for name, document in {"default": {}, **MODELS}.items():
        await whole.admin.put_model(name, document)
        low = -1 if document.get("labels") == "-1/+1" else 0
        few = known[:2] if name == "sketched" else known  # so that there are standard errors soon
        rows = [
            {"features": few[draw.integers(len(few))] | few[draw.integers(len(few))], "label": 1 if draw.random() < 0.5 else low}
            for _ in range(400)
        ]
        parsed = parse_examples(json.dumps(rows).encode(), "application/json", whole.service.context(name, True), labelled=True)
        assert (await whole.service.observe(name, parsed, wait_applied=True)).applied
    whole.engine.context.catalogue.expect([Coming("late", b"", 7)])
    whole.engine.context.creating["loading"] = ModelConfig().learner


@asynccontextmanager
async def beside(_app: object) -> AsyncIterator[None]:
    """The lifespan of an application whose service another one starts and stops."""
    yield


def note(path: FastPath, found: list[int]) -> None:
    """Record the answers of the fast path."""
    tell = path.note

    def noting(request: Request, answer: Answer) -> None:
        found.append(answer.status)
        tell(request, answer)

    path.note = noting  # type: ignore[method-assign]


class Pair:
    """Two servers of one service, and their metrics."""

    def __init__(self, stack: ExitStack, gate: bool) -> None:
        self.whole, self.file = Whole(NOW_MS), KeysFile(Path("/nowhere"), ring_of(ENTRIES))
        self.fast, self.slow = Lane(0), Lane(0)
        (fast, slow) = self.apps = [
            self.whole.app(
                Gate(self.whole.clock, self.file, Buckets(1e6, 1e6)) if gate else None,
                body_bytes_max=BODY_BYTES_MAX,
                fast_path=is_fast,
            )
            for is_fast in (True, False)
        ]
        slow.router.lifespan_context = beside
        self.fast.path = fast.state.fast_path
        note(fast.state.fast_path, self.fast.fast)
        self.fast.port, self.slow.port = (stack.enter_context(serving(app)) for app in (fast, slow))
        self.whole.until_ready()
        self.whole.do(teach(self.whole))

    def same(self, request: bytes, answers: int = 1) -> tuple[bytes, int]:
        """Send the request to both; returns the answer, which must be equal, and how many of `answers` the fast path gave."""
        before = len(self.fast.fast)
        answered = [DATE.sub(b"", exchange(lane.port, request)) for lane in (self.fast, self.slow)]
        assert answered[0] == answered[1]
        assert answered[0].count(b"HTTP/1.1 ") == answers
        return answered[0], len(self.fast.fast) - before


def exchange(port: int, request: bytes) -> bytes:
    """Send a request, followed by one that ends the connection; returns what was received, without the answer to the latter."""
    answered = whole(port, request + LAST)
    return answered[: answered.rindex(b"HTTP/1.1 ")] if answered.endswith(ALIVE) else answered


def get(query: bytes, path: bytes = b"/predict", *headers: bytes, method: bytes = b"GET") -> bytes:
    return b"\r\n".join([method + b" " + path + query + b" HTTP/1.1", b"Host: t", *headers, b"", b""])


def post(body: bytes, path: bytes = b"/predict", *headers: bytes, kind: bytes = b"application/json") -> bytes:
    head = [b"POST " + path + b" HTTP/1.1", b"Host: t", b"Content-Type: " + kind, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*head, b"", body])


def of(model: bytes) -> bytes:
    return b"/models/" + model + b"/predict"


def bearer(token: str) -> bytes:
    return b"Authorization: Bearer " + token.encode()


WIDE = b'{"features":{' + b",".join(b'"f%d":%d.5' % (k, k) for k in range(75)) + b"}}"
ROWS = b"\n".join([b'{"features":{"a":1}}', b'{"features":{"b":"c"}}'])
CHUNKED = b"POST /predict HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
# What the fast path answers, with the status.
FAST: dict[str, tuple[bytes, int]] = {
    "query": (get(b"?age=41&country=de&plan=pro"), 200),
    "empty query": (get(b"?"), 200),
    "no query": (get(b""), 200),
    "fragment": (get(b"?a=1#b"), 200),
    "whole address": (get(b"?a=1", b"http://t/predict"), 200),
    "value not ASCII": (get(b"?a=1", b"/predict", b"X: \xe9"), 200),
    "page of this service": (get(b"?a=1", b"/predict", b"Sec-Fetch-Site: same-origin"), 200),
    "blank behind a value": (post(WIDE, b"/predict", b"Accept: application/x-ndjson "), 200),
    "encoded": (get(b"?n%61me=caf%C3%A9&a+b=1"), 200),
    "numbers": (get(b"?a=-0&b=1e-400&c=007&d=.5&e=nan&f=1e300"), 422),
    "twice": (get(b"?a=x&a=y"), 200),
    "twice a number": (get(b"?a=1&a=2"), 422),
    "no name": (get(b"?=1"), 422),
    "blank": (get(b"?a=&b"), 200),
    "not UTF-8": (get(b"?a=%FF"), 400),
    "model": (get(b"?a=1", of(b"signs")), 200),
    "real": (get(b"?a=1&b=2", of(b"real")), 200),
    "text": (get(b"?subject=one+two&n=1", of(b"texts")), 200),
    "errors known": (get(b"?a=1&b=x", of(b"sketched")), 200),
    "unknown model": (get(b"?a=1", of(b"nobody")), 404),
    "loading": (get(b"?a=1", of(b"loading")), 503),
    "late": (get(b"?a=1", of(b"late")), 503),
    "body to one that is late": (post(WIDE, of(b"late")), 503),
    "object": (post(WIDE), 200),
    "array": (post(b"[" + WIDE + b',{"features":{}}]'), 200),
    "array of one": (post(b" [" + WIDE + b"]"), 200),
    "lines": (post(ROWS, kind=b"application/x-ndjson"), 200),
    "vw": (post(b"|f a:1 b\n", kind=b"text/x-vw"), 200),
    "charset": (post(WIDE, b"/predict", kind=b"application/json; charset=utf-8"), 200),
    "accepts lines": (post(WIDE, b"/predict", b"Accept: application/x-ndjson, */*;q=0.1"), 200),
    "accepts columns": (post(b"[" + WIDE + b"]", b"/predict", b"Accept: application/vnd.apache.arrow.stream"), 200),
    "accepts all": (post(WIDE, b"/predict", b"Accept: */*"), 200),
    "text object": (post(b'{"features":{"subject":"One two","x":[ "y" ]}}', of(b"texts")), 200),
    "escape": (post(b'{"features":{"\\u0061":1}}'), 200),
    "not ASCII": (post('{"features":{"ä":"ö"}}'.encode()), 200),
    "bad feature": (post(b'{"features":{"a":{"b":{}}}}'), 422),
    "bad JSON": (post(b'{"features":{"a":1}'), 400),
    "labelled": (post(b'{"features":{"a":1},"label":1}'), 422),
    "nothing": (post(b""), 400),
    "content type": (post(WIDE, kind=b"text/plain"), 415),
    "body to an unknown model": (post(b"{", of(b"nobody")), 404),
    "option": (get(b"?a=1&_explain=true"), 200),
    "unknown option": (get(b"?a=1&_explane=true"), 422),
    "to be remembered": (get(b"?a=1&_remember=true"), 422),
    "seq": (get(b"?a=1&_min_seq=9999"), 422),
    "option of a body": (post(WIDE, b"/predict?explain=true"), 200),
    "unknown option of a body": (post(WIDE, b"/predict?a=1"), 422),
    "chunks": (CHUNKED + b'14\r\n{"features":{"a":1}}\r\n0\r\n\r\n', 200),
    "chunks and extensions": (CHUNKED + b'5;a=b\r\n{"fea\r\nf\r\ntures":{"a":1}}\r\n0\r\n\r\n', 200),
    "bad rows in chunks": (CHUNKED + b'2\r\n[]\r\n0\r\n\r\n', 400),
}  # fmt: skip
# What it leaves to the ASGI application.
LEFT: dict[str, tuple[bytes, int]] = {
    "encoded path": (get(b"?a=1", b"/pr%65dict"), 200),
    "impossible name": (get(b"?a=1", of(b"NoBody")), 404),
    "other route": (get(b"", b"/predict/"), 404),
    "other method": (get(b"?a=1", method=b"PUT"), 405),
    "coding": (post(WIDE, b"/predict", b"Content-Encoding: br"), 415),
    "no gzip": (post(WIDE, b"/predict", b"Content-Encoding: gzip"), 400),
    "gzip": (post(gzip.compress(WIDE), b"/predict", b"Content-Encoding: gzip"), 200),
    "gzip that is too large": (post(gzip.compress(bytes(BODY_BYTES_MAX + 1)), b"/predict", b"Content-Encoding: gzip"), 413),
    "identity": (post(WIDE, b"/predict", b"Content-Encoding: identity"), 200),
    "continue": (post(WIDE, b"/predict", b"Expect: other"), 200),
    "body of a GET": (get(b"?a=1", b"/predict", b"Content-Length: 2") + b"{}", 200),
    "type twice": (post(WIDE, b"/predict", b"Content-Type: text/plain"), 400),
    "long in chunks": (CHUNKED + b"11000\r\n" + b" " * 0x11000 + b"\r\n0\r\n\r\n", 413),
    "too large": (post(b"[" + b" " * BODY_BYTES_MAX + b"]"), 413),
}  # fmt: skip


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack, gate=False)


@pytest.fixture
def locked() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack, gate=True)


@pytest.mark.parametrize("name", FAST)
def test_the_fast_path_gives_the_answers_of_the_other(pair: Pair, name: str) -> None:
    request, status = FAST[name]
    answered, fast = pair.same(request)
    assert answered.startswith(b"HTTP/1.1 %d " % status), answered
    assert fast == 1


@pytest.mark.parametrize("name", LEFT)
def test_requests_that_the_fast_path_leaves_are_answered_too(pair: Pair, name: str) -> None:
    request, status = LEFT[name]
    answered, fast = pair.same(request)
    assert answered.startswith(b"HTTP/1.1 %d " % status), answered
    assert fast == 0


@pytest.mark.parametrize("request_", [get(b"?a=1", of(b"real")), post(WIDE, of(b"real"))])
def test_a_model_of_a_start_is_waited_for(pair: Pair, request_: bytes) -> None:
    catalogue = pair.whole.engine.context.catalogue
    served = pair.whole.engine.served_model("real")

    def arrive() -> None:
        """What a start does with a model that was asked for."""
        while catalogue.asked != "real":
            time.sleep(0.001)
        catalogue.put(served)
        catalogue.arrived("real", served.lineage)

    answered = []
    for lane in (pair.fast, pair.slow):
        catalogue.remove("real")
        catalogue.expect([Coming("real", served.lineage, 7)])
        catalogue.asked = ""
        start = threading.Thread(target=arrive)
        start.start()
        answered.append(DATE.sub(b"", exchange(lane.port, request_)))
        start.join()
    assert answered[0] == answered[1]
    assert answered[0].startswith(b"HTTP/1.1 200 ")


def test_head_is_left(pair: Pair) -> None:
    assert pair.same(get(b"?a=1", method=b"HEAD"))[1] == 0


def test_the_connection_of_an_old_client_and_of_one_that_leaves_is_closed(pair: Pair) -> None:
    leaving = get(b"?a=1", b"/predict", b"Connection: close")
    for request in (leaving, leaving.replace(b"HTTP/1.1", b"HTTP/1.0")):
        before = len(pair.fast.fast)
        answered = [DATE.sub(b"", whole(lane.port, request)) for lane in (pair.fast, pair.slow)]
        assert answered[0] == answered[1]
        assert b"connection: close\r\n" in answered[0]
        assert len(pair.fast.fast) == before + 1


def whole(port: int, request: bytes) -> bytes:
    """Send a request and read until the other side closes."""
    answered = b""
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall(request)
        while part := connection.recv(1 << 20):
            answered += part
    return answered


def test_many_at_once_are_answered_in_order(pair: Pair) -> None:
    requests = b"".join(get(b"?a=%d" % k) if k % 3 else post(b'{"features":{"a":%d}}' % k) for k in range(40))
    _, fast = pair.same(requests, answers=40)
    assert fast == 40


ODD = [
    *(
        b"_",
        b"%5F",
        b"%5f",
        b"=",
        b"&",
        b"+",
        b"%00",
        b"%C3%A9",
        b"%c3",
        b"%",
        b"%zz",
        b"^",
        b";",
        b"|",
        b"/",
        b"?",
        b"'",
        b"%20",
    ),
    *(b"explain", b"_explain", b"_min_seq", b"true", b"a", b"1", b"-0", b"1e5", b"nan", b"[0]", b"%25", b"\x7e", b'"'),
]


def test_both_readers_agree_on_unusual_names(pair: Pair) -> None:
    draw = np.random.default_rng(11)
    statuses = set()
    for _ in range(150):
        query = b"".join(ODD[k] for k in draw.integers(0, len(ODD), draw.integers(1, 7)))
        answered, _ = pair.same(get(b"?" + query, of(b"texts") if draw.random() < 0.2 else b"/predict"))
        statuses.add(answered.split(b" ", 2)[1])
    assert statuses >= {b"200", b"400", b"422"}


def in_parts(port: int, parts: list[bytes]) -> bytes:
    """Send a request so that each part arrives separately, and read until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)
            time.sleep(0.1)
        connection.sendall(LAST)
        answered = b""
        while more := connection.recv(1 << 20):
            answered += more
    return DATE.sub(b"", answered)


@pytest.mark.parametrize("query", [b"", b"explain=true", b"no=option"])
def test_a_body_that_comes_after_its_head_is_waited_for(pair: Pair, query: bytes) -> None:
    request = post(WIDE, b"/predict?" + query)
    head = request.index(b"\r\n\r\n") + 4
    before = len(pair.fast.fast)
    for cuts in ([0, head, len(request)], [0, 30, head + 1, head + 7, len(request)]):
        parts = [request[at:to] for at, to in itertools.pairwise(cuts)]
        answered = in_parts(pair.fast.port, parts)
        assert answered == in_parts(pair.slow.port, parts) == in_parts(pair.slow.port, [request])
    assert len(pair.fast.fast) == before + 2


def test_a_long_body_that_comes_after_its_head_is_left(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pair.fast.path is not None
    lines, here = pair.fast.path.router._plain, (True, "/predict")
    monkeypatch.setattr(pair.fast.path, "_paths", {})
    monkeypatch.setitem(lines, here, replace(lines[here], bytes_max=BODY_BYTES_MAX // 2))
    request = post(b'{"features":{"a":1}}' + b" " * (BODY_BYTES_MAX // 2))
    head = request.index(b"\r\n\r\n") + 4
    before = len(pair.fast.fast)
    parts = [request[:head], request[head:]]
    assert in_parts(pair.fast.port, parts) == in_parts(pair.slow.port, parts)
    assert len(pair.fast.fast) == before


@pytest.mark.parametrize(("head", "status"), [(post(WIDE, of(b"nobody")), 404), (post(WIDE, of(b"loading")), 503)])
def test_a_request_refused_by_its_head_is_answered_before_its_body(pair: Pair, head: bytes, status: int) -> None:
    refused_at_once(pair, head, status)


@pytest.mark.parametrize(("headers", "status"), [((), 401), ((bearer(OTHER),), 401), ((bearer(OBSERVER),), 403)])
def test_a_request_that_the_gate_refuses_is_answered_before_its_body(
    locked: Pair, headers: tuple[bytes, ...], status: int
) -> None:
    refused_at_once(locked, post(WIDE, b"/predict", *headers), status)


def refused_at_once(pair: Pair, request: bytes, status: int) -> None:
    """Send only the head to both: they answer although no body arrives."""
    answered = []
    for lane in (pair.fast, pair.slow):
        with socket.create_connection(("127.0.0.1", lane.port), timeout=300) as connection:
            connection.sendall(request[: request.index(b"\r\n\r\n") + 4])
            answered.append(DATE.sub(b"", connection.recv(1 << 20)))
    assert answered[0] == answered[1]
    assert answered[0].startswith(b"HTTP/1.1 %d " % status)


def test_a_body_that_is_not_sent_to_its_end_is_refused_by_both(pair: Pair) -> None:
    request = post(WIDE)
    answered = []
    for lane in (pair.fast, pair.slow):
        with socket.create_connection(("127.0.0.1", lane.port), timeout=300) as connection:
            connection.sendall(request[:-5])
            connection.shutdown(socket.SHUT_WR)
            parts = []
            while more := connection.recv(1 << 20):
                parts.append(more)
        answered.append(DATE.sub(b"", b"".join(parts)))
    assert answered[0] == answered[1]
    assert answered[0].startswith(b"HTTP/1.1 400 ")


def test_a_model_that_is_too_old_is_not_answered_from(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pair.whole.engine
    monkeypatch.setattr(engine, "settings", replace(engine.settings, shared=True, max_staleness_s=3600.0))
    for stale, status in ((12.5, 200), (9999.0, 503)):
        monkeypatch.setattr(engine, "unrenewed_s", lambda: stale)  # noqa: B023
        for request in (get(b"?a=1"), post(WIDE), get(b"?a=%41")):
            answered, fast = pair.same(request)
            assert answered.startswith(b"HTTP/1.1 %d " % status)
            assert fast == 1


KEYED: dict[str, tuple[bytes, int]] = {
    "good": (get(b"?a=1", b"/predict", bearer(TOKEN)), 200),
    "good body": (post(WIDE, b"/predict", bearer(TOKEN)), 200),
    "left after the gate": (get(b"?a=1&_explain=true", b"/predict", bearer(TOKEN)), 200),
    "remembering": (post(WIDE, b"/predict?remember=true", bearer(TOKEN)), 403),
    "none": (get(b"?a=1"), 401),
    "no bearer": (get(b"?a=1", b"/predict", b"Authorization: Basic YTpi"), 401),
    "unknown key": (get(b"?a=1", b"/predict", bearer(OTHER)), 401),
    "two keys": (get(b"?a=1", b"/predict", bearer(TOKEN), bearer(OTHER)), 400),
    "other scope": (get(b"?a=1", b"/predict", bearer(OBSERVER)), 403),
    "other model": (get(b"?a=1", of(b"real"), bearer(TOKEN)), 404),
    "no model": (get(b"?a=1", of(b"nobody"), bearer(TOKEN)), 404),
    "bad body without a key": (post(b"{"), 401),
    "head": (get(b"?a=1", b"/predict"), 401),
}


@pytest.mark.parametrize("name", KEYED)
def test_both_paths_let_the_same_clients_through(locked: Pair, name: str) -> None:
    request, status = KEYED[name]
    answered, _ = locked.same(request)
    assert answered.startswith(b"HTTP/1.1 %d " % status), answered


def test_both_paths_count_the_same_requests_against_a_rate(locked: Pair) -> None:
    token = bearer(HASTY)
    statuses = []
    for request in (
        get(b"?a=1", b"/predict", token),
        get(b"?a=1&_explain=true", b"/predict", token),  # comes to the gate once, although both paths see it
        post(WIDE, b"/predict", token),
        get(b"?a=1", b"/predict", token),
    ):
        statuses.append(locked.same(request)[0][9:12])
    assert statuses == [b"200", b"200", b"429", b"429"]


def test_a_cached_key_of_a_connection_is_valid_only_while_the_key_is(locked: Pair) -> None:
    """The key of a connection is not looked up again while its head is the same, unless the key has expired or the keys have
    changed.
    """
    clock = locked.whole.clock
    with socket.create_connection(("127.0.0.1", locked.fast.port), timeout=300) as connection:

        def status(token: str) -> bytes:
            connection.sendall(get(b"?a=1", b"/predict", bearer(token)))
            answered = b""
            while not answered.endswith(b"}"):
                answered += connection.recv(1 << 20)
            return answered[9:12]

        assert [status(token) for token in (BRIEF, BRIEF, TOKEN, OTHER, BRIEF[:-1] + "?", TOKEN, BRIEF)] == [
            b"200", b"200", b"200", b"401", b"401", b"200", b"200",
        ]  # fmt: skip
        clock.now_ms = NOW_MS + 60_000
        assert status(BRIEF) == b"401"
        assert status(TOKEN) == b"200"
        locked.file.ring = ring_of([entry for entry in ENTRIES if entry.id != "reader"])
        assert status(TOKEN) == b"401"
    assert len(locked.fast.fast) == 10


def test_both_paths_count_the_same(locked: Pair) -> None:
    for request, _ in [*FAST.values(), *LEFT.values(), *KEYED.values()]:
        locked.same(request)
    counted = [counts(meters.text()) for meters in (app.state.meters for app in locked.apps)]
    assert counted[0] == counted[1]
    assert any(b'route="/models/{model}/predict"' in line for line in counted[0])
    assert len(counted[0]) > 8


def counts(text: bytes) -> list[bytes]:
    lines = text.splitlines()
    return [line for line in lines if line.startswith((b"riata_requests_total", b"riata_request_duration_seconds_count"))]
