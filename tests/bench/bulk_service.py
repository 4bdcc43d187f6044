"""A service that learns bodies of many rows, and keep-alive connections driven by one thread, which send them."""

from __future__ import annotations

import json
import mmap
import re
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import psutil

from riata.base.arrays import F64
from riata.wire.encoder import EncoderConfig
from tests.bench.contest import Measure
from tests.bench.service import Connection, ServiceFailed, connect
from tests.running import Running

ROWS: Final = 1000
FEATURES: Final = 75
NAMES: Final = 100_000
SEED: Final = 75
NDJSON: Final = "application/x-ndjson"
VW_TEXT: Final = "text/x-vw"


@dataclass(frozen=True, slots=True)
class Rows:
    """The same rows for both sides."""

    bodies: list[bytes]
    lines: list[str]
    label: F64

    def vw_bodies(self) -> list[bytes]:
        """The rows of each body as VW text."""
        return ["\n".join(self.lines[at : at + ROWS]).encode() + b"\n" for at in range(0, len(self.lines), ROWS)]


def make_rows(bodies: int) -> Rows:
    """Generate bodies * ROWS rows from SEED."""
    rng = np.random.default_rng(SEED)
    n = bodies * ROWS
    truth = rng.normal(0.0, 1.0, NAMES) * (rng.random(NAMES) < 0.3)  # drawn first: more bodies are more of the same stream
    name = np.minimum((NAMES ** rng.random((n, FEATURES))).astype(np.int64), NAMES - 1)  # density 1/rank, as Zipf's law
    value = np.round(rng.uniform(0.01, 1.0, (n, FEATURES)), 2)
    margin = (truth[name] * value).sum(axis=1)
    label = (margin + rng.logistic(0.0, 0.5, n) > 0.0).astype(np.float64)
    objects, lines = [], []
    for names, values, y in zip(name.tolist(), value.tolist(), label.tolist(), strict=True):
        features = dict(zip((f"w{j}" for j in names), values, strict=True))  # a name drawn twice keeps its last value
        objects.append(json.dumps({"features": features, "label": int(y)}))
        lines.append(f"{1 if y else -1} |f " + " ".join(f"{k}:{v}" for k, v in features.items()))
    packed = ["\n".join(objects[at : at + ROWS]).encode() + b"\n" for at in range(0, n, ROWS)]
    return Rows(packed, lines, label)


BITS: Final = EncoderConfig().bits
LEARNT_S_MAX: Final = 60.0
MEMORY_BYTES: Final = 256 * 2**20  # twice the largest table of a side
CONNECT_S: Final = 30.0
_READ_BYTES: Final = 65536
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def give_memory() -> None:
    """Use MEMORY_BYTES and free them, so that the next allocation gets memory at once.

    In a virtual machine, memory that was free for a while may have been given back to the host, which takes milliseconds to find
    each 2 MiB again: which side of a bench comes upon it is chance.
    """
    with mmap.mmap(-1, MEMORY_BYTES) as area:
        area.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, MEMORY_BYTES, mmap.PAGESIZE):
            area[at] = 1


@dataclass(slots=True)
class Served:
    """A running service, and the number of models it has had."""

    running: Running
    models: int = 0

    def cpu_s(self) -> float:
        """User and system seconds of all its threads."""
        times = psutil.Process(self.running.process.pid).cpu_times()
        return float(times.user + times.system)

    def learn(
        self,
        bodies: Sequence[bytes],
        kind: str,
        connections: int,
        passes: int = 1,
        bits: int = BITS,
        rows: int | None = None,
        text: Sequence[str] = (),
    ) -> Measure:
        """Send every body `passes` times to a new model of 2^bits slots, body k over connection k modulo `connections`.

        rows : in all bodies; ROWS in each by default
        text : fields that are texts

        Times the last pass. Raises `ServiceFailed` if not every row was learnt."""
        rows = len(bodies) * ROWS if rows is None else rows
        control = connect(self.running.port)
        self.models += 1
        model = f"bulk-{self.models}"
        labels = "-1/+1" if kind == VW_TEXT else "0/1"
        control.call(
            "PUT", f"/models/{model}", json.dumps({"labels": labels, "encoder": {"bits": bits, "text": list(text)}}).encode()
        )
        for _ in range(passes):
            begun, cpu_s = time.perf_counter(), self.cpu_s()
            last = send_all(self.running.port, model, bodies, kind, connections, rows)
            answered_s = time.perf_counter() - begun
            control = connect(self.running.port)  # a long pass outlives an idle connection
            wait_until_learnt(control, model, last)
            seconds, cpu_s = time.perf_counter() - begun, self.cpu_s() - cpu_s
        figures = control.call("GET", f"/models/{model}/metrics")["cumulative"]
        if figures["examples"] != passes * rows:
            raise ServiceFailed(f"{figures['examples']} events learnt of {passes * rows}")
        control.call("DELETE", f"/models/{model}?confirm={model}")
        return Measure(seconds, cpu_s, rows, {"log_loss": figures["log_loss"], "answered_s": answered_s})


def wait_until_learnt(control: Connection, model: str, last: int) -> None:
    """Request a prediction by a model that has learnt event `last`; repeat if that takes longer than a request may wait. Raises
    `ServiceFailed` for any other reason, or after LEARNT_S_MAX.
    """
    until = time.monotonic() + LEARNT_S_MAX
    while True:
        try:
            control.call("GET", f"/models/{model}/predict?w1=1&_min_seq={last}")
        except ServiceFailed as failed:
            if "not_yet" not in str(failed) or time.monotonic() > until:
                raise
        else:
            return


def send_all(port: int, model: str, bodies: Sequence[bytes], kind: str, connections: int, rows: int) -> int:
    """Send the bodies over this many connections at once; returns the last event. Raises `ServiceFailed` if one of the rows is
    refused."""
    path = f"/models/{model}/observe"
    answers = closed_loop(port, connections, [(post_head(port, path, kind, len(body)), body) for body in bodies])
    reported = [json.loads(answer.body) for answer in answers]
    if sum(said.get("accepted", 0) for said in reported) != rows:
        raise ServiceFailed(f"of {rows} rows not all were accepted: {reported[:3]}")
    return max(int(said["seq"]) for said in reported)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a server to one request."""

    status: int
    body: bytes


class Link:
    """One connection with one request under way at a time."""

    def __init__(self, port: int, selector: selectors.BaseSelector) -> None:
        self._link = socket.create_connection(("127.0.0.1", port), CONNECT_S)
        self._link.setblocking(False)
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector = selector
        self._unsent = memoryview(b"")
        self._heard = bytearray()
        selector.register(self._link, selectors.EVENT_READ, self)

    def ask(self, head: bytes, body: bytes) -> None:
        """Begin to send a request. The body is not copied."""
        self._heard.clear()
        sent = self._link.sendmsg([head, body])  # an idle connection has room for the head at least
        self._unsent = memoryview(body)[sent - len(head) :]
        self._push()

    def turn(self, events: int) -> Answer | None:
        """Do what the selector says can be done: send on, and take what came; the answer once it is whole.

        Raises `RuntimeError` if the connection is closed, or the answer does not say how long it is.
        """
        if events & selectors.EVENT_WRITE:
            self._push()
        return self._hear() if events & selectors.EVENT_READ else None

    def close(self) -> None:
        self._selector.unregister(self._link)
        self._link.close()

    def _push(self) -> None:
        while self._unsent:
            try:
                self._unsent = self._unsent[self._link.send(self._unsent) :]
            except BlockingIOError:
                self._selector.modify(self._link, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
                return
        self._selector.modify(self._link, selectors.EVENT_READ, self)

    def _hear(self) -> Answer | None:
        piece = self._link.recv(_READ_BYTES)
        if not piece:
            raise RuntimeError(f"the service closed a connection: {bytes(self._heard[:400])!r}")
        self._heard += piece
        end = self._heard.find(b"\r\n\r\n")
        if end < 0:
            return None
        length = _LENGTH.search(self._heard, 0, end + 2)
        if length is None:
            raise RuntimeError(f"an answer without a length: {bytes(self._heard[:400])!r}")
        if len(self._heard) < end + 4 + int(length[1]):
            return None
        return Answer(int(self._heard[9:12]), bytes(self._heard[end + 4 :]))


def closed_loop(port: int, connections: int, requests: Sequence[tuple[bytes, bytes]]) -> list[Answer]:
    """Send request k, its head and its body, over connection k modulo `connections`, each after the previous one is answered.
    Returns the answers in the order of the requests.
    """
    answers: dict[int, Answer] = {}
    with links(port, connections) as (selector, made):
        under_way = {link: k for k, link in enumerate(made) if k < len(requests)}
        for link, k in under_way.items():
            link.ask(*requests[k])
        while len(answers) < len(requests):
            for key, events in selector.select():
                link, answer = key.data, key.data.turn(events)
                if answer is not None:
                    answers[under_way[link]] = answer
                    under_way[link] += connections
                    if under_way[link] < len(requests):
                        link.ask(*requests[under_way[link]])
    return [answers[k] for k in range(len(requests))]


def post_head(port: int, path: str, kind: str, length: int) -> bytes:
    """The head of a POST of `length` bytes."""
    lines = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    return lines.encode()


@contextmanager
def links(port: int, connections: int) -> Iterator[tuple[selectors.BaseSelector, list[Link]]]:
    """This many connections and their selector, for the duration of the block."""
    with selectors.DefaultSelector() as selector:
        made = [Link(port, selector) for _ in range(connections)]
        try:
            yield selector, made
        finally:
            for link in made:
                link.close()
