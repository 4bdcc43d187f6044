"""What changed a model is read back from its log, with who asked for it."""

from __future__ import annotations

from typing import Any

import pytest

from riata.base.request_trace import current_actor
from riata.run.log.event_times import UNKNOWN
from riata.run.state.changes import Told, read_change
from riata.run.state.replay import replay
from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, Node, events, serving

LEARNER: dict[str, Any] = {"kind": "taylor_sketch", "mode": "exact", "gamma": 0.5, "block": 10, "features_max": 32}
SKETCH: dict[str, Any] = {**SMALL, "learner": LEARNER}


@pytest.mark.parametrize("document", [SKETCH])
async def test_changes_say_what_when_and_who(node: Node) -> None:
    await node.observe(events(30))
    saved = await node.admin.snapshot_now("m")
    token = current_actor.set("ops")
    await node.admin.change("m", {"gamma": 2.0})
    await node.admin.restore("m", saved["generation"])
    current_actor.reset(token)
    export = await node.admin.export("m")
    await node.admin.import_model("m", export)
    found = await node.service.changes("m")
    assert [(one["kind"], one["actor"]) for one in found] == [
        ("imported", None), ("restored", "ops"), ("configured", "ops"), ("created", None),
    ]  # fmt: skip
    assert found[2]["settings"] == {"learner.gamma": [0.5, 2.0]}
    assert found[1]["settings"] == {"learner.gamma": [2.0, 0.5]}
    assert found[1]["source"] == {"generation": saved["generation"]}
    assert [one["seq"] for one in found] == sorted((one["seq"] for one in found), reverse=True)
    assert all(one["time"] for one in found)
    assert await node.service.changes("m") == found


async def test_the_actor_changes_no_bit_of_what_is_learnt() -> None:
    digests: list[str] = []
    for actor in ("", "ops"):
        store = MemoryStore()
        async with serving(store, SKETCH) as node:
            current_actor.set(actor)
            await node.observe(events(30))
            await node.admin.change("m", {"gamma": 2.0})
            digests.append((await node.admin.snapshot_now("m"))["state_digest"])
        assert replay(store.crash(), "m").equal
    assert digests[0] == digests[1]


async def test_a_change_whose_event_is_trimmed_is_still_listed(store: MemoryStore) -> None:
    async with serving(store, SKETCH) as node:
        await node.observe(events(30))
    assert read_change(store.crash(), "m", 40_000) == Told(40_000, "trimmed")


@pytest.mark.parametrize("document", [SKETCH])
async def test_points_of_the_curve_have_the_times_of_the_log(node: Node) -> None:
    for seed in range(2):
        await node.observe(events(20, seed=seed))
    accepted = {record.last: record.accepted_ms for record in await node.engine.call(lambda s: s.read("m", 0))}
    found = await node.service.event_times("m", [1, 11, 21, 22, 41])
    assert found == [(accepted[n], None) for n in (1, 21, 21, 41, 41)]
    assert await node.service.event_times("m", [42, 41]) == [UNKNOWN, (accepted[41], None)]
    hours = [9, 7, None, 12]
    rows = [{**row, "ts": f"1970-01-01T{hour:02}:00:00Z"} if hour else row for row, hour in zip(events(4), hours, strict=True)]
    await node.observe(rows)
    times = [one.ts_ms for one in await node.service.event_times("m", [43, 44, 45])]
    assert times == [3_600_000 * hour for hour in (9, 9, 12)]
