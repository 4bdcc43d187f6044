"""The fast path of the hot routes."""

from __future__ import annotations

import pytest
from starlette.types import Receive, Scope

from riata.web.answers import Answer
from riata.web.app import hot_routes
from riata.web.hot import HotRoute, Lane
from riata.web.route import Hot
from tests.web.asking import post_scope


async def observe(_scope: Scope, _receive: Receive) -> Answer:
    return Answer(200, b"")


async def predict(_scope: Scope, _receive: Receive) -> Answer:
    return Answer(200, b"")


LANE = Lane(hot_routes({Hot.OBSERVE: observe, Hot.PREDICT: predict}))


@pytest.mark.parametrize(
    ("method", "path", "template", "params"),
    [
        ("POST", "/observe", "/observe", {}),
        ("GET", "/predict", "/predict", {}),
        ("HEAD", "/predict", "/predict", {}),
        ("POST", "/models/m/observe", "/models/{model}/observe", {"model": "m"}),
        ("GET", "/models/UPPER/predict", "/models/{model}/predict", {"model": "UPPER"}),
    ],
)
def test_hot_requests_are_found(method: str, path: str, template: str, params: dict[str, str]) -> None:
    scope = {**post_scope(path), "method": method}
    found = LANE.find(scope)
    assert isinstance(found, HotRoute)
    assert (found.path, scope["path_params"]) == (template, params)
    assert found.handler is (observe if path.endswith("observe") else predict)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/observe"),
        ("DELETE", "/predict"),
        ("POST", "/observe/"),
        ("POST", "/models//observe"),
        ("POST", "/models/a/b/observe"),
        ("POST", "/models/observe"),
        ("POST", "/models/{model}/observe/x"),
        ("GET", "/models/m/metrics"),
        ("POST", "/"),
    ],
)
def test_others_go_the_long_way(method: str, path: str) -> None:
    assert LANE.find({**post_scope(path), "method": method}) is None


def test_a_model_called_like_the_template_is_still_a_name() -> None:
    scope = post_scope("/models/{model}/observe")
    LANE.find(scope)
    assert scope["path_params"].get("model") == "{model}"
