"""Predictions that wait for their label, in every store: equal answers and equal contents, over restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import NotFound, StoreFailed, Unavailable
from riata.store.redis.store import open_redis
from riata.store.sqlite.store import open_sqlite
from riata.store.store import PendingPrediction, Store
from tests.doubles.memory_store import MemoryStore
from tests.redis_server import RedisServer
from tests.settings import redis_settings, sqlite_settings
from tests.store.pending_prediction_steps import Step, remembered_dump, remembered_step

MODELS = ("a", "b", "nobody")
SMALL = sqlite_settings(ballast_bytes=2**16, reserve_bytes=2**10)
KINDS = pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), "--appendfsync", "no") as running:
        yield running


@pytest.fixture
def opened(tmp_path: Path, server: RedisServer) -> Iterator[Callable[[str], Store]]:
    """Opens an empty store of a kind, or opens the last one of that kind again."""
    server.client().flushall()
    memory = MemoryStore()
    stores: list[Store] = []

    def make(kind: str) -> Store:
        nonlocal memory
        if kind == "memory":
            memory = memory.crash()
            return memory
        if kind == "sqlite":
            stores.append(open_sqlite(tmp_path, SMALL))
        else:
            stores.append(open_redis(server.url, redis_settings()))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


@pytest.mark.parametrize("seed", range(4))
def test_stores_agree_on_what_is_remembered(opened: Callable[[str], Store], seed: int) -> None:
    stores = [opened(kind) for kind in ("memory", "sqlite", "redis")]
    rng = np.random.default_rng(seed)
    answers: list[Any] = []
    for model in MODELS[:2]:
        for store in stores:
            store.create(model, bytes(16))
    for number in range(200):
        model = MODELS[int(rng.choice(3, p=[0.6, 0.35, 0.05]))]
        answers += [answer_of_all(ask, stores) for ask in remembered_step(rng, model)]
        if number % 50 == 49:
            for store in stores:
                store.close()
            stores = [opened(kind) for kind in ("memory", "sqlite", "redis")]
    for model in MODELS:
        for ask in remembered_dump(model):
            answer_of_all(ask, stores)
    assert {answer for answer in answers if isinstance(answer, bool)} == {True, False}
    assert any(isinstance(answer, dict) and answer for answer in answers)
    assert any(isinstance(answer, list) and answer for answer in answers)
    assert any(type(answer) is int and answer for answer in answers)


def answer_of_all(ask: Step, stores: list[Store]) -> Any:
    """The answer of all stores, which must be the same."""
    answers = []
    for store in stores:
        try:
            answers.append(ask(store))
        except NotFound as error:
            answers.append(error.code)
    assert answers[1:] == answers[:-1]
    return answers[0]


@KINDS
def test_a_dropped_model_remembers_nothing_when_it_is_made_again(opened: Callable[[str], Store], kind: str) -> None:
    store = opened(kind)
    owner = store.acquire(bytes(16), 1, "here", 1)
    store.create("a", bytes(16))
    assert store.remember("a", [PendingPrediction(key(1), 5, b"12345")], 5)
    assert store.remembered("a") == (1, 5)
    store.drop(owner, "a")
    with pytest.raises(NotFound):
        store.remembered("a")
    store.create("a", bytes(16))
    assert store.remembered("a") == (0, 0)
    assert store.recall("a", [key(1)]) == {}


@KINDS
def test_the_bytes_kept_are_those_of_the_rows(opened: Callable[[str], Store], kind: str) -> None:
    store = opened(kind)
    store.create("a", bytes(16))
    rng = np.random.default_rng(0)
    for _ in range(100):
        for ask in remembered_step(rng, "a"):
            ask(store)
        rows = store.due("a", 2**50, 10**6)
        assert store.remembered("a") == (len(rows), sum(len(row.row) for row in rows))


def test_a_disk_without_room_remembers_nothing_and_reports_it(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path, sqlite_settings(reserve_bytes=2**62))
    store.create("a", bytes(16))
    with pytest.raises(Unavailable) as refused:
        store.remember("a", [PendingPrediction(key(1), 5, b"x")], 100)
    assert not isinstance(refused.value, StoreFailed)
    assert (refused.value.code, refused.value.outcome) == ("disk_reserve", "not_accepted")
    assert store.remembered("a") == (0, 0)
    store.close()
