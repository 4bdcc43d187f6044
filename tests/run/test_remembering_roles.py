"""Delayed labels with several processes on one store: remembered by one, labelled through another, expired by the owner."""

from __future__ import annotations

import asyncio
import json

import pytest

from riata.base.errors import Conflict
from riata.run.labels.pending_rows import encode_waiting
from riata.store.store import Store, names_in_log
from riata.wire.parse import parse_examples
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.run.events import labels
from tests.run.node import SMALL
from tests.run.roles import Process, running, until

RED = {"colour": "red", "size": 3.0}


async def remember(process: Process, *rows: dict[str, object]) -> list[str]:
    body = "\n".join(json.dumps({"features": row}) for row in rows).encode()
    parsed = parse_examples(body, "application/x-ndjson", process.service.context("m", True), labelled=False)
    return await process.service.remember("m", encode_waiting(parsed.batch, parsed.names))


async def with_model(process: Process, **settings: object) -> None:
    await process.admin.put_model("m", {**SMALL, **settings})


def left(store: Store) -> int:
    return store.remembered("m")[0]


async def test_a_label_may_come_through_another_process_than_the_prediction() -> None:
    store = SharedMemoryStore()
    async with running(store, "web") as one, running(store, "web") as other, running(store, "writer"):
        await with_model(one)
        await until(lambda: other.has())
        ids = await remember(one, RED, RED)
        reported = await other.observe([{"prediction_id": ids[0], "label": 1}])
        assert (reported.accepted, reported.applied) == (1, True)
        assert (await one.observe([{"prediction_id": ids[0], "label": 1}])).duplicate == 1
        both = await asyncio.gather(
            *(process.observe([{"prediction_id": ids[1], "label": 0}]) for process in (one, other) for _ in range(20))
        )
        assert sorted(reported.accepted for reported in both) == [0] * 39 + [1]
        await until(lambda: other.applied() == 3)
        assert other.service.published("m").figures["cumulative"]["examples"] == 2
    assert labels(store) == [1.0, 0.0]


async def test_the_owner_gives_default_labels_and_the_next_owner_continues() -> None:
    store = SharedMemoryStore()
    async with running(store, "web") as web:
        async with running(store, "writer") as first:
            await with_model(web, label_ttl_s=1, default_label=0)
            await remember(web, RED, RED)
            await until(lambda: "m" in first.service.remembered() and first.service.remembered()["m"].defaulted == 2)
            assert left(store) == 0
            assert web.service.remembered()["m"].rows is None  # a process that is not the owner does not look
        await remember(web, RED)
        await asyncio.sleep(1.2)
        assert left(store) == 1  # the store has no owner
        async with running(store, "writer") as second:
            await until(lambda: second.engine.leads and left(store) == 0)
            await until(lambda: web.applied() == 4)
            assert web.service.published("m").figures["cumulative"]["examples"] == 3
    assert labels(store) == [0.0] * 3


async def test_a_replica_neither_remembers_nor_joins_and_a_writer_does_not_join() -> None:
    store = SharedMemoryStore()
    async with running(store, "web") as web, running(store, "writer") as writer, running(store, "replica") as replica:
        await with_model(web)
        await until(lambda: replica.has() and writer.has())
        [one] = await remember(writer, RED)
        with pytest.raises(Conflict) as refused:
            await remember(replica, RED)
        assert refused.value.code == "other_role"
        for process in (replica, writer):
            with pytest.raises(Conflict) as refused:
                await process.observe([{"prediction_id": one, "label": 1}])
            assert refused.value.code == "other_role"
        assert (await web.observe([{"prediction_id": one, "label": 1}])).accepted == 1
    assert labels(store) == [1.0]


async def test_names_of_a_remembered_prediction_reach_the_followers() -> None:
    store = SharedMemoryStore()
    async with running(store, "web") as web, running(store, "writer") as writer:
        await with_model(web)
        [one] = await remember(web, RED)
        await web.observe([{"prediction_id": one, "label": 1}])
        await until(lambda: len(writer.service.names("m")) == 2)
    assert sorted(name for _, name in names_in_log(store, "m")) == [b"colour=red", b"size"]
