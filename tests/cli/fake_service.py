"""A small fake service: it counts rows, refuses those with the word `bad`, and answers the requests of the verbs."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from riata import client
from tests.client.fake_http import answer, problem

PATH: dict[str, Any] = {
    "model": {"name": "default", "version": 3, "seq": 77},
    "gamma": 0.5,
    "log_loss": 0.3,
    "faded_log_loss": 0.2,
    "points": [
        {"gamma": 4.0, "non_zeros": 0, "objective": 0.0, "in_force": False, "log_loss": None, "faded_log_loss": None},
        {"gamma": 2.0, "non_zeros": 11, "objective": 5.5, "in_force": False, "log_loss": 0.25, "faded_log_loss": 0.125},
        {"gamma": 0.5, "non_zeros": 1234, "objective": 60.0, "in_force": True, "log_loss": None, "faded_log_loss": None},
        {"gamma": 0.1, "non_zeros": 5000, "objective": 70.0, "in_force": False, "log_loss": 0.375, "faded_log_loss": 0.25},
    ],
    "shadows": [],
}


class FakeService:
    """Models by name, each with the rows it accepted."""

    def __init__(self) -> None:
        self.rows: dict[str, list[bytes]] = {"default": []}
        self.documents: dict[str, dict[str, Any]] = {"default": {"labels": "0/1"}}
        self.fields: dict[str, list[dict[str, Any]]] = {}
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path == "/version":
            return answer(200, {"version": "0.1.0"})
        if request.url.path == "/status":
            return answer(200, {"ready": True, "attention": []})
        _, _, model, *rest = request.url.path.split("/")
        if request.method == "PATCH" and self.documents[model]["learner"].keys().isdisjoint(json.loads(request.content)):
            return problem(422, "unknown_key")
        if request.method == "PATCH":
            self.documents[model]["learner"] |= json.loads(request.content)
            return answer(200, {"name": model, "created": False, "config": self.documents[model], "seq": 7})
        if request.method == "PUT":
            self.rows[model], self.documents[model] = [], json.loads(request.content)
            return answer(201, {})
        if model not in self.rows:
            return problem(404, "model_not_found")
        return self._of_model(request, model, rest[0] if rest else "")

    def _of_model(self, request: httpx.Request, model: str, part: str) -> httpx.Response:
        if request.method == "DELETE":
            del self.rows[model]
            return answer(200, {})
        if part == "observe":
            return self._observe(request, model)
        if part == "predict":
            return self._predict(request)
        examples = len(self.rows[model])
        figures = {"examples": examples, "log_loss": 1 / (1 + examples), "base_log_loss": 0.5, "auc": None}
        documents: dict[str, Any] = {
            "": {"config": self.documents[model], "non_zeros": 3, "seq_logged": examples, "seq_applied": examples},
            "path": PATH,
            "fields": {"fields": self.fields.get(model, []), "meets": True, "wide": False},
            "metrics": {"cumulative": figures, "faded": {**figures, "half_life": 10000}, "non_zeros": 3},
            "weights": {"weights": [{"feature": "age", "weight": 0.5, "slot": 1, "names": ["age"]}]},
        }
        return answer(200, documents[part])

    def _observe(self, request: httpx.Request, model: str) -> httpx.Response:
        ids = 16 * int(request.url.params.get("ids", 0))
        rows = request.content[: len(request.content) - ids].splitlines()
        good = [row for row in rows if b"bad" not in row]
        bad = [{"index": i, "code": "bad_row", "detail": "bad"} for i, row in enumerate(rows) if b"bad" in row]
        counts: dict[str, Any] = {"accepted": len(good), "duplicate": 0, "rejected": len(bad), "errors": bad[:10]}
        counts |= {"rejected_codes": {"bad_row": len(bad)}} if bad else {}
        self.rows[model] += good
        if not good:
            return problem(422, "nothing_accepted", **counts)
        return answer(202, {**counts, "seq": len(self.rows[model]), "durability": "fsync"})

    def _predict(self, request: httpx.Request) -> httpx.Response:
        rows = request.content.splitlines()
        bad = [{"index": i, "code": "bad_row", "detail": "bad"} for i, row in enumerate(rows) if b"bad" in row]
        if bad:
            return problem(422, "rows_refused", errors=bad[:10])
        line = b'{"probability":0.125,"row":%d,"known_features":3,"unknown_features":1}\n'
        return httpx.Response(200, content=b"".join(line % i for i, _ in enumerate(rows)))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """Replaces the service that a client made by a verb would reach."""
    fake = FakeService()

    def make(url: str, api_key: str | None = None) -> client.Riata:
        return real(url, sleep=lambda _: None, transport=httpx.MockTransport(fake), api_key=api_key)

    real = client.Riata
    monkeypatch.setattr(client, "Riata", make)
    return fake
