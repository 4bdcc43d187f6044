"""Each call of the clients goes to a route of the service, and the routes that no call goes to are listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import httpx

from riata.client import AsyncRiata, Riata
from riata.web.api.routes.table import ROUTES, place
from tests.client.fake_http import OBSERVED, Script, answer

ROW: Final = {"features": {"age": 41.5}, "label": 1}
CALLS: Final[dict[str, Callable[[Riata], Any]]] = {
    "observe": lambda riata: riata.observe([ROW]),
    "predict": lambda riata: riata.predict([ROW]),
    "label": lambda riata: riata.label("id", 1),
    "explain": lambda riata: riata.explain([ROW]),
    "models": lambda riata: riata.models(),
    "model": lambda riata: riata.model("m"),
    "create_model": lambda riata: riata.create_model("m", {}),
    "change": lambda riata: riata.change("m", gamma=0.3),
    "path": lambda riata: riata.path("m"),
    "drop_model": lambda riata: riata.drop_model("m"),
    "metrics": lambda riata: riata.metrics("m"),
    "weights": lambda riata: riata.weights("m"),
    "card": lambda riata: riata.card("m"),
    "fields": lambda riata: riata.fields("m"),
    "shapes": lambda riata: riata.shapes("m"),
    "trees": lambda riata: riata.trees("m"),
    "snapshots": lambda riata: riata.snapshots("m"),
    "snapshot_now": lambda riata: riata.snapshot_now("m", note="x"),
    "delete_snapshot": lambda riata: riata.delete_snapshot("m", 1),
    "back_up": lambda riata: riata.back_up(),
    "restore": lambda riata: riata.restore("m", 1),
    "forget": lambda riata: riata.forget("ann", model="m"),
    "jobs": lambda riata: riata.jobs(),
    "job": lambda riata: riata.job("f1"),
    "wait_for_job": lambda riata: riata.wait_for_job("f1"),
    "cancel_job": lambda riata: riata.cancel_job("f1"),
    "export": lambda riata: riata.export("m"),
    "import_": lambda riata: riata.import_("m", b"\x00"),
    "begin_refit": lambda riata: riata.begin_refit("m", gamma=1.0),
    "refits": lambda riata: riata.refits("m"),
    "get_refit": lambda riata: riata.get_refit("m", "r1"),
    "cancel_refit": lambda riata: riata.cancel_refit("m", "r1"),
    "promote": lambda riata: riata.promote("m", "b"),
    "promote_refit": lambda riata: riata.promote_refit("m", "r1"),
    "regret": lambda riata: riata.regret("m"),
    "version": lambda riata: riata.version(),
    "status": lambda riata: riata.status(),
    "changes": lambda riata: riata.changes("m"),
    "refused": lambda riata: riata.refused("m"),
    "slices": lambda riata: riata.slices("m"),
    "weights_history": lambda riata: riata.weights_history("m"),
}
WITHOUT_A_CALL: Final = {
    ("POST", "/observe"), ("GET", "/predict"), ("POST", "/predict"),  # calls name the model
    ("GET", "/models/{model}/predict"),  # calls send rows in the body
    ("GET", "/livez"), ("GET", "/readyz"), ("GET", "/startupz"), ("GET", "/metrics"),  # for orchestration and Prometheus
    ("GET", "/v2/health/live"), ("GET", "/v2/health/ready"),
    ("GET", "/models/{model}/forget"), ("GET", "/models/{model}/restore"),  # `jobs` has them too
    ("GET", "/models/{model}/stream"),  # for readers of server-sent events
    ("GET", "/v2"), ("GET", "/v2/models/{model}"), ("GET", "/v2/models/{model}/ready"),
    ("POST", "/v2/models/{model}/infer"),  # for clients of the open inference protocol
    ("GET", "/whoami"), ("GET", "/keys"),  # for the console, which has not read the keys file
    ("GET", "/"), ("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/docs/{asset}"),  # for people and generators
    ("GET", "/console"), ("GET", "/console/{build}/{asset}"), ("GET", "/console/{build}/{folder}/{asset}"),  # for people
}  # fmt: skip


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - {"close"}


def route_of(call: Callable[[Riata], Any]) -> tuple[str, str]:
    """The route that a call goes to."""
    script = Script(answer(200, {**OBSERVED, "result": {}}))
    with Riata("http://test", sleep=script.sleep, transport=httpx.MockTransport(script)) as riata:
        call(riata)
    (request,) = script.requests
    return request.method, place(request.url.path)[0]


def test_every_call_of_the_clients_is_tried_here() -> None:
    assert public(Riata) == public(AsyncRiata) == CALLS.keys()


def test_a_route_has_a_call_or_is_listed_as_one_without() -> None:
    called = {route_of(call) for call in CALLS.values()}
    routes = {(route.method, route.path) for route in ROUTES}
    assert called <= routes
    assert routes - called == WITHOUT_A_CALL
