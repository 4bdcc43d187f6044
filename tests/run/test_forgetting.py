"""After a subject is forgotten, the model is the one that a log without its rows would give, to the last bit."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.errors import Conflict
from riata.run.jobs.jobs import FOLDER, FORMER_FOLDER, TRIES
from riata.run.labels.pending_rows import encode_waiting
from riata.run.state.config import Change, read_config
from riata.run.state.model_state import NO_LOG, ModelState, unlogged
from riata.run.state.replay import replay
from riata.store import layout, records
from riata.store.control_events import forgotten_by
from riata.store.payload import decode_batch
from riata.store.store import Append, Store
from riata.wire.batch import select_rows, slice_rows
from riata.wire.codes import subject_digest
from riata.wire.parse import Context, digests_of, parse_examples
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, log_batch
from tests.run.journeys import LEARNERS
from tests.run.node import SMALL, Node, serving
from tests.run.promotions import another_state, promote
from tests.settings import refit_settings

NOTHING = records.encode_document({"action": "cut", "events": 0, "from": 0, "to": 0})
KINDS: dict[str, dict[str, Any]] = {
    **{name: {"learner": LEARNERS[name]} for name in ("truncated", "hybrid", "ftrl")},
    "particles": {"learner": {"kind": "particle_filter", "particles": 100, "features_max": 8}},
    "real": {"learner": {"kind": "truncated_gradient", "loss": "squared"}, "labels": "real"},
    "classes": {"labels": "classes"},
    "watched": {"drift": {"action": "note"}, "slices": ["colour"], "weights_followed": ["size"]},
}


def rows(n: int, seed: int = 0, labels: str = "0/1") -> list[dict[str, Any]]:
    """Rows of which two in five name a subject."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        colour, size = str(rng.choice(["red", "green", "blue"])), float(rng.integers(1, 9))
        label: Any = {"real": size / 4, "classes": colour}.get(labels, int((colour == "red") != (size > 6)))
        row: dict[str, Any] = {"features": {"colour": colour, "size": size}, "label": label, "event_id": f"{seed}/{i}"}
        made.append(row | ({"subject": ("ann", "bob")[i % 5]} if i % 5 < 2 else {}))
    return made


def of(store: Store, *subjects: str, model: str = "m") -> set[int]:
    """The events of subjects."""
    hash_key = replay(store, model).state.config.encoder.hash_key
    wanted, found = {digest for one in subjects for digest in digests_of(one, hash_key, store.subject_key(b""))}, set()
    for record in store.read(model, store.head(model).first_seq - 1, 2**30):
        if record.kind == "observe" and (named := decode_batch(record.payload).subject) is not None:
            found |= {record.first + i for i in range(record.count) if named[i].tobytes() in wanted}
    return found


def never(store: Store, gone: set[int], end: int, model: str = "m") -> MemoryStore:
    """A store whose log is the same up to event `end`, but has events that change nothing in place of the events `gone`."""
    twin = MemoryStore()
    twin.create(model, store.head(model).lineage)
    for record in store.read(model, 0, 2**30):
        if record.last > end:
            break
        if record.kind == "restore":  # the state of the same event, of this log
            source, content = records.decode_restore(record.payload)
            if records.decode_through(record.payload) is None:
                to = layout.checkpoint_header(content)["applied"]
                payload = records.encode_restore(source, replay(twin, model, to=to).state.freeze().encode())
            else:
                payload = NOTHING
            twin.append([Append(model, "repair" if payload is NOTHING else "restore", 0, payload=payload)])
        elif record.kind != "observe":
            twin.append([Append(model, record.kind, 0, payload=record.payload)])
        else:
            batch = decode_batch(record.payload)
            for i in range(record.count):
                at = record.first + i
                row = Append(model, "observe", 0, slice_rows(batch, i, i + 1))
                twin.append([Append(model, "repair", 0, payload=NOTHING) if at in gone else row])
    return twin


def check(store: MemoryStore, answer: dict[str, Any], gone: set[int]) -> None:
    """The newest checkpoint and a replay have the digest of a log that never had the rows, and every other checkpoint is gone."""
    newest, *older = store.generations("m")
    report = replay(store, "m", to=newest.applied)
    assert report.digest == newest.state_digest.hex() == replay(never(store, gone, newest.applied), "m").digest
    assert all(one.applied >= answer["seq"] for one in older)
    assert report.equal, report.compared


@pytest.mark.parametrize("kind", KINDS)
async def test_the_state_is_that_of_a_log_that_never_had_the_rows(kind: str) -> None:
    store, document = MemoryStore(), {**SMALL, **KINDS[kind]}
    labels = document.get("labels", "0/1")
    async with serving(store, document) as node:
        await node.observe(rows(150, 1, labels))
        for row in rows(25, 2, labels):
            await node.observe([row])
        await node.engine.save("m")
        gone = of(store, "ann")
        answer = await node.forget("m", ["ann"], False)
        assert (answer["rows"], answer["of"], answer["in_log"]) == (len(gone), 175, 35) == (35, 175, 35)
        assert (answer["before"]["examples"], answer["after"]["examples"]) == (175, 140)
        assert node.engine.published("m").figures["cumulative"]["examples"] == 140
        check(store, answer, gone)
        report = replay(store, "m")
        assert [one.forget for one in report.compared if one.forget] == [answer["seq"]]
        await node.observe(rows(30, 3, labels))  # of later rows nothing is forgotten
        assert node.engine.published("m").figures["cumulative"]["examples"] == 170
    reborn = store.crash()
    async with serving(reborn, document) as node:
        assert node.engine.published("m").figures["cumulative"]["examples"] == 170
        assert replay(reborn, "m").equal


async def test_subjects_are_forgotten_one_after_the_other_and_again(node: Node, store: MemoryStore) -> None:
    await node.observe(rows(100, 1))
    assert (await node.forget("m", ["nobody"], False))["seq"] == 0
    assert [record.kind for record in store.read("m", 0)] == ["config", "observe"]
    first = await node.forget("m", ["ann"], False)
    assert (first["rows"], first["of"]) == (20, 100)
    again = await node.forget("m", ["ann"], False)
    assert (again["seq"], again["rows"], again["of"]) == (0, 0, 80)
    await node.observe(rows(50, 2))
    second = await node.forget("m", ["bob", "ann"], False)
    assert (second["rows"], second["of"]) == (10 + 10 + 20, 130)
    check(store, second, of(store, "ann", "bob"))
    logged = [forgotten_by(record).tolist() for record in store.read("m", 0, 2**30)]
    assert sorted(itertools.chain(*logged)) == sorted(of(store, "ann", "bob"))
    kinds = [one["kind"] for one in await node.service.changes("m")]
    assert kinds == ["forgot", "forgot", "created"]
    assert len(replay(store, "m").compared) == 1 + 3  # the state of the first time contains the second subject


async def test_digests_have_a_random_key_of_the_store_and_rows_of_earlier_programs_are_found(store: MemoryStore) -> None:
    other = MemoryStore()
    for seen in (store, other):
        async with serving(seen) as node:
            await node.observe(rows(10, 1))
            key = seen.subject_key(b"")
            assert len(key) == 32
            named = decode_batch(seen.read("m", 1, 2**30)[0].payload).subject
            assert named is not None
            assert named[0].tobytes() == digests_of("ann", 0, key)[0] != subject_digest(b"ann", 0)
    reborn = store.crash()
    assert other.crash().subject_key(b"") != reborn.subject_key(b"")
    async with serving(reborn) as node:
        config = node.service.published("m").config
        earlier = Context(config.encoder, config.labels)  # as a program without keys reads rows
        body = "\n".join(json.dumps(row) for row in rows(10, 2)).encode()
        batch = parse_examples(body, "application/x-ndjson", earlier, labelled=True)
        await node.service.observe("m", batch, wait_applied=True)
        await node.observe(rows(10, 3))
        answer = await node.forget("m", ["ann"], False)
        assert (answer["rows"], answer["of"]) == (6, 30)


async def test_what_people_saved_is_deleted_and_named(node: Node, store: MemoryStore) -> None:
    await node.observe(rows(50, 1))
    saved = await node.admin.snapshot_now("m", "before the campaign")
    await node.observe(rows(50, 2))
    answer = await node.forget("m", ["ann"], False)
    assert answer["saved_deleted"] == [{"generation": saved["generation"], "note": "before the campaign"}]
    assert answer["snapshots_deleted"] >= 1
    assert all(one.applied >= answer["seq"] for one in store.generations("m"))
    later = await node.admin.snapshot_now("m", "after it")
    assert (await node.forget("m", ["ann"], False))["saved_deleted"] == []
    assert later["generation"] in [one.gen for one in store.generations("m")]


async def test_what_a_restore_undid_stays_undone_and_a_refit_made_with_the_rows_is_undone(store: MemoryStore) -> None:
    async with serving(store) as node:
        await node.observe(rows(60, 1))
        await node.admin.change("m", {"decision": {"cost_fp": 2.0, "cost_fn": 1.0}})
        await node.admin.snapshot_now("m")
        await node.observe(rows(60, 2))
        await node.admin.change("m", {"decision": {"cost_fp": 3.0, "cost_fn": 1.0}})
        await node.admin.restore("m", node.store.generations("m")[0].gen)
        await node.observe(rows(40, 3))
        answer = await node.forget("m", ["ann"], False)
        assert (answer["rows"], answer["of"], answer["refits_undone"]) == (12 + 8, 100, [])
        check(store, answer, of(store, "ann"))
        assert node.engine.published("m").config.decision.cost_fp == 2.0
        promoted = promote(store, another_state(store, store.head("m").seq)).first  # unknown to the service: it starts again
        assert promoted == store.head("m").seq
    reborn = store.crash()
    async with serving(reborn) as node:
        await node.observe(rows(20, 4))
        answer = await node.forget("m", ["bob"], False)
        assert (answer["rows"], answer["refits_undone"]) == (12 + 8 + 4, [promoted])
        ann = {event for event in of(reborn, "ann") if event < promoted}  # a later row of hers is not forgotten
        twin = never(reborn, ann | of(reborn, "bob"), answer["seq"] - 1)
        assert reborn.generations("m")[0].state_digest.hex() == replay(twin, "m").digest
        assert replay(reborn, "m").equal


async def test_challengers_are_refused_and_a_promoted_one_is_learnt_again_under_its_settings(
    node: Node, store: MemoryStore
) -> None:
    await node.admin.put_model("c", {"follow": "m", "learner": {"eta": 0.125}})
    await node.observe(rows(100, 1))
    for name in ("m", "c"):
        with pytest.raises(Conflict) as refused:
            await node.forget(name, ["ann"], False)
        assert refused.value.code == "has_challengers"
    promoted = (await node.admin.promote("m", "c", force=True))["seq"]
    await node.admin.drop_model("c")
    answer = await node.forget("m", ["ann"], False)
    assert (answer["rows"], answer["refits_undone"]) == (20, [promoted])
    twin = MemoryStore()
    create_model(twin, config=read_config({**SMALL, "learner": {"kind": "truncated_gradient", "eta": 0.125}}))
    for record in store.read("m", 1, 2**30):
        gone = of(store, "ann") & set(range(record.first, record.last + 1))
        if record.kind == "observe":
            batch = decode_batch(record.payload)
            log_batch(twin, select_rows(batch, np.array([record.first + i not in gone for i in range(batch.n)])))
    weights = replay(twin, "m").state.learner.weights()
    assert weights.beta.tobytes() == node.engine.published("m").model.weights.beta.tobytes()
    assert replay(store, "m").equal


async def test_events_that_arrive_meanwhile_are_learnt_once(node: Node, store: MemoryStore) -> None:
    await node.observe(rows(150, 1))
    forgetting = asyncio.create_task(node.forget("m", ["ann"], False))
    answers = [await node.observe(rows(20, seed)) for seed in range(2, 12)]
    answer = await forgetting
    assert sum(one.accepted for one in answers) == 200
    await node.engine.save("m")
    late = {event for event in of(store, "ann") if event in forgotten(store)}
    assert answer["rows"] == len(late) >= 30
    assert node.engine.published("m").figures["cumulative"]["examples"] == 350 - len(late)
    report = replay(store, "m")
    assert report.equal
    assert report.digest == replay(never(store, late, store.head("m").seq), "m").digest


def forgotten(store: MemoryStore) -> set[int]:
    """The events that the log forgets."""
    return {event for record in store.read("m", 0, 2**30) for event in forgotten_by(record).tolist()}


async def test_a_trimmed_log_is_refused_or_learnt_from_its_oldest_event(node: Node, store: MemoryStore) -> None:
    for seed in range(4):
        await node.observe(rows(50, seed))
        await node.engine.save("m")
    owner = node.engine.led("a test").owner
    store.trim(owner, "m", 3, 0)
    first = store.head("m").first_seq
    assert first > 50
    with pytest.raises(Conflict) as refused:
        await node.forget("m", ["ann"], False)
    assert refused.value.code == "log_trimmed"
    answer = await node.forget("m", ["ann"], True)
    left = 201 - first + 1
    assert (answer["trimmed"], answer["of"], answer["rows"]) == (first - 1, left, left // 5)
    assert answer["after"]["examples"] == left - left // 5
    config = node.engine.published("m").config
    state, gone = ModelState("m", NO_LOG), of(store, "ann")
    state.apply(unlogged(state, "config", 1, Change(config, after=0).payload()))
    for record in store.read("m", first - 1, 2**30):
        if record.kind == "observe":
            keep = np.array([event not in gone for event in range(record.first, record.last + 1)])
            state.apply(unlogged(state, "observe", int(keep.sum())), select_rows(decode_batch(record.payload), keep))
    assert state.learner.weights().beta.tobytes() == node.engine.published("m").model.weights.beta.tobytes()
    assert state.progressive.log_loss == node.engine.published("m").figures["cumulative"]["log_loss"]


async def test_remembered_predictions_of_the_subject_are_deleted(node: Node) -> None:
    body = b'{"features":{"size":1},"subject":"ann"}\n{"features":{"size":2},"subject":"bob"}\n{"features":{"size":3}}'
    parsed = parse_examples(body, "application/x-ndjson", node.service.context("m", True), labelled=False)
    kept = await node.service.remember("m", encode_waiting(parsed.batch, parsed.names))
    answer = await node.forget("m", ["ann"], False)
    assert (answer["predictions"], answer["seq"]) == (1, 0)
    labelled = [{"prediction_id": one, "label": 1} for one in kept]
    observed = await node.observe(labelled)
    assert (observed.accepted, [error.code for error in observed.errors]) == (2, ["prediction_unknown"])
    assert (await node.forget("m", ["bob"], False))["rows"] == 1  # a joined row keeps its subject


@pytest.mark.parametrize("is_former", [False, True])
async def test_a_start_goes_on_with_what_a_stop_interrupted_and_later_rows_stay(tmp_path: Path, is_former: bool) -> None:
    store, kept = MemoryStore(), refit_settings(tmp_path)
    async with serving(store, refits=kept) as node:
        await node.observe(rows(100, 1))
        jobs, forgetting, changing = node.service.jobs, node.service.forgetting, node.engine.served_model("m").changing
        jobs.patience_s = 0.0
        async with changing:
            job = await forgetting.forget("m", ["ann"], False)
            assert (job.state, job.share, job.found, job.error) == ("running", 0.0, None, None)
            assert await forgetting.forget("m", ["ann"], False) is job
            await node.observe(rows(10, 2), wait_applied=False)
            stopping = asyncio.create_task(jobs.stop())
            await asyncio.sleep(0)
        await stopping
        assert [(one["state"], one["error"]["code"]) for one in forgetting.listed("m")] == [("interrupted", "stopping")]
    (note,) = (tmp_path / FOLDER).iterdir()
    held = note.read_text()
    assert "ann" not in held
    note.with_name("f1.json").write_text(json.dumps({**json.loads(held), "id": "f1", "tries": TRIES}))
    note.with_name("f2.json").write_text("no note")
    if is_former:  # as 0.2 has noted it
        asked = json.loads(held)
        former = {name: asked[name] for name in ("id", "model", "lineage", "actor", "tries")} | asked["asked"]
        (tmp_path / FORMER_FOLDER).mkdir()
        (tmp_path / FORMER_FOLDER / f"m-{asked['id']}.json").write_text(json.dumps({**former, "asked_ms": asked["created_ms"]}))
        note.unlink()
    reborn = store.crash()
    async with serving(reborn, refits=kept) as node:
        while (listed := node.service.forgetting.listed("m")) and any(one["state"] == "running" for one in listed):
            await asyncio.sleep(0.01)
        by_id = {one["id"]: one for one in listed}
        found, given_up = by_id.pop(json.loads(held)["id"]), by_id.pop("f1")
        assert (found["progress"], by_id) == (1.0, {})
        assert (given_up["id"], given_up["state"], given_up["error"]["code"]) == ("f1", "interrupted", "job_interrupted")
        assert (found["result"]["rows"], found["result"]["of"]) == (20, 110)
        gone = {event for event in of(reborn, "ann") if event <= 101}
        assert len(gone) == 20
        check(reborn, found["result"], gone)
        assert [one.name for one in (tmp_path / FOLDER).iterdir()] == ["f2.json"]
        assert not list((tmp_path / FORMER_FOLDER).glob("*"))


def copied(store: MemoryStore) -> MemoryStore:
    """What a process that is killed now leaves."""
    left = MemoryStore()
    left._kept = copy.deepcopy(store._kept)
    left.sync()
    return left


def spy(store: MemoryStore, at: int) -> list[MemoryStore]:
    """Copy the store before call `at` of it, into the list that is returned."""
    left, calls = list[MemoryStore](), itertools.count(1)

    def spied(real: Any) -> Any:
        def call(*args: Any) -> Any:
            if next(calls) == at:
                left.append(copied(store))
            return real(*args)

        return call

    for name in ("append", "read", "stage", "commit", "trim", "generations"):
        setattr(store, name, spied(getattr(store, name)))
    return left


async def test_a_kill_at_any_call_of_the_store_forgets_everything_or_nothing(store: MemoryStore) -> None:
    async with serving(store) as node:
        await node.observe(rows(40, 1))
    whole = store.crash()
    expected = replay(never(whole, of(whole, "ann"), whole.head("m").seq), "m").digest
    seen = set()
    for at in itertools.count(2, 6):
        async with serving(copied(whole)) as node:
            left = spy(node.store, at)
            await node.forget("m", ["ann"], False)
        if not left:
            break
        seen.add(replay(left[0], "m").state.progressive.examples)
        async with serving(left[0]) as node:
            await node.forget("m", ["ann"], False)
        after = left[0].crash()
        (forgot,) = (record.first for record in after.read("m", 0, 2**30) if len(forgotten_by(record)))
        assert all(one.applied >= forgot for one in after.generations("m"))
        report = replay(after, "m")
        assert (report.digest, report.equal) == (expected, True)
    assert seen == {40, 32}
