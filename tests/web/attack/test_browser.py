"""A real Chromium shows pages of other origins that try to drive a service without keys.

Every attack runs twice: against a normal service without keys, where nothing may change, and against one without the checks,
where the attacks that can work do work. So the browser really sends what the test believes it sends.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from riata.base.hosts import read_hosts
from riata.web.server.bounds import ListenerState
from tests.settings import connection_bounds
from tests.web.attack.chromium import Chromium, missing_programs, until
from tests.web.serving import Whole, serving

pytestmark = pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}")

EVIL = "evil.example"
PAGE = b"<!doctype html><meta charset=utf-8><title>another site</title><body></body>"
ROW = '{"features":{"a":1},"label":1}'

FORM = """
const [target, path, kind, name, value] = given;
const form = document.body.appendChild(document.createElement('form'));
const frame = document.body.appendChild(document.createElement('iframe'));
Object.assign(form, {method: 'POST', action: target + path, enctype: kind, target: frame.name = 'f' + Math.random()});
Object.assign(form.appendChild(document.createElement('input')), {name, value});
setTimeout(() => form.submit());  // the driver waits for frames that are loading
return 'sent';
"""
FETCH = """
const [target, path, init] = given;
const answer = await fetch(target + path, init);
return `${answer.type} ${answer.status} ${answer.type === 'opaque' ? '' : await answer.text()}`;
"""
IMAGE = """
const [target, path] = given;
await new Promise(done => { const image = new Image(); image.onload = image.onerror = done; image.src = target + path; });
return 'sent';
"""
BEACON = """
const [target, path, body] = given;
return `${navigator.sendBeacon(target + path, body)}`;
"""
SOCKET = """
const [target, path] = given;
const socket = new WebSocket(target.replace('http', 'ws') + path);
return await new Promise(done => { socket.onopen = () => done('open'); socket.onerror = () => done('refused'); });
"""


@dataclass(frozen=True)
class Attack:
    """What a page does, and what may come of it.

    works  : whether it changes something where nothing is checked
    refused: the code with which it is refused; empty if the browser itself, or the route, keeps it from changing anything
    """

    script: str
    path: str
    arguments: tuple[Any, ...] = ()
    works: bool = True
    refused: str = "cross_site"


def simple(method: str, body: str | None, kind: str = "text/plain") -> dict[str, Any]:
    """A request that a page may send to any site without a preflight."""
    return {"method": method, "mode": "no-cors", "headers": {"Content-Type": kind}, "body": body}


def asked_first(method: str, body: str | None = None) -> dict[str, Any]:
    """A request that the browser precedes with a preflight (OPTIONS)."""
    return {"method": method, "mode": "cors", "headers": {"Content-Type": "application/json"}, "body": body}


URL_ENCODED, PLAIN = "application/x-www-form-urlencoded", "text/plain"
ATTACKS = {
    "form, snapshot": Attack(FORM, "/models/default/snapshots", (URL_ENCODED, "a", "1"), works=False),
    "form of text, observe": Attack(FORM, "/observe", (PLAIN, '{"features":{"a":1},"label":1,"x":"', '"}'), works=False),
    "form of text, restore": Attack(FORM, "/models/default/restore", (PLAIN, '{"generation":1,"x":"', '"}'), works=False),
    "fetch without cors, observe": Attack(FETCH, "/observe", (simple("POST", ROW),), works=False),
    "fetch without cors, snapshot": Attack(FETCH, "/models/default/snapshots", (simple("POST", None),)),
    "fetch without cors, remembered": Attack(
        FETCH, "/predict?remember=true", (simple("POST", '{"features":{"a":1}}'),), works=False
    ),
    "image, remembered": Attack(IMAGE, "/predict?a=1&_remember=true", works=False, refused=""),
    "image, export": Attack(IMAGE, "/models/default/export"),
    "beacon, snapshot": Attack(BEACON, "/models/default/snapshots", ("",)),
    "web socket, export": Attack(SOCKET, "/models/default/export"),
    "put": Attack(FETCH, "/models/new", (asked_first("PUT", "{}"),), works=False, refused=""),
    "patch": Attack(FETCH, "/models/default", (asked_first("PATCH", '{"publish_every_ms":50}'),), works=False, refused=""),
    "delete": Attack(FETCH, "/models/other?confirm=other", (asked_first("DELETE"),), works=False, refused=""),
    "post of json": Attack(FETCH, "/observe", (asked_first("POST", ROW),), works=False, refused=""),
}


@dataclass(frozen=True)
class Target:
    """A service under attack."""

    port: int
    front: ListenerState
    service: Whole

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def state(self) -> list[Any]:
        """What a request could have changed, also snapshots that nobody asked for: an export writes one."""
        written = self.service.call(lambda store: [store.generations(name) for name in store.models()])
        return [self.service.state(), [[one.gen for one in generations] for generations in written]]

    def generations(self) -> list[int]:
        """The snapshots of the default model that somebody asked for."""
        found: list[int] = self.service.state()[0][2]
        return found

    def renew(self) -> None:
        self.service.do(self.service.stock("default", "other"))
        if "new" in self.service.models:
            self.service.do(self.service.admin.drop_model("new"))
        self.front.refused.clear()


class Page(BaseHTTPRequestHandler):
    """The page of another origin: empty; the scripts come from the test."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def begin(stack: ExitStack, hosts: bool) -> Target:
    whole = Whole()
    front = ListenerState(connection_bounds(), hosts=read_hosts("", "127.0.0.1") if hosts else None)
    port = stack.enter_context(serving(whole.app(), front=front))
    whole.until_ready()
    return Target(port, front, whole)


@pytest.fixture(scope="module")
def targets(parser_loaded: None) -> Iterator[dict[str, Target]]:  # noqa: ARG001
    with ExitStack() as stack:
        yield {"checked": begin(stack, hosts=True), "unchecked": begin(stack, hosts=False)}


@pytest.fixture
def guarded(targets: dict[str, Target]) -> Target:
    targets["checked"].renew()
    return targets["checked"]


@pytest.fixture
def unchecked(targets: dict[str, Target]) -> Target:
    targets["unchecked"].renew()
    return targets["unchecked"]


@pytest.fixture(scope="module")
def page() -> Iterator[int]:
    """The port of the other origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=partial(server.serve_forever, 0.05))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    directory: Path = tmp_path_factory.mktemp("chromium")
    with Chromium(directory, (EVIL,)) as found:
        yield found


# The same machine by another name is another site; by the same name on another port it is the same site, another origin.
@pytest.mark.parametrize("origin", ["127.0.0.1", "localhost", EVIL])
@pytest.mark.parametrize("name", ATTACKS)
def test_a_page_of_another_origin_changes_nothing(
    browser: Chromium, page: int, guarded: Target, unchecked: Target, name: str, origin: str
) -> None:
    attack = ATTACKS[name]
    browser.open(f"http://{origin}:{page}/")
    for target in (unchecked, guarded):
        before = target.state()
        reported = browser.run(attack.script, target.url, attack.path, *attack.arguments)
        assert not reported.startswith(("basic", "cors")), reported  # the page reads no answer
        assert reported != "open"
        if target is guarded:
            if attack.refused:
                until("it is refused", lambda: target.front.refused[attack.refused] > 0)  # noqa: B023
            assert set(target.front.refused) == ({attack.refused} if attack.refused else set())
            assert target.state() == before
        elif attack.works:
            until("the attack works where nothing is checked", lambda: target.state() != before)  # noqa: B023


JSON = {"Content-Type": "application/json"}
REBOUND: dict[str, tuple[str, dict[str, Any]]] = {
    "export": ("/models/default/export", {}),
    "weights": ("/models/default/weights", {}),
    "predict": ("/predict?a=1", {}),
    "observe": ("/observe", {"method": "POST", "headers": JSON, "body": ROW}),
    "restore": ("/models/default/restore", {"method": "POST", "headers": JSON, "body": '{"generation":1}'}),
    "delete": ("/models/other?confirm=other", {"method": "DELETE"}),
    "docs": ("/docs", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", REBOUND)
def test_a_rebound_name_reads_and_changes_nothing(browser: Chromium, guarded: Target, unchecked: Target, name: str) -> None:
    """DNS rebinding: for the browser, the script and the service have the same origin."""
    path, init = REBOUND[name]
    for target, status in ((unchecked, "basic 2"), (guarded, "basic 421 ")):
        browser.open(f"http://{EVIL}:{target.port}/livez")
        before = target.state()
        reported = browser.run(FETCH, "", path, init)
        assert reported.startswith(status), reported
        if target is guarded:
            assert "host_not_allowed" in reported
            assert target.state() == before
            assert set(target.front.refused) == {"host_not_allowed"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_the_service_itself_may_do_everything(browser: Chromium, guarded: Target, host: str) -> None:
    first = guarded.service.logged()
    browser.open(f"http://{host}:{guarded.port}/docs")
    for path, init in REBOUND.values():
        assert browser.run(FETCH, "", path, init).startswith("basic 2")
    put = {**asked_first("PUT", "{}"), "mode": "same-origin"}
    assert browser.run(FETCH, "", "/models/new", put).startswith("basic 201")
    before = len(guarded.generations())
    assert browser.run(BEACON, "", "/models/default/snapshots", "") == "true"
    until("the beacon arrives", lambda: len(guarded.generations()) > before)
    assert not guarded.front.refused
    assert guarded.service.logged() == first + 2
    assert guarded.service.models == {"default", "new"}


def test_requests_from_the_contract_page_work(browser: Chromium, guarded: Target) -> None:
    """Swagger UI as a user operates it: open an operation, fill in the model, execute."""
    before = len(guarded.generations())
    browser.open(f"{guarded.url}/docs")
    operation = "#operations-snapshots-post_models_model_snapshots"
    browser.click(f"{operation} .opblock-summary-control")
    browser.type(f"{operation} tr[data-param-name=model] input", "default")
    browser.click(f"{operation} button.execute")
    until("it answers", lambda: "201" in browser.text(f"{operation} .live-responses-table tr.response .response-col_status"))
    assert len(guarded.generations()) == before + 1
    assert not guarded.front.refused
