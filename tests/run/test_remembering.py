"""Predictions that wait for their label: joined once, with the features of the time of the prediction, or refused with a
reason.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

import pytest

from riata.base.errors import Busy, Corrupt, Unavailable
from riata.run.labels import expiry
from riata.run.labels.pending_rows import BOUNDS_S
from riata.run.labels.remembering import make_key
from riata.run.outcome import RowsRefused
from riata.run.state.replay import replay
from riata.store.store import PendingPrediction, names_in_log
from tests.doubles.memory_store import MemoryStore
from tests.run.events import labels, logged
from tests.run.node import Node, events, serving

RED = {"colour": "red", "size": 3.0}
BLUE = {"colour": "blue", "size": 4.0}
DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "EVERY_S", 0.05)


class Losing(MemoryStore):
    """A store that can refuse the labels of predictions, as if it had gone away; predictions themselves are stored."""

    loses = False
    calls = 0

    def remember(self, model: str, rows: Sequence[PendingPrediction], bytes_max: int) -> bool:
        self.calls += 1
        if self.loses and rows[0].row[:1] == b"L":
            raise Unavailable("the store went away", "store_unreachable")
        return super().remember(model, rows, bytes_max)


async def test_a_label_makes_the_event_that_features_and_label_would_have_made() -> None:
    later, at_once, rows = MemoryStore(), MemoryStore(), events(40)
    async with serving(later) as node:
        ids = await node.remember([row["features"] for row in rows])
        node.clock.ahead_ms = 90_000
        reported = await node.observe([{"prediction_id": one, "label": row["label"]} for one, row in zip(ids, rows, strict=True)])
        assert (reported.accepted, reported.seq, reported.applied) == (40, 41, True)
        one = node.service.published("m").model.weights
        assert (node.tally().remembered, node.tally().joined) == (40, 40)
        delays = node.tally().delays
        assert dict(zip(BOUNDS_S, delays.counts, strict=False)) == {**dict.fromkeys(BOUNDS_S, 0), 600: 40}
        assert 90.0 <= delays.seconds / 40 == delays.document()["mean_s"] < 600.0
    async with serving(at_once) as node:
        await node.observe(rows)
        other = node.service.published("m").model.weights
    assert one.beta.tobytes() == other.beta.tobytes() != b""
    assert one.slot.tobytes() == other.slot.tobytes()
    left = later.crash()
    assert set(names_in_log(left, "m")) == set(names_in_log(at_once.crash(), "m")) != set()
    assert [batch.n for batch in logged(left)] == [40]
    assert replay(left, "m").equal


async def test_joined_rows_keep_their_order_in_the_log(node: Node, store: MemoryStore) -> None:
    first, second = await node.remember([{"a": 1.0}, {"b": 2.0}])
    reported = await node.observe(
        [
            {"features": {"c": 3.0}, "label": 0, "weight": 5.0},
            {"prediction_id": second, "label": 1, "weight": 6.0},
            {"nonsense": 1},
            {"features": {"d": 4.0}, "label": 1, "weight": 7.0},
            {"prediction_id": first, "label": 0, "weight": 8.0},
        ]
    )
    assert (reported.accepted, reported.rejected, [error.index for error in reported.errors]) == (4, 1, [2])
    [batch] = logged(store)
    assert batch.weight.tolist() == [5.0, 6.0, 7.0, 8.0]
    assert batch.label.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert batch.value.tolist() == [3.0, 2.0, 4.0, 1.0]
    assert batch.has_id.tolist() == [False, True, False, True]


async def test_the_features_at_the_time_of_the_prediction_are_kept(node: Node, store: MemoryStore) -> None:
    """The stored features do not depend on what the model learns, or how it is changed, before the label."""

    [one] = await node.remember([RED])
    [kept] = store.due("m", 2**50, 9)
    await node.observe(events(50))
    await node.admin.change("m", {"publish_every_ms": 7, "label_ttl_s": 60, "default_label": 0})
    assert store.due("m", 2**50, 9) == [kept]
    await node.label(one, 1)
    first, *_, last = logged(store)
    assert last.n == 1
    assert last.value.tolist() == [3.0, 1.0] or last.value.tolist() == [1.0, 3.0]
    assert set(last.hash.tolist()) <= set(first.hash.tolist())


async def test_a_recreated_model_has_no_predictions_of_the_old_one(node: Node, store: MemoryStore) -> None:
    """So features of another encoder cannot enter its log."""

    [one] = await node.remember([RED])
    await node.admin.drop_model("m")
    await node.admin.put_model("m", {"encoder": {"bits": 8, "hash_key": 7}})
    assert await node.refusal(one, 1) == "prediction_unknown"
    assert (await node.label((await node.remember([RED]))[0], 1)).accepted == 1
    assert labels(store) == [1.0]


async def test_the_same_label_again_is_a_duplicate_and_another_one_a_conflict(node: Node, store: MemoryStore) -> None:
    one, other = await node.remember([RED, RED])
    assert (await node.label(one, 1)).seq == 2
    again = await node.label(one, 1)
    assert (again.accepted, again.duplicate, again.seq, again.applied, again.errors) == (0, 1, 2, True, [])
    assert await node.refusal(one, 0) == "label_conflict"
    assert await node.refusal(one, 1, weight=2.0) == "label_conflict"
    reported = await node.observe([{"prediction_id": other, "label": label} for label in (0, 0, 1)])
    assert (reported.accepted, reported.duplicate, reported.rejected) == (1, 1, 1)
    assert [(error.index, error.code) for error in reported.errors] == [(2, "label_conflict")]
    tally = node.tally()
    assert (tally.joined, tally.repeated, tally.conflict) == (2, 2, 3)
    assert labels(store) == [1.0, 0.0]


async def test_repeats_among_other_rows_are_counted_with_them(node: Node, store: MemoryStore) -> None:
    one, other = await node.remember([RED, RED])
    await node.label(one, 1)
    reported = await node.observe(
        [
            {"prediction_id": one, "label": 1},
            {"prediction_id": other, "label": 0},
            {"prediction_id": one, "label": 0},
            *events(1),
        ]
    )
    assert (reported.accepted, reported.duplicate, reported.rejected, reported.seq) == (2, 1, 1, 4)
    reported = await node.observe([{"prediction_id": one, "label": 1}, {"prediction_id": one, "label": 0}])
    assert (reported.accepted, reported.duplicate, reported.rejected, reported.seq, reported.applied) == (0, 1, 1, 2, True)
    reported = await node.observe([{"prediction_id": one, "label": 1}, *events(1)], wait_applied=False)
    assert (reported.accepted, reported.duplicate, reported.seq, reported.applied) == (1, 1, 5, False)
    assert len(labels(store)) == 4


async def test_atomic_takes_all_labels_or_none(node: Node, store: MemoryStore) -> None:
    one, other = await node.remember([RED, RED])
    await node.label(other, 1)
    stranger = {"prediction_id": make_key(node.clock.unix_ms() + DAY_MS, bytes(10)).hex(), "label": 1}
    for rows in (
        [{"prediction_id": one, "label": 1}, stranger],
        [{"prediction_id": one, "label": 1}, {"prediction_id": other, "label": 0}],
        [{"prediction_id": other, "label": 1}, stranger],
    ):
        with pytest.raises(RowsRefused) as refused:
            await node.observe(rows, atomic=True)
        assert (refused.value.code, refused.value.observed.accepted) == ("atomic_refused", 0)
    reported = await node.observe(
        [{"prediction_id": one, "label": 0}, {"prediction_id": other, "label": 1}, *events(1)], atomic=True
    )
    assert (reported.accepted, reported.duplicate) == (2, 1)
    assert labels(store)[:2] == [1.0, 0.0]


async def test_unknown_and_late_predictions_are_distinguished(node: Node, store: MemoryStore) -> None:
    await node.admin.put_model("other", {})
    [one] = await node.remember([RED])
    assert await node.refusal(one, 1, "other") == "prediction_unknown"
    assert await node.refusal(make_key(node.clock.unix_ms() + DAY_MS, bytes(10)).hex(), 1) == "prediction_unknown"
    assert await node.refusal(make_key(node.clock.unix_ms() - 1, bytes(10)).hex(), 1) == "prediction_late"
    assert await node.refusal("0" * 32, 1) == "prediction_late"
    assert (node.tally().unknown, node.tally().late, node.tally("other").unknown) == (1, 2, 1)
    assert (await node.label(one, 1)).accepted == 1
    [gone] = await node.remember([RED])
    node.clock.ahead_ms += 8 * DAY_MS
    await node.until(lambda: node.tally().expired == 1)  # the other one had its label
    assert store.remembered("m") == (0, 0)
    assert await node.refusal(gone, 1) == "prediction_late"
    assert await node.refusal(one, 1) == "prediction_late"
    assert labels(store) == [1.0]


async def test_a_label_that_is_too_late_is_taken_while_its_prediction_is_still_there(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "EVERY_S", 60.0)
    async with serving(store) as node:
        [one] = await node.remember([RED])
        node.clock.ahead_ms += 8 * DAY_MS
        assert (await node.label(one, 1)).accepted == 1
        assert labels(store) == [1.0]


async def test_a_label_is_known_even_when_the_index_of_ids_has_forgotten_it() -> None:
    store = MemoryStore(dedupe_events=5)
    async with serving(store) as node:
        [one] = await node.remember([RED])
        seq = (await node.label(one, 1)).seq
        for number in range(4):
            await node.observe(events(5, number, first_id=5 * number))
        assert (await node.label(one, 1)).duplicate == 1
        assert await node.refusal(one, 0) == "label_conflict"
        await node.admin.change("m", {"default_label": 0})
        node.clock.ahead_ms += 8 * DAY_MS
        await node.until(lambda: store.remembered("m") == (0, 0))
        assert (node.tally().defaulted, node.tally().expired) == (0, 0)
        assert node.engine.served_model("m").logged == seq + 20 + 1  # and one for the change
        assert len(labels(store)) == 21


async def test_a_label_that_a_restore_undid_may_be_sent_again_or_corrected_and_is_learnt_once(
    store: MemoryStore,
) -> None:
    async with serving(store) as node:
        before, same, other, late = await node.remember([RED, RED, BLUE, BLUE])
        assert (await node.label(before, 1)).accepted == 1
        base = await node.admin.snapshot_now("m")
        for one in (same, other):
            assert (await node.label(one, 1)).accepted == 1
        assert (await node.label(late, 0)).accepted == 1
        undone_to = node.engine.served_model("m").logged
        back = await node.admin.restore("m", base["generation"])
        for _ in range(2):  # the second time it is known
            told = await node.observe([{"prediction_id": same, "label": 1}, {"prediction_id": before, "label": 1}])
            assert (told.accepted + told.duplicate, told.rejected) == (2, 0)
        assert (await node.label(other, 0)).accepted == 1  # corrected
        assert await node.refusal(other, 1) == "label_conflict"
        assert await node.refusal(before, 0) == "label_conflict"  # it was never undone
        assert node.engine.published("m").figures["cumulative"]["examples"] == 3
        assert back["seq"] > undone_to
    left = store.crash()
    assert labels(left) == [1.0, 1.0, 1.0, 0.0, 1.0, 0.0]
    assert [batch.hash.tolist() for batch in logged(left)][-1] == [batch.hash.tolist() for batch in logged(left)][2]
    report = replay(left, "m")
    assert report.equal


async def test_a_lost_mark_is_made_good_by_the_index_of_ids() -> None:
    store = Losing()
    async with serving(store) as node:
        [one] = await node.remember([RED])
        store.loses = True
        assert (await node.label(one, 1)).accepted == 1
        assert store.remembered("m")[1] > 60  # the features are still there
        assert await node.refusal(one, 0) == "label_conflict"
        assert (await node.label(one, 1)).duplicate == 1
        store.loses = False
        assert (await node.label(one, 1)).duplicate == 1  # which marks it
        assert store.remembered("m") == (1, 33)
        assert (node.tally().joined, node.tally().repeated, node.tally().conflict) == (1, 2, 1)
        assert labels(store) == [1.0]


async def test_a_hundred_equal_labels_at_once_make_one_event(node: Node, store: MemoryStore) -> None:
    [one] = await node.remember([RED])
    reported = await asyncio.gather(*(node.label(one, 1) for _ in range(100)))
    assert sorted((one.accepted, one.duplicate) for one in reported) == [(0, 1)] * 99 + [(1, 0)]
    assert {one.seq for one in reported} == {2}
    assert (node.tally().joined, node.tally().repeated) == (1, 99)
    assert labels(store) == [1.0]


async def test_two_labels_at_once_one_wins_and_every_answer_says_which(node: Node, store: MemoryStore) -> None:
    async def one_label(node: Node, prediction_id: str, label: int) -> str:
        try:
            reported = await node.label(prediction_id, label)
        except RowsRefused as error:
            return error.observed.errors[0].code
        return f"{label} {'accepted' if reported.accepted else 'duplicate'}"

    [one] = await node.remember([RED])
    reported = await asyncio.gather(*(one_label(node, one, k % 2) for k in range(40)))
    [won] = [int(label) for label in labels(store)]
    assert sorted(reported) == sorted([f"{won} accepted"] + [f"{won} duplicate"] * 19 + ["label_conflict"] * 20)


@pytest.mark.parametrize("settings", [{"remember_bytes_max": 400}])
async def test_a_full_memory_is_reported_and_nothing_of_the_request_is_kept(node: Node, store: MemoryStore) -> None:
    ids = await node.remember([RED] * 3)
    size = store.remembered("m")[1]
    assert size <= 400
    with pytest.raises(Busy) as refused:
        await node.remember([RED] * 3)
    assert (refused.value.code, refused.value.retry_after_s > 0) == ("remember_full", True)
    assert "400 bytes" in refused.value.detail
    assert store.remembered("m") == (3, size)
    for one in ids:
        await node.label(one, 1)  # a label takes less room than the features
    assert len(await node.remember([RED])) == 1
    assert node.tally().remembered == 4


async def test_of_simultaneous_requests_those_within_the_bound_are_kept() -> None:
    store = Losing()
    async with serving(store, remember_bytes_max=400) as node:
        kept = await asyncio.gather(*(node.remember([RED] * n) for n in (1, 9, 1, 9, 1)), return_exceptions=True)
        assert [isinstance(ids, Busy) for ids in kept] == [False, True, False, True, False]
        assert store.remembered("m")[0] == 3


async def test_requests_that_come_together_are_kept_in_few_transactions() -> None:
    store = Losing()
    async with serving(store) as node:
        ids = await asyncio.gather(*(node.remember([RED]) for _ in range(100)))
        assert len({one for [one] in ids}) == 100
        assert store.calls < 10
        assert store.remembered("m")[0] == 100


async def test_a_cancelled_request_does_not_stop_the_others_of_its_group(node: Node, store: MemoryStore) -> None:
    asked = [asyncio.create_task(node.remember([RED])) for _ in range(20)]
    await asyncio.sleep(0)
    for task in asked[::3]:
        task.cancel()
    reported = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, list) for one in reported) == 13
    assert store.remembered("m")[0] >= 13


async def test_a_store_that_went_away_predicts_nothing_with_an_id() -> None:
    class Away(MemoryStore):
        away = False

        def remember(self, model: str, rows: Sequence[PendingPrediction], bytes_max: int) -> bool:
            if self.away:
                raise Unavailable("the store does not answer", "store_unreachable")
            return super().remember(model, rows, bytes_max)

    store = Away()
    async with serving(store) as node:
        store.away = True
        reported = await asyncio.gather(*(node.remember([RED]) for _ in range(5)), return_exceptions=True)
        assert [getattr(error, "code", None) for error in reported] == ["store_unreachable"] * 5
        store.away = False
        assert len(await node.remember([RED])) == 1


async def test_a_damaged_row_is_given_up_and_reported(node: Node, store: MemoryStore) -> None:
    [one] = await node.remember([RED])
    [kept] = store.due("m", 2**50, 9)
    store.remember("m", [dataclasses.replace(kept, row=kept.row[:-1] + bytes([kept.row[-1] ^ 1]))], 2**50)
    assert await node.refusal(one, 1) == "prediction_damaged"
    assert node.tally().damaged == 1
    assert labels(store) == []


async def test_a_store_that_finds_a_row_damaged_does_not_hold_up_the_others() -> None:
    class Checking(MemoryStore):
        damaged = b""

        def recall(self, model: str, keys: Sequence[bytes]) -> dict[bytes, PendingPrediction]:
            if self.damaged in keys:
                raise Corrupt("the digest of a remembered row does not match", "row_corrupt")
            return super().recall(model, keys)

    store = Checking()
    async with serving(store) as node:
        one, other = await node.remember([RED, RED])
        store.damaged = bytes.fromhex(one)
        reported = await node.observe([{"prediction_id": one, "label": 1}, {"prediction_id": other, "label": 0}])
        assert (reported.accepted, [(error.index, error.code) for error in reported.errors]) == (1, [(0, "prediction_damaged")])
        assert labels(store) == [0.0]


async def test_a_restart_remembers(store: MemoryStore) -> None:
    async with serving(store) as node:
        ids = await node.remember([RED, {"blue": 1.0}])
        await node.label(ids[0], 1)
    store = store.crash()
    async with serving(store) as node:
        assert (await node.label(ids[0], 1)).duplicate == 1
        assert await node.refusal(ids[0], 0) == "label_conflict"
        assert (await node.label(ids[1], 0)).accepted == 1
    left = store.crash()
    assert labels(left) == [1.0, 0.0]
    assert replay(left, "m").equal
