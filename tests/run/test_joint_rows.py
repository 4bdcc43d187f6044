"""Requests to many models that are logged by one record: clients see the same as if each model had its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from riata.base.errors import RiataError
from riata.base.limits import DEDUPE_EVENTS
from riata.run.log import log_thread
from riata.run.log.small_body_batcher import TOGETHER_MIN
from riata.run.outcome import Observed
from riata.store.payload import decode_batch
from riata.store.sqlite.store import SqliteStore, open_in_memory, open_sqlite
from riata.store.store import Append, Appended, Record, names_in_log
from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, Node, build, serving, started
from tests.run.test_small_body_batcher import Asked, ask, ask_at_once, logged, row, shown
from tests.store.killed import SETTINGS

MODELS = [f"m{k}" for k in range(TOGETHER_MIN + 2)]
OTHER: dict[str, Any] = {"encoder": {"bits": 12}, "publish_every_ms": 1}


@asynccontextmanager
async def joining(store: SqliteStore, **settings: Any) -> AsyncIterator[Node]:
    """A service with MODELS on the embedded store."""
    async with started(build(store, **settings)) as node:  # type: ignore[arg-type]
        for model in MODELS:
            if model not in node.engine.served_models:
                await node.admin.put_model(model, SMALL)
        yield node


@pytest.fixture
def store() -> SqliteStore:
    return open_in_memory(DEDUPE_EVENTS)


def to_all(first: int = 0, **more: Any) -> list[Asked]:
    """A row for each model."""
    return [Asked(row(first + at, **more), model=model) for at, model in enumerate(MODELS)]


def seqs(answers: list[Observed | RiataError]) -> list[int]:
    return [answer.seq if isinstance(answer, Observed) else -1 for answer in answers]


async def left_of(node: Node) -> set[str]:
    return set(await node.engine.call(lambda s: set(s.left)))  # type: ignore[attr-defined]


async def records(node: Node, model: str) -> list[Record]:
    return await node.engine.call(lambda s: s.read(model, 1))


async def test_answers_rows_and_names_are_those_of_requests_that_are_alone(store: SqliteStore) -> None:
    asked = [*to_all(), *to_all(20), Asked(row(50) + b"\n" + row(51), "application/x-ndjson", model="m1")]
    async with joining(store) as node:
        answers = [*await ask_at_once(node, asked[:9]), *await ask_at_once(node, asked[9:])]
        together = [shown(answer) for answer in answers]
        rows = await node.engine.call(lambda _: [logged(store, model) for model in MODELS])  # type: ignore[arg-type]
        names = [sorted(node.service.names(model).everything()) for model in MODELS]
    alone = MemoryStore()
    async with serving(alone) as node:
        for model in MODELS:
            await node.admin.put_model(model, SMALL)
        assert together == [shown(await ask(node, one, together=False)) for one in asked]
        assert rows == [logged(alone, model) for model in MODELS]
        assert names == [sorted(node.service.names(model).everything()) for model in MODELS]


async def test_a_field_has_the_kind_that_its_first_row_told_also_before_that_is_distributed(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_thread, "QUIET_S", 60.0)
    first, then = (json.dumps({"features": {"zip": zip_code}, "label": 1}).encode() for zip_code in ("94107", 94107))
    async with joining(store, lag_s_max=3600.0) as node:
        for body in (first, then, then):
            await ask_at_once(node, [Asked(body, model=model) for model in MODELS])
        assert await left_of(node) == {*MODELS}
        for model in MODELS:
            [record] = await records(node, model)
            assert len(set(decode_batch(record.payload).hash.tolist())) == 1
            names = await node.engine.call(lambda s, model=model: [*names_in_log(s, model)])  # type: ignore[misc]
            assert [name for _, name in names] == [b"zip=94107"]


async def test_rows_wait_for_others_of_their_model_and_become_one_record(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_thread, "QUIET_S", 60.0)
    async with joining(store, lag_s_max=3600.0) as node:
        assert seqs(await ask_at_once(node, to_all())) == [2] * len(MODELS)
        await node.engine.call(lambda s: s.distribute([*s.left]))  # type: ignore[attr-defined]
        for at in range(3):
            assert seqs(await ask_at_once(node, to_all(at))) == [3 + at] * len(MODELS)
        assert await left_of(node) == {*MODELS}
        assert [record.count for record in await records(node, "m3")] == [1, 3]
        assert await left_of(node) == {*MODELS} - {"m3"}


async def test_rows_are_not_left_for_long_while_other_requests_come(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_thread, "QUIET_S", 60.0)
    async with joining(store, lag_s_max=0.5) as node:
        await ask_at_once(node, to_all())
        deadline = asyncio.get_running_loop().time() + 60
        while await left_of(node):
            assert asyncio.get_running_loop().time() < deadline
            assert isinstance(await ask(node, Asked(row(1), model="m0")), Observed)
            await asyncio.sleep(0.01)


async def test_when_no_request_comes_rows_are_learnt_at_once(store: SqliteStore) -> None:
    async with joining(store, lag_s_max=3600.0) as node:
        await ask_at_once(node, to_all())
        await node.until(lambda: all(node.engine.served_models[model].served == 2 for model in MODELS))


@pytest.mark.parametrize("how", ["min_seq", "wait_applied", "a prediction, twice"])
async def test_who_asks_for_a_state_gets_it(store: SqliteStore, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_thread, "QUIET_S", 60.0)
    async with joining(store, lag_s_max=3600.0) as node:
        if how == "wait_applied":
            applied = [Asked(row(at), model=model, wait_applied=True) for at, model in enumerate(MODELS)]
            answers = await ask_at_once(node, applied)
            assert {answer.applied for answer in answers if isinstance(answer, Observed)} == {True}
        elif how == "min_seq":
            [seq, *_] = seqs(await ask_at_once(node, to_all()))
            assert (await node.engine.wait_for("m0", seq, 60_000)).applied == seq
        else:
            await ask_at_once(node, to_all())
            assert node.service.published("m0").applied == 1
            await node.until(lambda: node.service.published("m0").applied == 2)


async def test_models_that_are_asked_for_at_once_share_a_transaction(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_thread, "QUIET_S", 60.0)
    groups, append = list[int](), store._append

    def noted(group: Sequence[Append], transaction: Any) -> list[Appended]:
        groups.append(len(group))
        return append(group, transaction)

    monkeypatch.setattr(store, "_append", noted)
    async with joining(store, lag_s_max=3600.0) as node:
        groups.clear()
        await ask_at_once(node, [Asked(row(at), model=model, wait_applied=True) for at, model in enumerate(MODELS)])
        assert groups == [1, len(MODELS)]


async def test_a_change_comes_after_the_rows_that_were_acknowledged_before(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_thread, "QUIET_S", 60.0)
    async with joining(store, lag_s_max=3600.0) as node:
        await ask_at_once(node, to_all())
        await node.admin.change("m2", {"checkpoint_every_s": 77})
        kinds = [record.kind for record in await records(node, "m2")]
        assert kinds == ["observe", "config"]
        assert await node.engine.call(lambda s: s.head("m2").seq) == 3


async def test_rows_with_ids_have_records_of_their_models(store: SqliteStore) -> None:
    async with joining(store) as node:
        assert seqs(await ask_at_once(node, to_all(event_id="e1"))) == [2] * len(MODELS)
        again = await ask_at_once(node, to_all(event_id="e1"))
        assert [(answer.accepted, answer.duplicate) for answer in again if isinstance(answer, Observed)] == [(0, 1)] * len(MODELS)


async def test_challengers_get_the_rows_of_their_leader(store: SqliteStore) -> None:
    async with joining(store) as node:
        await node.admin.put_model("rival", {"follow": "m0", "learner": {"eta": 0.1}})
        await ask_at_once(node, to_all())
        assert [record.kind for record in await records(node, "rival")] == ["config", "observe"]


async def test_a_model_that_is_dropped_meanwhile_refuses_its_own_rows_only(store: SqliteStore) -> None:
    async with joining(store) as node:
        owner = node.engine.learning.owner if node.engine.learning else None
        assert owner is not None
        await node.engine.call(lambda s: s.drop(owner, "m1"))
        answers = await ask_at_once(node, to_all())
        assert [isinstance(answer, Observed) for answer in answers] == [model != "m1" for model in MODELS]


async def test_a_clean_end_learns_and_saves_what_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_thread, "QUIET_S", 60.0)
    async with joining(open_sqlite(tmp_path, SETTINGS), lag_s_max=3600.0) as node:
        await ask_at_once(node, to_all())
        await ask_at_once(node, to_all(20))
    store = open_sqlite(tmp_path, SETTINGS)
    try:
        assert [(store.head(model).seq, store.generations(model)[0].applied) for model in MODELS] == [(3, 3)] * len(MODELS)
    finally:
        store.close()


async def test_metrics_and_the_schedule_of_refits_hurry_no_model(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_thread, "QUIET_S", 60.0)
    async with joining(store, lag_s_max=3600.0) as node:
        await ask_at_once(node, to_all())
        for model in MODELS:
            assert node.service.served(model).applied == 1
            node.service.refits._due(model)
        await asyncio.sleep(0.05)
        assert await left_of(node) == {*MODELS}
