"""Spans of requests, sent with OpenTelemetry to a collector. The only file that imports opentelemetry.

The spans of a request are made when it has been answered, with the times that were noted. The SDK sends them from a thread of its
own, and drops spans while the collector does not answer. Its environment variables (OTEL_…) set the sampler, headers and limits.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import riata
from riata.base.request_trace import RequestTrace

CLOSE_S: Final = 2.0  # the longest wait at the end for the collector to take the last spans
_HEADER: Final = TraceContextTextMapPropagator()


class Spans:
    """The spans of this process. `add` belongs to the event loop."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("riata", riata.__version__)

    def add(self, trace: RequestTrace, method: str, route: str, status: int) -> None:
        """Add the span of an answered request, below its caller's, and below it one for each stage. `route` is a path template,
        empty if no route was found."""
        ended = time.perf_counter()
        zero_ns = time.time_ns() - int(ended * 1e9)  # of `time.perf_counter`, in unix time
        about = {
            "http.request.method": method, "http.route": route or None, "http.response.status_code": status,
            "riata.model": trace.model, "riata.rows": trace.rows,
        }  # fmt: skip
        above = Context() if trace.traceparent is None else _HEADER.extract({"traceparent": trace.traceparent}, Context())
        span = self._tracer.start_span(
            f"{method} {route}".rstrip(), above, SpanKind.SERVER,
            {name: value for name, value in about.items() if value is not None},
            start_time=zero_ns + int(trace.started * 1e9),
        )  # fmt: skip
        if span.is_recording():
            within = set_span_in_context(span, above)
            for stage in trace.stages:
                child = self._tracer.start_span(stage.name, within, start_time=zero_ns + int(stage.begun * 1e9))
                child.end(zero_ns + int(stage.ended * 1e9))
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))
        span.end(zero_ns + int(ended * 1e9))

    def close(self) -> None:
        """Send what waits, for at most CLOSE_S. The SDK alone would wait 30 s for a collector that does not answer."""
        closing = threading.Thread(target=self._provider.shutdown, name="riata-spans", daemon=True)
        closing.start()
        closing.join(CLOSE_S)


def open_spans(endpoint: str) -> Spans:
    """Return spans that are sent to the collector at `endpoint`, the address without `/v1/traces`. The collector is not called
    before there are spans."""
    named = Resource.create({"service.name": "riata", "service.version": riata.__version__})
    provider = TracerProvider(resource=named.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    url = f"{endpoint.rstrip('/').removesuffix('/v1/traces')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url)))
    return Spans(provider)
