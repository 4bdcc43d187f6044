"""Rows as programs send them, with a value that is not ASCII or has escapes, beside the same rows in ASCII; and texts.

**Requests** go over one connection to a service in a process of its own: bodies of 1000 rows of 75 features and a city, single
rows of the same kind, predictions by POST and by GET (ten features and the city). The city is `Muenchen`, `München` in UTF-8,
`M\\u00fcnchen` as Python's `json.dumps` writes it, or `New York, NY`; in a query `%C3%BC` and `New+York%2C+NY`. All names are
known. Requests are pipelined, 32 at a time, or 4 bodies.

**Texts** are articles of Reuters-21578 as published, with control characters, `&` and accents, cut to 840 bytes of UTF-8, one
in each row as `json.dumps` writes it. Riata reads the rows from memory and learns them, in one thread, for the second time.
scikit-learn's HashingVectorizer gets the strings already decoded, 1000 at a time, and SGDClassifier learns what it makes of them.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus

import numpy as np
import psutil
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

from riata.run.config import ModelConfig
from riata.run.fit import Fit, unlogged
from riata.wire.encoder import EncoderConfig
from riata.wire.parse import Context, parse_examples
from tests.bench.contest import Claim, Found, Measure, Side, arguments, contenders, contest, report_page, times_faster
from tests.bench.predict_speed import HEAD, connect, make_rows
from tests.bench.service import running_service

NDJSON, JSON = "application/x-ndjson", "application/json"
ROWS: Final = 1000
IN_QUERY: Final = 10
CITIES: Final = {"ASCII": "Muenchen", "UTF-8": "München", "escapes": "München", "a comma": "New York, NY"}
TEXT_BYTES: Final = 840
TEXT_ROWS: Final = 5000
SEED: Final = 3
READ_BYTES: Final = 1 << 16
READ: Final = "µs a row to read"


def request(path: str, kind: str, body: bytes) -> bytes:
    """A POST."""
    head = f"POST {path} HTTP/1.1\r\n{HEAD}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def requests_of(variant: str, rows: Sequence[dict[str, Any]], label: Sequence[int]) -> dict[str, tuple[list[bytes], int]]:
    """By what is asked: the requests, and how many are on their way at once."""
    ascii_only = variant != "UTF-8"
    with_city = [{**row, "city": CITIES[variant]} for row in rows]

    def line(at: int, labelled: bool) -> bytes:
        given = {"features": with_city[at], **({"label": label[at]} if labelled else {})}
        return json.dumps(given, ensure_ascii=ascii_only).encode()

    queries = [
        "&".join(f"{name}={quote_plus(str(value))}" for name, value in [*list(row.items())[:IN_QUERY], ("city", row["city"])])
        for row in with_city
    ]
    bodies = [b"\n".join(line(at, True) for at in np.random.default_rng(k).permutation(ROWS)) for k in range(4)]
    return {
        "bulk": ([request("/observe", NDJSON, body) for body in bodies], 4),
        "single": ([request("/observe", JSON, line(at, True)) for at in range(ROWS)], 32),
        "predict, POST": ([request("/predict", JSON, line(at, False)) for at in range(ROWS)], 32),
        "predict, GET": ([f"GET /predict?{query} HTTP/1.1\r\n{HEAD}\r\n".encode() for query in queries], 32),
    }


def answered(connection: socket.socket, expected: int) -> None:
    """Read so many answers; raises `RuntimeError` for any that is not a 200 or a 202 with nothing rejected."""
    received = b""
    while received.count(b"HTTP/1.1 ") < expected or not received.endswith(b"}"):
        part = connection.recv(READ_BYTES)
        if not part:
            raise RuntimeError(f"the connection was closed after {received[-500:]!r}")
        received += part
    good = received.count(b"HTTP/1.1 20")
    if good != expected or received.count(b'"rejected":0') != received.count(b'"rejected":'):
        raise RuntimeError(f"{good} of {expected} were accepted: {received[-2000:]!r}")


def asked(port: int, process: psutil.Process, sent: tuple[list[bytes], int], units: int) -> Measure:
    """Send all requests and read their answers."""
    requests, at_once = sent
    with connect(port) as connection:
        before, start = process.cpu_times(), time.perf_counter()
        for at in range(0, len(requests), at_once):
            part = requests[at : at + at_once]
            connection.sendall(b"".join(part))
            answered(connection, len(part))
        seconds, after = time.perf_counter() - start, process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return Measure(seconds, used, units)


def over_http(repeats: int) -> Iterator[tuple[str, Found]]:
    """A contest of the variants for each kind of request."""
    drawn = make_rows(ROWS, 1)
    made = {variant: requests_of(variant, drawn.features, drawn.label) for variant in CITIES}
    with running_service() as port:
        (process,) = [p for p in psutil.Process().children(recursive=True) if "serve" in " ".join(p.cmdline())][:1]
        for kind in made["ASCII"]:
            units = 4 * ROWS if kind == "bulk" else ROWS
            sides = [Side(variant, partial(asked, port, process, made[variant][kind], units)) for variant in CITIES]
            yield kind, contest(sides, repeats, lambda _first: "")


def articles() -> tuple[list[str], list[int]]:
    """Texts of TEXT_BYTES bytes or a little less, and whether each is about earnings."""
    texts: list[str] = []
    labels: list[int] = []
    with gzip.open(Path(os.environ["RIATA_SHARED"]) / "data" / "reuters21578_modapte.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            body = (row.get("body") or "").encode()
            if len(body) >= TEXT_BYTES and len(texts) < TEXT_ROWS:
                texts.append(body[:TEXT_BYTES].decode("utf-8", "ignore") + "\u0003")
                labels.append(int("earn" in row["topics"]))
    return texts, labels


def in_riata(bodies: Sequence[bytes], rows: int) -> Measure:
    """Read and learn, in this thread; the second pass is timed, in which names are known and the memory was in use."""
    encoder = EncoderConfig(text=("text",))
    fit = Fit(ModelConfig(encoder=encoder), NDJSON)
    context = Context(encoder, names=fit.names.seen)
    for body in bodies:
        parsed = parse_examples(body, NDJSON, context, labelled=True)
        fit.names.add_all(parsed.names)
        fit.state.apply(unlogged(fit.state, "observe", parsed.batch.n), parsed.batch)
    reading, start, cpu = 0.0, time.perf_counter(), time.thread_time()
    for body in bodies:
        begun = time.thread_time()
        batch = parse_examples(body, NDJSON, context, labelled=True).batch
        reading += time.thread_time() - begun
        fit.state.apply(unlogged(fit.state, "observe", batch.n), batch)
    taken, used = time.perf_counter() - start, time.thread_time() - cpu
    return Measure(taken, used, rows, {READ: reading / rows * 1e6})


def in_sklearn(texts: Sequence[str], labels: Sequence[int]) -> Measure:
    """Hash and learn, 1000 rows at a time."""
    vectorizer, learner = HashingVectorizer(n_features=2**22, alternate_sign=False, norm=None), SGDClassifier(loss="log_loss")
    learner.partial_fit(vectorizer.transform(texts[:ROWS]), labels[:ROWS], classes=[0, 1])
    reading, start, cpu = 0.0, time.perf_counter(), time.thread_time()
    for at in range(0, len(texts), ROWS):
        begun = time.thread_time()
        rows = vectorizer.transform(texts[at : at + ROWS])
        reading += time.thread_time() - begun
        learner.partial_fit(rows, labels[at : at + ROWS])
    used = time.thread_time() - cpu
    return Measure(time.perf_counter() - start, used, len(texts), {READ: reading / len(texts) * 1e6})


def texts_learnt(repeats: int) -> Found:
    """The contest over texts."""
    texts, labels = articles()
    lines = [json.dumps({"features": {"text": text}, "label": y}).encode() for text, y in zip(texts, labels, strict=True)]
    bodies = [b"\n".join(lines[at : at + ROWS]) for at in range(0, len(lines), ROWS)]
    sides = [
        Side("riata", partial(in_riata, bodies, len(lines))),
        Side("HashingVectorizer and partial_fit", partial(in_sklearn, texts, labels)),
    ]
    return contest(sides, repeats, lambda _first: "")


def claims_of(kind: str, found: Found) -> list[Claim]:
    """Every variant against ASCII."""
    return [Claim(kind, variant, "ASCII", times_faster(found, variant, "ASCII"), 0.8) for variant in found if variant != "ASCII"]


def main() -> int:
    """Run the contests and write the page."""
    options = arguments(__doc__ or "").parse_args()
    if "RIATA_SHARED" not in os.environ:
        sys.exit("RIATA_SHARED is not set: no texts to read")
    repeats = 3 if options.quick else 11
    claims: list[Claim] = []
    tables: list[str] = []
    for kind, found in over_http(repeats):
        claims += claims_of(kind, found)
        tables.append(f"## {kind}\n\n{contenders(found, 'row', ours='ASCII')}")
    found = texts_learnt(repeats)
    us, them = found
    claims.append(Claim("texts of 840 bytes", us, them, times_faster(found, us, them, "cpu_s"), 10.0))
    tables.append(f"## texts of 840 bytes\n\n{contenders(found, 'row', (READ,))}")
    report_page(
        "real_data",
        "Real characters and texts",
        __doc__ or "",
        claims,
        tables,
        ["Ratios of requests are of wall time, of texts of processor time. All rows were accepted."],
        "python -m tests.bench.real_data",
        ("numpy", "scikit-learn"),
        not options.no_write,
        options.quick,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
