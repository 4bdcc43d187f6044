"""One table of the refusals of both hot routes: exact status, exact code, never a 5xx."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.web.asking import Client
from tests.web.conftest import BODY_BYTES_MAX
from tests.wire.bodies import ACCEPTED, JSON, REFUSED, example

OF_HTTP: list[tuple[str, str, bytes, int, str]] = [
    ("body beyond its bound", JSON, b" " * (BODY_BYTES_MAX + 1), 413, "body_too_large"),
    ("no content type", "", example('"a":1'), 415, "unsupported_media_type"),
    ("unknown content type", "application/xml", example('"a":1'), 415, "unsupported_media_type"),
    ("form", "application/x-www-form-urlencoded", b"a=1", 415, "unsupported_media_type"),
    ("multipart", "multipart/form-data; boundary=x", b"--x--", 415, "unsupported_media_type"),
    ("latin-1", "application/json; charset=latin-1", example('"a":1'), 415, "unsupported_media_type"),
]
DOCUMENTS = [*REFUSED, *OF_HTTP]


@pytest.mark.parametrize(("what", "kind", "body", "status", "code"), DOCUMENTS, ids=[row[0] for row in DOCUMENTS])
def test_observe_refuses(standing: Client, what: str, kind: str, body: bytes, status: int, code: str) -> None:
    answer = standing.post("/observe", body, kind)
    problem = answer.json()
    reported = problem["errors"][0]["code"] if problem["code"] == "nothing_accepted" else problem["code"]
    assert (answer.status_code, reported) == (status, code), what
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status
    assert len(answer.content) < 2048, "what was sent comes back"


@pytest.mark.parametrize(("what", "body"), ACCEPTED, ids=[row[0] for row in ACCEPTED])
def test_observe_accepts_values_at_the_bounds(standing: Client, what: str, body: bytes) -> None:
    answer = standing.post("/observe", body)
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1), what


@pytest.mark.parametrize("encoding", ["br", "compress", "deflate", "gzip, identity", "x"])
def test_bodies_of_other_encodings_are_refused_unread(standing: Client, encoding: str) -> None:
    answer = standing.post("/observe", b"\x1f\x8b", Content_Encoding=encoding)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_encoding")
    assert "gzip" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x1f\x8b",
        example('"a":1'),
        gzip.compress(example('"a":1'), mtime=0)[:-1],
        gzip.compress(example('"a":1'), mtime=0) + b"x",
    ],
)
def test_bytes_that_are_not_gzip_are_refused(standing: Client, body: bytes) -> None:
    answer = standing.post("/observe", body, Content_Encoding="gzip")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_gzip")


def test_the_identity_encoding_is_none(standing: Client) -> None:
    assert standing.post("/observe", example('"a":1'), Content_Encoding="identity").status_code == 202


def test_long_keys_are_not_echoed(standing: Client) -> None:
    key = "k" * 5000
    for answer in (
        standing.post("/observe", json.dumps({key: 1})),
        standing.post(f"/observe?{key}=1", b"{}"),
        standing.put("/models/m", json.dumps({key: 1})),
        standing.put("/models/m", json.dumps({"learner": {"kind": key}})),
        standing.get(f"/models/{key}"),
        standing.get("/models/default/export?format=" + key),
    ):
        assert 400 <= answer.status_code < 500
        assert "k" * 65 not in answer.text
