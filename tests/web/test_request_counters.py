"""The compact counters give the same output as Prometheus' own counter and histogram."""

from __future__ import annotations

import re
import threading

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from riata.web.metrics.meters import DURATION_BUCKETS_S, RequestCounters

SEEN = [
    ("GET", "/predict", 200, 0.00025),
    ("GET", "/predict", 200, 0.00026),
    ("GET", "/predict", 404, 60.0),
    ("POST", "/predict", 422, 0.0),
    ("PUT", 'a"b', 500, 99.0),
]


def theirs() -> bytes:
    registry = CollectorRegistry()
    requests = Counter("riata_requests", "Requests answered.", ("method", "route", "code"), registry=registry)
    text = "Seconds from the head of the request to the end of the answer."
    took = Histogram("riata_request_duration_seconds", text, ("route",), buckets=DURATION_BUCKETS_S, registry=registry)
    for method, route, status, seconds in SEEN:
        requests.labels(method, route, str(status)).inc()
        took.labels(route).observe(seconds)
    return generate_latest(registry)


def lines_of(text: bytes) -> list[str]:
    """The lines without time stamps."""
    return [re.sub(r"(_created\{.*\}) .*", r"\1", line) for line in text.decode().splitlines()]


def test_the_text_is_that_of_the_library() -> None:
    registry, tally = CollectorRegistry(), RequestCounters()
    registry.register(tally)
    for seen in SEEN:
        tally.add(*seen)
    assert lines_of(generate_latest(registry)) == lines_of(theirs())


def test_another_thread_may_read_while_it_counts() -> None:
    registry, tally = CollectorRegistry(), RequestCounters()
    registry.register(tally)
    read: list[bytes] = []

    def reading() -> None:
        read.extend(generate_latest(registry) for _ in range(10))

    reader = threading.Thread(target=reading)
    reader.start()
    for k in range(1000):
        tally.add("GET", f"/{k}", 200, 0.001)
    reader.join()
    assert len(read) == 10
    assert generate_latest(registry).count(b"riata_requests_total{") == 1000
