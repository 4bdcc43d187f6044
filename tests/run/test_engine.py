from __future__ import annotations

import asyncio
import copy
import threading
from typing import Any

import pytest

from riata.base.clock import SystemClock
from riata.base.errors import Busy, Conflict, Malformed, NotFound, Unavailable
from riata.run.engine_alone import AloneEngine
from riata.run.outcome import RowsRefused
from riata.run.service import Service
from riata.store.store import Store
from tests.doubles.memory_store import Faults, MemoryStore
from tests.run.node import SMALL, Node, build, events, serving
from tests.settings import engine_settings, retention


async def test_events_are_learnt_and_served(node: Node) -> None:
    observed = await node.observe(events(50))
    assert (observed.accepted, observed.rejected, observed.applied) == (50, 0, True)
    published = node.service.published("m")
    assert published.model.seq == observed.seq == 51
    assert published.figures["cumulative"]["examples"] == 50
    assert published.model.weights.non_zeros >= 3
    assert set(node.service.names("m").slots_with("colour=red", 12))


async def test_the_names_of_a_model_are_known_up_to_its_last_event(node: Node) -> None:
    await node.engine.create("new", node.service.published("m").config)
    for model in ("m", "new"):
        await node.service.observe_small(model, b'{"features":{"a":1},"label":1}', "application/json", None, wait_applied=True)
        served_model = node.engine.served_model(model)
        assert served_model.named == served_model.logged == 2


async def test_the_same_id_is_counted_once_and_with_other_content_refused(node: Node) -> None:
    first = await node.observe(events(3, first_id=0))
    again = await node.observe([*events(3, first_id=0), *events(1, seed=5, first_id=7)])
    assert (again.accepted, again.duplicate, again.seq) == (1, 3, first.seq + 1)
    changed = {**events(1, first_id=0)[0], "label": 1 - events(1, first_id=0)[0]["label"]}
    with pytest.raises(RowsRefused) as refused:
        await node.observe([changed])
    assert refused.value.code == "nothing_accepted"
    assert [error.code for error in refused.value.observed.errors] == ["id_reused"]
    assert node.service.published("m").figures["cumulative"]["examples"] == 4


async def test_logged_events_are_there_after_a_crash_and_after_a_stop(store: MemoryStore) -> None:
    digests: list[str] = []
    async with serving(store) as node:
        await node.observe(events(40))
        digests.append((await node.admin.snapshot_now("m"))["state_digest"])
    async with serving(store.crash()) as node:
        assert node.service.published("m").figures["cumulative"]["examples"] == 40
        digests.append((await node.admin.snapshot_now("m"))["state_digest"])
        assert set(node.service.names("m").slots_with("size", 12))
    assert digests[0] == digests[1]


def killed_now(store: MemoryStore) -> MemoryStore:
    """The store that a start would find if the process that has `store` open were killed now."""
    found = MemoryStore()
    found._kept = copy.deepcopy(store._kept)
    return found


async def test_a_start_that_replayed_events_saves_a_checkpoint_at_once() -> None:
    left: list[MemoryStore] = []

    async def saved(node: Node) -> list[int]:
        await asyncio.sleep(0.2)  # for what should not be written
        return [snapshot["seq"] for snapshot in await node.admin.snapshots("m")]

    async with serving(MemoryStore(), {**SMALL, "checkpoint_every_s": 3600}) as node:
        left.append(killed_now(node.store))
        await node.observe(events(40))
        assert await saved(node) == []  # the schedule says an hour
        left.append(killed_now(node.store))
    async with serving(left[0]) as node:
        assert await saved(node) == []  # a model that has learnt nothing is not worth it
    async with serving(left[1]) as node:
        while not (found := await saved(node)):
            await asyncio.sleep(0.01)
        assert found == [41]
        left.append(killed_now(node.store))
    async with serving(left[2]) as node:
        assert await saved(node) == [41]  # nothing was replayed


async def test_restore_brings_the_content_back_while_the_log_continues(node: Node) -> None:
    await node.observe(events(20))
    saved = await node.admin.snapshot_now("m")
    await node.observe(events(20, seed=1))
    restored = await node.admin.restore("m", saved["generation"])
    assert restored["seq"] == 42
    assert node.service.published("m").figures["cumulative"]["examples"] == 20
    again = await node.admin.snapshot_now("m")
    assert (again["state_digest"], again["verified"]) == (saved["state_digest"], True)
    with pytest.raises(NotFound, match="kept: 3, 2, 1"):
        await node.admin.restore("m", 99)


async def test_requested_checkpoints_never_push_out_scheduled_ones(store: MemoryStore) -> None:
    """Those that somebody saves, and those of exports, are counted separately."""
    document = {**SMALL, "checkpoint_every_events": 10}
    async with serving(store, document) as node:

        async def kept() -> dict[str, list[int]]:
            found = await node.admin.snapshots("m")
            return {
                cause: [one["generation"] for one in found if one["cause"] == cause] for cause in ("schedule", "request", "saved")
            }

        for seed in range(4):
            await node.observe(events(10, seed=seed))
            await node.engine.save("m")  # as a start, a repair and the schedule do: it is the service's own
        before = await kept()
        assert len(before["schedule"]) == 3
        assert before["request"] == before["saved"] == []
        for _ in range(5):
            saved = await node.admin.snapshot_now("m")
            assert (saved["cause"], "cause" in saved["metrics"]) == ("saved", False)
            assert len(await node.admin.export("m")) > 0
        after = await kept()
        assert after["schedule"] == before["schedule"]
        assert (len(after["request"]), len(after["saved"])) == (3, 5)
        assert after["request"][0] == before["schedule"][0] + 10
        assert (await node.admin.restore("m", before["schedule"][-1]))["generation"] == before["schedule"][-1]
        for seed in range(4):
            await node.observe(events(10, seed=9 + seed))
            await node.engine.save("m")
        assert len((await kept())["schedule"]) == 3
        assert (await kept())["saved"] == after["saved"]


async def test_an_export_becomes_the_same_model_under_another_name(node: Node) -> None:
    await node.observe(events(30))
    content = await node.admin.export("m")
    imported = await node.admin.import_model("copy", content)
    assert imported["created"]
    mine, theirs = node.service.published("m").model.weights, node.service.published("copy").model.weights
    assert mine.slot.tolist() == theirs.slot.tolist()
    assert mine.beta.tobytes() == theirs.beta.tobytes()
    assert set(node.service.names("copy").slots_with("colour=red", 12))
    with pytest.raises(Malformed, match="not an export"):
        await node.admin.import_model("copy", content[:-1])
    with pytest.raises(Conflict, match="differently from the import"):
        await node.admin.import_model("default", content)


async def test_a_dropped_model_that_the_writer_still_holds_has_no_position(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    learning = node.engine.learning
    assert learning is not None
    await node.observe(events(5))
    assert learning.positions().keys() == {"default", "m"}
    put, waiting = learning.writer.put, list[Any]()
    monkeypatch.setattr(learning.writer, "put", waiting.append)  # the writer has not come to it
    await node.admin.drop_model("m")
    assert learning.writer.positions().keys() == {"default", "m"}
    assert learning.positions().keys() == {"default"}
    monkeypatch.setattr(learning.writer, "put", put)
    for request in waiting:
        put(request)


async def test_a_drop_that_failed_leaves_the_position(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    learning = node.engine.learning
    assert learning is not None
    await node.observe(events(5))

    def refuse(*_: object) -> None:
        raise Unavailable("the store does not answer", "store_down")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryStore, "drop", refuse)
        with pytest.raises(Unavailable):
            await node.admin.drop_model("m")
    assert learning.positions().keys() == {"default", "m"}


async def test_a_log_without_room_refuses_and_takes_events_again_later() -> None:
    faults = Faults()
    async with serving(MemoryStore(faults=faults)) as node:
        faults.appends_refused = 1
        with pytest.raises(Unavailable) as refused:
            await node.observe(events(1))
        assert (refused.value.code, refused.value.outcome) == ("disk_reserve", "not_accepted")
        assert (await node.observe(events(1))).accepted == 1
        assert node.fatal == []


async def test_an_error_at_commit_is_an_unknown_outcome_and_the_end() -> None:
    faults = Faults()
    async with serving(MemoryStore(faults=faults)) as node:
        faults.appends_written = 1
        with pytest.raises(Unavailable) as failed:
            await node.observe(events(1))
        assert failed.value.outcome == "unknown"
        assert len(node.fatal) == 1
        node.fatal.clear()
        health = node.service.health()
        assert not health.alive
        with pytest.raises(Unavailable):
            await node.observe(events(1))
        assert node.service.published("m").model.seq == 0  # prediction goes on


@pytest.mark.parametrize("document", [{"encoder": {"bits": 12}, "publish_every_ms": 60000}])
async def test_the_list_of_models_tells_what_is_learnt_before_it_is_served(node: Node) -> None:
    seq = (await node.observe(events(5), wait_applied=False)).seq
    for _ in range(500):
        (line,) = [line for line in node.service.models() if line["name"] == "m"]
        if line["seq_applied"] == seq:
            break
        await asyncio.sleep(0.01)
    assert line["seq_applied"] == seq == line["seq_logged"]
    assert line["served"]["seq"] < seq


@pytest.mark.parametrize("settings", [{"lag_s_max": 0.3}])
async def test_events_are_refused_while_one_has_waited_too_long_to_be_learnt(node: Node) -> None:
    served_model = node.engine.served_model("m")
    served_model.logged += 1_000_000
    node.engine.require_accepting(served_model)  # however many there are
    await asyncio.sleep(0.4)
    with pytest.raises(Busy, match=r"1000000 events are logged but not learnt yet, one of them for 0\.[4-9]") as busy:
        await node.observe(events(1))
    assert busy.value.code == "lag"
    served_model.logged -= 1_000_000
    assert (await node.observe(events(1))).accepted == 1


async def test_a_damaged_checkpoint_is_noticed_and_written_again(node: Node) -> None:
    await node.observe(events(5))
    await node.admin.snapshot_now("m")
    assert await node.engine.led("scrubbing").scrub() == []
    chunks = node.store._kept.models["m"].chunks
    epoch, digest, content = chunks[1, 0]
    chunks[1, 0] = (epoch, digest, content[:-1] + bytes([content[-1] ^ 1]))
    assert await node.engine.led("scrubbing").scrub() == ["m"]
    assert [snapshot["generation"] for snapshot in await node.admin.snapshots("m")] == [2, 1]
    assert await node.engine.led("scrubbing").scrub() == []


def test_a_service_that_is_not_started_reports_it() -> None:
    node = build(MemoryStore())
    health = node.service.health()
    assert (health.alive, health.started, health.ready) == (True, False, False)
    assert health.reasons == ["the store is being opened"]
    with pytest.raises(Busy) as busy:
        node.service.published("default")
    assert busy.value.code == "not_ready"


async def test_models_whose_creation_was_never_acknowledged_are_removed_at_start(store: MemoryStore) -> None:
    store.create("unborn", bytes(16))
    async with serving(store) as node:
        assert "unborn" not in node.engine.served_models
        assert "unborn" not in store.models()


def test_a_store_that_cannot_be_opened_keeps_the_service_from_starting() -> None:
    def broken() -> Store:
        raise Conflict("in use", "directory_locked")

    engine = AloneEngine(broken, engine_settings(retention=retention(events=0)), SystemClock(), bytes, lambda _reason: None)
    with pytest.raises(Conflict, match="in use"):
        asyncio.run(Service(engine).start())


async def test_a_model_dropped_during_its_checkpoint_affects_no_other(node: Node) -> None:
    for _ in range(20):
        await node.observe(events(3))
        saving = asyncio.create_task(node.admin.snapshot_now("m"))
        await asyncio.sleep(0)
        await node.admin.drop_model("m")
        await node.admin.put_model("m", SMALL)
        await asyncio.gather(saving, return_exceptions=True)
        await node.observe(events(2))
        assert (await node.admin.snapshot_now("m"))["metrics"]["examples"] == 2
    assert node.service.health().alive


async def test_a_request_that_stops_waiting_does_not_affect_others(node: Node) -> None:
    held = threading.Event()
    blocking = asyncio.create_task(node.engine.call(lambda _store: held.wait(900)))
    waiting = [asyncio.create_task(node.admin.snapshots("m")), asyncio.create_task(node.admin.snapshot_now("m"))]
    waiting.append(asyncio.create_task(node.observe(events(1))))
    await asyncio.sleep(0.05)
    assert node.service.published("m").model.seq == 0  # predictions never wait for the store
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    held.set()
    await blocking
    assert (await node.observe(events(1))).accepted == 1
    assert node.service.health().alive
