"""Roles on one shared store, in one process: real threads, real engines, a store in memory."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import Busy, Conflict, NotFound, Unavailable
from riata.run.served_model import Catalogue, ServedModel
from riata.run.state.replay import replay
from riata.run.writer.queue import Line, PathQuestion
from tests.doubles.shared_memory_store import SharedMemoryStore
from tests.run.node import SMALL, events
from tests.run.roles import build, running, until, with_model
from tests.upgrades.another import VERSION, being


async def test_one_process_of_role_all_makes_learns_and_serves_by_itself() -> None:
    store = SharedMemoryStore()
    async with running(store, "all") as one:
        await until(lambda: one.has("default"))
        await with_model(one)
        observed = await one.observe(events(50))
        assert (observed.accepted, observed.applied) == (50, True)
        assert one.service.published("m").figures["cumulative"]["examples"] == 50
        assert one.service.stale_s("m") == 0.0
        health = one.service.health()
        assert (health.ready, health.sharing.leads, health.sharing.epoch) == (True, True, 1)
    assert (one.fatal, one.lost) == ([], [])
    assert store.holder() is None  # let go, so that nobody has to wait for the lease to lapse
    assert [generation.applied for generation in store.generations("m")] == [51]


async def test_events_through_two_webs_reach_the_writer_and_a_replica_with_the_bits_of_a_replay() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer") as writer, running(store, "web") as a, running(store, "web") as b:
        await with_model(a)
        await until(lambda: b.has() and writer.has())
        rows = events(200, first_id=0)
        for start in range(0, 200, 20):
            await (a if start % 40 else b).observe(rows[start : start + 20], wait_applied=False)
        async with running(store, "replica") as replica:
            for one in (writer, a, b, replica):
                await until(lambda one=one: one.applied() == 201)  # type: ignore[misc]
            digests = replay(store.another(), "m").state.learner.weights()
            for one in (writer, a, b, replica):
                weights = one.service.published("m").model.weights
                assert weights.beta.tobytes() == digests.beta.tobytes()
                assert weights.slot.tolist() == digests.slot.tolist()
                await until(lambda one=one: one.service.names("m").slots_with("colour=red", 12))  # type: ignore[misc]
            assert replica.service.published("m").figures == writer.service.published("m").figures


async def test_processes_tell_each_other_what_they_are() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer") as writer, running(store, "web") as web:
        await until(lambda: writer.engine.leads and web.has("default"))

        def known() -> list[tuple[str, bool, str | None, dict[str, int]]]:
            for one in (writer, web):
                one.engine.watch.kick()
            told = web.service.health().sharing.processes
            return sorted((one["role"], one["leads"], one["refuses"], one["lag"]) for one in told)

        lag = {"default": 0}
        await until(lambda: known() == [("web", False, None, lag), ("writer", True, None, lag)])


async def test_min_seq_of_one_process_holds_at_another() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer"), running(store, "web") as a, running(store, "web") as b:
        await with_model(a)
        await until(lambda: b.has())
        for n in range(5):
            observed = await a.observe(events(10, seed=n), wait_applied=False)
            published = await b.service.wait_for("m", observed.seq)
            assert published.applied >= observed.seq


async def test_an_unpublished_model_is_not_ready_and_an_unknown_one_is_not_found() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer"), running(store, "web") as web:
        await until(lambda: web.has("default"))
        store.another().create("made", b"m" * 16)  # by a process that has died of it, or has not come to the rest yet
        following = web.engine.following
        assert following is not None
        await until(lambda: following.follower.may_come("made") and not following.follower.may_come("maid"))
        with pytest.raises(Busy, match="not been loaded from the store yet") as refused:
            await web.observe(events(1), model="made")
        assert refused.value.code == "not_ready"
        with pytest.raises(NotFound, match="no model named 'maid'"):
            await web.observe(events(1), model="maid")


async def test_a_standby_takes_over_from_a_killed_writer_and_nothing_is_lost() -> None:
    store = SharedMemoryStore()
    async with running(store, "web") as web, running(store, "writer") as first:
        await with_model(web)
        async with running(store, "writer") as second:
            await web.observe(events(30, first_id=0))
            await until(lambda: any("standing by; host-" in reason for reason in second.service.health().reasons))
            health = second.service.health()
            assert (health.ready, health.sharing.leads) == (False, False)
            first.cut_off("partitioned")
            observed = await web.observe(events(30, seed=1, first_id=100), wait_applied=False)
            await until(lambda: second.engine.leads and second.applied() >= observed.seq)
            await until(lambda: web.applied() >= observed.seq)
            assert web.service.published("m").figures["cumulative"]["examples"] == 60
            first.cut_off("")
            await until(lambda: first.lost)
            assert "another process owns the store" in first.lost[0]
            assert first.fatal == []


async def test_another_event_in_the_place_of_an_acknowledged_one_ends_the_writer_before_the_lease_is_renewed() -> None:
    store = SharedMemoryStore()
    async with running(store, "all", lease_ttl_ms=10_000_000) as one:
        await with_model(one)
        await one.observe(events(10))
        await until(lambda: store.standings()["m"].edition_applied == 11)  # it is not compared again when it is published
        entry = store._kept.models["m"]
        with store._changed:  # a failover takes the last record back, and another process appends
            last = entry.log.pop()
            other = replace(last, chain=bytes(20))
            entry.log.append(other)
            entry.head = replace(entry.head, chain=other.chain)
        await until(lambda: one.lost)
        assert "has lost event 11, which this process acknowledged" in one.lost[0]


async def test_rows_of_the_leader_and_of_others_are_learnt_once_in_the_order_of_the_log() -> None:
    store = SharedMemoryStore()
    async with running(store, "all") as one, running(store, "web") as web:
        await with_model(one)
        await until(lambda: web.has())
        for at in range(30):
            both = [one.observe(events(2, seed=at)), web.observe(events(3, seed=100 + at), wait_applied=False)]
            await asyncio.gather(*both)
        await until(lambda: one.applied() == 151)
        published = one.service.published("m")
        assert published.chain == store.head("m").chain
        learnt = replay(store, "m").state.learner.weights().beta.tobytes()
        assert published.model.weights.beta.tobytes() == learnt


async def test_a_store_that_was_rolled_back_ends_the_writer_and_is_counted_by_the_web() -> None:
    store = SharedMemoryStore()
    async with running(store, "web") as web, running(store, "writer") as writer:
        await with_model(web)
        await web.observe(events(10, first_id=0))
        entry = store._kept.models["m"]
        with store._changed:
            whole = (entry.head, list(entry.log), list(entry.editions))
        await web.observe(events(10, seed=1, first_id=50))
        with store._changed:
            entry.head, entry.log, entry.editions = whole
        await until(lambda: writer.lost)
        assert "rolled back" in writer.lost[0]
        await until(lambda: web.service.health().models["m"].lost)
        health = web.service.health()
        assert (health.models["m"].lost, health.sharing.counts["rollbacks_seen"]) == (10, 1)
        assert web.applied() == 21  # what was served is not taken back
        with pytest.raises(Busy, match="not served yet"):
            await web.engine.wait_for("m", 11, 50)  # though no process is told that it is of the log as it is now
    assert web.lost == []


async def test_an_emptied_store_ends_the_writer_and_followers_keep_their_models() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer") as writer, running(store, "web") as web:
        await with_model(web)
        await until(lambda: web.has("default"))
        await web.observe(events(10))
        with store._changed:
            store._kept.models.clear()
            store._kept.nonce = b""
        await until(lambda: writer.lost)
        assert "emptied" in writer.lost[0]
        await until(lambda: web.engine.following is not None and web.engine.following.follower.strange)
        assert web.applied() == 11
        with pytest.raises(Unavailable, match="emptied") as refused:
            await web.observe(events(1))
        assert (refused.value.code, refused.value.outcome) == ("store_strange", "not_accepted")


async def test_changes_of_one_model_by_two_processes_at_once_are_both_kept() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer"), running(store, "web") as a, running(store, "web") as b:
        await with_model(a)
        await until(lambda: b.has())
        for n in range(5):
            await asyncio.gather(
                a.admin.change("m", {"checkpoint_every_s": 100 + n}),
                b.admin.change("m", {"checkpoint_every_events": 1000 + n}),
            )
            config = (await a.service.wait_for("m", store.head("m").seq)).config
            assert (config.checkpoint_every_s, config.checkpoint_every_events) == (100 + n, 1000 + n)
        assert replay(store.another(), "m").state.config == config


@pytest.mark.slow
async def test_a_standby_of_a_newer_version_reports_it_and_takes_over_with_an_upgrade_event() -> None:
    store = SharedMemoryStore()
    async with AsyncExitStack() as older, running(store, "web") as web:
        first = await older.enter_async_context(running(store, "writer", lease_ttl_ms=60_000))  # it lets go, or keeps it
        await with_model(web)
        await web.observe(events(30))
        await first.engine.save("m")
        with being(VERSION + 1):
            async with running(store, "writer", lease_ttl_ms=60_000) as second:
                said = f"if this process takes over, it writes an upgrade event to version {VERSION + 1}"
                await until(lambda: any(said in reason for reason in second.service.health().reasons))
                await older.aclose()
                await until(lambda: second.engine.leads)
                observed = await web.observe(events(30, seed=1))
                assert (observed.seq, observed.applied) == (62, True)
                assert [record.first for record in store.read("m", 0) if record.kind == "upgrade"] == [32]
                assert (second.lost, second.fatal) == ([], [])
            assert replay(store.another(), "m").sound


async def test_a_model_that_two_processes_make_at_once_is_made_once() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer"), running(store, "web") as a, running(store, "web") as b:
        await until(lambda: a.engine.started and b.engine.started)
        document = {"encoder": {"bits": 12}}
        made = await asyncio.gather(a.admin.put_model("m", document), b.admin.put_model("m", document))
        assert sorted(created for created, _ in made) == [False, True]


async def test_a_model_dropped_and_made_again_is_another_one_everywhere() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer") as writer, running(store, "web") as web:
        await with_model(web)
        await web.observe(events(30))
        await until(lambda: web.engine.following is not None and web.engine.following.holder)
        with pytest.raises(Conflict, match="needs the process that learns; send it to host-") as refused:
            await web.admin.drop_model("m")
        assert refused.value.code == "other_role"
        await writer.admin.drop_model("m")
        await until(lambda: not web.has())
        await web.admin.put_model("m", {"encoder": {"bits": 10}})
        assert web.service.published("m").model.weights.bits == 10
        observed = await web.observe(events(5))
        assert (observed.seq, observed.applied) == (6, True)
        assert (writer.lost, writer.fatal) == ([], [])


async def test_while_the_store_does_not_answer_predictions_continue_and_events_are_refused_until_it_does() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer"), running(store, "web", max_staleness_s=1.5) as web:
        await with_model(web)
        await web.observe(events(10))
        assert web.service.stale_s("m") < 1.5
        web.cut_off("the line is cut")
        with pytest.raises(Unavailable) as refused:
            await web.observe(events(1))
        assert refused.value.outcome == "not_accepted"
        assert web.service.published("m").applied == 11
        await until(lambda: not web.service.health().ready)
        with pytest.raises(Unavailable, match="ago") as stale:
            web.service.stale_s("m")
        assert stale.value.code == "too_stale"
        health = web.service.health()
        assert health.alive
        assert health.fatal is None
        web.cut_off("")
        await until(lambda: web.service.health().ready and web.engine.watch is not None and web.engine.watch.refusal is None)
        assert (await web.observe(events(1))).accepted == 1


async def test_a_refusal_of_the_store_stops_events_with_its_message_and_a_fix_accepts_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = ["appendfsync is no; say CONFIG SET appendfsync always"]
    monkeypatch.setattr(SharedMemoryStore, "refusals", lambda _self: list(wrong))

    store = SharedMemoryStore()
    with pytest.raises(Conflict, match="CONFIG SET appendfsync always") as start:
        async with running(store, "web"):
            pass
    assert start.value.code == "store_refuses"
    wrong.clear()
    async with running(store, "all") as one:
        await with_model(one)
        assert one.engine.watch is not None
        wrong.append("maxmemory-policy is allkeys-lru")
        one.engine.watch.kick()
        await until(lambda: one.service.health().sharing.accepting)
        with pytest.raises(Unavailable, match="allkeys-lru") as refused:
            await one.observe(events(1))
        assert (refused.value.code, refused.value.outcome) == ("store_refuses", "not_accepted")
        assert one.service.health().ready
        wrong.clear()
        await until(lambda: one.service.health().sharing.accepting is None)
        assert (await one.observe(events(1))).accepted == 1


async def test_a_replica_starts_and_answers_without_the_store_and_refuses_a_damaged_copy(tmp_path: Path) -> None:
    copies = tmp_path / "copies"

    store = SharedMemoryStore()
    async with running(store, "writer"), running(store, "web") as web, running(store, "replica", copies) as replica:
        await with_model(web)
        await web.observe(events(30))
        await until(lambda: replica.applied() == 31 and replica.has("default"))
        expected = replica.service.published("m").model.weights
    store.gone = "no route to the store"
    async with running(store, "replica", copies) as alone:
        assert alone.has("default")
        published = alone.service.published("m")
        assert published.model.weights.beta.tobytes() == expected.beta.tobytes() or published.applied < 31
        assert alone.service.health().ready
        await until(lambda: any("no route" in warning for warning in alone.service.health().warnings))
        assert alone.service.health().ready
    (copies / "m.edition").write_bytes((copies / "m.edition").read_bytes()[:-3])
    async with running(store, "replica", copies) as alone:
        assert alone.has("default")
        assert not alone.has("m")
        assert alone.service.health().sharing.counts["editions_corrupt"] == 1


async def test_a_replica_has_not_started_before_every_copy_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SharedMemoryStore()
    async with running(store, "writer"), running(store, "web") as web, running(store, "replica", tmp_path) as replica:
        await with_model(web)
        await until(lambda: replica.has() and replica.has("default"))
    store.gone = "no route to the store"
    process = build(store, "replica", tmp_path)
    started = list[bool]()
    put = Catalogue.put

    def watched(catalogue: Catalogue, served_model: ServedModel) -> None:
        put(catalogue, served_model)
        started.append(process.engine.started)

    monkeypatch.setattr(Catalogue, "put", watched)
    await process.service.start()
    try:
        assert process.engine.started
    finally:
        await process.service.stop()
    assert started == [False, False]


async def test_a_request_for_another_role_is_refused_with_its_name() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer") as writer, running(store, "replica") as replica:
        await until(lambda: writer.has("default") and replica.has("default"))
        for one in (writer, replica):
            with pytest.raises(Conflict, match="role web or all") as refused:
                await one.observe(events(1), "default")
            assert refused.value.code == "other_role"
        for ask in (
            replica.admin.put_model("n", {}),
            replica.admin.change("default", {"publish_every_ms": 1}),
            replica.admin.restore("default", 1),
            replica.admin.import_model("n", b""),
        ):
            with pytest.raises(Conflict, match="changes no models"):
                await ask
        for needs in (replica.admin.snapshot_now, replica.admin.export):
            with pytest.raises(Conflict, match="needs the process that learns"):
                await needs("default")
        with pytest.raises(Conflict, match="keeps no curvature"):
            await replica.service.path("default", PathQuestion())
        assert (await writer.admin.change("default", {"publish_every_ms": 1}))[0].publish_every_ms == 1


async def test_a_process_that_does_not_learn_answers_the_path_of_the_newest_snapshot() -> None:
    sketch = {
        **SMALL,
        "learner": {"kind": "taylor_sketch", "mode": "exact", "features_max": 16, "block": 50},
        "checkpoint_every_s": 3600,
    }

    store = SharedMemoryStore()
    async with running(store, "writer") as writer, running(store, "web") as web, running(store, "replica") as replica:
        await with_model(web, sketch)
        await until(lambda: writer.has() and replica.has())
        await web.observe(events(200))
        for one in (web, replica):
            with pytest.raises(Conflict, match="the path of a model without a snapshot needs the process that learns"):
                await one.service.path("m", PathQuestion())
        snapshot = await writer.admin.snapshot_now("m")
        assert [one["generation"] for one in await replica.admin.snapshots("m")] == [snapshot["generation"]]
        of_writer = await writer.service.path("m", PathQuestion())
        assert of_writer["model"]["seq"] == snapshot["seq"] == 201
        await web.observe(events(50, first_id=200))
        for one in (web, replica):
            found = await one.service.path("m", PathQuestion())
            assert (found["points"], found["model"]["seq"]) == (of_writer["points"], 201)
        assert (await writer.service.path("m", PathQuestion()))["model"]["seq"] == 251


async def test_a_learner_whose_turns_do_not_go_on_lets_the_lease_go() -> None:
    store = SharedMemoryStore()
    async with running(store, "web") as web, running(store, "writer") as first:
        await with_model(web)
        await until(lambda: first.has())
        async with running(store, "writer") as second:
            held = asyncio.Event()
            assert first.engine.learning is not None
            loop = asyncio.get_running_loop()
            writer = first.engine.learning.writer
            await_line = writer._await_line

            def stuck() -> Line | None:
                asyncio.run_coroutine_threadsafe(held.wait(), loop).result(900)
                return await_line()

            writer._await_line = stuck  # type: ignore[method-assign]
            await web.observe(events(5), wait_applied=False)  # for which the writer waits already
            await until(lambda: web.applied() == 6)
            await web.observe(events(5, seed=2), wait_applied=False)
            await until(lambda: second.engine.leads)
            await until(lambda: web.applied() == 11)
            held.set()
            await until(lambda: first.lost)


async def test_the_writer_that_comes_back_from_a_pause_is_fenced() -> None:
    store = SharedMemoryStore()
    async with running(store, "writer") as first, running(store, "web") as web:
        await with_model(web)
        await until(lambda: first.has())
        with store._changed:  # as if the lease had lapsed while it was paused, and another had been quick
            store._kept.epoch += 1
            store._kept.nonce = b"another"
            store._kept.host = "elsewhere"
        await until(lambda: first.lost)
        assert first.service.health().sharing.counts["fenced"] >= 1
        assert np.isfinite(first.service.published("m").model.weights.intercept)


async def test_processes_that_meet_a_field_at_once_agree_on_its_kind() -> None:
    store = SharedMemoryStore()
    async with running(store, "all") as leader, running(store, "web") as web:
        await with_model(leader)
        await until(web.has)
        first = web.parse([{"features": {"zip": "B"}, "label": 1}])
        other = leader.parse([{"features": {"zip": 7}, "label": 1}])
        await web.service.observe("m", first)
        await leader.service.observe("m", other)  # was read before the other names of the log were known
        for one in (leader, web):
            kinds = one.engine.served_models["m"].names.kinds
            assert kinds is not None
            await until(lambda kinds=kinds: kinds.documents() == {"zip": "category"}, 20.0)  # type: ignore[misc]
        async with running(store, "web") as later:
            await until(later.has)
            names = later.engine.served_models["m"].names
            await until(lambda: len(names) == 2)
            assert names.kinds is not None
            assert names.kinds.documents() == {"zip": "category"}
