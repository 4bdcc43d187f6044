"""Requests that web pages of other sites have browsers send to a service without keys.

Over raw sockets, to a server with the fast path and to one without, which give the same bytes. What a browser really sends is
`test_browser.py`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from riata.base.errors import BadInput
from riata.base.hosts import read_hosts
from riata.base.read_settings import load_settings
from riata.web.api.routes.console import build
from riata.web.api.routes.table import ROUTE_AT
from riata.web.auth.gate import Buckets, Gate, KeysFile
from riata.web.auth.keys import entry_text
from riata.web.server.bounds import ListenerState
from riata.wiring import hosts_of
from tests.doubles.manual_clock import ManualClock
from tests.running import Running
from tests.settings import connection_bounds
from tests.web.attack.raw import ROW, Reply, listen_to, read_replies, talk, whole_replies
from tests.web.attack.test_keys import BINARY, BODIES, made
from tests.web.serving import Whole, exported, serving

ALLOWED = "riata.example, 10.1.0.0/16, [2001:db8::7]"
DATE = re.compile(rb"\r\ndate: [^\r]+")
HERE = b"Host: localhost:8080"
FOREIGN = (
    b"Sec-Fetch-Site: cross-site",
    b"Sec-Fetch-Site: same-site",
    b"Sec-Fetch-Site: Cross-Site ",
    b"Sec-Fetch-Site: something-new",
    b"Sec-Fetch-Site: same-origin\r\nOrigin: http://evil.example",
    b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Site: same-origin",
    b"Origin: http://evil.example",
    b"Origin: null",
    b"Origin: http://localhost:9000",
    b"Origin: http://localhost",
    b"Origin: https://localhost:8080.evil.example",
    b"Origin: http://localhost:8080@evil.example",
    b"Origin: file://localhost:8080",
    b"Origin: http://localhost:8080 http://evil.example",
    b"Origin: http://localhost:8080\r\nOrigin: http://evil.example",
    b"Origin: http://evil.example\r\nOrigin: http://localhost:8080",
    b"Origin: http://127.0.0.1:8080",
)
OWN = (
    b"X-Program: curl",
    b"Sec-Fetch-Site: none",
    b"Sec-Fetch-Site: same-origin",
    b"sec-fetch-site:SAME-ORIGIN\r\norigin:http://LOCALHOST:8080",
    b"Origin: http://localhost:8080",
    b"Origin: https://localhost:8080",
)


# Refusals by a service in memory, whose models have no challengers, no sketch and no result of a refit.
OF_THE_SERVICE = {
    "no_backup",
    "not_a_challenger",
    "no_refit",
    "not_promotable",
    "no_events",
    "no_sketch",
    "refit_running",
    "refit_ended",
    "job_ended",
}


@dataclass(frozen=True)
class Served:
    """A server, and the service behind it."""

    port: int
    front: ListenerState
    service: Whole

    def state(self) -> list[Any]:
        """What a request could have changed, as far as two services can have it in common."""
        return [(name, head.seq, generations, remembered) for name, head, generations, remembered in self.service.state()]


@dataclass(frozen=True)
class Both:
    """The same service twice: with and without the fast path."""

    fast: Served
    slow: Served

    def same(self, *parts: bytes) -> Reply:
        """Send the request to both; returns the answer. Refusals must be equal; other answers tell of times, and of logs with
        other names. Neither sends anything else, and both change in the same way.
        """
        received = [told(served.port, b"".join(parts)) for served in (self.fast, self.slow)]
        (reply,), (other,) = (read_replies(one) for one in received)
        if passed(reply):
            assert (reply.status, reply.code, reply.headers.keys()) == (other.status, other.code, other.headers.keys())
        else:
            assert received[0] == received[1]
        assert self.fast.state() == self.slow.state()
        return reply

    def renew(self) -> None:
        """Bring back what requests name."""
        for served in (self.fast, self.slow):
            served.service.do(served.service.stock("default", "mine"))


def passed(reply: Reply) -> bool:
    """Whether a request was let through to the service: it is answered, or refused for what this service is."""
    return reply.status < 400 or reply.code in OF_THE_SERVICE


def told(port: int, request: bytes) -> bytes:
    """The bytes of one answer, without its date."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
        connection.sendall(request)
        while not whole_replies(received):
            part = connection.recv(1 << 20)
            assert part, received
            received += part
    return DATE.sub(b"", received)


def begin(stack: ExitStack, allowed: str | None, fast: bool) -> Served:
    whole = Whole()
    front = ListenerState(connection_bounds(), hosts=None if allowed is None else read_hosts(allowed, "127.0.0.1"))
    port = stack.enter_context(serving(whole.app(fast_path=fast), front=front))
    whole.until_ready()
    return Served(port, front, whole)


def pair(allowed: str | None) -> Iterator[Both]:
    with ExitStack() as stack:
        yield Both(*(begin(stack, allowed, fast) for fast in (True, False)))


@pytest.fixture(scope="module")
def guarded(parser_loaded: None) -> Iterator[Both]:  # noqa: ARG001
    yield from pair(ALLOWED)


@pytest.fixture(scope="module")
def unguarded(parser_loaded: None) -> Iterator[Both]:  # noqa: ARG001
    """As if keys were required: the host is not checked, and a page has no key to send."""
    yield from pair(None)


@pytest.fixture
def both(guarded: Both) -> Both:
    guarded.renew()
    return guarded


def request(method: str, template: str, *headers: bytes, host: bytes = HERE, target: bytes | None = None) -> bytes:
    """A request to a route that would be answered, with a body if the route reads one."""
    path = template.replace("{model}", "mine").replace("{build}/{asset}", f"{build()}/app.js")
    path = path.replace("{build}/{folder}/{asset}", f"{build()}/pages/data.js")
    path = path.replace("{asset}", "start.js").replace("{refit}", "r1").replace("{job}", "f1").replace("{generation}", "1")
    verb = template.removeprefix("/models/{model}").strip("/") if template.startswith("/models/") else template.strip("/")
    body, kind = (exported(), BINARY) if verb == "import" else BODIES.get((method, verb), (b"", "application/json"))
    query = "?confirm=mine" if (method, verb) == ("DELETE", "") else "?a=1" if (method, verb) == ("GET", "predict") else ""
    query = "?events=1" if verb == "stream" else query
    lines = [f"{method} ".encode() + (target or f"{path}{query}".encode()) + b" HTTP/1.1", host, *headers]
    lines += [b"Content-Type: " + kind.encode(), b"Content-Length: %d" % len(body)] if body else []
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


CHANGING = [at for at, route in ROUTE_AT.items() if route.method != "GET" or route.writes]
READING = [at for at in ROUTE_AT if at not in CHANGING]


# -- for which host a request is


@pytest.mark.parametrize(("method", "template"), ROUTE_AT)
def test_no_route_answers_under_the_name_of_another_site(both: Both, method: str, template: str) -> None:
    """DNS rebinding: for the browser the page and this service are one site, so that it may send, and read, anything."""
    before = both.fast.state()
    refused = both.same(request(method, template, host=b"Host: evil.example:8080"))
    assert (refused.status, refused.code, refused.headers["connection"]) == (421, "host_not_allowed", "close")
    assert b"allowed_hosts" in refused.body
    assert b"evil" not in refused.body
    assert both.fast.state() == before
    assert passed(both.same(request(method, template)))


@pytest.mark.parametrize(
    "host",
    [
        *(b"localhost", b"LocalHost:1", b"localhost.", b"127.0.0.1", b"127.0.0.1:65535", b"127.8.9.10:80", b"[::1]:8080"),
        *(b"[0:0:0:0:0:0:0:1]", b"riata.example", b"RIATA.example.:80", b"10.1.255.255:8080", b"[2001:db8:0::7]"),
        b"127.0.0.1 ",
    ],
)
def test_hosts_that_are_this_service(both: Both, host: bytes) -> None:
    assert both.same(request("GET", "/livez", host=b"Host: " + host)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        *(b"", b":8080", b"evil.example", b"localhost.evil.example", b"evil.localhost", b"127.0.0.1.evil.example", b"127.1"),
        *(
            b"2130706433",
            b"0x7f.0.0.1",
            b"0.0.0.0",
            b"192.168.1.5",
            b"10.2.0.1",
            b"[::]",
            b"[::ffff:127.0.0.1]",
            b"[2001:db8::8]",
        ),
        *(b"xriata.example", b"riata.example.evil", b"localhost,evil.example", b"evil.example%00localhost", b"*"),
    ],
)
def test_hosts_that_are_not(both: Both, host: bytes) -> None:
    before = both.fast.state()
    refused = both.same(request("POST", "/observe", host=b"Host: " + host))
    assert (refused.status, refused.code) == (421, "host_not_allowed")
    assert both.fast.state() == before


def test_every_host_is_answered_if_the_operator_allows_it() -> None:
    with ExitStack() as stack:
        served = begin(stack, "*", fast=True)
        assert talk(served.port, request("GET", "/livez", host=b"Host: evil.example")).told == [(200, "")]


def test_a_host_is_looked_at_in_every_head_of_a_connection(both: Both) -> None:
    for served in (both.fast, both.slow):
        good, bad = request("GET", "/predict"), request("GET", "/predict", host=b"Host: evil.example")
        received = talk(served.port, good * 3 + bad + good, awaited=4)
        assert received.told == [(200, "")] * 3 + [(421, "host_not_allowed")]
        assert received.closed


@pytest.mark.parametrize(
    "target",
    [
        *(b"http://evil.example/observe", b"http://localhost:8081/observe", b"http://localhost/observe"),
        *(b"http://localhost:8080@evil.example/observe", b"http://localhost:8080.evil.example/observe", b"ftp://localhost:8080/"),
        *(
            b"https://localhost/observe",
            b"http:///observe",
            b"localhost:8080/observe",
            b"//localhost:8080",
            b"http://127.0.0.1:8080/",
        ),
    ],
)
def test_a_target_that_names_another_host_than_the_header_is_refused(both: Both, unguarded: Both, target: bytes) -> None:
    for pair in (both, unguarded):
        before = pair.fast.state()
        refused = pair.same(request("POST", "/observe", target=target))
        assert refused.status in ((400,) if not target.startswith(b"//") else (404,)), refused
        assert refused.code in ("bad_target", "malformed_request", "no_such_route")
        assert pair.fast.state() == before


@pytest.mark.parametrize("target", [b"http://localhost:8080/observe", b"HTTP://LOCALHOST:8080/observe"])
def test_a_target_that_names_the_host_of_the_header_is_answered(both: Both, target: bytes) -> None:
    assert both.same(request("POST", "/observe", target=target)).status == 202
    both.renew()
    plain = request("POST", "/observe", host=b"Host: localhost", target=b"http://localhost:80/observe")
    assert both.same(plain).status == 202
    foreign = request("GET", f"{'/models/{model}'}/export", FOREIGN[0], target=b"http://localhost:8080/models/mine/export")
    assert both.same(foreign).code == "cross_site"


def test_an_old_client_without_a_host_is_answered_and_none_that_names_one_in_its_target(both: Both) -> None:
    """No browser speaks HTTP/1.0."""
    plain = b"GET %b HTTP/1.0\r\n\r\n"
    for served in (both.fast, both.slow):
        assert talk(served.port, plain % b"/livez").told == [(200, "")]
        assert talk(served.port, plain % b"http://evil.example/livez").told == [(421, "host_not_allowed")]


# -- which page has sent it


@pytest.mark.parametrize("header", FOREIGN)
@pytest.mark.parametrize(("method", "template"), CHANGING)
def test_a_page_of_another_origin_changes_nothing(both: Both, method: str, template: str, header: bytes) -> None:
    before = both.fast.state()
    refused = both.same(request(method, template, header))
    assert (refused.status, refused.code, refused.headers["connection"]) == (403, "cross_site", "close")
    assert b"evil" not in refused.body
    assert both.fast.state() == before


@pytest.mark.parametrize("header", OWN)
@pytest.mark.parametrize(("method", "template"), CHANGING)
def test_a_page_of_this_service_and_a_program_may(both: Both, method: str, template: str, header: bytes) -> None:
    answer = both.same(request(method, template, header))
    ended = {"/models/{model}/refits/{refit}": "refit_ended", "/jobs/{job}": "job_ended"}
    if method == "DELETE" and template in ended:
        assert (answer.status, answer.code) == (409, ended[template])  # it got there: the one refit, or job, has ended
    else:
        assert passed(answer)


@pytest.mark.parametrize("header", [*FOREIGN, *OWN])
@pytest.mark.parametrize(("method", "template"), READING)
def test_requests_that_change_nothing_are_answered_for_every_origin(
    both: Both, method: str, template: str, header: bytes
) -> None:
    """The browser hides the answer from a page of another origin."""
    before = both.fast.state()
    reply = both.same(request(method, template, header))
    assert reply.status == both.same(request(method, template)).status
    assert reply.code != "cross_site"
    assert not any("access-control" in name for name in reply.headers)
    assert both.fast.state() == before


@pytest.mark.parametrize(
    "path",
    [b"/models/mine/%65xport", b"/models/mine/export?format=json", b"/%6dodels/mine/expor%74", b"/models/mine/export#a"],
)
def test_an_export_is_one_however_its_path_is_written(both: Both, path: bytes) -> None:
    assert both.same(request("GET", "/x", FOREIGN[0], target=path)).code == "cross_site"
    assert both.same(request("GET", "/x", target=path)).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "PROPFIND", "POST"])
def test_unknown_routes_and_methods_say_no_more_to_a_foreign_page(both: Both, method: str) -> None:
    assert both.same(request(method, "/nowhere", FOREIGN[0])).code == "cross_site"
    assert both.same(request(method, "/nowhere")).code in ("no_such_route", "method_not_allowed")


def test_a_preflight_is_never_granted(both: Both) -> None:
    asked = (b"Origin: http://evil.example", b"Access-Control-Request-Method: DELETE", b"Sec-Fetch-Site: cross-site")
    reply = both.same(request("OPTIONS", "/models/{model}", *asked))
    assert (reply.status, reply.code) == (405, "method_not_allowed")
    assert not any("access-control" in name for name in reply.headers)


def test_a_remembered_prediction_is_asked_for_by_post_alone(both: Both) -> None:
    """An image can send a GET, and a remembered prediction takes memory for a week."""
    before = both.fast.state()
    for path in (b"/predict", b"/models/mine/predict"):
        for value in (b"true", b"false", b"1", b""):
            refused = both.same(request("GET", "/x", target=path + b"?a=1&_remember=" + value))
            assert (refused.status, refused.code) == (422, "remember_by_post")
            assert b"POST" in refused.body
        assert both.fast.state() == before
        posted = b"POST " + path + b"?remember=true HTTP/1.1\r\n" + HERE + b"\r\nContent-Type: application/json\r\n"
        row = b'{"features":{"a":1}}'
        assert both.same(posted + b"Content-Length: %d\r\n\r\n" % len(row) + row).status == 200
        assert both.fast.state() != before
        before = both.fast.state()


def test_a_head_that_is_known_is_not_taken_for_one_that_a_foreign_page_sends(both: Both) -> None:
    """The head before it on the connection was usual."""
    row = b'{"features":{"a":1}}'
    head = b"POST /predict HTTP/1.1\r\n" + HERE + b"\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    own, foreign = (head % (more, len(row)) + row for more in (b"", FOREIGN[0] + b"\r\n"))
    with socket.create_connection(("127.0.0.1", both.fast.port), timeout=300) as connection:
        for _ in range(5):
            connection.sendall(own)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        connection.sendall(foreign)
        assert listen_to(connection).told == [(403, "cross_site")]


def test_refusals_are_counted(both: Both) -> None:
    for served in (both.fast, both.slow):
        served.front.refused.clear()
        talk(served.port, request("GET", "/livez", host=b"Host: evil.example"))
        talk(served.port, request("POST", "/observe", FOREIGN[0]))
        assert served.front.refused == {"host_not_allowed": 1, "cross_site": 1}


def test_with_keys_neither_host_nor_origin_is_checked(unguarded: Both) -> None:
    """A page has no key, and a browser adds none. Behind a proxy, Host and Origin may have any value."""
    unguarded.renew()
    assert unguarded.same(request("POST", "/observe", FOREIGN[0], FOREIGN[6], host=b"Host: anything.example")).status == 202
    assert unguarded.fast.service.logged() == 2


def test_the_body_of_a_refused_request_is_no_request(both: Both) -> None:
    inner = request("POST", "/observe")
    before = both.fast.state()
    sent = request("POST", "/observe", FOREIGN[0]).replace(b"Content-Length: %d" % len(ROW), b"Content-Length: %d" % len(inner))
    for served in (both.fast, both.slow):
        assert talk(served.port, sent[: sent.index(b"\r\n\r\n") + 4] + inner).told == [(403, "cross_site")]
        assert served.state() == before


# -- the service itself: what is wired


def asked(port: int, *headers: bytes, method: bytes = b"GET", path: bytes = b"/metrics") -> list[tuple[int, str]]:
    return talk(port, b"\r\n".join([method + b" " + path + b" HTTP/1.1", *headers]) + b"\r\n\r\n", silence_s=0.3).told


def probes_of(running: Running) -> int:
    found = re.search(r"probes and metrics on http://127\.0\.0\.1:(\d+)", Path(f"{running.directory}.log").read_text())
    assert found is not None
    return int(found[1])


def test_the_service_without_keys_and_its_health_listener_look_at_the_host(tmp_path: Path) -> None:
    environment = {"RIATA_HEALTH_PORT": "0", "RIATA_ALLOWED_HOSTS": "riata.example"}
    with Running(tmp_path / "data", environment) as running:
        running.start()
        for host, service, health in (
            (b"localhost:1", 200, 200),
            (b"riata.example:8080", 200, 200),
            (b"evil.example", 421, 421),
            (b"10.244.3.17:8081", 421, 200),  # probes come by an address, and no page rebinds one
        ):
            assert [status for status, _ in asked(running.port, b"Host: " + host)] == [service]
            assert [status for status, _ in asked(probes_of(running), b"Host: " + host)] == [health]
        post = {"method": b"POST", "path": b"/models/default/snapshots"}
        assert asked(running.port, b"Host: localhost", FOREIGN[0], **post) == [(403, "cross_site")]
        assert asked(running.port, b"Host: localhost", b"Content-Length: 0", **post) == [(201, "")]
        figures = httpx.get(f"{running.url}/metrics").text
        for code in ("host_not_allowed", "cross_site"):
            assert re.search(rf'riata_connections_refused_total{{code="{code}"}} [1-9]', figures)


def test_the_service_with_keys_asks_for_them_whatever_the_host(tmp_path: Path) -> None:
    token, entry = made("k", ["admin"])
    file = tmp_path / "keys.toml"
    file.touch(0o600)
    file.write_text(entry_text(entry))
    key = b"Authorization: Bearer " + token.encode()
    with Running(tmp_path / "data", {"RIATA_KEYS_FILE": str(file), "RIATA_HEALTH_PORT": "0"}) as running:
        running.start()
        host = b"Host: behind.a.proxy"
        assert asked(running.port, host) == [(401, "unauthenticated")]
        assert asked(running.port, host, key, FOREIGN[0]) == [(200, "")]
        post = {"method": b"POST", "path": b"/models/default/snapshots"}
        assert asked(running.port, host, b"Content-Length: 0", FOREIGN[0], **post) == [(401, "unauthenticated")]
        assert asked(running.port, host, key, b"Content-Length: 0", FOREIGN[0], **post) == [(201, "")]
        assert asked(probes_of(running), host) == [(421, "host_not_allowed")]


@pytest.mark.parametrize("allowed", ["http://a", "a:8080", "a b", "-a", "[::1]:80", "a,,b/8", "a;b"])
def test_a_setting_that_names_no_host_is_refused_at_the_start(allowed: str) -> None:
    assert load_settings({"allowed_hosts": "a, B.example,10.0.0.0/8 ,[::1],fd00::/8,*,"}).allowed_hosts
    with pytest.raises(BadInput, match=r"--allowed-hosts: .* is not a host name, an address"):
        load_settings({"allowed_hosts": allowed})


def test_a_service_that_other_machines_reach_says_which_hosts_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate(ManualClock(0), None, Buckets(0.0, 0.0))
    for host, allowed, warned in (("127.0.0.1", "", False), ("0.0.0.0", "", True), ("0.0.0.0", "a", False)):
        caplog.clear()
        found = hosts_of(load_settings({"host": host, "allowed_hosts": allowed, "allow_unauthenticated": True}), gate)
        assert found is not None
        assert ("allowed_hosts" in caplog.text) == warned
        assert found.answers(host.encode())
    assert hosts_of(load_settings({}), Gate(ManualClock(0), KeysFile(Path("/nowhere")), Buckets(0.0, 0.0))) is None
