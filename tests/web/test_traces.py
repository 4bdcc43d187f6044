"""Traces of requests, made with the OpenTelemetry SDK: the spans of each way through the service, and sending them."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="there is no opentelemetry")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from riata.base.settings import Settings
from riata.run.admin import Admin
from riata.run.service import Service
from riata.web import spans as spans_module
from riata.web.app import create_app
from riata.web.server.fast_path import FastPath
from riata.web.settings import INLINE_BYTES_MAX
from riata.web.spans import Spans, open_spans
from riata.web.traced import TracedRequests, TracedService, trace_requests
from riata.wiring import build_engine
from tests.cli.test_verbs import run
from tests.redis_server import RedisServer
from tests.running import HANG_S, Running
from tests.settings import web_settings
from tests.web.attack.raw import post, talk
from tests.web.serving import real_app, serving, wait_until_ready

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{CALLER}-01", f"00-{TRACE}-{CALLER}-00"
AROUND = {"proxy-connection": "keep-alive"}  # a head that is not plain: answered through ASGI
ROW: Any = {"features": {"a": 1}, "label": 1}


@dataclass
class Traced:
    """A service that traces into memory."""

    url: str
    session: requests.Session
    kept: InMemorySpanExporter

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        """Send one request."""
        return self.session.request(method, self.url + path, **more)

    def spans(self, count: int) -> list[Any]:
        """Wait until `count` spans of requests are there, and return all spans, the oldest first: by their start."""
        deadline = time.monotonic() + HANG_S
        while sum(span.kind.name == "SERVER" for span in self.kept.get_finished_spans()) < count and time.monotonic() < deadline:
            time.sleep(0.002)
        return sorted(self.kept.get_finished_spans(), key=lambda span: (span.start_time, span.kind.name == "INTERNAL"))

    def one(self, method: str, path: str, **more: Any) -> tuple[Any, list[Any]]:
        """Send one request; return its span, and those below it."""
        self.kept.clear()
        self.ask(method, path, **more)
        first, *below = self.spans(1)
        assert {span.parent.span_id for span in below} <= {first.context.span_id}
        assert all(first.start_time <= span.start_time <= span.end_time <= first.end_time for span in below)
        return first, below


@contextmanager
def tracing_into(spans: Spans) -> Iterator[tuple[str, requests.Session]]:
    """Serve a traced service on a store in memory."""
    engine = build_engine(Settings(store="memory:"), pytest.fail)
    app = create_app(TracedService(engine), Admin(engine), web_settings(), engine.clock)
    trace_requests(app, spans)
    with serving(app) as port, requests.Session() as session:
        wait_until_ready(f"http://127.0.0.1:{port}", session)
        yield f"http://127.0.0.1:{port}", session


@pytest.fixture(scope="module")
def traced() -> Iterator[Traced]:
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with tracing_into(Spans(provider)) as (url, session):
        yield Traced(url, session, kept)


def rows(count: int, features: int = 1) -> bytes:
    """A body of rows with labels."""
    line = json.dumps({"features": {f"f{at}": 1 for at in range(features)}, "label": 1})
    return "\n".join([line] * count).encode()


def names(spans: list[Any]) -> list[str]:
    return [span.name for span in spans]


@pytest.mark.parametrize("more", [{}, AROUND])
def test_a_small_request_to_observe_continues_the_trace_of_its_caller(more: dict[str, str], traced: Traced) -> None:
    span, below = traced.one("POST", "/observe", json=ROW, headers={"TraceParent": SAMPLED, **more})
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, CALLER)
    assert (span.name, span.kind.name, span.status.status_code.name) == ("POST /observe", "SERVER", "UNSET")
    assert dict(span.attributes) == {
        "http.request.method": "POST", "http.route": "/observe", "http.response.status_code": 202,
        "riata.model": "default", "riata.rows": 1,
    }  # fmt: skip
    assert (names(below), below[0].end_time > below[0].start_time) == (["append"], True)
    assert abs(time.time() - span.end_time / 1e9) < HANG_S


@pytest.mark.parametrize("more", [{}, AROUND])
def test_a_prediction_is_one_span(more: dict[str, str], traced: Traced) -> None:
    span, below = traced.one("GET", "/models/default/predict?a=1", headers={"traceparent": SAMPLED, **more})
    assert (span.name, span.attributes["riata.rows"], below) == ("GET /models/{model}/predict", 1, [])
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, CALLER)
    span, below = traced.one("POST", "/predict", json=[{"features": {"a": 1}}] * 3, headers=more)
    assert (span.attributes["riata.rows"], span.parent, below) == (3, None, [])


@pytest.mark.parametrize("parent", ["00-1-2-01", "x", SAMPLED[:-3]])
def test_a_header_that_names_no_trace_is_ignored(parent: str, traced: Traced) -> None:
    assert traced.one("GET", "/predict?a=1", headers={"traceparent": parent})[0].parent is None
    assert traced.one("GET", "/models", headers={"traceparent": parent})[0].parent is None


def test_a_header_is_not_looked_for_in_the_body(traced: Traced) -> None:
    header = f"traceparent: {SAMPLED}".encode()
    body, port = b'{"features":{"a":1},"label":1}\r\n%b\r\n' % header, int(traced.url.rpartition(":")[2])
    for headers, parent in (((), None), ((header,), int(CALLER, 16))):
        traced.kept.clear()
        talk(port, post(body, *headers), silence_s=0.01)  # head and body arrive together
        (span,) = (one for one in traced.spans(1) if one.name == "POST /observe")
        assert (span.parent and span.parent.span_id) == parent


def test_what_the_caller_does_not_sample_is_not_traced(traced: Traced) -> None:
    traced.kept.clear()
    traced.ask("POST", "/observe?wait=applied", json=ROW, headers={"traceparent": NOT_SAMPLED})
    traced.ask("GET", "/predict?a=1")
    assert names(traced.spans(1)) == ["GET /predict"]


def test_waiting_for_the_learner_is_a_stage_after_the_log(traced: Traced) -> None:
    for body, count in ((rows(1), 1), (rows(50, 200), 50)):  # batched with others; on its own
        span, below = traced.one("POST", "/observe?wait=applied", data=body, headers={"content-type": "application/x-ndjson"})
        assert (span.attributes["http.response.status_code"], span.attributes["riata.rows"]) == (200, count)
        assert (names(below), below[0].end_time <= below[1].start_time) == (["append", "learn"], True)


def test_rows_on_their_own_and_long_bodies_wait_for_the_log_too(traced: Traced) -> None:
    kind = {"content-type": "application/x-ndjson", "traceparent": SAMPLED}
    bad_row = rows(1) + b'\n{"features": {"a": "x"}, "label": 7}'
    span, below = traced.one("POST", "/observe", data=bad_row, headers=kind)  # leaves its batch
    assert (span.attributes["http.response.status_code"], span.attributes["riata.rows"], names(below)) == (202, 2, ["append"])
    long = rows(400, 100)
    assert len(long) > INLINE_BYTES_MAX
    span, below = traced.one("POST", "/observe", data=long, headers=kind)
    assert (span.attributes["riata.rows"], f"{span.context.trace_id:032x}", names(below)) == (400, TRACE, ["append"])
    span, below = traced.one("POST", "/observe", data=b'{"label": 7}\n' * 2, headers=kind)
    assert (span.attributes["http.response.status_code"], below) == (422, [])


def test_a_remembered_prediction_waits_for_the_log(traced: Traced) -> None:
    span, below = traced.one("POST", "/predict?remember=true", json={"features": {"a": 1}})
    assert (span.attributes["riata.rows"], names(below)) == (1, ["append"])


def test_requests_outside_the_fast_path_have_one_span_each(traced: Traced) -> None:
    span, below = traced.one("GET", "/models/default", headers={"traceparent": SAMPLED})
    assert (span.name, span.attributes["riata.model"], below) == ("GET /models/{model}", "default", [])
    assert f"{span.parent.span_id:016x}" == CALLER
    span, _ = traced.one("HEAD", "/predict?a=1")
    assert (span.name, span.attributes["riata.rows"]) == ("HEAD /predict", 1)
    span, _ = traced.one("GET", f"/models/{'x' * 500}")
    assert (span.attributes["http.response.status_code"] >= 400, "riata.model" in span.attributes) == (True, False)
    span, _ = traced.one("GET", "/nothing/there")
    assert (span.name, span.attributes["http.response.status_code"], "http.route" in span.attributes) == ("GET", 404, False)


def test_a_fault_of_the_service_is_an_error_and_one_of_the_client_is_not(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    assert traced.one("GET", "/models/none/predict?a=1")[0].status.status_code.name == "UNSET"

    def fail(_self: Service, _model: str) -> None:
        raise RuntimeError("an internal fault")

    monkeypatch.setattr(Service, "describe", fail)
    span, _ = traced.one("GET", "/models/default")
    assert (span.attributes["http.response.status_code"], span.status.status_code.name) == (500, "ERROR")


def test_without_traces_nothing_of_them_is_in_the_way() -> None:
    app = real_app()
    assert (type(app.state.fast_path), app.state.fast_path.handle.__func__) == (FastPath, FastPath.handle)
    middleware: list[object] = [of.cls for of in app.user_middleware]
    assert TracedRequests not in middleware


# -- the collector


@dataclass
class Collector:
    """What an OTLP receiver got: by path, the requests."""

    port: int = 0
    got: list[tuple[str, ExportTraceServiceRequest]] = field(default_factory=list)

    def spans(self) -> list[Any]:
        return [span for _, one in self.got for of in one.resource_spans for scope in of.scope_spans for span in scope.spans]

    def service(self) -> dict[str, str]:
        """The attributes of the first resource that are text."""
        return {of.key: of.value.string_value for of in self.got[0][1].resource_spans[0].resource.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.got.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        found.port = server.server_address[1]
        yield found
        server.shutdown()
        thread.join()


def test_a_process_sends_its_spans_before_it_ends(tmp_path: Path, collector: Collector) -> None:
    environment = {"RIATA_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}/", "OTEL_SERVICE_NAME": "clicks"}
    with Running(tmp_path / "data", environment) as running:
        running.start()
        answer = requests.post(f"{running.url}/observe?wait=applied", json=ROW, headers={"traceparent": SAMPLED}, timeout=HANG_S)
        assert answer.status_code == 200
        assert running.stop() == 0
    assert {path for path, _ in collector.got} == {"/v1/traces"}
    assert collector.service()["service.name"] == "clicks"
    assert [span.name for span in collector.spans() if span.trace_id.hex() == TRACE] == ["append", "learn", "POST /observe"]


def test_on_a_shared_store_a_trace_stays_in_the_process_that_took_the_request(tmp_path: Path, collector: Collector) -> None:
    with RedisServer(tmp_path / "redis") as server, ExitStack() as stack:
        endpoint = {"RIATA_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}/"}
        writer, web = (
            stack.enter_context(Running.of_role(tmp_path / role, role, server.url, {**endpoint, "OTEL_SERVICE_NAME": role}))
            for role in ("writer", "web")
        )
        writer.start(wait=False)
        web.start()
        sent = {"json": ROW, "headers": {"traceparent": SAMPLED}, "timeout": HANG_S}
        while (answer := requests.post(f"{web.url}/observe?wait=applied", **sent)).status_code == 503:
            time.sleep(0.02)  # until the writer leads
        assert answer.status_code == 200, answer.text
        assert requests.get(f"{writer.url}/models", timeout=HANG_S).status_code == 200
        assert (web.stop(), writer.stop()) == (0, 0)
    by_process: dict[str, list[Any]] = {"web": [], "writer": []}
    for _, one in collector.got:
        for of in one.resource_spans:
            (process,) = (each.value.string_value for each in of.resource.attributes if each.key == "service.name")
            by_process[process] += [span for scope in of.scope_spans for span in scope.spans]
    traced = [span.name for span in by_process["web"] if span.trace_id.hex() == TRACE]
    assert traced[-3:] == ["append", "learn", "POST /observe"]
    assert "GET /models" in {span.name for span in by_process["writer"]}
    assert TRACE not in {span.trace_id.hex() for span in by_process["writer"]}


def test_a_collector_that_never_answers_delays_neither_requests_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    monkeypatch.setattr(spans_module, "CLOSE_S", 0.05)
    with ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        spans = open_spans(f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces")
        url, session = stack.enter_context(tracing_into(spans))
        held, _ = silent.accept()  # the spans of the probes: the exporter now waits for the answer
        stack.enter_context(held)
        assert held.recv(14) == b"POST /v1/trace"
        for _ in range(40):  # more than the queue has room for
            assert session.get(f"{url}/predict?a=1").status_code == 200
            assert session.post(f"{url}/observe", json=ROW).status_code == 202
        spans.close()
        assert "riata-spans" in {thread.name for thread in threading.enumerate()}  # which still waits, and nobody for it


def test_a_missing_package_is_named_before_anything_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "riata.web.spans", None)
    monkeypatch.setenv("RIATA_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    result = run("serve", "--data", str(tmp_path / "data"))
    assert (result.exit_code, "pip install 'riata[otel]'" in result.output) == (2, True), result.output
    assert not (tmp_path / "data").exists()
