"""A model that goes back to an event has the state of a model that stopped there, to the last bit."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from riata.base.clock import SystemClock
from riata.base.errors import BadInput, Conflict, NotFound, Unavailable
from riata.run.candidates.going_back import RestoreRequest, read_restore
from riata.run.candidates.learning import Reach, reach, read_history, state_at
from riata.run.candidates.promotion import require_unforgotten
from riata.run.log.effective_log import read_effective_log
from riata.run.log.log_reading import READ_BYTES
from riata.run.state.model_state import ModelState
from riata.run.state.replay import in_this_thread, replay
from riata.store import layout, records
from riata.store.store import Store
from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, Node, events, serving
from tests.run.promotions import another_state, promote
from tests.run.test_forgetting import KINDS, never, of, rows


async def go_back(node: Node, to: int | str, model: str = "m", dry_run: bool = False) -> dict[str, Any]:
    node.service.jobs.patience_s = None
    asked = node.service.going_back.read({"to": to, "dry_run": dry_run})
    assert isinstance(asked, RestoreRequest)
    result = (await node.service.going_back.restore(model, asked)).found
    assert result is not None
    return result


def carried_at(store: Store, seq: int, model: str = "m") -> tuple[dict[str, Any], ModelState]:
    """The header and the state that the restore event `seq` carries."""
    record = store.read(model, seq - 1, READ_BYTES)[0]
    header, arrays = layout.decode_checkpoint(records.decode_restore(record.payload)[1])
    return header, ModelState.thaw(header, arrays)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_state_is_that_of_a_model_that_stopped_there(kind: str) -> None:
    store, document = MemoryStore(), {**SMALL, **KINDS[kind]}
    labels = document.get("labels", "0/1")
    async with serving(store, document) as node:
        for seed in range(4):
            await node.observe(rows(60, seed, labels))
            for row in rows(7, 10 + seed, labels):
                await node.observe([row])
            if seed % 2:
                await node.engine.save("m")
            if seed == 1:
                await node.admin.change("m", {"checkpoint_every_s": 77})
        end = store.head("m").seq
        digests = {to: replay(store, "m", to=to) for to in random.Random(kind).sample(range(1, end), 6)}
        for to, stopped in digests.items():
            answer = await go_back(node, to)
            header, carried = carried_at(store, answer["seq"])
            assert (answer["to"], header["applied"]) == (to, to)
            assert carried.freeze().digest().hex() == stopped.digest
            assert answer["after"]["cumulative"] == stopped.state.progressive.figures()["cumulative"]
            assert node.engine.published("m").config == stopped.state.config
            assert store.generations("m")[0].applied >= answer["seq"]  # saved before it is acknowledged
        assert replay(store, "m").equal


class SetClock(SystemClock):
    """The clock of the machine, but for the time that events are accepted at."""

    now_ms = 0

    def unix_ms(self) -> int:
        return self.now_ms


def at(clock: str) -> int:
    return int(datetime.fromisoformat(f"2026-03-01T{clock}Z").timestamp() * 1000)


async def test_a_moment_means_the_last_event_accepted_before_it_and_what_is_undone_is_said(
    node: Node, store: MemoryStore
) -> None:
    clock = node.engine.clock = SetClock()
    for minute, seed in (("13:58:00", 1), ("13:59:59.999", 2), ("14:00:00", 3), ("14:10:00", 4)):
        clock.now_ms = at(minute)
        await node.observe(events(10, seed))
    clock.now_ms = at("14:20:00")
    await node.admin.change("m", {"checkpoint_every_s": 77})
    looked = await go_back(node, "14:00", dry_run=True)
    assert (looked["to"], looked["to_time"], looked["at"]) == (21, "2026-03-01T13:59:59.999Z", "2026-03-01T14:00:00+00:00")
    assert looked["undone"] == {
        "events": 20, "from": 22, "to": 42, "brought_back": 0, "configurations": 1, "restores": 0, "promotions": 0,
        "forgets": 0, "from_time": "2026-03-01T14:00:00.000Z", "to_time": "2026-03-01T14:20:00.000Z",
    }  # fmt: skip
    assert looked["then"]["cumulative"]["examples"] == 20
    assert looked["now"]["cumulative"]["examples"] == 40
    assert (looked["seq"], store.head("m").seq) == (0, 42)  # a dry run changes nothing
    assert [one["kind"] for one in await node.service.changes("m")] == ["configured", "created"]
    assert (await go_back(node, "-10m", dry_run=True))["to"] == 31  # of 14:20, those before 14:10
    assert (await go_back(node, "2026-03-01T15:10:00+01:00", dry_run=True))["to"] == 31
    done = await go_back(node, "14:00")
    assert (done["seq"], done["to"], done["after"]["cumulative"]["examples"]) == (43, 21, 20)
    told = (await node.service.changes("m"))[0]
    assert (told["kind"], told["source"]) == ("restored", {"to": 21, "at": "2026-03-01T14:00:00+00:00"})
    assert told["settings"] == {"checkpoint_every_s": [77, 10]}  # the configuration is that of the moment
    back = await go_back(node, 42)  # a restore can be undone like anything else
    assert (back["undone"]["events"], back["undone"]["brought_back"], back["undone"]["restores"]) == (0, 20, 1)
    assert node.engine.published("m").figures["cumulative"]["examples"] == 40
    with pytest.raises(Conflict, match=r"before|cannot go back to 2026-03-01T08:00:00\+00:00: the first event") as refused:
        await go_back(node, "08:00")
    assert refused.value.code == "not_reachable"


async def test_what_lies_outside_the_log_is_refused_with_what_can_be_reached(node: Node) -> None:
    await node.observe(events(10))
    with pytest.raises(Conflict, match="event 11 is the last") as nothing:
        await go_back(node, 11)
    assert nothing.value.code == "nothing_to_undo"
    with pytest.raises(Conflict, match="the log ends at event 11; it can go back to any event from 1 on") as beyond:
        await go_back(node, 12)
    assert beyond.value.code == "not_reachable"
    first = await go_back(node, 1)
    assert (first["then"]["cumulative"]["examples"], first["then"]["non_zeros"]) == (0, 0)
    with pytest.raises(NotFound):
        await go_back(node, 1, "nothing")


async def test_of_a_trimmed_log_any_event_from_a_generation_on_is_reached_and_older_ones_exactly(
    node: Node, store: MemoryStore
) -> None:
    for seed in range(5):
        await node.observe(events(50, seed))
        await node.engine.save("m")
    stopped = replay(store, "m", to=180).digest
    store.trim(node.engine.led("a test").owner, "m", 3, 0)
    first = store.head("m").first_seq
    assert first == 152
    listed = await node.service.going_back.listed("m")
    assert listed["reach"] == {"since": 151, "exactly": []}
    with pytest.raises(Conflict, match="the log begins at event 152; it can go back to any event from 151 on"):
        await go_back(node, 150)
    assert (await go_back(node, 151, dry_run=True))["from_generation"] == 3
    done = await go_back(node, 180)
    assert (done["from_generation"], carried_at(store, done["seq"])[1].freeze().digest().hex()) == (3, stopped)


async def test_a_generation_without_a_way_forward_is_a_point_of_its_own(node: Node, store: MemoryStore) -> None:
    for seed in range(5):
        await node.observe(events(50, seed))
        await node.engine.save("m")
    head, kept = store.head("m"), store.generations("m")
    trimmed = replace(head, first_seq=210)
    assert reach(trimmed, kept) == Reach(251, {201: 4, 151: 3})
    assert reach(trimmed, kept).sentence() == (
        "exactly event 151 (snapshot 3); exactly event 201 (snapshot 4); any event from 251 on"
    )
    assert reach(trimmed, kept, [(230, np.array([160]))]) == Reach(251, {151: 3})  # the other one has learnt that row
    call = in_this_thread(store)
    history = read_history(call, "m", None, lambda _event: None)
    history.head = trimmed
    config = node.engine.published("m").config
    found = state_at(call, history, 151, config, lambda _share: None)
    assert (found.generation, found.state.freeze().digest().hex()) == (3, replay(store, "m", to=151).digest)
    with pytest.raises(Conflict, match="exactly event 151"):
        state_at(call, history, 160, config, lambda _share: None)


async def test_forgotten_rows_stay_forgotten_in_every_state_that_is_reached(node: Node, store: MemoryStore) -> None:
    await node.observe(rows(60, 1))
    await node.admin.change("m", {"checkpoint_every_s": 77})
    await node.observe(rows(60, 2))
    answer = await node.forget("m", ["ann"], False)
    await node.observe(rows(60, 3))
    gone = {event for event in of(store, "ann") if event < answer["seq"]}
    twin = never(store, gone, store.head("m").seq)
    for to in (40, 100, answer["seq"], answer["seq"] + 33):
        done = await go_back(node, to)
        assert done["relearnt"] == (to < answer["seq"])
        assert carried_at(store, done["seq"])[1].learner.weights().beta.tobytes() == (
            replay(twin, "m", to=to).state.learner.weights().beta.tobytes()
        )
        counted = read_effective_log(in_this_thread(store), "m").window()
        assert counted.events == done["after"]["cumulative"]["examples"] == done["then"]["cumulative"]["examples"]
    again = await node.forget("m", ["bob"], False)  # after restores into the middle of records
    left = of(store, "ann", "bob") - {event for event in of(store, "ann") if event > answer["seq"]}
    assert store.generations("m")[0].state_digest.hex() == replay(never(store, left, again["seq"] - 1), "m").digest
    assert replay(store, "m").equal


async def test_rows_are_forgotten_of_a_log_that_went_back_into_the_middle_of_a_record(node: Node, store: MemoryStore) -> None:
    await node.observe(rows(60, 1))
    await node.observe(rows(60, 2))
    await go_back(node, 91)  # 90 rows
    await node.observe(rows(30, 3))
    window = read_effective_log(in_this_thread(store), "m").window()
    assert (window.events, window.undone_by_restore) == (120, 30)
    answer = await node.forget("m", ["ann"], False)
    assert (answer["of"], answer["rows"], answer["in_log"]) == (120, 12 + 6 + 6, 30)
    assert store.generations("m")[0].state_digest.hex() == replay(never(store, of(store, "ann"), answer["seq"] - 1), "m").digest


async def test_what_was_undone_may_be_sent_again_also_of_half_a_request() -> None:
    store, sent = MemoryStore(), events(30, 1, first_id=0)
    async with serving(store) as node:
        await node.observe(sent)
        await go_back(node, 16)  # 15 rows are left
        again = await node.observe(sent)
        assert (again.accepted, again.duplicate) == (15, 15)
        corrected = [row | {"label": 1 - row["label"]} for row in sent]
        await go_back(node, 16)
        mended = await node.observe(corrected)
        assert (mended.accepted, mended.rejected) == (15, 15)  # those that count are known with other labels
        await go_back(node, 31)  # the first ones count again
        assert (await node.observe(sent)).duplicate == 30
        assert node.engine.published("m").figures["cumulative"]["examples"] == 30


async def test_a_promotion_and_a_restore_on_the_way_are_repeated(store: MemoryStore) -> None:
    async with serving(store) as node:
        await node.observe(events(60, 1))
        await node.observe(events(60, 2))
        promote(store, another_state(store, 61))  # behind the back of the service: it starts again
    async with serving(store := store.crash()) as node:
        await node.observe(events(60, 3))
        await go_back(node, 150)
        await node.observe(events(60, 4))
        for to in (100, 122, 140, 210):
            stopped = replay(store, "m", to=to).digest
            looked = await go_back(node, to, dry_run=True)
            assert looked["undone"]["promotions"] == (to < 122)
            done = await go_back(node, to)
            assert carried_at(store, done["seq"])[1].freeze().digest().hex() == stopped


async def test_challengers_are_taken_off_in_the_transaction_of_the_restore_and_can_backfill_again(store: MemoryStore) -> None:
    async with serving(store) as node:
        await node.observe(events(50, 1))
        await node.admin.put_model("b", {"follow": "m", "learner": {"eta": 0.1}})
        await node.observe(events(50, 2))
        assert (await go_back(node, 40, dry_run=True))["taken_off"] == ["b"]
        assert node.service.describe("m")["challengers"]
        done = await go_back(node, 40)
        assert done["taken_off"] == ["b"]
        kinds = [record.kind for record in store.read("m", 0, 2**30)]
        assert kinds[-2:] == ["config", "restore"]
        assert (await node.service.changes("m"))[0]["source"] == {"to": 40, "taken_off": ["b"]}
        assert node.service.describe("m")["challengers"] == []
        assert node.service.describe("b")["follow"]["detached"]
        learnt = node.engine.published("b").applied
        await node.observe(events(50, 3))
        await node.engine.led("a test").settle()
        assert node.engine.published("b").applied == learnt  # no copies any more
        await node.admin.drop_model("b")
        await node.admin.put_model("b", {"follow": "m", "learner": {"eta": 0.1}, "backfill": True})
        assert node.engine.published("b").figures["cumulative"]["examples"] == 39 + 50  # what counts, of half a record too
        back = await go_back(node, 2, "b")  # a challenger that goes back is one no longer
        assert back["taken_off"] == ["b"]
        assert node.service.describe("m")["challengers"] == []
        saved = (await node.admin.snapshot_now("m"))["generation"]
        assert (await node.admin.restore("m", saved))["taken_off"] == []
    async with serving(store.crash()) as node:
        await node.observe(events(5, 9))  # the followers of a start are those of the log


async def test_a_generation_with_rows_that_were_forgotten_since_is_not_put_back(node: Node, store: MemoryStore) -> None:
    await node.observe(rows(50, 1))
    kept = (await node.admin.snapshot_now("m"))["generation"]
    content, generation = store.open_generation("m", kept), store.generations("m")[0]
    answer = await node.forget("m", ["ann"], False)
    with pytest.raises(Conflict, match=f"includes rows that event {answer['seq']} forgot") as refused:
        await require_unforgotten(node.engine, "m", generation)
    assert (refused.value.code, len(content)) == ("not_reachable", generation.bytes)
    newest = store.generations("m")[0]
    await require_unforgotten(node.engine, "m", newest)
    assert (await node.admin.restore("m", newest.gen))["generation"] == newest.gen


async def test_a_request_while_its_job_runs_joins_it_and_a_stop_ends_it_with_nothing_changed(
    node: Node, store: MemoryStore
) -> None:
    await node.observe(events(50, 1))
    going_back, jobs = node.service.going_back, node.service.jobs
    jobs.patience_s = 0.0
    async with node.engine.served_model("m").changing:
        first = await going_back.restore("m", RestoreRequest(event=20))
        second = await going_back.restore("m", RestoreRequest(event=20))
        assert (first.state, first) == ("running", second)
        assert [one["id"] for one in (await going_back.listed("m"))["restore"]] == [first.id]
        stopping = asyncio.create_task(jobs.stop())
        await asyncio.sleep(0)
    await stopping
    (job,) = (await going_back.listed("m"))["restore"]
    assert (job["state"], job["error"]["code"]) == ("interrupted", "stopping")
    assert store.head("m").seq == 51


async def test_a_second_state_needs_memory(node: Node) -> None:
    await node.observe(events(50, 1))
    node.engine.memory.bytes_max = 1
    with pytest.raises(Unavailable, match="going back to an event may take"):
        await go_back(node, 20)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "to: expected"),
        ({"to": 0}, "to: expected the number of an event, from 1 on"),
        ({"to": True}, "to: expected"),
        ({"to": 1.0}, "to: expected"),
        ({"to": 2**63}, "to: expected"),
        ({"to": "yesterday"}, "'yesterday' is not a moment"),
        ({"to": "2026-03-01"}, "is not a moment"),
        ({"to": "25:00"}, "is not a moment"),
        ({"to": "-999999999d"}, "is not a moment"),
        ({"to": 1, "generation": 1}, "leave it out beside `to`"),
        ({"generation": 1, "dry_run": True}, "goes with `to`"),
        ({"to": 1, "dry_run": 1}, "dry_run: expected true or false"),
        ({"too": 1}, "did you mean 'to'"),
    ],
)
def test_requests_are_read_strictly(document: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_restore(document, at("12:00:00"))
    assert message in refused.value.detail


def test_a_time_of_day_is_the_last_one() -> None:
    now = at("12:00:00")
    later, sooner = read_restore({"to": "14:00"}, now), read_restore({"to": "11:00:30"}, now)
    assert isinstance(later, RestoreRequest)
    assert isinstance(sooner, RestoreRequest)
    assert later.moment == datetime(2026, 2, 28, 14, tzinfo=UTC)
    assert sooner.moment == datetime(2026, 3, 1, 11, 0, 30, tzinfo=UTC)
