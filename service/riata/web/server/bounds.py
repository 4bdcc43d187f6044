"""Limits and timeouts of connections, and the refusals that are sent when they are exceeded."""

from __future__ import annotations

import math
import resource
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from riata.base.hosts import Hosts
from riata.web.api.problems import PROBLEM_JSON, Problem

TARGET_BYTES_MAX: Final = 2**16 - 1  # path and query together
FILES_RESERVED: Final = 16  # file descriptors kept for the store, the probes and the refusals themselves


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one connection, and of all of them.

    head_bytes_max   : bytes of all header lines of one request
    headers_max      : header lines of one request
    target_bytes_max : bytes of path and query; the query of GET /predict is the row
    head_s           : s from the first byte of a head, or from connecting, to the end of the head
    body_idle_s      : s without a byte of a body that has begun; `body_deadline_s` of the routes limits the whole body
    write_s          : s in which a client reads nothing of an answer that is waiting to be sent
    write_bytes_per_s: a client must read an answer at least this fast, counted from when it began to wait
    idle_s           : s between two requests of a connection (keep-alive timeout)
    linger_s         : s that a refused client has to stop sending, so that the refusal reaches it
    linger_bytes_max : bytes that are read from it and dropped meanwhile
    lingering_max    : connections in that state at once; further ones are closed at once
    pipelined_max    : pipelined requests of one connection that wait for an earlier answer
    connections_max  : connections open at once
    """

    head_bytes_max: int
    headers_max: int
    target_bytes_max: int
    head_s: float
    body_idle_s: float
    write_s: float
    write_bytes_per_s: float
    idle_s: float
    linger_s: float
    linger_bytes_max: int
    lingering_max: int
    pipelined_max: int
    connections_max: int

    def sweep_s(self) -> float:
        """Return the interval, s, at which deadlines are checked: short enough for the shortest of them."""
        return min(0.25, self.head_s / 4, self.body_idle_s / 4, self.write_s / 4, self.idle_s / 4, self.linger_s / 4)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer sent by the protocol itself, after which the connection is closed. `raw` is the complete response."""

    code: str
    raw: bytes


def refusal(status: int, code: str, detail: str, retryable: bool = False) -> Refusal:
    """Build a refusal: a problem document as for every other error; it repeats nothing of the request."""
    body = Problem(status, code, detail, retryable=retryable).answer().body
    head = [
        b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode()),
        b"content-type: " + PROBLEM_JSON,
        b"content-length: %d" % len(body),
        b"cache-control: no-store",
        b"x-content-type-options: nosniff",
        b"connection: close",
    ]
    if status == 503:
        head.append(b"retry-after: 1")
    return Refusal(code, b"\r\n".join([*head, b"", body]))


MALFORMED: Final = refusal(400, "malformed_request", "the bytes are not an HTTP/1.1 request, or are ambiguous")
BAD_HOST: Final = refusal(400, "bad_host", "an HTTP/1.1 request needs exactly one Host header with a valid host")
BAD_TARGET: Final = refusal(400, "bad_target", "the host in the request target differs from the Host header")
HOST_NOT_ALLOWED: Final = refusal(
    421,
    "host_not_allowed",
    "requests for this Host are refused: without keys only loopback addresses, localhost, the setting host and the setting "
    "allowed_hosts are accepted; add the name to allowed_hosts (RIATA_ALLOWED_HOSTS), or require keys (keys_file)",
)
CROSS_SITE: Final = refusal(
    403,
    "cross_site",
    "a web page of another origin may not change anything (Origin, Sec-Fetch-Site); without keys only programs and pages of this "
    "service's own origin may: serve the page under the same origin, or require keys (keys_file)",
)
BAD_CODING: Final = refusal(400, "bad_transfer_coding", "Transfer-Encoding: only chunked is supported, once, in HTTP/1.1")
BAD_CHUNKS: Final = refusal(400, "bad_chunks", "the chunks have more framing than body, or trailers, which are not supported")
UPGRADE_WITH_BODY: Final = refusal(
    400,
    "upgrade_with_body",
    "a request with a body cannot upgrade the protocol; configure the client to use HTTP/1.1 from the start",
)
INCOMPLETE: Final = refusal(
    400, "incomplete_request", "the connection ended before the request was complete; nothing was accepted"
)
HEAD_TOO_SLOW: Final = refusal(408, "head_too_slow", "the head of the request did not arrive in time", retryable=True)
BODY_TOO_SLOW: Final = refusal(408, "body_too_slow", "no byte of the body arrived for too long", retryable=True)
TARGET_TOO_LONG: Final = refusal(414, "target_too_long", "path and query are too long; POST the features instead")
HEAD_TOO_LARGE: Final = refusal(431, "head_too_large", "there are too many header lines, or they are too long")
PIPELINE_FULL: Final = refusal(503, "pipeline_full", "too many requests wait on this connection; send fewer at once", True)
CONNECTIONS_FULL: Final = refusal(
    503, "connections_full", "the service has reached its limit of open connections (connections_max, or open files)", True
)
STOPPING: Final = refusal(503, "stopping", "the service is stopping; nothing of this request was accepted", retryable=True)


class Refused(Exception):
    """Raised where a head or a body is read, with the refusal to send."""

    def __init__(self, answer: Refusal) -> None:
        super().__init__(answer.code)
        self.answer = answer


@dataclass(slots=True)
class ListenerState:
    """What the connections of one listener share.

    refused  : number of refusals by code; `slow_reader` counts clients that did not read their answer
    lingering: connections that were refused and are not yet closed
    reserved : file descriptors that connections leave free for other uses
    hosts    : the allowed hosts; if set, cross-site requests that change state are refused. None if keys are required
    """

    bounds: Bounds
    reserved: int = FILES_RESERVED
    hosts: Hosts | None = None
    refused: Counter[str] = field(default_factory=Counter)
    lingering: int = 0
    files_max: float = field(init=False)

    def __post_init__(self) -> None:
        """Compute the first file descriptor that connections may not use: the system assigns the lowest free one."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.files_max = math.inf if soft == resource.RLIM_INFINITY else soft - self.reserved
